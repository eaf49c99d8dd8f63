//! Parts of a file, that is tensors that are kept together, and the pieces in which their values are read, coded and compared.

use std::ops::Range;
use std::sync::OnceLock;

use zipwire_codec::ContainerIndex;

use crate::file::digest::{PIECE, pieces};
use crate::file::header::TensorInfo;

/// Successive tensors whose values lie together, as they are or in one container.
#[derive(Debug)]
pub(crate) struct Part {
    /// Numbers of the tensors.
    pub(crate) tensors: Range<usize>,
    /// Where they are in the file that has them.
    pub(crate) at: u64,
    pub(crate) container: Option<Box<Container>>,
}

/// A container with the values of a part.
#[derive(Debug)]
pub(crate) struct Container {
    pub(crate) len: u64,
    /// Its index, once it was read.
    pub(crate) index: OnceLock<ContainerIndex>,
    /// Its index as its frames have it, if it was asked for: where the one at its end is damaged.
    pub(crate) scanned: OnceLock<Option<ContainerIndex>>,
}

impl Part {
    pub(crate) fn new(tensors: Range<usize>, at: u64, container: Option<u64>) -> Self {
        let container = container
            .map(|len| Box::new(Container { len, index: OnceLock::new(), scanned: OnceLock::new() }));
        Self { tensors, at, container }
    }
}

/// Where the values of successive tensors are among the values of all.
pub(crate) fn span(tensors: &[TensorInfo]) -> Range<u64> {
    match tensors {
        [first, .., last] => first.range.start..last.range.end,
        [one] => one.range.clone(),
        [] => 0..0,
    }
}

/// The values of all parts, cut into pieces of at most [`PIECE`] bytes: several small tensors of one part, or some bytes of a large one.
#[derive(Debug)]
pub(crate) struct Segments {
    segments: Vec<Segment>,
    /// Number of the first piece of each, and behind them the number of all.
    firsts: Vec<u64>,
}

/// Tensors of one piece, or one tensor of any number of pieces.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    /// Number of its part.
    pub(crate) part: usize,
    pub(crate) tensors: Range<usize>,
}

/// A piece: its segment, and its bytes among the values of all tensors.
#[derive(Debug)]
pub(crate) struct Piece<'a> {
    pub(crate) segment: &'a Segment,
    pub(crate) range: Range<u64>,
    pub(crate) is_first_of_part: bool,
    pub(crate) is_last_of_part: bool,
}

impl Segments {
    /// Cuts the values of parts that have these tensors, in their order.
    pub(crate) fn of(tensors: &[TensorInfo], parts: impl IntoIterator<Item = Range<usize>>) -> Self {
        let mut all = Self { segments: Vec::new(), firsts: vec![0] };
        for (part, range) in parts.into_iter().enumerate() {
            let mut begin = range.start;
            while begin < range.end {
                let most = tensors[begin].range.start + PIECE;
                let more = tensors[begin + 1..range.end].iter().take_while(|tensor| tensor.range.end <= most);
                let end = if tensors[begin].range.end <= most { begin + 1 + more.count() } else { begin + 1 };
                let span = span(&tensors[begin..end]);
                all.firsts.push(all.count() + pieces(span.end - span.start));
                all.segments.push(Segment { part, tensors: begin..end });
                begin = end;
            }
        }
        all
    }

    /// Number of all pieces.
    pub(crate) fn count(&self) -> u64 {
        self.firsts[self.segments.len()]
    }

    /// The piece of this number.
    pub(crate) fn piece<'a>(&'a self, tensors: &[TensorInfo], number: u64) -> Piece<'a> {
        let index = self.firsts.partition_point(|first| *first <= number) - 1;
        let segment = &self.segments[index];
        let span = span(&tensors[segment.tensors.clone()]);
        let start = span.start + (number - self.firsts[index]) * PIECE;
        let (is_first, is_last) = (number == self.firsts[index], number + 1 == self.firsts[index + 1]);
        let of_part = |other: Option<&Segment>| other.is_some_and(|other| other.part == segment.part);
        Piece {
            segment,
            range: start..span.end.min(start + PIECE),
            is_first_of_part: is_first && !of_part(index.checked_sub(1).map(|before| &self.segments[before])),
            is_last_of_part: is_last && !of_part(self.segments.get(index + 1)),
        }
    }
}

impl Piece<'_> {
    /// The tensors in it, each with its bytes here, from the piece's own beginning on.
    pub(crate) fn tensors<'t>(
        &self,
        tensors: &'t [TensorInfo],
    ) -> impl Iterator<Item = (usize, &'t TensorInfo, Range<usize>)> + use<'t> {
        let range = self.range.clone();
        self.segment.tensors.clone().map(move |number| {
            let tensor = &tensors[number];
            let within = |at: u64| (at.clamp(range.start, range.end) - range.start) as usize;
            (number, tensor, within(tensor.range.start)..within(tensor.range.end))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_every_byte_once() {
        let mut start = 0;
        let lens = [0, 3, PIECE - 4, 1, 0, PIECE, PIECE + 1, 7, 3 * PIECE, 0, 0, 5];
        let tensors = lens.map(|len| {
            let range = start..start + len;
            start += len;
            TensorInfo { name: String::new(), dtype: "U8".to_owned(), shape: vec![len as usize], range }
        });
        let parts = [0..4, 4..5, 5..6, 6..11, 11..12];
        let segments = Segments::of(&tensors, parts.clone());
        let (mut end, mut seen) = (0, vec![0; lens.len()]);
        let (mut firsts, mut lasts) = (0, 0);
        for number in 0..segments.count() {
            let piece = segments.piece(&tensors, number);
            assert!(piece.range.start == end && piece.range.end - end <= PIECE);
            end = piece.range.end;
            firsts += usize::from(piece.is_first_of_part);
            lasts += usize::from(piece.is_last_of_part);
            for (number, _, range) in piece.tensors(&tensors) {
                seen[number] += range.len() as u64;
                assert!(parts[piece.segment.part].contains(&number));
            }
        }
        assert_eq!((end, firsts, lasts), (start, parts.len(), parts.len()));
        assert_eq!(seen, lens);
        // Tensors 0 to 3, 4, 5, twice 6, 7, three times 8, 9 and 10, 11.
        assert_eq!(segments.count(), 11);
    }
}
