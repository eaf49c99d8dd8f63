//! Capture of streams, and launches of the graphs that come of it.

use std::ptr::null_mut;

use cudarc::driver::{result, sys};

use crate::Test;
use crate::gpu::{Gpu, arg};

pub(crate) const TESTS: &[Test] = &[
    ("graphs::work_runs_when_it_is_launched", runs_when_launched),
    ("graphs::copies_read_when_they_run", copies),
    ("graphs::forked_streams_must_come_back", forked),
    ("graphs::calls_that_wait_are_refused", waits),
    ("graphs::captures_of_two_kinds_do_not_mix", mixed),
    ("graphs::unsafe_calls_are_refused_by_mode", by_mode),
];

/// A graph that can be launched. It is never destroyed, as tests are short.
pub(crate) struct Graph(sys::CUgraphExec);

// SAFETY: the driver's handles may be used in any thread.
unsafe impl Send for Graph {}

impl Graph {
    pub(crate) fn launch(&self, stream: sys::CUstream) {
        // SAFETY: the graph lives as long as this.
        unsafe { sys::cuGraphLaunch(self.0, stream).result() }.unwrap();
    }
}

const GLOBAL: sys::CUstreamCaptureMode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
const RELAXED: sys::CUstreamCaptureMode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;

fn begin(stream: sys::CUstream, mode: sys::CUstreamCaptureMode) {
    // SAFETY: streams of tests live until the end of the process.
    unsafe { sys::cuStreamBeginCapture_v2(stream, mode).result() }.unwrap();
}

fn end(stream: sys::CUstream) -> Result<sys::CUgraph, sys::CUresult> {
    let mut graph = null_mut();
    // SAFETY: as above.
    let ended = unsafe { sys::cuStreamEndCapture(stream, &raw mut graph) };
    assert_eq!(graph.is_null(), ended != sys::CUresult::CUDA_SUCCESS);
    if graph.is_null() { Err(ended) } else { Ok(graph) }
}

/// Everything that `work` puts into the stream, and into those that it forks, as a graph.
pub(crate) fn capture(stream: sys::CUstream, work: impl FnOnce()) -> Graph {
    // Ranks that are threads capture at the same time.
    begin(stream, sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    work();
    let graph = end(stream).unwrap();
    let mut executable = null_mut();
    // SAFETY: the graph is destroyed after it was made launchable, which copies it.
    unsafe {
        sys::cuGraphInstantiateWithFlags(&raw mut executable, graph, 0).result().unwrap();
        sys::cuGraphDestroy(graph).result().unwrap();
    }
    Graph(executable)
}

fn status(stream: sys::CUstream) -> sys::CUstreamCaptureStatus {
    let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: as above.
    unsafe { sys::cuStreamIsCapturing(stream, &raw mut status).result() }.unwrap();
    status
}

fn capture_id(stream: sys::CUstream) -> u64 {
    let (mut status, mut id) = (sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE, 0);
    // SAFETY: as above; what is not asked for is null.
    unsafe {
        sys::cuStreamGetCaptureInfo_v3(
            stream,
            &raw mut status,
            &raw mut id,
            null_mut(),
            null_mut(),
            null_mut(),
            null_mut(),
        )
        .result()
    }
    .unwrap();
    id
}

fn fill(gpu: &Gpu, stream: sys::CUstream, values: &crate::gpu::Buffer<u32>, value: u32) {
    let (mut count, mut value) = (values.len as u32, value);
    gpu.launch_on(stream, "fill", 1, 32, 0, &mut [values.arg(), arg(&mut count), arg(&mut value)]).unwrap();
}

/// Makes `second` wait for what `first` has now.
fn order(first: sys::CUstream, second: sys::CUstream) -> sys::CUresult {
    let event = result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING).unwrap();
    // SAFETY: as above; what was put into streams keeps what it needs of the event.
    unsafe {
        result::event::record(event, first).unwrap();
        let waited = sys::cuStreamWaitEvent(second, event, 0);
        result::event::destroy(event).unwrap();
        waited
    }
}

fn runs_when_launched() {
    let gpu = Gpu::open(0);
    let (values, ones) = (gpu.zeros::<u32>(8), gpu.upload(&[1u32; 8]));
    assert_eq!(status(gpu.stream), sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE);
    let graph = capture(gpu.stream, || {
        assert_eq!(status(gpu.stream), sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE);
        assert_ne!(capture_id(gpu.stream), 0);
        let mut count = 8u32;
        gpu.launch("add", 1, 32, 0, &mut [values.arg(), ones.arg(), arg(&mut count)]);
    });
    assert_eq!(gpu.download(&values), [0; 8]);
    (0..3).for_each(|_| graph.launch(gpu.stream));
    assert_eq!(gpu.download(&values), [3; 8]);
    // In another stream, in its turn.
    let other = Gpu::stream();
    fill(&gpu, other, &values, 10);
    graph.launch(other);
    // SAFETY: the stream lives until the end of the process; a graph may be destroyed once.
    unsafe {
        result::stream::synchronize(other).unwrap();
        assert_eq!(gpu.download(&values), [11; 8]);
        sys::cuGraphExecDestroy(graph.0).result().unwrap();
        assert_eq!(sys::cuGraphLaunch(graph.0, other), sys::CUresult::CUDA_ERROR_INVALID_VALUE);
    }
}

fn copies() {
    let gpu = Gpu::open(0);
    let values = gpu.zeros::<u32>(2);
    gpu.synchronize().unwrap();
    let (mut from, mut to) = ([1u32, 2], [0u32; 2]);
    let (from_at, to_at) = (from.as_mut_ptr(), to.as_mut_ptr());
    let graph = capture(gpu.stream, || {
        // SAFETY: both arrays live until the graph has run.
        unsafe {
            sys::cuMemcpyHtoDAsync_v2(values.pointer, from_at.cast(), 8, gpu.stream).result().unwrap();
            sys::cuMemcpyDtoHAsync_v2(to_at.cast(), values.pointer, 8, gpu.stream).result().unwrap();
        }
    });
    // SAFETY: the array lives, and nothing else reads it now.
    unsafe { from_at.write(7) };
    graph.launch(gpu.stream);
    gpu.synchronize().unwrap();
    // SAFETY: as above.
    assert_eq!(unsafe { to_at.cast::<[u32; 2]>().read_volatile() }, [7, 2]);
}

fn forked() {
    let (gpu, other) = (Gpu::open(0), Gpu::stream());
    let values = gpu.zeros::<u32>(8);
    gpu.synchronize().unwrap();
    let fork = |joins: bool| {
        begin(gpu.stream, GLOBAL);
        assert_eq!(order(gpu.stream, other), sys::CUresult::CUDA_SUCCESS);
        assert_eq!(status(other), sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE);
        fill(&gpu, other, &values, 5);
        if joins {
            assert_eq!(order(other, gpu.stream), sys::CUresult::CUDA_SUCCESS);
        }
        assert_eq!(end(other), Err(sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_UNMATCHED));
        end(gpu.stream)
    };
    assert_eq!(fork(false), Err(sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_UNJOINED));
    assert!(fork(true).is_ok());
    assert_eq!(status(other), sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE);
    assert_eq!(gpu.download(&values), [0; 8]);
}

fn waits() {
    let gpu = Gpu::open(0);
    let event = result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING).unwrap();
    let refused = |call: &dyn Fn() -> sys::CUresult, expected, spoils: bool| {
        begin(gpu.stream, GLOBAL);
        assert_eq!(call(), expected);
        let invalid = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_INVALIDATED;
        assert_eq!(status(gpu.stream) == invalid, spoils);
        let ended = end(gpu.stream);
        assert_eq!(ended.is_err(), spoils, "{ended:?}");
    };
    let unsupported = sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    // SAFETY: stream, event and context live until the end of the process.
    unsafe {
        refused(&|| sys::cuStreamSynchronize(gpu.stream), unsupported, true);
        refused(&|| sys::cuStreamQuery(gpu.stream), unsupported, true);
        refused(&|| sys::cuCtxSynchronize(), unsupported, true);
        let recorded = |call: unsafe fn(sys::CUevent) -> sys::CUresult| {
            move || {
                sys::cuEventRecord(event, gpu.stream).result().unwrap();
                call(event)
            }
        };
        let captured = sys::CUresult::CUDA_ERROR_CAPTURED_EVENT;
        refused(&recorded(sys::cuEventQuery), captured, false);
        refused(&recorded(sys::cuEventSynchronize), captured, false);
    }
}

fn mixed() {
    let (gpu, other) = (Gpu::open(0), Gpu::stream());
    begin(gpu.stream, RELAXED);
    let outside = order(other, gpu.stream);
    assert_eq!(outside, sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    assert_eq!(end(gpu.stream), Err(sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED));
    begin(gpu.stream, RELAXED);
    begin(other, RELAXED);
    assert_eq!(order(other, gpu.stream), sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_MERGE);
    for stream in [gpu.stream, other] {
        assert_eq!(end(stream), Err(sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED));
    }
    // SAFETY: the call fails.
    let none = unsafe { sys::cuStreamBeginCapture_v2(null_mut(), RELAXED) };
    assert_eq!(none, sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

fn by_mode() {
    let gpu = Gpu::open(0);
    let thread_local = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    let allocate = || {
        // SAFETY: the size is not zero.
        unsafe { result::malloc_sync(8) }.is_ok()
    };
    let elsewhere = || {
        let in_thread = || {
            Gpu::open(0);
            allocate()
        };
        std::thread::scope(|scope| scope.spawn(in_thread).join().unwrap())
    };
    // Whether this thread, and another one, may allocate meanwhile.
    for (mode, here, there) in [(GLOBAL, false, false), (thread_local, false, true), (RELAXED, true, true)] {
        for (call, allowed) in [(&allocate as &dyn Fn() -> bool, here), (&elsewhere, there)] {
            begin(gpu.stream, mode);
            assert_eq!(call(), allowed, "{mode:?}");
            assert_eq!(end(gpu.stream).is_ok(), allowed, "{mode:?}");
        }
    }
    // A thread may promise that what it does is harmless.
    let mut mode = RELAXED;
    begin(gpu.stream, GLOBAL);
    // SAFETY: the mode is a variable of its own.
    unsafe { sys::cuThreadExchangeStreamCaptureMode(&raw mut mode).result() }.unwrap();
    assert_eq!((mode, allocate()), (GLOBAL, true));
    // SAFETY: as above.
    unsafe { sys::cuThreadExchangeStreamCaptureMode(&raw mut mode).result() }.unwrap();
    assert!(end(gpu.stream).is_ok());
}
