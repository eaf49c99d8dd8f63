//! Scenes that need a process of their own: replaced kernels, and devices that hang.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use zipwire_emulation::{Scene, scene};
use zipwire_schedule::Protocol;

use crate::Test;
use crate::jobs::{controls, layer, run_with, scene_with, source_of};

pub(crate) const TESTS: &[Test] = &[
    ("scenes::a_wrong_size_is_noticed", a_wrong_size_is_noticed),
    ("scenes::a_size_without_room_is_noticed", a_size_without_room_is_noticed),
    ("scenes::whole::a_device_that_hangs_ends_in_a_timeout", a_device_that_hangs_ends_in_a_timeout),
];

pub(crate) const SCENES: &[Scene] =
    &[Scene { name: "failing", run: failing }, Scene { name: "hanging", run: hanging }];

/// Prints how a run fails.
fn failing() -> ExitCode {
    let error = run_with(&layer(Protocol::StaticFirst), Duration::from_secs(5)).unwrap_err();
    println!("{error}");
    ExitCode::SUCCESS
}

/// How a run fails whose encoders write more for a size than they should.
fn failure_with(more: &str, variant: &str) -> String {
    let source = source_of("window7");
    let writes = "*at<u64>(frame->size) = ";
    assert_eq!(source.matches(writes).count(), 2, "the kernels write sizes in one place for each layout");
    scene_with("failing", &source.replace(writes, &format!("{writes}{more} + ")), variant)
}

fn a_wrong_size_is_noticed() {
    let said = failure_with("1", "size-plus-1");
    assert!(said.contains("received corrupt bytes"), "{said}");
    assert!(said.contains("the frame from rank") && said.contains("another length"), "{said}");
}

fn a_size_without_room_is_noticed() {
    let said = failure_with("(1ull << 40)", "size-beyond");
    assert!(said.contains("had a device failure"), "{said}");
    assert!(said.contains("its encoder wrote a section of") && said.contains("have room"), "{said}");
}

/// A device that does nothing more as soon as a kernel runs; prints what the run makes of it.
fn hanging() -> ExitCode {
    let plan = layer(Protocol::StaticFirst);
    let error = std::thread::scope(|scope| {
        let run = scope.spawn(|| run_with(&plan, Duration::from_millis(500)).unwrap_err());
        while controls().launches() == 0 {
            std::thread::yield_now();
        }
        controls().set_delay_us(1_000_000_000);
        controls().set_seed(1);
        run.join().unwrap()
    });
    println!("{error}");
    ExitCode::SUCCESS
}

fn a_device_that_hangs_ends_in_a_timeout() {
    let begin = Instant::now();
    let output = scene("hanging").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("made no progress in time"), "{said}");
    assert!(begin.elapsed() < Duration::from_secs(20), "took {:?}", begin.elapsed());
}
