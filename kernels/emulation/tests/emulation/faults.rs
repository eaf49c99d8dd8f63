//! Kernels with faults: they are found, and say where.

use std::process::ExitCode;

use zipwire_emulation::{Controls, Emulation, Scene, scene};

use crate::gpu::Gpu;
use crate::{SOURCES, Test};

pub(crate) const TESTS: &[Test] = &[
    ("faults::a_missing_barrier_shows", a_missing_barrier_shows),
    ("faults::lanes_in_different_calls", || {
        dies("diverge", "nothing can run any more", "__ballot_sync(0xffffffffu, 1)");
    }),
    ("faults::a_lane_outside_of_its_mask", || {
        dies("not_in_mask", "not in its own mask", "__ballot_sync(0x7fffffffu");
    }),
    ("faults::lanes_with_different_masks", || dies("different_masks", "different masks", "0xffff0001u")),
    ("faults::a_lane_that_never_comes", || dies("never_come", "nothing can run any more", "__syncwarp();")),
    ("faults::a_shuffle_from_outside", || dies("from_outside", "outside of the mask", "__shfl_sync(0xffu")),
    ("faults::a_wait_without_end", || dies("wait_for_ever", "still waits", "while (*flag == 0)")),
    ("faults::a_write_behind_dynamic_shared_memory", a_write_behind_dynamic_shared_memory),
    ("faults::the_environment_plants_one", the_environment_plants_one),
    ("faults::an_access_that_is_not_aligned", an_access_that_is_not_aligned),
];

pub(crate) const SCENES: &[Scene] = &[
    Scene { name: "reverse", run: reverse },
    Scene { name: "diverge", run: || launch("diverge", 0) },
    Scene { name: "not_in_mask", run: || launch("not_in_mask", 0) },
    Scene { name: "different_masks", run: || launch("different_masks", 0) },
    Scene { name: "never_come", run: || launch("never_come", 0) },
    Scene { name: "not_aligned", run: || launch("not_aligned", 0) },
    Scene { name: "from_outside", run: || launch("from_outside", 0) },
    Scene { name: "wait_for_ever", run: || launch("wait_for_ever", 0) },
    Scene { name: "planted", run: planted },
    Scene { name: "behind_dynamic", run: || launch("behind_dynamic", 124) },
];

/// Launches a kernel with 32 threads; the process is not expected to survive it.
fn launch(kernel: &str, dynamic: u32) -> ExitCode {
    Controls::find().unwrap().set_deadline_ms(200);
    let gpu = Gpu::open(0);
    let values = gpu.zeros::<u32>(64);
    gpu.launch(kernel, 1, 32, dynamic, &mut [values.arg()]);
    gpu.synchronize().unwrap();
    ExitCode::SUCCESS
}

/// The process dies, and names the kernel, a thread, and the line that has `code`, the first one of the kernel's.
fn dies(kernel: &str, message: &str, code: &str) {
    let output = scene(kernel).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains(message), "{said}");
    assert!(said.contains(&format!("kernel `{kernel}`")) && said.contains("thread ("), "{said}");
    let after = SOURCES[0].find(&format!("void {kernel}(")).unwrap();
    let at = after + SOURCES[0][after..].find(code).unwrap();
    let line = SOURCES[0][..at].lines().count();
    assert!(said.contains(&format!("line {line}")), "line {line} is not in: {said}");
}

fn a_write_behind_dynamic_shared_memory() {
    let output = scene("behind_dynamic").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("behind the dynamic shared memory"), "{said}");
}

/// Prints for how many seeds a kernel with barriers gives a wrong result.
fn reverse() -> ExitCode {
    const ROUNDS: u32 = 5;
    let controls = Controls::find().unwrap();
    let gpu = Gpu::open(0);
    let values: Vec<u32> = (0..512).collect();
    let block = |block: &[u32]| block.iter().rev().map(|value| value + ROUNDS).collect::<Vec<_>>();
    let expected: Vec<u32> = values.chunks(128).flat_map(block).collect();
    let is_wrong = |seed: &u64| {
        controls.set_seed(*seed);
        let buffer = gpu.upload(&values);
        gpu.launch("reverse", 4, 128, 0, &mut [buffer.arg(), crate::gpu::arg(&mut { ROUNDS })]);
        gpu.download(&buffer) != expected
    };
    println!("{}", (1..21u64).filter(is_wrong).count());
    ExitCode::SUCCESS
}

fn a_missing_barrier_shows() {
    let wrong_seeds = |source: &str, variant: &str| -> u32 {
        let emulation = Emulation::build(&[source], variant).unwrap();
        let output = scene("reverse").envs(emulation.environment()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().parse().unwrap()
    };
    let source = SOURCES[0];
    let kernel = source.find("void __launch_bounds__(128) reverse").unwrap();
    let barrier = "__syncthreads();";
    let first = kernel + source[kernel..].find(barrier).unwrap();
    let second = first + 1 + source[first + 1..].find(barrier).unwrap();
    assert_eq!(wrong_seeds(source, "whole"), 0);
    for (at, variant) in [(first, "without-first"), (second, "without-second")] {
        let mut faulty = source.to_owned();
        faulty.replace_range(at..at + barrier.len(), "");
        let wrong = wrong_seeds(&faulty, variant);
        eprintln!("{variant}: wrong with {wrong} of 20 seeds");
        assert!(wrong > 0, "{variant} is not noticed");
    }
}

/// Fills 1000 words by a kernel, and prints how it went.
fn planted() -> ExitCode {
    const COUNT: u32 = 1000;
    let gpu = Gpu::open(0);
    // SAFETY: the size is not zero.
    let room = unsafe { cudarc::driver::result::malloc_sync(1 << 20) };
    let values = gpu.zeros::<u32>(COUNT as usize);
    let (mut count, mut value) = (COUNT, 41u32);
    let mut args = [values.arg(), crate::gpu::arg(&mut count), crate::gpu::arg(&mut value)];
    gpu.launch("fill", 4, 256, 0, &mut args);
    // SAFETY: the stream lives as long as this.
    let is_done = || unsafe { cudarc::driver::sys::cuStreamQuery(gpu.stream) };
    let begin = std::time::Instant::now();
    while is_done() == cudarc::driver::sys::CUresult::CUDA_ERROR_NOT_READY {
        if begin.elapsed() > std::time::Duration::from_millis(300) {
            println!("still runs");
            // Threads of the stream never end.
            std::process::exit(0);
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    match gpu.synchronize() {
        Ok(()) => println!("first {}, room {}", gpu.download(&values)[0], room.is_ok()),
        Err(error) => println!("{error:?}"),
    }
    ExitCode::SUCCESS
}

fn the_environment_plants_one() {
    let says = |fault: &str, expected: &str| {
        let output = scene("planted").env("FAKECUDA_FAULT", fault).output().unwrap();
        let said =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        assert!(said.contains(expected), "{fault}: {said}");
    };
    says("", "first 41, room true");
    says("skip:fill", "first 0, room true");
    says("skip:another", "first 41, room true");
    says("hang:fill", "still runs");
    says("stick:fill", "CUDA_ERROR_ILLEGAL_ADDRESS");
    says("memory:1048576", "first 41, room false");
    says("memory:1048577", "first 41, room true");
    says("nonsense:fill", "expected hang, skip or stick");
}

/// The CPU forgives it; kernels that are compiled to look at addresses do not.
fn an_access_that_is_not_aligned() {
    let said = |emulation: Emulation| {
        let output = scene("not_aligned").envs(emulation.environment()).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (passes, _) = said(Emulation::build(&SOURCES, "tests").unwrap());
    assert!(passes);
    let (passes, message) = said(Emulation::build_aligned(&SOURCES, "aligned").unwrap());
    let line = SOURCES[0][..SOURCES[0].find("(const unsigned*)odd").unwrap()].lines().count();
    assert!(
        !passes && message.contains(&format!("kernel.cu:{line}")) && message.contains("misaligned"),
        "{message}"
    );
}
