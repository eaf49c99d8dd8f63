//! Large buffers on several cores: pieces of fixed length, a frame each, coded on the threads of the current rayon pool.
//!
//! Pieces do not depend on the number of threads, so neither do their frames.

use rayon::prelude::*;

use crate::{Codec, DType, DecodeError, Decoder, EncodeError, FrameShape, Layout};

/// Values of a piece, the last one of a buffer excepted: whole tiles and blocks of every codec. Where rows are known,
/// as many whole rows as fit into it, if one does.
pub const PIECE_VALUES: usize = 1 << 20;

/// The frames of one buffer, in memory that is used again from call to call: its own, or a room that the caller gives.
#[derive(Clone, Debug)]
pub struct Pieces<Room = Vec<u8>> {
    layout: Layout,
    dtype: DType,
    /// Bytes of all values.
    len: usize,
    /// Bytes of the values of a piece.
    piece_len: usize,
    /// For each piece the static section, in full, and room for the dynamic one, one piece after the other.
    sections: Room,
    /// Bytes between the beginnings of two pieces.
    stride: usize,
    /// Lengths of the two sections of each piece.
    lens: Vec<(usize, usize)>,
}

impl Pieces {
    /// Room for the frames of `len` bytes of values. All of it is touched, so that coding takes no page faults.
    pub fn new(codec: &dyn Codec, layout: Layout, dtype: DType, len: usize) -> Self {
        Self::of_rows(codec, layout, dtype, len, 0)
    }

    /// Divides values into pieces of whole rows of `row` values, for codecs that make use of rows; 0 if they are not known.
    pub fn of_rows(codec: &dyn Codec, layout: Layout, dtype: DType, len: usize, row: usize) -> Self {
        let room = vec![1; room_len(codec, layout, dtype, len, row)];
        Self::within(codec, layout, dtype, len, row, room)
    }
}

/// Bytes of the room that [`Pieces::within`] takes for the frames of `len` bytes of values.
pub fn room_len(codec: &dyn Codec, layout: Layout, dtype: DType, len: usize, row: usize) -> usize {
    let piece_len = piece_len(dtype, row);
    len.div_ceil(piece_len) * stride(codec, layout, dtype, len, piece_len)
}

/// Bytes of the values of a piece, the last one of a buffer excepted.
pub fn piece_len(dtype: DType, row: usize) -> usize {
    let rows = PIECE_VALUES.checked_div(row).unwrap_or(0);
    let piece_values = if rows == 0 { PIECE_VALUES } else { rows * row };
    piece_values * dtype.width()
}

/// Bytes of the longest frame of a piece.
fn stride(codec: &dyn Codec, layout: Layout, dtype: DType, len: usize, piece_len: usize) -> usize {
    codec.bound(FrameShape { layout, dtype, count: piece_len.min(len) / dtype.width() })
}

impl<Room: AsRef<[u8]> + AsMut<[u8]>> Pieces<Room> {
    /// Divides values like [`Pieces::of_rows`], with this room for the frames: memory of the caller's kind, such as huge pages.
    ///
    /// # Panics
    /// If the room has fewer bytes than [`room_len`].
    pub fn within(
        codec: &dyn Codec,
        layout: Layout,
        dtype: DType,
        len: usize,
        row: usize,
        room: Room,
    ) -> Self {
        let piece_len = piece_len(dtype, row);
        let stride = stride(codec, layout, dtype, len, piece_len);
        let count = len.div_ceil(piece_len);
        assert!(room.as_ref().len() >= count * stride, "the room is too small");
        Self { layout, dtype, len, piece_len, sections: room, stride, lens: vec![(0, 0); count] }
    }

    /// Encodes `values`, as many bytes as there is room for.
    ///
    /// # Errors
    /// If the codec does not support the type or the values are not whole.
    ///
    /// # Panics
    /// If there are more or fewer bytes, or `codec` is another one than the room was made for.
    pub fn encode(&mut self, codec: &dyn Codec, values: &[u8]) -> Result<(), EncodeError> {
        self.encode_by(|_| codec, values)
    }

    /// Encodes like [`Self::encode`], with a codec for each piece, by its number: for [`crate::Delta`], whose base is as long as the piece.
    ///
    /// # Errors
    /// Errors of [`Self::encode`].
    ///
    /// # Panics
    /// Where [`Self::encode`] does.
    pub fn encode_by<'a>(
        &mut self,
        codec: impl (Fn(usize) -> &'a dyn Codec) + Sync,
        values: &[u8],
    ) -> Result<(), EncodeError> {
        assert_eq!(values.len(), self.len, "the room is for another number of bytes");
        let (layout, dtype) = (self.layout, self.dtype);
        if self.len == 0 {
            return Ok(());
        }
        let pieces = values.par_chunks(self.piece_len);
        let rooms = self.sections.as_mut().par_chunks_mut(self.stride).zip(&mut self.lens);
        pieces.zip(rooms).enumerate().try_for_each(|(piece, (values, (room, lens)))| {
            let codec = codec(piece);
            let count = values.len() / dtype.width();
            let static_len = codec.static_len(FrameShape { layout, dtype, count });
            let (static_out, dynamic_out) = room.split_at_mut(static_len);
            *lens = (static_len, codec.encode(layout, dtype, values, static_out, dynamic_out)?);
            Ok(())
        })
    }

    /// Decodes what was encoded last into `out`.
    ///
    /// # Errors
    /// If a frame is damaged.
    ///
    /// # Panics
    /// If `out` has another length than the values.
    pub fn decode(&self, out: &mut [u8]) -> Result<(), DecodeError> {
        static DECODER: Decoder = Decoder::new();
        self.decode_with(&DECODER, out)
    }

    /// Decodes like [`Self::decode`], with the tables and bases that frames name.
    ///
    /// # Errors
    /// Errors of [`Self::decode`], and if a frame names what the decoder does not have.
    ///
    /// # Panics
    /// Where [`Self::decode`] does.
    pub fn decode_with(&self, decoder: &Decoder, out: &mut [u8]) -> Result<(), DecodeError> {
        assert_eq!(out.len(), self.len, "the values have another length");
        if self.len == 0 {
            return Ok(());
        }
        let (layout, dtype) = (self.layout, self.dtype);
        let pieces = out.par_chunks_mut(self.piece_len);
        let rooms = self.sections.as_ref().par_chunks(self.stride).zip(&self.lens);
        pieces.zip(rooms).try_for_each(|(out, (room, &(static_len, dynamic_len)))| {
            let (static_section, dynamic_section) = room[..static_len + dynamic_len].split_at(static_len);
            decoder.decode(layout, dtype, static_section, dynamic_section, out)
        })
    }

    /// Bytes of all frames.
    pub fn coded_len(&self) -> usize {
        self.lens.iter().map(|(fixed, dynamic)| fixed + dynamic).sum()
    }

    /// The frames in order: static and dynamic section of each.
    pub fn frames(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let rooms = self.sections.as_ref().chunks(self.stride.max(1)).zip(&self.lens);
        rooms.map(|(room, &(static_len, dynamic_len))| room[..static_len + dynamic_len].split_at(static_len))
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::{Base, Spec};

    fn on_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work)
    }

    #[test]
    fn the_frames_are_the_same_for_any_number_of_threads_and_decode() {
        let mut values = vec![0; 5 * PIECE_VALUES + 2 * 777];
        rand_chacha::ChaCha8Rng::seed_from_u64(1).fill_bytes(&mut values[PIECE_VALUES..]);
        for spec in Spec::ids() {
            let codec = spec.parse::<Spec>().unwrap().codec();
            for layout in Layout::ALL {
                let encode = |threads| {
                    let mut pieces = Pieces::new(codec.as_ref(), layout, DType::Bf16, values.len());
                    on_threads(threads, || pieces.encode(codec.as_ref(), &values)).unwrap();
                    pieces
                };
                let one = encode(1);
                assert_eq!(one.frames().count(), 3);
                for threads in [2, 5] {
                    assert!(encode(threads).frames().eq(one.frames()), "{spec} {layout} {threads}");
                }
                let mut out = vec![1; values.len()];
                on_threads(3, || one.decode(&mut out)).unwrap();
                assert!(out == values, "{spec} {layout}");
            }
        }
    }

    #[test]
    fn rows_are_not_cut() {
        // Two rows take turns: pieces that cut rows would have more than two different ones.
        let row = 3001;
        let mut values = vec![0; 2 * 2 * row];
        rand_chacha::ChaCha8Rng::seed_from_u64(2).fill_bytes(&mut values);
        let values = values.repeat(PIECE_VALUES / row + 1);
        let codec = format!("dedup:row={row}+raw").parse::<Spec>().unwrap().codec();
        let mut pieces = Pieces::of_rows(codec.as_ref(), Layout::Compact, DType::Bf16, values.len(), row);
        pieces.encode(codec.as_ref(), &values).unwrap();
        assert_eq!(pieces.frames().count(), 3);
        for (static_section, dynamic_section) in pieces.frames() {
            assert_eq!(static_section, []);
            assert!(dynamic_section.len() < 2 * 2 * row + 300, "{}", dynamic_section.len());
        }
        let mut out = vec![1; values.len()];
        pieces.decode(&mut out).unwrap();
        assert!(out == values);
        for row in [PIECE_VALUES, PIECE_VALUES + 1] {
            let pieces = Pieces::of_rows(codec.as_ref(), Layout::Compact, DType::Bf16, values.len(), row);
            assert_eq!(pieces.piece_len, 2 * PIECE_VALUES, "a row of {row}");
        }
    }

    #[test]
    fn pieces_differ_from_pieces_of_a_base() {
        let mut values = vec![0; 2 * PIECE_VALUES + 2 * 777];
        rand_chacha::ChaCha8Rng::seed_from_u64(4).fill_bytes(&mut values);
        let before: Vec<u8> = values.iter().zip((0..2).cycle()).map(|(byte, odd)| byte ^ (1 - odd)).collect();
        let mut decoder = Decoder::new();
        let against = |piece: &[u8]| {
            let base = Base::new(DType::Bf16, piece.to_vec());
            decoder.add_base(base.clone()).unwrap();
            "delta+rans".parse::<Spec>().unwrap().against(base).codec()
        };
        let codecs: Vec<_> = before.chunks(piece_len(DType::Bf16, 0)).map(against).collect();
        let mut pieces = Pieces::new(codecs[0].as_ref(), Layout::Compact, DType::Bf16, values.len());
        pieces.encode_by(|piece| codecs[piece].as_ref(), &values).unwrap();
        assert!(pieces.coded_len() < values.len() / 3, "{}", pieces.coded_len());
        let mut out = vec![1; values.len()];
        pieces.decode_with(&decoder, &mut out).unwrap();
        assert!(out == values);
        assert!(matches!(pieces.decode(&mut out), Err(DecodeError::UnknownBase { .. })));
    }

    #[test]
    fn nothing_is_coded_as_nothing() {
        let codec = "raw".parse::<Spec>().unwrap().codec();
        let mut pieces = Pieces::new(codec.as_ref(), Layout::Compact, DType::F32, 0);
        pieces.encode(codec.as_ref(), &[]).unwrap();
        assert_eq!((pieces.coded_len(), pieces.frames().count()), (0, 0));
        pieces.decode(&mut []).unwrap();
    }

    /// A room that holds other bytes, and more than are needed.
    #[test]
    fn frames_in_a_room_of_the_caller_are_the_same() {
        let mut values = vec![0; 3 * PIECE_VALUES + 2];
        rand_chacha::ChaCha8Rng::seed_from_u64(3).fill_bytes(&mut values[PIECE_VALUES..]);
        let codec = "tiered".parse::<Spec>().unwrap().codec();
        let codec = codec.as_ref();
        for row in [0, 3001] {
            let mut own = Pieces::of_rows(codec, Layout::Compact, DType::Bf16, values.len(), row);
            own.encode(codec, &values).unwrap();
            let room_len = room_len(codec, Layout::Compact, DType::Bf16, values.len(), row);
            let mut room = vec![0xa5; room_len + 10];
            let mut given =
                Pieces::within(codec, Layout::Compact, DType::Bf16, values.len(), row, room.as_mut_slice());
            given.encode(codec, &values).unwrap();
            assert!(given.frames().eq(own.frames()), "{row}");
            let mut out = vec![1; values.len()];
            given.decode(&mut out).unwrap();
            assert!(out == values, "{row}");
            assert_eq!(room[room_len..], [0xa5; 10], "what is behind is not ours");
        }
    }

    #[test]
    #[should_panic(expected = "the room is too small")]
    fn a_room_that_is_too_small_is_a_mistake() {
        let codec = "raw".parse::<Spec>().unwrap().codec();
        let room_len = room_len(codec.as_ref(), Layout::Compact, DType::Bf16, 1000, 0);
        Pieces::within(codec.as_ref(), Layout::Compact, DType::Bf16, 1000, 0, vec![0; room_len - 1]);
    }

    #[test]
    fn a_damaged_piece_is_an_error() {
        let codec = "tiered".parse::<Spec>().unwrap().codec();
        let values = vec![7; 3 * PIECE_VALUES];
        let mut pieces = Pieces::new(codec.as_ref(), Layout::Split, DType::Bf16, values.len());
        pieces.encode(codec.as_ref(), &values).unwrap();
        let middle = pieces.stride + 100;
        pieces.sections[middle] ^= 4;
        assert!(pieces.decode(&mut vec![0; values.len()]).is_err());
    }
}
