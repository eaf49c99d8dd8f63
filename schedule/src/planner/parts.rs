//! Cuts a call into parts, so that one part can be coded while another travels.

use super::call::{Call, Piece};
use super::choice::Selection;
use crate::Rank;
use crate::plan::{Chunk, Region};

/// Parts begin at multiples of this, in bytes: a tile of values of two bytes.
pub(crate) const PART_ALIGN: u64 = 16 * 1024;

impl Call {
    /// Marks the pieces that are not to be coded: those that are not selected, and all if the codec does not know their type.
    pub(super) fn select(&mut self, rank: Rank, selection: &Selection, is_supported: bool) {
        let mut peers = vec![None; self.pieces.len()];
        for hop in self.steps.iter().flat_map(|step| step.sends.iter().chain(&step.receives)) {
            peers[hop.piece] = Some(hop.peer);
        }
        for (piece, peer) in self.pieces.iter_mut().zip(peers) {
            // Padding makes all pieces equal: either all are coded or none.
            let len = match &self.padded_to {
                Some(lens) => lens.iter().copied().max().unwrap_or(0),
                None => piece.values.len,
            };
            let peer = peer.filter(|_| piece.chunk.destination.is_some());
            piece.is_coded = is_supported && selection.includes(rank, peer, len);
        }
    }

    /// The call as `count` calls, each of which moves one part of every piece. Short pieces have fewer parts.
    pub(super) fn cut(&self, count: u32) -> Vec<Self> {
        (0..count.max(1)).map(|part| self.part(part, count.max(1))).collect()
    }

    fn part(&self, part: u32, count: u32) -> Self {
        let cut = |piece: &Piece| {
            let (begin, end) = range(piece.values.len, part, count, self.part_align);
            let Region { buffer, offset, .. } = piece.values;
            let values = Region { buffer, offset: offset + begin, len: end - begin };
            // A piece may be a part already: that of a channel.
            let Chunk { part: of_piece, offset: before, .. } = piece.chunk;
            let chunk = Chunk { part: of_piece * count + part, offset: before + begin, ..piece.chunk };
            Piece { chunk, values, ..*piece }
        };
        let padded_to = self.padded_to.as_ref().map(|lens| {
            let len = |&len: &u64| {
                let (begin, end) = range(len, part, count, self.part_align);
                end - begin
            };
            lens.iter().map(len).collect()
        });
        Self {
            dtype: self.dtype,
            channel: self.channel,
            pieces: self.pieces.iter().map(cut).collect(),
            steps: self.steps.clone(),
            library: self.library,
            sizes: self.sizes.clone(),
            padded_to,
            part_align: self.part_align,
            goes_on: self.goes_on,
            not_before_s: self.not_before_s,
        }
    }
}

/// How many parts a piece of `len` bytes has if `count` are asked for; short pieces have fewer.
pub fn part_count(len: u64, count: u32) -> u64 {
    len.div_ceil(step(len, count, PART_ALIGN).max(1))
}

/// Bytes of all parts but the last.
fn step(len: u64, count: u32, part_align: u64) -> u64 {
    len.div_ceil(u64::from(count)).next_multiple_of(part_align)
}

/// First byte of a part and the first one behind it, in a piece of `len` bytes.
pub(crate) fn range(len: u64, part: u32, count: u32, part_align: u64) -> (u64, u64) {
    let step = step(len, count, part_align);
    let begin = (step * u64::from(part)).min(len);
    (begin, (begin + step).min(len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_a_piece_without_overlap() {
        for len in [0, 2, 16_384, 16_386, 100_000, 1 << 20] {
            for count in 1..9 {
                let mut end = 0;
                for part in 0..count {
                    let (begin, after) = range(len, part, count, PART_ALIGN);
                    assert_eq!(begin, end, "{len} bytes, part {part} of {count}");
                    assert!(begin == len || begin % PART_ALIGN == 0);
                    end = after;
                }
                assert_eq!(end, len);
                let moving = (0..count).filter(|&part| {
                    let (begin, after) = range(len, part, count, PART_ALIGN);
                    begin < after
                });
                assert_eq!(moving.count() as u64, part_count(len, count), "{len} bytes in {count} parts");
            }
        }
    }
}
