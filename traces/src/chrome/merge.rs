//! A rank that is too large for a trace: slices that stand for several successive spans.
//!
//! Only spans of one lane, name, segment, stage and iteration are merged, so a slice still says what was done. Single transfers
//! cannot be told apart any more.

use zipwire_timeline::Span;

use super::size_estimate::SizeEstimates;
use super::track::Tracks;

/// A span, and how many spans it stands for.
pub(super) type Merged = (Span, u32);

/// The spans of one rank, as few merged as a power of two allows so that they take at most `bytes` bytes; `None` if
/// nothing helps.
pub(super) fn merge(mut spans: Vec<Span>, estimates: &SizeEstimates<'_>, bytes: u64) -> Option<Vec<Merged>> {
    let kind = |span: &Span| (span.iteration, span.lane, span.segment, span.stage, span.name);
    spans.sort_by(|a, b| {
        kind(a)
            .cmp(&kind(b))
            .then(a.begin_s.total_cmp(&b.begin_s))
            .then(a.op.cmp(&b.op))
            .then(a.peer.cmp(&b.peer))
    });
    let most = spans.chunk_by(|a, b| kind(a) == kind(b)).map(<[Span]>::len).max()?;
    let mut count = 1;
    while count < most {
        count *= 2;
        let groups = spans.chunk_by(|a, b| kind(a) == kind(b));
        let merged: Vec<Merged> = groups.flat_map(|group| group.chunks(count).map(one)).collect();
        if estimate(&merged, estimates) <= bytes {
            return Some(merged);
        }
    }
    None
}

/// One span for several: from the first begin to the last end, with the sum of their bytes.
fn one(spans: &[Span]) -> Merged {
    let first = &spans[0];
    if spans.len() == 1 {
        return (first.clone(), 1);
    }
    let end_s = spans.iter().map(|span| span.end_s).fold(first.end_s, f64::max);
    let bytes = spans.iter().map(|span| span.bytes).sum();
    let bytes_coded = spans.iter().map(|span| span.bytes_coded).sum();
    let count = u32::try_from(spans.len()).expect("spans are counted in 32 bits");
    (Span { end_s, bytes, bytes_coded, peer: None, tag: 0, ..first.clone() }, count)
}

fn estimate(merged: &[Merged], estimates: &SizeEstimates<'_>) -> u64 {
    let spans: Vec<Span> = merged.iter().map(|(span, _)| span.clone()).collect();
    let tracks = Tracks::of(&spans, estimates.timeline());
    let slices = merged.iter().zip(&tracks.slices);
    let spans: u64 = slices.map(|((span, count), slice)| estimates.merged(span, slice, *count)).sum();
    spans + estimates.calls(&tracks) + estimates.threads(&tracks) + estimates.process()
}
