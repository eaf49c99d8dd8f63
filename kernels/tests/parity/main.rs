//! Frames that the kernels write are those that the CPU writes, and each side decodes the other's. Without a GPU the
//! kernels run under an emulation, with several orders of threads.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod bench;
mod cached;
#[path = "../../../codec/tests/it/common/checksum.rs"]
mod checksum;
mod compact;
mod compact_encode;
#[path = "../../../codec/tests/it/common/content.rs"]
#[allow(dead_code, reason = "other tests use all of it")]
mod content;
mod corrupt;
mod forge;
mod frames;
mod huffman;
mod huffman_codes;
mod plain_sums;
mod planted;
mod rans;
mod rans_compact;
mod samples;
mod sign_mantissa;
mod variants;
mod window7;

use std::process::ExitCode;

use libtest_mimic::Trial;
use zipwire_codec::DType;

/// Extent of a proof. The wide one is ignored unless asked for: `.ci/wide kernels` does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    Short,
    Wide,
}

impl Extent {
    fn of<T>(self, short: T, wide: T) -> T {
        if self == Self::Short { short } else { wide }
    }
}

/// Codecs and types that have kernels.
const CODERS: &[(&str, DType)] = &[
    ("window7", DType::Bf16),
    ("window7", DType::F32),
    ("codebook16", DType::Bf16),
    ("codebook16", DType::F8E5M2),
    ("codebook16", DType::F8E4M3),
    ("tiered", DType::Bf16),
    ("tiered", DType::F16),
    ("tiered", DType::F32),
    ("tiered", DType::F8E4M3),
    ("tiered", DType::F8E5M2),
    ("rans", DType::Bf16),
    ("rans", DType::F16),
    ("rans", DType::F32),
    ("rans", DType::F8E4M3),
    ("rans", DType::F8E5M2),
    ("huffman", DType::Bf16),
];

/// Codecs and types with kernels that encode the layout `compact`.
const COMPACT_ENCODERS: &[(&str, DType)] = &[
    ("window7", DType::Bf16),
    ("window7", DType::F32),
    ("codebook16", DType::Bf16),
    ("codebook16", DType::F8E5M2),
    ("codebook16", DType::F8E4M3),
    ("tiered", DType::Bf16),
    ("tiered", DType::F16),
    ("tiered", DType::F8E4M3),
    ("tiered", DType::F8E5M2),
    ("huffman", DType::Bf16),
];

fn main() -> ExitCode {
    // A plain run compiles what it plays.
    let is_needed = |dtype: Option<DType>| {
        zipwire_emulation::plays_whole_forms() || dtype.is_none_or(|dtype| dtype == SHORT_DTYPE)
    };
    let sources = zipwire_kernels::sources();
    let sources = sources.iter().filter(|source| is_needed(source.dtype));
    let sources: Vec<&str> = sources.map(|source| source.text.as_str()).collect();
    let scenes = [planted::SCENES, cached::SCENES, variants::SCENES].concat();
    let trials = if variants::is_unchecked() { variants::unchecked_trials } else { trials };
    zipwire_emulation::harness(&sources, trials, &scenes)
}

/// A test of one thing only.
fn plain(group: &str, name: &str, test: fn()) -> Trial {
    Trial::test(format!("{group}::{name}"), move || {
        test();
        Ok(())
    })
}

fn trials() -> Vec<Trial> {
    let mut trials: Vec<Trial> =
        CODERS.iter().flat_map(|(spec, dtype)| Group(spec, *dtype).trials()).collect();
    let sum = |name: &str, test: fn()| plain("sum", name, test);
    trials.extend([
        sum("any_types_terms_and_places", plain_sums::all_of_them),
        sum("what_is_refused", plain_sums::refusals),
    ]);
    trials.extend(["tiered", "rans"].map(|spec| {
        Group(spec, DType::F32).named("compact::planes_of_every_form", Extent::Wide, move || {
            compact::planes_of_every_form(spec);
        })
    }));
    let of_window7 = |name: &str, test: fn()| Group("window7", DType::F32).named(name, Extent::Wide, test);
    trials.extend([
        of_window7("compact::lower_halves_are_left_out", window7::lower_halves),
        of_window7("compact::entries_are_checked", window7::entries),
    ]);
    // The fewest threads for a frame of one value.
    trials.push(Group("window7", DType::Bf16).named("more_frames_than_a_grid", Extent::Wide, || {
        frames::more_frames_than_a_grid("window7", DType::Bf16);
    }));
    trials.extend(planted::trials());
    trials.extend(cached::trials());
    trials.extend(variants::trials());
    trials
}

/// Type of the values whose tests a plain run plays; those of the others are ignored unless asked for.
const SHORT_DTYPE: DType = DType::Bf16;

/// The tests of one codec and type.
#[derive(Clone, Copy)]
struct Group(&'static str, DType);

impl Group {
    fn trial(self, name: &str, test: fn(&'static str, DType)) -> Trial {
        let Self(spec, dtype) = self;
        self.named(name, Extent::Short, move || test(spec, dtype))
    }

    /// A test, ignored if it is long (`wide::`) or of another type than [`SHORT_DTYPE`] (`whole::`, which `.ci/run` plays).
    fn named(self, name: &str, extent: Extent, test: impl FnOnce() + Send + 'static) -> Trial {
        let Self(spec, dtype) = self;
        let prefix = match extent {
            Extent::Wide => "wide::",
            Extent::Short if dtype != SHORT_DTYPE => "whole::",
            Extent::Short => "",
        };
        let name = format!("{spec}::{dtype}::{prefix}{name}");
        let trial = Trial::test(name, move || {
            test();
            Ok(())
        });
        trial.with_ignored_flag(!prefix.is_empty())
    }

    /// A test in its short form, and in its whole one, which is ignored unless asked for.
    fn both(self, name: &str, test: fn(&'static str, DType, Extent)) -> [Trial; 2] {
        let Self(spec, dtype) = self;
        [(Extent::Short, ""), (Extent::Wide, "longer_")].map(|(extent, prefix)| {
            self.named(&format!("{prefix}{name}"), extent, move || test(spec, dtype, extent))
        })
    }

    /// Tests of all codecs, and those of this one.
    fn trials(self) -> Vec<Trial> {
        let Self(spec, dtype) = self;
        let mut trials = vec![
            self.trial("all_patterns", frames::all_patterns),
            self.trial("frames_of_many_tiles_in_one_batch", frames::many_tiles),
            self.trial("recorded_tensors", samples::recorded_tensors),
            self.trial("frames_of_other_options_decode", frames::other_options),
            self.trial("headers_and_lengths_are_checked", corrupt::headers),
        ];
        trials.extend(self.both("every_content_and_length", frames::every_content_and_length));
        trials.extend(self.both("any_order_of_threads", frames::any_order));
        trials.extend(self.both("what_the_cpu_refuses_is_reported", corrupt::flipped_bits));
        trials.push(self.trial("compact::every_content_and_length", compact::every_content_and_length));
        trials.push(self.trial("compact::many_frames_in_one_launch", compact::many_frames));
        trials.push(self.trial("compact::headers_and_lengths_are_checked", compact::headers));
        trials.extend(self.both("compact::what_the_cpu_refuses_is_reported", compact::flipped_bits));
        // Opening a frame of `huffman` takes too long for so many.
        if spec != "huffman" {
            trials.extend(self.both("compact::every_bit", compact::every_bit));
        }
        if COMPACT_ENCODERS.contains(&(spec, dtype)) {
            trials.extend(self.both("compact::encoded_zeros_of_every_kind", compact_encode::zeros));
            trials.push(self.trial("compact::encoders_check_regions", compact_encode::regions));
            trials.extend(self.both("compact::encoded_anywhere", compact_encode::anywhere));
            trials.extend(self.both("compact::encoded_in_any_order", compact_encode::any_order));
        } else {
            trials.push(self.trial("compact::encoders_are_refused", compact_encode::refused));
        }
        if sign_mantissa::is_in(spec, dtype) {
            trials.extend(
                self.both("apart::every_content_and_length", sign_mantissa::every_content_and_length),
            );
            trials.push(self.trial("apart::recorded_tensors", sign_mantissa::recorded_tensors));
            trials.extend(self.both("apart::what_the_cpu_refuses_is_reported", sign_mantissa::flipped_bits));
        } else {
            trials.push(self.trial("apart::there_is_none", sign_mantissa::refused));
        }
        trials.extend(self.own_trials());
        trials
    }

    /// Tests of this codec only.
    fn own_trials(self) -> Vec<Trial> {
        let Self(spec, dtype) = self;
        match spec {
            "codebook16" => vec![self.trial("books_and_lists_are_checked", corrupt::books_and_lists)],
            "tiered" => {
                let mut trials = vec![
                    self.trial("compact::columns_have_offsets", compact::columns),
                    self.trial("lists_of_several_rounds", frames::long_lists),
                    self.trial("entries_and_tiers_are_checked", corrupt::tiers),
                ];
                if COMPACT_ENCODERS.contains(&(spec, dtype)) {
                    trials.extend(self.both("compact::encoded_blocks_of_every_kind", compact_encode::blocks));
                }
                trials
            }
            "rans" => {
                let mut trials = vec![
                    self.trial("compact::columns_have_offsets", compact::columns),
                    self.trial("blocks_of_every_kind", rans::blocks_of_every_kind),
                    self.trial("tables_that_hardly_pay", rans::tables_that_hardly_pay),
                    self.trial("entries_tables_and_codes_are_checked", rans::contradictions),
                    self.trial("compact::tables_and_codes_are_checked", rans_compact::contradictions),
                ];
                if dtype != DType::F32 {
                    trials.push(self.trial("compact::joint_symbols", rans_compact::joint_symbols));
                }
                trials
            }
            "huffman" => {
                let hostile = "hostile_frames_with_a_right_checksum";
                let mut trials = vec![
                    self.trial("codes_with_equal_counts", huffman_codes::equal_counts),
                    self.trial("encoded_blocks_end_anywhere", huffman_codes::ends_of_blocks),
                    self.trial("words_have_every_length", huffman::words_of_every_length),
                    self.trial("blocks_begin_and_end_anywhere", huffman::ends_of_blocks),
                    self.trial("one_launch_decodes_a_transformer_block", huffman::many_frames),
                    self.trial("an_index_that_contradicts_the_words_is_reported", huffman::contradictions),
                    self.trial(&format!("compact::{hostile}"), huffman::hostile_compact_frames),
                    self.trial(hostile, huffman::hostile_frames),
                ];
                trials.extend(self.both("long_words_in_one_place", huffman_codes::long_words));
                trials
            }
            _ => Vec::new(),
        }
    }
}
