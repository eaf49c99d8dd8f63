//! Every scenario on the executor `cuda` below a fake driver: kernels run on the CPU, in an order by seed, with delays in
//! all streams. `.ci/run` has the tests called `whole::`, and `.ci/wide kernels` those called `wide::`: more scenarios, with every codec.

#[path = "cuda/bench_gpu.rs"]
mod bench_gpu;
#[path = "cuda/bench_script.rs"]
mod bench_script;
#[path = "it/common/mod.rs"]
mod common;
#[path = "cuda/doctor.rs"]
mod doctor;
#[path = "cuda/kernels.rs"]
mod kernels_compile;
#[path = "cuda/processes.rs"]
mod processes;

use std::process::ExitCode;

use common::conformance::{Case, cases, conforms};
use common::gpus;
use libtest_mimic::{Failed, Trial};
use zipwire::Executor;
use zipwire::codec::{DType, Layout};
use zipwire::engine::cuda::kernels;
use zipwire::engine::nccl::library::share_gpus;
use zipwire_emulation::{Controls, harness, plays_whole_forms};

fn main() -> ExitCode {
    #[expect(unsafe_code, reason = "the environment is changed while no other thread can read it")]
    // SAFETY: this is the first call of the program, which has no thread but this one.
    unsafe {
        share_gpus();
    }
    let sources = kernels::sources();
    // A plain run compiles what it plays: values of BF16, and sums.
    let is_needed =
        |dtype: Option<DType>| plays_whole_forms() || dtype.is_none_or(|dtype| dtype == DType::Bf16);
    let sources = sources.iter().filter(|source| is_needed(source.dtype));
    let texts: Vec<&str> = sources.map(|source| source.text.as_str()).collect();
    harness(&texts, trials, &[])
}

fn trials() -> Vec<Trial> {
    let cases = cases(32);
    let of = |executor| gpus::trials(&cases, executor, is_long, conforms_delayed);
    let mut trials: Vec<Trial> = gpus::EXECUTORS.into_iter().flat_map(of).collect();
    let command = |name: &str, test: fn()| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    };
    trials.extend([
        command(
            "bench_gpu::whole::measures_types_layouts_and_sums",
            bench_gpu::measures_types_layouts_and_sums,
        )
        .with_ignored_flag(true),
        command("bench_script::whole::plays_every_step", bench_script::plays_every_step)
            .with_ignored_flag(true),
        command(
            "bench_script::whole::measures_all_else_beside_a_fault",
            bench_script::measures_all_else_beside_a_fault,
        )
        .with_ignored_flag(true),
        command("bench_gpu::goes_on_behind_a_difference", bench_gpu::goes_on_behind_a_difference),
        command(
            "kernels::compiled_kernels_take_no_compiler",
            kernels_compile::compiled_kernels_take_no_compiler,
        ),
        command("kernels::refusals_of_compile", kernels_compile::refusals_of_compile),
        command("doctor::finds_the_gpus", doctor::finds_the_gpus),
        command("processes::run_together", processes::run_together),
        command("processes::a_killed_rank_ends_all", processes::a_killed_rank_ends_all),
        command("bench_gpu::says_what_has_no_kernels", bench_gpu::says_what_has_no_kernels),
    ]);
    trials
}

/// Scenarios of a plain run, which together have all protocols, collectives, codecs and sums that GPUs can run.
const SHORT: [&str; 7] = [
    "all-gather-algorithms-2x3",
    "all-to-all-sparse-2x3::",
    "dp-2x2",
    "fsdp-2x2",
    "protocols-2x3",
    "reduce-scatter-algorithms-2x3",
    "weight-sync-2x3",
];

/// Scenarios of a plain run that are played in compact frames, too.
const SHORT_COMPACT: [&str; 1] = ["all-to-all-sparse-2x3::"];

fn is_long(case: &Case, layout: Layout) -> bool {
    let is_named = |name: &&str| case.name == *name || name.ends_with("::") && case.name.starts_with(name);
    let is_short = |names: &[&str]| names.iter().any(is_named);
    !is_short(&SHORT) || layout == Layout::Compact && !is_short(&SHORT_COMPACT)
}

fn conforms_delayed(executor: &dyn Executor, case: &Case, variant: usize) -> Result<(), Failed> {
    let controls = Controls::find().expect("the harness has started this below the emulation");
    controls.set_seed(1);
    controls.set_delay_us(300);
    conforms(executor, case, Some(&[variant]))
}
