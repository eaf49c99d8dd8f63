//! Section 4.2: differences of adjacent checkpoints, and when Zstd suits their byte groups better than Huffman.

use zipwire_codec::{DType, Grouped};

use crate::coded::{
    Adjacent, adjacent, deltas, exponents, frame, groups, huffman_len, over, percent, rests, shuffle,
    zstd_len,
};
use crate::figure::{Figure, Measurement, Ours};
use crate::{Bench, Curve, ReproduceError};

pub(super) const FIGURE: Figure = Figure {
    measurements: &[
        Measurement::of("zstd-zeros", zeros),
        Measurement::of("zero-run", zero_run),
        Measurement::of("auto", auto),
        Measurement::of("fig8-bytes", unchanged),
        Measurement::of("fig8-grouping", |bench| {
            let delta = deltas(bench)?;
            let (grouped, zstd) = (frame(&Grouped, DType::Bf16, &delta).len(), zstd_len(&delta));
            let [grouped_pct, zstd_pct] = [grouped, zstd].map(|len| percent(len, delta.len()));
            Ok(Ours::with(over(grouped, zstd), format!("{grouped_pct:.2} over {zstd_pct:.2} %, one update")))
        }),
        Measurement::of("delta-alone", |bench| {
            let tensors = adjacent(bench)?;
            let all =
                |part: fn(&Adjacent) -> &[u8]| tensors.iter().flat_map(part).copied().collect::<Vec<u8>>();
            let (delta, alone) = (all(|tensor| &tensor.delta), all(|tensor| &tensor.next));
            let lens = [&delta, &alone].map(|values| frame(&Grouped, DType::Bf16, values).len());
            let [delta_pct, alone_pct] = lens.map(|len| percent(len, alone.len()));
            let note = format!("{delta_pct:.2} over {alone_pct:.2} %, one update");
            Ok(Ours::with(over(lens[0], lens[1]), note))
        }),
    ],
    curves: &[zeros_curve],
};

/// Parts of a group, a step of the search for a share.
const STEPS: usize = 200;

/// Signs and mantissas of the differences, with more and more zeros: those that differ become 0 in an order drawn once, as if their values had not
/// changed. Bytes that are 0 as recorded, and for each share of zeros from there on the share and the bytes by Zstd and by Huffman, all in percent.
fn by_zeros(bench: &Bench<'_>) -> Result<(f64, Vec<[f64; 3]>), ReproduceError> {
    let mut bytes = rests(&deltas(bench)?);
    let mut differing: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at] != 0).collect();
    shuffle(&mut differing);
    let count = bytes.len();
    let recorded = count - differing.len();
    let mut points = Vec::new();
    for zeros in (0..STEPS).map(|step| count * step / STEPS).filter(|zeros| *zeros >= recorded) {
        differing.drain(count - zeros..).for_each(|at| bytes[at] = 0);
        points.push([zeros, zstd_len(&bytes), huffman_len(&bytes)].map(|len| percent(len, count)));
    }
    Ok((percent(recorded, count), points))
}

/// From which share of zeros on Zstd is smaller, in percent.
fn zeros(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
    let (recorded, points) = by_zeros(bench)?;
    let found = points.into_iter().find(|[_, zstd, huffman]| zstd < huffman);
    Ok(found.map_or(Ours::with(100.0, "Zstd is never smaller"), |[zeros, zstd, huffman]| {
        let note = format!(
            "signs and mantissas, which have {recorded:.1} % as recorded; there {zstd:.2} and {huffman:.2} %"
        );
        Ours::with(zeros, note)
    }))
}

fn zeros_curve(bench: &Bench<'_>) -> Result<Curve, ReproduceError> {
    let (_, points) = by_zeros(bench)?;
    Ok(Curve {
        name: "size by share of zeros",
        title: "signs and mantissas of a delta, if more of them had not changed: by Zstd, and by Huffman (at the end by runs, where these are shorter)",
        columns: &["zeros, %", "Zstd", "Huffman"],
        axes: ["zeros, %", "size, %"],
        groups: &[],
        published: &[],
        points: points.into_iter().step_by(5).map(Vec::from).collect(),
        ranges: None,
    })
}

/// From which share of bytes in one run of zeros on Zstd is smaller, in percent. The run begins at a third of the signs and mantissas of the
/// differences.
fn zero_run(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
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

/// Of all byte groups of all tensors, how much larger the rule makes one than the better of the two.
fn auto(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
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
fn unchanged(bench: &Bench<'_>) -> Result<Ours, ReproduceError> {
    let delta = deltas(bench)?;
    let zeros = [exponents(&delta), rests(&delta)]
        .map(|bytes| percent(bytes.iter().filter(|byte| **byte == 0).count(), bytes.len()));
    let [exponents, rests] = zeros;
    Ok(Ours::with(exponents / rests, format!("{exponents:.2} over {rests:.2} %, one update")))
}
