//! Streams are asynchronous, and waits between them are needed.

use std::time::Duration;

use cudarc::driver::{result, sys};
use zipwire_emulation::Controls;

use crate::Test;
use crate::gpu::{Gate, Gpu, arg};

pub(crate) const TESTS: &[Test] = &[
    ("streams::a_missing_wait_shows", a_missing_wait_shows),
    ("streams::a_dropped_wait_shows", a_dropped_wait_shows),
    ("streams::queries_tell_the_truth", queries_tell_the_truth),
    ("streams::host_functions_run_in_turn", host_functions_run_in_turn),
    ("streams::a_wait_for_a_word_holds_up_its_stream_only", a_wait_for_a_word_holds_up_its_stream_only),
    ("streams::the_default_stream_is_between_those_that_wait_for_it", the_default_stream),
];

const SEEDS: std::ops::Range<u64> = 1..21;

fn controls() -> Controls {
    Controls::find().expect("the harness has started this below the emulation")
}

fn event(flags: sys::CUevent_flags) -> sys::CUevent {
    result::event::create(flags).unwrap()
}

/// One stream fills, another one adds: whether the sum is wrong without, or with, a wait for the first.
fn is_wrong(gpu: &Gpu, wait: bool) -> bool {
    const COUNT: u32 = 1000;
    let (first, second) = (gpu.stream, Gpu::stream());
    let values = gpu.zeros::<u32>(COUNT as usize);
    let others = gpu.upload(&vec![1u32; COUNT as usize]);
    gpu.synchronize().unwrap();
    let filled = event(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING);
    let blocks = COUNT.div_ceil(256);
    let mut count = COUNT;
    gpu.launch_on(first, "fill", blocks, 256, 0, &mut [values.arg(), arg(&mut count), arg(&mut 41u32)])
        .unwrap();
    // SAFETY: streams, event and buffers live until the end of the test.
    unsafe {
        result::event::record(filled, first).unwrap();
        if wait {
            let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
            result::stream::wait_event(second, filled, flags).unwrap();
        }
    }
    gpu.launch_on(second, "add", blocks, 256, 0, &mut [values.arg(), others.arg(), arg(&mut count)]).unwrap();
    // SAFETY: as above.
    unsafe {
        result::stream::synchronize(second).unwrap();
        result::stream::destroy(second).unwrap();
        result::event::destroy(filled).unwrap();
    }
    gpu.download(&values) != vec![42; COUNT as usize]
}

fn wrong_seeds(gpu: &Gpu, mut test: impl FnMut(&Gpu) -> bool) -> usize {
    controls().set_delay_us(2000);
    let wrong = SEEDS
        .filter(|seed| {
            controls().set_seed(*seed);
            test(gpu)
        })
        .count();
    controls().set_seed(0);
    controls().set_delay_us(0);
    wrong
}

fn a_missing_wait_shows() {
    let gpu = Gpu::open(0);
    let wrong = wrong_seeds(&gpu, |gpu| is_wrong(gpu, false));
    eprintln!("without a wait: wrong with {wrong} of 20 seeds");
    assert!(wrong > 0);
    assert_eq!(wrong_seeds(&gpu, |gpu| is_wrong(gpu, true)), 0);
}

fn a_dropped_wait_shows() {
    let gpu = Gpu::open(0);
    let waits = controls().waits();
    let wrong = wrong_seeds(&gpu, |gpu| {
        controls().drop_wait(1);
        is_wrong(gpu, true)
    });
    assert!(wrong > 0);
    assert_eq!(controls().waits() - waits, 20);
    // Only the one that was named is dropped.
    controls().drop_wait(21);
    assert_eq!(wrong_seeds(&gpu, |gpu| is_wrong(gpu, true)), 0);
    controls().drop_wait(0);
}

fn queries_tell_the_truth() {
    let gpu = Gpu::open(0);
    let (begin, end) =
        (event(sys::CUevent_flags::CU_EVENT_DEFAULT), event(sys::CUevent_flags::CU_EVENT_DEFAULT));
    // SAFETY: stream and events live until the end of the test.
    unsafe {
        assert_eq!(result::event::query(end), Ok(()), "an event that was never recorded is complete");
        result::event::record(begin, gpu.stream).unwrap();
        result::event::synchronize(begin).unwrap();
        let gate = Gate::close(gpu.stream);
        result::event::record(end, gpu.stream).unwrap();
        let not_ready = Err(result::DriverError(sys::CUresult::CUDA_ERROR_NOT_READY));
        assert_eq!(result::event::query(end), not_ready);
        assert_eq!(sys::cuStreamQuery(gpu.stream).result(), not_ready);
        std::thread::sleep(Duration::from_millis(20));
        gate.open();
        result::event::synchronize(end).unwrap();
        assert_eq!(result::event::query(end), Ok(()));
        gpu.synchronize().unwrap();
        assert_eq!(sys::cuStreamQuery(gpu.stream).result(), Ok(()));
        let elapsed = result::event::elapsed(begin, end).unwrap();
        assert!((20.0..20_000.0).contains(&elapsed), "{elapsed} ms");
    }
}

fn host_functions_run_in_turn() {
    let gpu = Gpu::open(0);
    let values = gpu.zeros::<u32>(1);
    extern "C" fn read(pointer: *mut std::ffi::c_void) {
        // SAFETY: the test passes its own variable and an emulated address, both alive until the stream is done.
        unsafe {
            let (address, seen) = *pointer.cast::<(u64, *mut u32)>();
            *seen = *(address as *const u32);
        }
    }
    let mut seen = 0u32;
    let mut argument = (values.pointer, &raw mut seen);
    gpu.launch("fill", 1, 32, 0, &mut [values.arg(), arg(&mut 1u32), arg(&mut 7u32)]);
    // SAFETY: the argument lives until the stream is done.
    unsafe { sys::cuLaunchHostFunc(gpu.stream, Some(read), arg(&mut argument)).result() }.unwrap();
    gpu.launch("fill", 1, 32, 0, &mut [values.arg(), arg(&mut 1u32), arg(&mut 8u32)]);
    gpu.synchronize().unwrap();
    assert_eq!(seen, 7);
}

fn the_default_stream() {
    let gpu = Gpu::open(0);
    let blocking = result::stream::create(result::stream::StreamKind::Default).unwrap();
    let none = std::ptr::null_mut();
    let wrong = wrong_seeds(&gpu, |gpu| {
        let values = gpu.zeros::<u32>(32);
        gpu.synchronize().unwrap();
        let fill = |stream, mut value: u32| {
            let mut count = 32u32;
            let mut args = [values.arg(), arg(&mut count), arg(&mut value)];
            gpu.launch_on(stream, "fill", 1, 32, 0, &mut args).unwrap();
        };
        fill(blocking, 1);
        fill(none, 2);
        let mut seen = vec![0u32; 32];
        // SAFETY: the buffer has 32 values, and the streams live until the end of the process.
        unsafe {
            result::memcpy_dtoh_async(&mut seen, values.pointer, none).unwrap();
            fill(blocking, 3);
            result::stream::synchronize(blocking).unwrap();
        }
        seen != [2; 32] || gpu.download(&values) != [3; 32]
    });
    assert_eq!(wrong, 0);
    let of_thread = std::ptr::without_provenance_mut(2);
    let values = gpu.zeros::<u32>(1);
    let launched = gpu.launch_on(of_thread, "diverge", 1, 32, 0, &mut [values.arg()]);
    assert_eq!(launched, Err(result::DriverError(sys::CUresult::CUDA_ERROR_NOT_SUPPORTED)));
}

fn a_wait_for_a_word_holds_up_its_stream_only() {
    let gpu = Gpu::open(0);
    let (other, word) = (Gpu::stream(), gpu.zeros::<u32>(1));
    gpu.synchronize().unwrap();
    let equal = sys::CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_EQ as u32;
    // SAFETY: the streams live as long as the process, and the word is device memory.
    unsafe {
        sys::cuStreamWaitValue32_v2(gpu.stream, word.pointer, 7, equal).result().unwrap();
        assert_eq!(sys::cuStreamQuery(gpu.stream), sys::CUresult::CUDA_ERROR_NOT_READY);
        result::memset_d8_async(word.pointer, 7, 1, other).unwrap();
        result::stream::synchronize(other).unwrap();
        result::stream::synchronize(gpu.stream).unwrap();
        assert!(sys::cuStreamWaitValue32_v2(gpu.stream, 64, 7, equal).result().is_err(), "no allocation");
    }
}
