//! Kernels in other builds: with constants of variants, and with checks of addresses.

use std::env;
use std::process::{Command, ExitCode};

use libtest_mimic::{Failed, Trial};
use zipwire_codec::{DType, Spec};
use zipwire_emulation::{Emulation, Scene, scene};
use zipwire_kernels::{Coder, Device, GpuError};

use crate::bench::Bench;
use crate::content::Content;
use crate::{CODERS, COMPACT_ENCODERS, Extent, compact, compact_encode, corrupt, frames};

/// Variable that names variants, as the library reads it.
const VARIABLE: &str = "ZIPWIRE_KERNELS";
/// Place in [`CODERS`] of what the scene compares.
const CODER: &str = "ZIPWIRE_ALIGNED_CODER";

pub(crate) const SCENES: &[Scene] = &[Scene { name: "aligned", run: aligned }];

/// Whether this process has kernels that check no checksums, with which nothing is to be decoded but by the test of them.
pub(crate) fn is_unchecked() -> bool {
    env::var(VARIABLE).is_ok_and(|names| names == "unchecked")
}

/// The test of kernels that check no checksums, in a process that has them.
pub(crate) fn unchecked_trials() -> Vec<Trial> {
    let trial = |&(spec, dtype): &(&'static str, DType)| {
        Trial::test(format!("{spec}::{dtype}::unchecked_decoders"), move || {
            unchecked_decoders(spec, dtype);
            Ok(())
        })
    };
    CODERS.iter().filter(|(_, dtype)| *dtype == DType::Bf16).map(trial).collect()
}

pub(crate) fn trials() -> Vec<Trial> {
    let ignored = |name: String, test: Box<dyn FnOnce() -> Result<(), Failed> + Send>| {
        Trial::test(format!("builds::{name}"), test).with_ignored_flag(true)
    };
    let aligned = CODERS.iter().enumerate().map(|(place, (spec, dtype))| {
        let extent = if *dtype == DType::Bf16 { "whole" } else { "wide" };
        ignored(
            format!("{extent}::{spec}::{dtype}::addresses_are_multiples"),
            Box::new(move || is_aligned(place)),
        )
    });
    let variants = [("tickets", "tickets", "BF16::"), ("no_checksums", "unchecked", "unchecked_decoders")];
    let variants = variants.map(|(name, variant, filter)| {
        ignored(
            format!("wide::{name}"),
            Box::new(move || passes(this_program().arg(filter).env(VARIABLE, variant))),
        )
    });
    aligned.chain(variants).collect()
}

/// This program as if it were called anew, so that it compiles its own kernels.
fn this_program() -> Command {
    let mut program = Command::new(env::current_exe().unwrap());
    program.env_remove("ZIPWIRE_EMULATION_CHILD");
    program
}

fn passes(program: &mut Command) -> Result<(), Failed> {
    let output = program.output()?;
    let [tests, said] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    if output.status.success() { Ok(()) } else { Err(format!("{}: {tests}{said}", output.status).into()) }
}

/// No kernel of a codec and type reads or writes at an address that a GPU refuses, whatever is in a frame.
fn is_aligned(place: usize) -> Result<(), Failed> {
    let (spec, dtype) = CODERS[place];
    let sources = zipwire_kernels::sources();
    let source = sources.iter().find(|source| source.name == spec && source.dtype == Some(dtype)).unwrap();
    let emulation = Emulation::build_aligned(&[&source.text], "aligned")?;
    passes(scene("aligned").envs(emulation.environment()).env(CODER, place.to_string()))
}

/// Whole and damaged frames in both layouts, compact ones at every byte of a word.
fn aligned() -> ExitCode {
    let (spec, dtype) = CODERS[env::var(CODER).unwrap().parse::<usize>().unwrap()];
    frames::all_patterns(spec, dtype);
    frames::every_content_and_length(spec, dtype, Extent::Short);
    corrupt::headers(spec, dtype);
    corrupt::flipped_bits(spec, dtype, Extent::Short);
    compact::every_content_and_length(spec, dtype);
    compact::flipped_bits(spec, dtype, Extent::Short);
    if spec != "huffman" {
        compact::every_bit(spec, dtype, Extent::Short);
    }
    if COMPACT_ENCODERS.contains(&(spec, dtype)) {
        compact_encode::anywhere(spec, dtype, Extent::Short);
    }
    ExitCode::SUCCESS
}

/// Decoders without checksums give the values, take a frame with a wrong one, and are for measuring only.
fn unchecked_decoders(spec: &'static str, dtype: DType) {
    let parsed: Spec = spec.parse().unwrap();
    let refused = Coder::new(&Device::open(0).unwrap(), &parsed, dtype);
    assert!(matches!(refused, Err(GpuError::Unchecked)), "{refused:?}");
    let bench = Bench::new(spec, dtype);
    let values = Content::ALL.map(|content| content.values(dtype, 70_003, 1));
    bench.check(&values, "unchecked");
    let mut frame = bench.on_cpu(&values[0]);
    frame.fixed[24] ^= 1;
    assert_eq!(bench.decode(&[(frame, values[0].len())]), [Ok(values[0].clone())]);
}
