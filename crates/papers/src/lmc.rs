//! LMC: increments of checkpoints by byte groups in blocks.

use zipwire_codec::DType;
use zipwire_paper_codecs::{Blockwise, Grouped};

use crate::measure::Ours;
use crate::samples::{
    DISPATCH_AND_COMBINE, PRETRAINED, adjacent, deltas, entropy, frame, groups, over, percent,
    pretrained_values, values,
};
use crate::{Bench, ReproduceError};

/// Size of increments over their bytes.
pub(super) fn increment_ratio(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
    let delta = deltas(bench)?;
    let frame = frame(&Blockwise, DType::Bf16, &delta);
    Ok(Ours::with(over(frame.len(), delta.len()), "XOR of two checkpoints, one update apart"))
}

/// The same of an increment in which nothing changes.
pub(super) fn increment_of_nothing(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
    let zeros = vec![0; deltas(bench)?.len()];
    let ratio = over(frame(&Blockwise, DType::Bf16, &zeros).len(), zeros.len());
    Ok(Ours::with(ratio, "XOR of a checkpoint with itself: nothing has changed"))
}

/// Bytes of the same significance, the high ones of BF16 values first.
fn bytes_of(values: &[u8]) -> [Vec<u8>; 2] {
    [1, 0].map(|at| values.iter().skip(at).step_by(2).copied().collect())
}

/// Bits that a byte takes above the entropy of its block, in the group where that is most. All groups are one block here.
pub(super) fn above_entropy(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
    let mut sources = vec![(PRETRAINED.to_owned(), pretrained_values(bench)?)];
    sources.extend(
        adjacent(bench)?.into_iter().map(|tensor| (format!("the delta of `{}`", tensor.name), tensor.delta)),
    );
    let mut most = (f64::NEG_INFINITY, String::new());
    for (name, values) in sources {
        let bodies = groups(&frame(&Blockwise, DType::Bf16, &values));
        for (group, (what, bytes)) in bodies.iter().zip(["high", "low"].into_iter().zip(bytes_of(&values))) {
            let (bits, entropy) = (8.0 * over(group.coded_len, group.raw_len), entropy(&bytes));
            if bits - entropy > most.0 {
                most = (bits - entropy, format!("{bits:.3} bits over {entropy:.3}: {what} bytes of {name}"));
            }
        }
    }
    let (gap, note) = most;
    Ok(Ours::with(gap, note))
}

/// Size of increments in byte groups, over that of the same bytes as they lie.
pub(super) fn grouping(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
    let delta = deltas(bench)?;
    let lens = [DType::Bf16, DType::F8E4M3].map(|dtype| frame(&Blockwise, dtype, &delta).len());
    let [grouped, together] = lens.map(|len| percent(len, delta.len()));
    Ok(Ours::with(over(lens[0], lens[1]), format!("{grouped:.2} over {together:.2} %, one update")))
}

/// Size of the high bytes of increments, over that of the low ones.
pub(super) fn stable_bytes(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
    let groups = groups(&frame(&Blockwise, DType::Bf16, &deltas(bench)?));
    let [high, low] = [0, 1].map(|at: usize| percent(groups[at].coded_len, groups[at].raw_len));
    Ok(Ours::with(high / low, format!("{high:.2} over {low:.2} %, one update")))
}

/// Size of high bytes with a code for each 64 KiB, over that with one code. Differences of the samples are less than a block.
pub(super) fn adaptive(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
    let [high, _] = bytes_of(&values(bench, DISPATCH_AND_COMBINE, &|_| true)?);
    // Both take bytes of one-byte values as they are, by Huffman; `grouped` in chunks of 256 KiB.
    let by_block = groups(&frame(&Blockwise, DType::F8E4M3, &high))[0];
    let by_one = groups(&frame(&Grouped, DType::F8E4M3, &high))[0];
    let note = format!(
        "{} and {} codes, high bytes of `{DISPATCH_AND_COMBINE}`: {} and {} bytes",
        by_block.huffman, by_one.huffman, by_block.coded_len, by_one.coded_len
    );
    Ok(Ours::with(over(by_block.coded_len, by_one.coded_len), note))
}
