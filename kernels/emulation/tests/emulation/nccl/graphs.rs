//! NCCL's work in streams that are captured.

use cudarc::driver::{result, sys};

use super::ranks::{INT32, SUM, controls, group, ncclAllReduce, ok, ranks};
use crate::Test;
use crate::gpu::{Gpu, arg};
use crate::graphs::{Graph, capture};

pub(crate) const TESTS: &[Test] = &[
    ("nccl::graphs::messages_are_sent_at_each_launch", messages),
    ("nccl::graphs::a_forked_stream_is_part_of_the_graph", forked),
];

fn messages() {
    controls().set_delay_us(1000);
    ranks(2, |rank| {
        let (gpu, peer) = (&rank.gpu, 1 - rank.rank);
        let (sent, got) = (gpu.zeros::<u32>(100_000), gpu.zeros::<u32>(100_000));
        gpu.synchronize().unwrap();
        let graph: Graph = capture(gpu.stream, || {
            group(|| {
                rank.send(sent.pointer, sent.bytes(), peer);
                rank.receive(got.pointer, got.bytes(), peer);
            });
        });
        for value in 1..4u32 {
            let (mut count, mut value) = (100_000, value * 10 + rank.rank as u32);
            gpu.launch("fill", 391, 256, 0, &mut [sent.arg(), arg(&mut count), arg(&mut value)]);
            graph.launch(gpu.stream);
            let expected = value - rank.rank as u32 + peer as u32;
            assert!(gpu.download(&got) == vec![expected; 100_000], "{expected}");
        }
        // What was captured and what was not keep their order, too.
        graph.launch(gpu.stream);
        group(|| {
            rank.send(got.pointer, got.bytes(), peer);
            rank.receive(sent.pointer, sent.bytes(), peer);
        });
        assert!(gpu.download(&sent) == vec![30 + rank.rank as u32; 100_000]);
    });
    controls().set_delay_us(0);
}

fn forked() {
    controls().set_delay_us(1000);
    ranks(2, |rank| {
        let (gpu, wire) = (&rank.gpu, Gpu::stream());
        let values = gpu.zeros::<i32>(8);
        gpu.synchronize().unwrap();
        let order = |first, second| {
            let event = result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING).unwrap();
            let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
            // SAFETY: the streams live until the end of the process, and work keeps what it needs of an event.
            unsafe {
                result::event::record(event, first).unwrap();
                result::stream::wait_event(second, event, flags).unwrap();
                result::event::destroy(event).unwrap();
            }
        };
        let graph = capture(gpu.stream, || {
            let (mut count, mut value) = (8u32, rank.rank as u32 + 1);
            gpu.launch("fill", 1, 32, 0, &mut [values.arg(), arg(&mut count), arg(&mut value)]);
            order(gpu.stream, wire);
            ok(ncclAllReduce(values.pointer, values.pointer, 8, INT32, SUM, rank.comm, wire));
            order(wire, gpu.stream);
        });
        for _ in 0..3 {
            graph.launch(gpu.stream);
            assert_eq!(gpu.download(&values), [3; 8]);
        }
    });
    controls().set_delay_us(0);
}
