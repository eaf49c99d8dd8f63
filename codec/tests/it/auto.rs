//! Choices of `auto`, and its bounds, which hold for all of them.

use crate::common;
use crate::common::content::Content;
use zipwire_codec::{
    Auto, Class, Codec, Costs, DType, EncodeError, FrameInfo, FrameShape, Goal, Layout, Speed, decompress,
    force_simd,
};

const GOALS: [Goal; 5] = [
    Goal::Size,
    Goal::Speed,
    Goal::Link { bytes_per_s: 100_000_000 },
    Goal::Link { bytes_per_s: 1_000_000_000 },
    Goal::Link { bytes_per_s: 25_000_000_000 },
];

/// The codec, to run on [`common::level`].
fn auto(goal: Goal) -> Auto {
    force_simd(common::level()).unwrap();
    Auto::new(goal)
}

fn chosen(auto: &Auto, dtype: DType, values: &[u8]) -> &'static str {
    FrameInfo::peek(&auto_frame(auto, Layout::Compact, dtype, values)).unwrap().codec
}

fn auto_frame(auto: &Auto, layout: Layout, dtype: DType, values: &[u8]) -> Vec<u8> {
    auto.encode_to_vec(layout, dtype, values).unwrap()
}

#[test]
fn frames_are_those_of_the_codec_that_is_estimated_best_and_keep_all_bounds() {
    for (dtype, goal) in DType::ALL.into_iter().flat_map(|dtype| GOALS.map(|goal| (dtype, goal))) {
        let auto = auto(goal);
        for (content, count) in Content::ALL
            .into_iter()
            .flat_map(|content| [0, 1, 4096, 4097, 40_000].map(|count| (content, count)))
        {
            let values = content.values(dtype, count, 3);
            let estimates = auto.estimates(dtype, &values).unwrap();
            let best = auto.best(&estimates).unwrap();
            assert!(estimates.iter().all(|other| auto.cost(best) <= auto.cost(other)));
            assert_eq!(chosen(&auto, dtype, &values), best.codec, "{content:?} {count} {dtype} {goal:?}");
            for layout in Layout::ALL {
                let shape = FrameShape::new(layout, dtype, count);
                let frame = auto_frame(&auto, layout, dtype, &values);
                assert!((auto.min_len(shape)..=auto.bound(shape)).contains(&frame.len()));
                assert!(layout == Layout::Compact || frame.len() >= auto.static_len(shape));
                assert!(decompress(&frame).unwrap() == values);
            }
        }
    }
}

/// Receivers reserve room before there are values, so these must not matter.
#[test]
fn the_split_layout_has_one_codec_for_a_type_and_a_goal() {
    for (dtype, goal) in DType::ALL.into_iter().flat_map(|dtype| GOALS.map(|goal| (dtype, goal))) {
        let auto = auto(goal);
        for content in Content::ALL {
            let frame = auto_frame(&auto, Layout::Split, dtype, &content.values(dtype, 5000, 4));
            assert_eq!(FrameInfo::peek(&frame).unwrap().codec, auto.id_in_split(dtype));
        }
    }
    let in_split = |goal| auto(goal).id_in_split(DType::Bf16);
    assert_eq!((in_split(Goal::Size), in_split(Goal::Speed)), ("rans", "raw"));
}

/// A few values are coded by all, and for the size all values are: the smallest frame is the smallest.
#[test]
fn estimates_of_few_values_and_for_the_size_are_exact_and_others_are_near() {
    for content in [Content::Gaussian, Content::Rows, Content::SomeZeros, Content::Noise] {
        for (count, goal) in
            [(100, Goal::Speed), (4096, Goal::Speed), (300_000, Goal::Speed), (300_000, Goal::Size)]
        {
            let values = content.values(DType::Bf16, count, 5);
            for estimate in auto(goal).estimates(DType::Bf16, &values).unwrap() {
                let codec = estimate.codec.parse::<zipwire_codec::Spec>().unwrap().codec();
                let bytes = codec.encode_to_vec(Layout::Compact, DType::Bf16, &values).unwrap().len();
                let points = 100.0 * (bytes as f64 - estimate.bytes as f64) / values.len() as f64;
                // What other codecs leave follows from what `tiered` leaves, on real tensors. Slices that are put together cut
                // groups of these rows, whose length is not given.
                let near = match (count, content) {
                    (..=4096, _) => 0.0,
                    _ if goal == Goal::Size => 0.0,
                    (_, Content::Rows) => 7.0,
                    _ => 2.5,
                };
                assert!(points.abs() <= near, "{content:?} {count} {}: {points}", estimate.codec);
            }
        }
    }
}

/// On no file of samples is another codec smaller by more than a thousandth of the values, none of a paper either, which it does not choose. Also where values
/// of four bytes are all alike, which a sample by `tiered` does not tell from others.
#[test]
#[allow(clippy::disallowed_methods, reason = "the samples are files")]
fn for_the_size_no_codec_is_smaller_on_any_file() {
    zipwire_paper_codecs::register();
    let mut files = vec![vec![(DType::F32, 1.0_f32.to_le_bytes().repeat(100_000), 100)]];
    for entry in std::fs::read_dir(common::samples_dir()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "safetensors") {
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap().tensors();
        let known = tensors.into_iter().filter_map(|(_, view)| {
            let dtype = DType::from_name(&view.dtype().to_string())?;
            Some((dtype, view.data().to_vec(), view.shape().last().copied().unwrap_or(0)))
        });
        files.push(known.collect());
    }
    assert!(files.len() > 10);
    for (number, tensors) in files.into_iter().enumerate() {
        let len = |spec: &str| -> Option<usize> {
            let lens = tensors.iter().map(|(dtype, values, row)| {
                let codec = spec.parse::<zipwire_codec::Spec>().unwrap().for_rows(*row).codec();
                let is_fit = codec.supports(*dtype);
                is_fit.then(|| codec.encode_to_vec(Layout::Compact, *dtype, values).unwrap().len())
            });
            lens.sum()
        };
        let raw: usize = tensors.iter().map(|(_, values, _)| values.len()).sum();
        let found = len("auto:goal=size").unwrap();
        for id in zipwire_codec::Spec::ids() {
            let Some(least) = len(id) else { continue };
            assert!(found <= least + raw / 1000, "file {number}: {found} bytes, by `{id}` {least}");
        }
    }
}

#[test]
fn the_caller_says_how_fast_codecs_are() {
    let values = Content::Gaussian.values(DType::Bf16, 100_000, 6);
    let speed = |gbps| Speed { encode_gbps: gbps, decode_gbps: gbps };
    let with = |rows: &[(&str, f64)]| {
        let mut costs = Costs::default();
        for (codec, gbps) in rows {
            assert!(costs.set(codec, DType::Bf16, Class::Dense, speed(*gbps)));
        }
        let auto = auto(Goal::Link { bytes_per_s: 25_000_000_000 }).costs(costs);
        chosen(&auto, DType::Bf16, &values)
    };
    assert_eq!(with(&[("raw", 10.0), ("tiered", 1.0)]), "raw");
    assert_eq!(with(&[("raw", 1000.0), ("tiered", 1000.0)]), "tiered");
    assert_eq!(with(&[("raw", 10.0), ("tiered", 500.0), ("rans", 10.0)]), "tiered");
    assert_eq!(with(&[("rans", 1.0)]), "rans", "nothing else has a speed");
    assert_eq!(with(&[]), "raw", "nothing has a speed");
    let mut costs = Costs::default();
    for (codec, gbps) in
        [("zstd", 1.0), ("window7", 1.0), ("raw", 0.0), ("raw", f64::NAN), ("raw", f64::INFINITY)]
    {
        assert!(!costs.set(codec, DType::Bf16, Class::Dense, speed(gbps)), "{codec} {gbps}");
    }
    assert_eq!(costs, Costs::default());
}

#[test]
fn values_that_are_not_whole_are_refused() {
    let error = EncodeError::PartialValue { bytes: 3, dtype: DType::Bf16 };
    assert_eq!(Auto::default().estimates(DType::Bf16, &[0; 3]), Err(error));
}
