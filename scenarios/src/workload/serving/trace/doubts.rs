//! Doubts about a trace: requests without tokens, and what contradicts itself.
//!
//! A few lines that contradict themselves are a remark, and most of them an error: then the file is not what the scenario takes it for.

use std::ops::Range;

use zipwire_serving::{Request, Requests};

use super::format::{Format, Recorded};
use crate::problem::{Problem, ServingProblem};

/// Lines with the same doubt.
#[derive(Clone, Debug)]
struct Doubt<T> {
    count: usize,
    /// Number and place in the text of the first of them, and what it says.
    first: Option<(usize, Range<usize>, T)>,
}

impl<T> Default for Doubt<T> {
    fn default() -> Self {
        Self { count: 0, first: None }
    }
}

impl<T> Doubt<T> {
    fn note(&mut self, line: usize, span: Range<usize>, says: T) {
        self.count += 1;
        self.first.get_or_insert((line, span, says));
    }

    /// The first of them, if they are more than half of as many lines.
    fn most_of(&self, lines: usize) -> Option<&(usize, Range<usize>, T)> {
        self.first.as_ref().filter(|_| 2 * self.count > lines)
    }
}

/// Doubts about the lines of a file, as they are read.
#[derive(Clone, Debug, Default)]
pub(super) struct Doubts {
    /// Lines that may have a doubt: all, those with ids, those with a sum of tokens.
    lines: usize,
    with_ids: usize,
    with_total: usize,
    no_tokens: Doubt<()>,
    /// Ids, and tokens of the prompt.
    ids: Doubt<[u32; 2]>,
    /// Tokens of prompt, answer and both.
    total: Doubt<[u32; 3]>,
    /// Seconds from the request in the line above back to this one, at the most.
    earlier: Doubt<()>,
    most_earlier_s: f64,
    before_s: Option<f64>,
}

/// Requests below which a mean rate says nothing.
const FEW: usize = 5;

impl Doubts {
    /// The request of a line, unless it has no tokens. Its ids are left out if they are not as many as its blocks of `block` tokens are, the last of
    /// which may be a part of one and then without an id.
    pub(super) fn request(
        &mut self,
        recorded: Recorded,
        block: u32,
        line: usize,
        span: Range<usize>,
    ) -> Option<Request> {
        let Recorded { at_s, input, output, ids, total } = recorded;
        self.lines += 1;
        if let Some(total) = total {
            self.with_total += 1;
            if u64::from(input) + u64::from(output) != u64::from(total) {
                self.total.note(line, span.clone(), [input, output, total]);
            }
        }
        if input == 0 || output == 0 {
            self.no_tokens.note(line, span, ());
            return None;
        }
        let earlier_s = self.before_s.map_or(0.0, |before_s| before_s - at_s);
        if earlier_s > 0.0 {
            self.earlier.note(line, span.clone(), ());
            self.most_earlier_s = self.most_earlier_s.max(earlier_s);
        }
        self.before_s = Some(at_s);
        let mut prefix = ids;
        if !prefix.is_empty() {
            self.with_ids += 1;
            let count = prefix.len() as u64;
            if ![input / block, input.div_ceil(block)].map(u64::from).contains(&count) {
                self.ids.note(line, span, [count as u32, input]);
                prefix = Vec::new();
            }
        }
        Some(Request { arrival_s: at_s, input_tokens: input, output_tokens: output, prefix })
    }

    /// Requests without tokens.
    pub(super) fn empty(&self) -> usize {
        self.no_tokens.count
    }

    /// The problem of a file most of whose lines contradict themselves, and where it shows.
    pub(super) fn refusal(&self, block: u32, format: Format) -> Option<(Problem, Range<usize>)> {
        if let Some((_, span, [ids, tokens])) = self.ids.most_of(self.with_ids) {
            let (ids, tokens) = (*ids, *tokens);
            let problem = ServingProblem::Blocks { ids, tokens, block, fitting: fitting(ids, tokens) };
            return Some((problem.into(), span.clone()));
        }
        let (_, span, [input, output, total]) = self.total.most_of(self.with_total)?;
        let why = format!("{total} tokens in all are not {input} and {output}");
        Some((ServingProblem::Line { why, example: format.example() }.into(), span.clone()))
    }

    /// Remarks on the file `name`, from which `requests` came `scale` times as fast as they were recorded.
    pub(super) fn remarks(&self, name: &str, requests: &Requests, format: Format, scale: f64) -> Vec<String> {
        let mut remarks = Vec::new();
        if let Some((line, ..)) = self.no_tokens.first {
            remarks.push(format!(
                "{} of {} requests of `{name}` have no prompt or no answer, the first in line {line}: they are left out",
                self.no_tokens.count, self.lines
            ));
        }
        if let Some((line, _, [ids, tokens])) = self.ids.first {
            remarks.push(format!(
                "{} of {} prompts of `{name}` have other numbers of `hash_ids` than of blocks, the first {ids} for {tokens} tokens in line \
                 {line}: they share no prefix with others",
                self.ids.count, self.with_ids
            ));
        }
        if let Some((line, _, [input, output, total])) = self.total.first {
            remarks.push(format!(
                "{} of {} requests of `{name}` have another sum of tokens than those of prompt and answer, the first {total} for {input} and \
                 {output} in line {line}: the sum is taken for wrong",
                self.total.count, self.with_total
            ));
        }
        if let Some((line, ..)) = self.earlier.first {
            remarks.push(format!(
                "{} of {} requests of `{name}` are recorded as earlier than those above them, the first in line {line}, by {} s at the most: they are \
                 sorted, and if the file has several recordings, one after the other, they come at the same time",
                self.earlier.count,
                requests.len(),
                self.most_earlier_s
            ));
        }
        remarks.extend(unit_remark(name, requests, format, scale));
        remarks
    }
}

/// A remark on requests that come so fast or so slowly that their timestamps seem to have another unit.
fn unit_remark(name: &str, requests: &Requests, format: Format, scale: f64) -> Option<String> {
    let span_s = requests.last_arrival_s();
    if requests.len() < FEW || span_s <= 0.0 {
        return None;
    }
    let per_s = requests.len() as f64 / span_s;
    let (unit, factor) = format.mistaken_unit(per_s / scale)?;
    // A `scale` that is stated may make up for it.
    format.mistaken_unit(per_s)?;
    Some(format!(
        "`{name}` has {:.3} requests per second in the mean: if its timestamps are {unit}, `scale` makes up for it, {factor} times what it is",
        per_s / scale
    ))
}

/// Power of two of which so many blocks are needed for a prompt.
fn fitting(ids: u32, tokens: u32) -> Option<u32> {
    (0..16).map(|power| 1 << power).find(|&block| tokens.div_ceil(block) == ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_another_size_are_found() {
        assert_eq!(fitting(33, 521), Some(16));
        assert_eq!(fitting(14, 6758), Some(512));
        assert_eq!(fitting(3, 5), Some(2));
        assert_eq!(fitting(7, 8), None);
    }
}
