//! ZipNN: exponents (section 3.1), sizes of models (Tables 2 and 3), gradients and embeddings (section 4.1), and differences of adjacent
//! checkpoints (section 4.2).

use zipwire_codec::DType;
use zipwire_paper_codecs::{ByteGroup, Grouped};

use crate::measure::Ours;
use crate::samples::{
    self, Adjacent, LEVEL, PRETRAINED, WEIGHTS, adjacent, bf16, deltas, exponent_words, exponents, frame,
    groups, huffman_len, over, percent, pretrained_values, rests, values, zstd_len,
};
use crate::{Bench, ReproduceError};

const GRADIENTS: &str = "train_late_grads.bf16.safetensors";
/// Parts of a group, a step of the search for a share.
const STEPS: usize = 200;

/// How many percent larger the exponents are, coded by Zstd, if the parameters are shuffled.
pub(super) fn shuffle(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
    let mut exponents = exponents(&pretrained_values(bench)?);
    let before = zstd_len(&exponents);
    samples::shuffle(&mut exponents);
    let note = format!("{} values of `{PRETRAINED}`, Zstd at level {LEVEL}", exponents.len());
    Ok(Ours::with(100.0 * (zstd_len(&exponents) as f64 / before as f64 - 1.0), note))
}

/// Size of BF16 weights by LZ4, in percent.
pub(super) fn lz4(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
    let weights = pretrained_values(bench)?;
    let coded = lz4_flex::block::compress(&weights);
    Ok(Ours::with(percent(coded.len(), weights.len()), format!("`{PRETRAINED}`")))
}

/// By how many percent words of Huffman are longer than the entropy, which no code of single exponents goes below.
pub(super) fn fse(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
    let entropy = samples::entropy(&exponents(&pretrained_values(bench)?));
    let (_, bits) = exponent_words(bench)?;
    let note = format!("{bits:.4} bits over {entropy:.4}, exponents of `{PRETRAINED}`");
    Ok(Ours::with(100.0 * (bits / entropy - 1.0), note))
}

/// Size of pretrained weights, or of one of their byte groups, in percent.
pub(super) fn sized(bench: &Bench<'_>, number: Option<usize>) -> Result<Ours, ReproduceError> {
    let size = |weights: &[u8]| {
        let frame = frame(&Grouped, DType::Bf16, weights);
        let group = number.map(|number| groups(&frame)[number]);
        group.map_or(percent(frame.len(), weights.len()), |group| percent(group.coded_len, group.raw_len))
    };
    let trained = size(&values(bench, WEIGHTS, &|_| true)?);
    let note = format!("`{PRETRAINED}`; {trained:.2} of `{WEIGHTS}`");
    Ok(Ours::with(size(&pretrained_values(bench)?), note))
}

/// Size of pretrained weights by Zstd, over that by ZipNN.
pub(super) fn over_zstd(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
    let weights = pretrained_values(bench)?;
    versus(&weights, zstd_len(&weights))
}

/// The same with Zstd on the exponents alone, and the rest as it is.
pub(super) fn over_ee_zstd(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
    let weights = pretrained_values(bench)?;
    versus(&weights, zstd_len(&exponents(&weights)) + weights.len() / 2)
}

fn versus(weights: &[u8], other: usize) -> Result<Ours, ReproduceError> {
    let ours = frame(&Grouped, DType::Bf16, weights).len();
    let [ours_pct, other_pct] = [ours, other].map(|len| percent(len, weights.len()));
    let note = format!("{other_pct:.2} over {ours_pct:.2} %, `{PRETRAINED}`, Zstd at level {LEVEL}");
    Ok(Ours::with(over(other, ours), note))
}

/// Size of pretrained BF16 weights as values of another type, in percent: of models that were BF16 before they became FP16 or FP32 (Table 2).
/// With `numbers`, size of those byte groups only.
pub(super) fn converted(
    bench: &Bench<'_>,
    dtype: DType,
    numbers: Option<[usize; 2]>,
) -> Result<Ours, ReproduceError> {
    let weights = pretrained_values(bench)?;
    let values = bf16(&weights).map(|value| f32::from_bits(u32::from(value) << 16));
    let values: Vec<u8> = match dtype {
        DType::F16 => values.flat_map(|value| f16_bits(value).to_le_bytes()).collect(),
        _ => values.flat_map(f32::to_le_bytes).collect(),
    };
    let frame = frame(&Grouped, dtype, &values);
    let size = match numbers {
        Some([first, end]) => {
            let groups = groups(&frame);
            let sum = |len: fn(&ByteGroup) -> usize| groups[first..end].iter().map(len).sum();
            percent(sum(|group| group.coded_len), sum(|group| group.raw_len))
        }
        None => percent(frame.len(), values.len()),
    };
    Ok(Ours::with(size, format!("`{PRETRAINED}` as {dtype}")))
}

/// The nearest FP16 value of a BF16 one, even in the middle; its bits. BF16 has fewer bits of mantissa, so only values below the least normal one are
/// rounded. Of those beyond the largest FP16 value, infinity.
fn f16_bits(value: f32) -> u16 {
    let sign = (value.to_bits() >> 16) as u16 & 0x8000;
    let magnitude = value.abs();
    let bits = match magnitude {
        // In units of the least FP16 value.
        small if small < 2f32.powi(-14) => (small * 2f32.powi(24)).round_ties_even() as u16,
        large if large >= 65536.0 => 0x7c00,
        normal => ((normal.to_bits() - (112 << 23)) >> 13) as u16,
    };
    sign | bits
}

fn is_embedding(name: &str) -> bool {
    name.starts_with("embed")
}

fn is_layer(name: &str) -> bool {
    !is_embedding(name)
}

/// Size of some tensors of a sample, in percent.
fn size(bench: &Bench<'_>, file: &str, is_wanted: &dyn Fn(&str) -> bool) -> Result<f64, ReproduceError> {
    let values = values(bench, file, is_wanted)?;
    Ok(percent(frame(&Grouped, DType::Bf16, &values).len(), values.len()))
}

pub(super) fn size_of(bench: &Bench<'_>, file: &str) -> Result<Ours, ReproduceError> {
    Ok(Ours::with(size(bench, file, &|_| true)?, format!("`{file}`, of another model")))
}

pub(super) fn gradient_order(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
    Ok((size(bench, GRADIENTS, &|_| true)? / size(bench, WEIGHTS, &|_| true)?).into())
}

pub(super) fn gradient_layers(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
    let weights = size(bench, WEIGHTS, &|_| true)?;
    let note = format!("`{GRADIENTS}` but for the embedding; the weights {weights:.2}");
    Ok(Ours::with(size(bench, GRADIENTS, &is_layer)?, note))
}

/// Size of gradients of the embedding, over that of the other layers.
pub(super) fn gradient_embedding(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
    let (embedding, layers) = (size(bench, GRADIENTS, &is_embedding)?, size(bench, GRADIENTS, &is_layer)?);
    let values = values(bench, GRADIENTS, &is_embedding)?;
    let zeros = percent(values.iter().filter(|byte| **byte == 0).count(), values.len());
    let note =
        format!("{embedding:.2} over {layers:.2} %; {zeros:.1} % of its bytes are 0, of one microbatch");
    Ok(Ours::with(embedding / layers, note))
}

/// Size of exponents by Zstd, over that by Huffman.
fn zstd_over_huffman(values: &[u8], file: &str) -> Ours {
    let exponents = exponents(values);
    let lens = [zstd_len(&exponents), huffman_len(&exponents)];
    let [zstd, huffman] = lens.map(|len| percent(len, exponents.len()));
    let note = format!("{zstd:.2} over {huffman:.2} %, `{file}`, Zstd at level {LEVEL}");
    Ours::with(over(lens[0], lens[1]), note)
}

pub(super) fn gradient_embedding_zstd(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
    Ok(zstd_over_huffman(&values(bench, GRADIENTS, &is_embedding)?, GRADIENTS))
}

pub(super) fn weights_embedding_zstd(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
    Ok(zstd_over_huffman(&pretrained_values(bench)?, PRETRAINED))
}

/// Signs and mantissas of the differences, with more and more zeros: those that differ become 0 in an order drawn once, as if their values had not
/// changed. Bytes that are 0 as recorded, and for each share of zeros from there on the share and the bytes by Zstd and by Huffman, all in percent.
fn by_zeros(bench: &Bench<'_>) -> Result<(f64, Vec<[f64; 3]>), ReproduceError> {
    let mut bytes = rests(&deltas(bench)?);
    let mut differing: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at] != 0).collect();
    samples::shuffle(&mut differing);
    let count = bytes.len();
    let recorded = count - differing.len();
    let mut points = Vec::new();
    for zeros in (0..STEPS).map(|step| count * step / STEPS).filter(|zeros| *zeros >= recorded) {
        differing.drain(count - zeros..).for_each(|at| bytes[at] = 0);
        points.push([zeros, zstd_len(&bytes), huffman_len(&bytes)].map(|len| percent(len, count)));
    }
    Ok((percent(recorded, count), points))
}

/// The least share of zeros at which Zstd is smaller, in percent.
pub(super) fn zstd_zeros(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
    let (recorded, points) = by_zeros(bench)?;
    let found = points.into_iter().find(|[_, zstd, huffman]| zstd < huffman);
    Ok(found.map_or(Ours::with(100.0, "Zstd is never smaller"), |[zeros, zstd, huffman]| {
        let note = format!(
            "signs and mantissas, which have {recorded:.1} % as recorded; there {zstd:.2} and {huffman:.2} %"
        );
        Ours::with(zeros, note)
    }))
}

/// Sizes by share of zeros, in percent: every fifth step of the search.
pub(super) fn sizes_by_zeros(bench: &Bench<'_>) -> Result<Vec<Vec<f64>>, ReproduceError> {
    Ok(by_zeros(bench)?.1.into_iter().step_by(5).map(Vec::from).collect())
}

/// The least share of bytes in one run of zeros at which Zstd is smaller, in percent. The run begins at a third of the signs and mantissas of
/// the differences.
pub(super) fn zero_run(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
    let recorded = rests(&deltas(bench)?);
    let begin = recorded.len() / 3;
    let with_run = |run: usize| {
        let mut bytes = recorded.clone();
        bytes[begin..begin + run].fill(0);
        [zstd_len(&bytes), huffman_len(&bytes)]
    };
    let percents = |lens: [usize; 2]| lens.map(|len| percent(len, recorded.len()));
    let [zstd, huffman] = percents(with_run(recorded.len() * 3 / 100));
    let at_the_level = format!("signs and mantissas; at 3 % {zstd:.2} and {huffman:.2} %");
    let runs = (0..STEPS / 2).map(|step| recorded.len() * step / STEPS);
    let found = runs.map(|run| (run, with_run(run))).find(|(_, [zstd, huffman])| zstd < huffman);
    Ok(match found {
        Some((run, lens)) => {
            let [zstd, huffman] = percents(lens);
            let note = format!("{at_the_level}, there {zstd:.2} and {huffman:.2} %");
            Ours::with(percent(run, recorded.len()), note)
        }
        None => Ours::with(50.0, format!("{at_the_level}; not before half of the bytes")),
    })
}

/// The most by which the rule makes a byte group larger than the better of Zstd and Huffman, over all groups of all tensors.
pub(super) fn auto(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
    let mut worst = (0.0, String::new());
    for Adjacent { name, delta, .. } in adjacent(bench)? {
        let bodies = groups(&frame(&Grouped, DType::Bf16, &delta));
        for (group, (what, bytes)) in
            bodies.iter().zip([("exponents", exponents(&delta)), ("signs and mantissas", rests(&delta))])
        {
            let (zstd, huffman) = (zstd_len(&bytes), huffman_len(&bytes));
            let by = if group.zstd > 0 { "Zstd" } else { "Huffman" };
            let share = over(group.coded_len, zstd.min(huffman));
            if share > worst.0 {
                let note = format!(
                    "{what} of `{name}`: {} bytes by {by}, Zstd {zstd}, Huffman {huffman}",
                    group.coded_len
                );
                worst = (share, note);
            }
        }
    }
    let (share, note) = worst;
    Ok(Ours::with(share, note))
}

/// Share of exponents that do not change, over that of signs and mantissas.
pub(super) fn unchanged(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
    let delta = deltas(bench)?;
    let zeros = [exponents(&delta), rests(&delta)]
        .map(|bytes| percent(bytes.iter().filter(|byte| **byte == 0).count(), bytes.len()));
    let [exponents, rests] = zeros;
    Ok(Ours::with(exponents / rests, format!("{exponents:.2} over {rests:.2} %, one update")))
}

/// Size of differences by `grouped`, over that by Zstd.
pub(super) fn delta_grouping(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
    let delta = deltas(bench)?;
    let (grouped, zstd) = (frame(&Grouped, DType::Bf16, &delta).len(), zstd_len(&delta));
    let [grouped_pct, zstd_pct] = [grouped, zstd].map(|len| percent(len, delta.len()));
    Ok(Ours::with(over(grouped, zstd), format!("{grouped_pct:.2} over {zstd_pct:.2} %, one update")))
}

/// Size of differences, over that of the later checkpoint alone.
pub(super) fn delta_alone(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
    let tensors = adjacent(bench)?;
    let all = |part: fn(&Adjacent) -> &[u8]| tensors.iter().flat_map(part).copied().collect::<Vec<u8>>();
    let (delta, alone) = (all(|tensor| &tensor.delta), all(|tensor| &tensor.next));
    let lens = [&delta, &alone].map(|values| frame(&Grouped, DType::Bf16, values).len());
    let [delta_pct, alone_pct] = lens.map(|len| percent(len, alone.len()));
    let note = format!("{delta_pct:.2} over {alone_pct:.2} %, one update");
    Ok(Ours::with(over(lens[0], lens[1]), note))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_bf16_become_the_nearest_of_fp16() {
        for (value, bits) in [
            (0.0, 0),
            (-0.0, 0x8000),
            (1.0, 0x3c00),
            (-1.5, 0xbe00),
            (65280.0, 0x7bf8),
            (65536.0, 0x7c00),
            (2f32.powi(-14), 0x0400),
            (1.9921875 * 2f32.powi(-15), 0x03fc),
            (2f32.powi(-24), 1),
            // Half of the least value is as near to zero, which is even; three halves are as near to two.
            (2f32.powi(-25), 0),
            (1.5 * 2f32.powi(-24), 2),
        ] {
            assert_eq!(f16_bits(value), bits, "{value}");
        }
    }
}
