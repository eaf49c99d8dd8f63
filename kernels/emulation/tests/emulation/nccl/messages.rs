//! Sends and receives: groups, order, waits of streams, and how far a send may be ahead.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cudarc::driver::{result, sys};

use super::ranks::{
    BF16, Rank, UINT8, comes, controls, group, ncclBcast, ncclCommAbort, ncclCommDestroy, ncclCommInitAll,
    ncclGroupEnd, ncclGroupStart, ncclRecv, ncclSend, ok, ranks,
};
use crate::Test;
use crate::gpu::{Buffer, Gate, Gpu, arg};

pub(crate) const TESTS: &[Test] = &[
    ("nccl::messages::all_pairs_at_once_with_late_streams", all_pairs),
    ("nccl::messages::of_one_pair_keep_their_order", one_pair),
    ("nccl::messages::a_missing_wait_shows_with_every_seed", a_missing_wait),
    ("nccl::messages::a_long_send_waits_for_its_receiver", a_long_send),
    ("nccl::messages::long_ones_without_a_group_hang", without_a_group),
    ("nccl::messages::the_first_meet_on_the_host", the_first_meet),
    ("nccl::messages::two_streams_keep_the_order_of_calls", two_streams),
    ("nccl::messages::streams_of_one_group_wait_for_one_another", one_group_on_two_streams),
    ("nccl::messages::one_thread_serves_two_communicators", one_thread),
    ("nccl::messages::the_default_stream_is_served", the_default_stream),
    ("nccl::messages::random_groups_of_threads", random_groups),
];

const SEEDS: std::ops::Range<u64> = 1..21;

fn with_late_streams(test: impl FnOnce()) {
    controls().set_delay_us(2000);
    test();
    controls().set_seed(0);
    controls().set_delay_us(0);
}

fn pattern(from: i32, to: i32, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i * 7 + from as usize * 31 + to as usize * 5 + bytes) as u8).collect()
}

fn all_pairs() {
    const RANKS: i32 = 4;
    with_late_streams(|| {
        // Lengths below, at and above what a send may be ahead.
        for (seed, bytes) in [(1, 0), (2, 1), (3, 65536), (4, 300_001)] {
            controls().set_seed(seed);
            ranks(RANKS, |rank| {
                let gpu = &rank.gpu;
                let sent = (0..RANKS).flat_map(|peer| pattern(rank.rank, peer, bytes)).chain([0]);
                let sent: Buffer<u8> = gpu.upload(&sent.collect::<Vec<_>>());
                let got = gpu.zeros::<u8>(RANKS as usize * bytes + 1);
                group(|| {
                    for peer in 0..RANKS {
                        rank.send(sent.pointer + (peer as usize * bytes) as u64, bytes, peer);
                        rank.receive(got.pointer + (peer as usize * bytes) as u64, bytes, peer);
                    }
                });
                let expected = (0..RANKS).flat_map(|peer| pattern(peer, rank.rank, bytes)).chain([0]);
                assert_eq!(gpu.download(&got), expected.collect::<Vec<_>>(), "seed {seed}, {bytes} bytes");
                ok(ncclCommDestroy(rank.comm));
            });
        }
    });
}

fn one_pair() {
    ranks(2, |rank| {
        let gpu = &rank.gpu;
        if rank.rank == 0 {
            let values = gpu.upload(&[1u8, 2, 3, 4, 5, 6]);
            group(|| (0..3).for_each(|i| rank.send(values.pointer + i, 1, 1)));
            (3..6).for_each(|i| rank.send(values.pointer + i, 1, 1));
            gpu.synchronize().unwrap();
        } else {
            let values = gpu.zeros::<u8>(6);
            (0..2).for_each(|i| rank.receive(values.pointer + i, 1, 0));
            group(|| (2..6).for_each(|i| rank.receive(values.pointer + i, 1, 0)));
            assert_eq!(gpu.download(&values), [1, 2, 3, 4, 5, 6]);
        }
    });
}

/// Sends what another stream fills, and reads in another stream what comes; with or without waits. Whether what was read is wrong.
fn is_wrong(rank: &Rank, waits: bool) -> bool {
    const COUNT: u32 = 1000;
    let (gpu, other, wire) = (&rank.gpu, Gpu::stream(), rank.gpu.stream);
    let (sent, got) = (gpu.zeros::<u32>(COUNT as usize), gpu.zeros::<u32>(COUNT as usize));
    gpu.synchronize().unwrap();
    let bytes = sent.bytes();
    let order = |first, second| {
        let event = result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING).unwrap();
        // SAFETY: streams and the event live until the end of this function.
        unsafe {
            result::event::record(event, first).unwrap();
            if waits {
                let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
                result::stream::wait_event(second, event, flags).unwrap();
            }
            result::event::destroy(event).unwrap();
        }
    };
    // So many steps that they take longer than a group.
    for value in 1..21u32 {
        let mut args = [sent.arg(), arg(&mut { COUNT }), arg(&mut { value })];
        let (mut count, mut value) = (COUNT, value);
        args[1] = arg(&mut count);
        args[2] = arg(&mut value);
        gpu.launch_on(other, "fill", 4, 256, 0, &mut args).unwrap();
    }
    order(other, wire);
    let peer = 1 - rank.rank;
    group(|| {
        rank.send(sent.pointer, bytes, peer);
        rank.receive(got.pointer, bytes, peer);
    });
    order(wire, other);
    let mut seen = vec![0u32; COUNT as usize];
    // SAFETY: the buffer has as many values, and the stream is done when the copy to pageable memory returns.
    unsafe {
        result::memcpy_dtoh_async(&mut seen, got.pointer, other).unwrap();
        result::stream::synchronize(other).unwrap();
        result::stream::destroy(other).unwrap();
    }
    gpu.synchronize().unwrap();
    seen != vec![20; COUNT as usize]
}

fn a_missing_wait() {
    with_late_streams(|| {
        for (waits, expected) in [(false, SEEDS.count()), (true, 0)] {
            let wrong = SEEDS
                .filter(|seed| {
                    controls().set_seed(*seed);
                    ranks(2, |rank| is_wrong(rank, waits)).contains(&true)
                })
                .count();
            assert_eq!(wrong, expected, "with waits: {waits}");
        }
    });
}

fn a_long_send() {
    let (late, later) = (Barrier::new(2), Barrier::new(2));
    ranks(2, |rank| {
        let buffer = rank.gpu.zeros::<u8>(1 << 20);
        let pass = |bytes| match rank.rank {
            0 => rank.send(buffer.pointer, bytes, 1),
            _ => rank.receive(buffer.pointer, bytes, 0),
        };
        // They meet with the first message.
        pass(1);
        rank.gpu.synchronize().unwrap();
        for (bytes, waits) in [(1024, false), (1 << 20, true)] {
            if rank.rank == 0 {
                pass(bytes);
                assert!(if waits { rank.hangs() } else { rank.ends() }, "{bytes} bytes");
                late.wait();
            } else {
                late.wait();
                pass(bytes);
            }
            rank.gpu.synchronize().unwrap();
            later.wait();
        }
    });
}

fn without_a_group() {
    let both = Barrier::new(2);
    ranks(2, |rank| {
        let buffer = rank.gpu.zeros::<u8>(2 << 20);
        let pass = |bytes| {
            rank.send(buffer.pointer, bytes, 1 - rank.rank);
            rank.receive(buffer.pointer + (1 << 20), bytes, 1 - rank.rank);
        };
        group(|| pass(1));
        pass(1024);
        rank.gpu.synchronize().unwrap();
        pass(1 << 20);
        assert!(rank.hangs());
        both.wait();
        let begin = Instant::now();
        ok(ncclCommAbort(rank.comm));
        rank.gpu.synchronize().unwrap();
        assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    });
}

fn the_first_meet() {
    const LATE: Duration = Duration::from_millis(100);
    let (begun, returned) = (Barrier::new(2), AtomicUsize::new(0));
    ranks(2, |rank| {
        let buffer = rank.gpu.zeros::<u8>(1);
        let pass = |sender| match rank.rank == sender {
            true => rank.send(buffer.pointer, 1, 1 - rank.rank),
            false => rank.receive(buffer.pointer, 1, 1 - rank.rank),
        };
        let collect = || ok(ncclBcast(buffer.pointer, 1, UINT8, 0, rank.comm, rank.gpu.stream));
        // Each direction is a connection of its own, and collectives have one of all ranks.
        let calls: [&dyn Fn(); 3] = [&|| pass(0), &|| pass(1), &collect];
        for (number, (call, waits)) in calls.iter().flat_map(|call| [(call, true), (call, false)]).enumerate()
        {
            begun.wait();
            let begin = Instant::now();
            if rank.rank == 0 {
                call();
                returned.fetch_add(1, Ordering::SeqCst);
                assert!(!waits || begin.elapsed() > LATE / 2, "call {number}");
            } else {
                if waits {
                    std::thread::sleep(LATE);
                } else {
                    assert!(comes(|| returned.load(Ordering::SeqCst) == number + 1), "call {number}");
                }
                call();
            }
            rank.gpu.synchronize().unwrap();
        }
    });
}

fn two_streams() {
    ranks(2, |rank| {
        let (gpu, other) = (&rank.gpu, Gpu::stream());
        let values = gpu.upload(&[1u8, 2]);
        let got = gpu.zeros::<u8>(2);
        gpu.synchronize().unwrap();
        let gate = (rank.rank == 0).then(|| Gate::close(gpu.stream));
        for (i, stream) in [(0, gpu.stream), (1, other)] {
            if rank.rank == 0 {
                ok(ncclSend(values.pointer + i, 1, UINT8, 1, rank.comm, stream));
            } else {
                ok(ncclRecv(got.pointer + i, 1, UINT8, 0, rank.comm, stream));
            }
        }
        std::thread::sleep(Duration::from_millis(50));
        // SAFETY: the stream lives until the end of the process.
        let second = unsafe { sys::cuStreamQuery(other) };
        assert_eq!(
            second,
            sys::CUresult::CUDA_ERROR_NOT_READY,
            "the second one must not be before the first one"
        );
        if let Some(gate) = gate {
            gate.open();
        }
        // SAFETY: as above.
        unsafe { result::stream::synchronize(other) }.unwrap();
        if rank.rank == 1 {
            assert_eq!(gpu.download(&got), [1, 2]);
        }
    });
}

fn one_group_on_two_streams() {
    ranks(2, |rank| {
        let (gpu, other, peer) = (&rank.gpu, Gpu::stream(), 1 - rank.rank);
        let (sent, got) = (gpu.upload(&[rank.rank as u8; 8]), gpu.zeros::<u8>(8));
        gpu.synchronize().unwrap();
        let gate = Gate::close(other);
        group(|| {
            rank.send(sent.pointer, 4, peer);
            rank.receive(got.pointer, 4, peer);
            ok(ncclSend(sent.pointer, 2, BF16, peer, rank.comm, other));
            ok(ncclRecv(got.pointer + 4, 2, BF16, peer, rank.comm, other));
        });
        assert!(rank.hangs(), "the group waits for its other stream");
        gate.open();
        // The first stream is behind the whole group.
        assert_eq!(gpu.download(&got), [peer as u8; 8]);
    });
}

fn one_thread() {
    controls().set_devices(2);
    let gpus = [Gpu::open(0), Gpu::open(1)];
    let mut comms = [std::ptr::null_mut(); 2];
    ok(ncclCommInitAll(comms.as_mut_ptr(), 2, std::ptr::null()));
    let buffers = [0, 1].map(|i| {
        let _current = Gpu::open(i);
        gpus[i as usize].upload(&[i as u8 + 1; 4])
    });
    ok(ncclGroupStart());
    ok(ncclSend(buffers[0].pointer, 4, UINT8, 1, comms[0], gpus[0].stream));
    // Groups in a group end with the outermost one.
    ok(ncclGroupStart());
    ok(ncclRecv(buffers[1].pointer, 4, UINT8, 0, comms[1], gpus[1].stream));
    ok(ncclGroupEnd());
    ok(ncclGroupEnd());
    assert_eq!(gpus[1].download(&buffers[1]), [1; 4]);
    comms.into_iter().for_each(|comm| ok(ncclCommDestroy(comm)));
    controls().set_devices(1);
    Gpu::open(0);
}

fn the_default_stream() {
    ranks(2, |rank| {
        let gpu = &rank.gpu;
        let stream = result::stream::create(result::stream::StreamKind::Default).unwrap();
        let buffer = gpu.zeros::<u8>(4);
        gpu.synchronize().unwrap();
        let none = std::ptr::null_mut();
        let mut seen = [0u8; 4];
        // SAFETY: buffers have four bytes, and copies to pageable memory are done when they return.
        unsafe {
            if rank.rank == 0 {
                result::memset_d8_async(buffer.pointer, 9, 4, stream).unwrap();
                ok(ncclSend(buffer.pointer, 4, UINT8, 1, rank.comm, none));
            } else {
                ok(ncclRecv(buffer.pointer, 4, UINT8, 0, rank.comm, none));
            }
            result::memcpy_dtoh_async(&mut seen, buffer.pointer, stream).unwrap();
            result::stream::synchronize(none).unwrap();
        }
        assert_eq!(seen, [9; 4]);
    });
}

/// Groups of the same seed in all ranks, with several messages between two ranks in any order of pairs.
fn random_groups() {
    use rand::{RngExt as _, SeedableRng as _};
    const RANKS: i32 = 3;
    let seed = u64::from(std::process::id());
    eprintln!("seed {seed}");
    with_late_streams(|| {
        controls().set_delay_us(300);
        controls().set_seed(seed);
        ranks(RANKS, |rank| {
            let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            let gpu = &rank.gpu;
            for number in 0..60 {
                let count = random.random_range(1..12);
                let messages: Vec<(i32, i32, usize)> = (0..count)
                    .map(|_| {
                        let long = random.random_range(0..4) == 0;
                        let most = if long { 150_000 } else { 2000 };
                        (
                            random.random_range(0..RANKS),
                            random.random_range(0..RANKS),
                            random.random_range(0..most),
                        )
                    })
                    .collect();
                let mine = |from, to| {
                    move |&&(a, b, _): &&(i32, i32, usize)| (from && a == rank.rank) || (to && b == rank.rank)
                };
                let bytes = |from, to| {
                    messages
                        .iter()
                        .filter(mine(from, to))
                        .flat_map(|&(a, b, n)| pattern(a, b, n))
                        .chain([0])
                        .collect::<Vec<u8>>()
                };
                let (sent, expected) = (gpu.upload(&bytes(true, false)), bytes(false, true));
                let got = gpu.zeros::<u8>(expected.len());
                group(|| {
                    let (mut from, mut to) = (sent.pointer, got.pointer);
                    for &(a, b, n) in &messages {
                        if a == rank.rank {
                            rank.send(from, n, b);
                            from += n as u64;
                        }
                        if b == rank.rank {
                            rank.receive(to, n, a);
                            to += n as u64;
                        }
                    }
                });
                assert_eq!(gpu.download(&got), expected, "seed {seed}, group {number}");
            }
        });
    });
}
