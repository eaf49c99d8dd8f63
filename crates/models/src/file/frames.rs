//! Frames that are made one behind the other.

use zipwire_codec::{Codec, DType, EncodeError, FrameShape, Layout};

/// Compact frames, one behind the other, in memory that is used again.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Frames {
    /// Takes all frames out.
    pub fn clear(&mut self) {
        self.ends.clear();
    }

    /// Appends the frame of these values.
    ///
    /// # Errors
    /// If the codec does not take them.
    pub fn push(&mut self, codec: &dyn Codec, dtype: DType, values: &[u8]) -> Result<(), EncodeError> {
        let begin = self.len();
        let shape = FrameShape::new(Layout::Compact, dtype, values.len() / dtype.width());
        let room = begin + codec.bound(shape);
        if self.bytes.len() < room {
            self.bytes.resize(room, 0);
        }
        let len = codec.encode(Layout::Compact, dtype, values, &mut [], &mut self.bytes[begin..room])?;
        self.ends.push(begin + len);
        Ok(())
    }

    /// All of them.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len()]
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let begins = [0].into_iter().chain(self.ends.iter().copied());
        begins.zip(&self.ends).map(|(begin, end)| &self.bytes[begin..*end])
    }

    fn len(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use zipwire_codec::decompress;

    use super::*;

    #[test]
    fn frames_follow_one_another() {
        let codec = "rans".parse::<zipwire_codec::Spec>().unwrap().codec();
        let mut frames = Frames::default();
        for _ in 0..2 {
            frames.clear();
            assert_eq!((frames.iter().count(), frames.bytes().len()), (0, 0));
            let all = [vec![0x3f; 6000], vec![1; 2], vec![0x80; 100_000]];
            for values in &all {
                frames.push(&*codec, DType::Bf16, values).unwrap();
            }
            for (frame, values) in frames.iter().zip(&all) {
                assert!(decompress(frame).unwrap() == *values);
            }
            assert_eq!(frames.iter().map(<[u8]>::len).sum::<usize>(), frames.bytes().len());
            assert!(frames.push(&*codec, DType::Bf16, &[0]).is_err());
            assert_eq!(frames.iter().count(), 3, "what failed left nothing");
        }
    }
}
