//! Marks: copies of what all links have left part-way up the last filling, from which the next one can start.
//!
//! A mark stays right while nothing changes below it: flows that come and go above take nothing there.

/// Most marks. Each costs a copy when it is made; between two, levels are pushed again.
const MOST: usize = 16;

struct Mark {
    /// Links of the order that are fixed in it.
    position: usize,
    left: Vec<f64>,
}

/// Marks by ascending position, none of them 0: that one is known anyway.
#[derive(Default)]
pub(super) struct Marks {
    marks: Vec<Mark>,
    /// Memory of marks that are gone.
    spare: Vec<Vec<f64>>,
    /// Links between two marks.
    distance: usize,
    /// The position of the next one.
    due: usize,
}

impl Marks {
    /// Forgets the marks above a position.
    pub(super) fn truncate(&mut self, position: usize) {
        while self.marks.last().is_some_and(|mark| mark.position > position) {
            self.spare.extend(self.marks.pop().map(|mark| mark.left));
        }
        self.expect();
    }

    /// Copies the highest mark; returns its position, or 0 without any. Further marks are even over an order of so many
    /// links.
    pub(super) fn restore(&mut self, order_len: usize, left: &mut Vec<f64>) -> usize {
        self.distance = order_len / (MOST + 1) + 1;
        let position = self.marks.last().map_or(0, |mark| {
            left.clone_from(&mark.left);
            mark.position
        });
        self.expect();
        position
    }

    /// Makes a mark if one is due at this position.
    #[inline]
    pub(super) fn offer(&mut self, position: usize, left: &[f64]) {
        if position >= self.due {
            self.make(position, left);
        }
    }

    #[inline(never)]
    fn make(&mut self, position: usize, left: &[f64]) {
        if self.marks.len() < MOST {
            let mut copy = self.spare.pop().unwrap_or_default();
            copy.clear();
            copy.extend_from_slice(left);
            self.marks.push(Mark { position, left: copy });
        }
        self.expect();
    }

    /// When the next mark is due.
    fn expect(&mut self) {
        let last = self.marks.last().map_or(0, |mark| mark.position);
        self.due = if self.marks.len() < MOST { last + self.distance } else { usize::MAX };
    }
}
