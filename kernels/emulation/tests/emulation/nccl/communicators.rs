//! Communicators: how they are made, split, used while they are not ready, and ended.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use super::ranks::{
    Comm, Config, IN_PROGRESS, INVALID_ARGUMENT, INVALID_USAGE, Id, Rank, SUCCESS, UINT8, controls, group,
    last_error, ncclCommAbort, ncclCommCount, ncclCommCuDevice, ncclCommDestroy, ncclCommFinalize,
    ncclCommGetAsyncError, ncclCommInitAll, ncclCommInitRank, ncclCommInitRankConfig,
    ncclCommInitRankScalable, ncclCommSplit, ncclCommUserRank, ncclGroupEnd, ncclGroupStart, ncclMemAlloc,
    ncclMemFree, ncclRecv, ncclSend, ok, ranks, with_devices,
};
use crate::Test;
use crate::gpu::Gpu;

pub(crate) const TESTS: &[Test] = &[
    ("nccl::communicators::know_their_ranks", know_their_ranks),
    ("nccl::communicators::have_one_or_more_ids", several_ids),
    ("nccl::communicators::are_split_by_color_and_key", split),
    ("nccl::communicators::need_a_device_each", duplicates),
    ("nccl::communicators::that_do_not_block_are_ready_later", nonblocking),
    ("nccl::communicators::abort_ends_what_waits_on_the_host", abort_on_the_host),
    ("nccl::communicators::are_gone_once_they_are_ended", ended),
    ("nccl::communicators::refuse_what_makes_none", refused),
    ("nccl::communicators::allocations_are_those_of_the_driver", allocations),
];

fn get(function: fn(Comm, *mut i32) -> i32, comm: Comm) -> i32 {
    let mut value = -1;
    ok(function(comm, &raw mut value));
    value
}

fn know_their_ranks() {
    ranks(3, |rank| {
        assert_eq!(get(ncclCommCount, rank.comm), 3);
        assert_eq!(get(ncclCommUserRank, rank.comm), rank.rank);
        assert_eq!(get(ncclCommCuDevice, rank.comm), rank.rank);
        assert_eq!(rank.async_error(), SUCCESS);
    });
}

fn several_ids() {
    let others = super::ranks::unique_id();
    with_devices(2, |rank, id| {
        Gpu::open(rank);
        let (mut comm, ids) = (std::ptr::null_mut(), [id, others]);
        let init = |comm: *mut Comm, count| {
            ncclCommInitRankScalable(comm, 2, rank, count, ids.as_ptr(), std::ptr::null())
        };
        assert_eq!([0, 3].map(|count| init(&raw mut comm, count)), [INVALID_ARGUMENT; 2]);
        ok(init(&raw mut comm, 2));
        assert_eq!(get(ncclCommUserRank, comm), rank);
        ok(ncclCommDestroy(comm));
    });
}

fn split() {
    ranks(4, |rank| {
        // Twice, as a part of a part has a name of its own, too.
        let color = if rank.rank == 3 { -1 } else { rank.rank % 2 };
        let mut comm = std::ptr::dangling_mut();
        ok(ncclCommSplit(rank.comm, color, -rank.rank, &raw mut comm, std::ptr::null()));
        if color == -1 {
            assert!(comm.is_null());
            return;
        }
        let (size, place) = if color == 0 { (2, 1 - rank.rank / 2) } else { (1, 0) };
        assert_eq!((get(ncclCommCount, comm), get(ncclCommUserRank, comm)), (size, place));
        let mut again = std::ptr::null_mut();
        ok(ncclCommSplit(comm, 0, rank.rank, &raw mut again, std::ptr::null()));
        assert_eq!(get(ncclCommUserRank, again), if color == 0 { rank.rank / 2 } else { 0 });
        let (sent, got) = (rank.gpu.upload(&[rank.rank]), rank.gpu.zeros::<i32>(1));
        let peer = size - 1 - place;
        group(|| {
            ok(ncclSend(sent.pointer, 4, UINT8, peer, comm, rank.gpu.stream));
            ok(ncclRecv(got.pointer, 4, UINT8, peer, comm, rank.gpu.stream));
        });
        assert_eq!(rank.gpu.download(&got), [if color == 0 { 2 - rank.rank } else { 1 }]);
    });
}

fn init(size: i32, id: Id, rank: i32) -> (i32, Comm) {
    let mut comm = std::ptr::null_mut();
    (ncclCommInitRank(&raw mut comm, size, id, rank), comm)
}

fn duplicates() {
    let on_one_device = || {
        with_devices(2, |rank, id| {
            Gpu::open(0);
            let (result, comm) = init(2, id, rank);
            assert_eq!(comm.is_null(), result != SUCCESS);
            result
        })
    };
    assert_eq!(on_one_device(), [INVALID_USAGE; 2]);
    let expected = "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 0";
    assert!(last_error().contains(expected), "{}", last_error());
    // SAFETY: nothing else runs in this process, and threads of earlier tests do not look at the environment.
    unsafe { std::env::set_var("NCCL_MULTI_RANK_GPU_ENABLE", "1") };
    assert_eq!(on_one_device(), [SUCCESS; 2]);
    controls().set_nccl_version(22907);
    assert_eq!(on_one_device(), [INVALID_USAGE; 2]);
    controls().set_nccl_version(23007);
    // SAFETY: as above.
    unsafe { std::env::remove_var("NCCL_MULTI_RANK_GPU_ENABLE") };
}

fn nonblocking() {
    let both = Barrier::new(2);
    with_devices(2, |number, id| {
        let gpu = Gpu::open(number);
        let mut comm = std::ptr::null_mut();
        if number == 1 {
            both.wait();
        }
        let config = Config::nonblocking();
        assert_eq!(ncclCommInitRankConfig(&raw mut comm, 2, id, number, &raw const config), IN_PROGRESS);
        let rank = Rank { gpu, comm, rank: number };
        let too_early = || {
            let mut count = 0;
            assert_eq!(rank.async_error(), IN_PROGRESS);
            assert_eq!(ncclCommCount(comm, &raw mut count), INVALID_USAGE);
            assert_eq!(ncclSend(0, 0, UINT8, 0, comm, rank.gpu.stream), INVALID_USAGE);
        };
        if number == 0 {
            too_early();
            both.wait();
        }
        assert_eq!(rank.settle(), SUCCESS);
        let buffer = rank.gpu.upload(&[number as u8; 1]);
        let pass = || match number {
            0 => ncclSend(buffer.pointer, 1, UINT8, 1, comm, rank.gpu.stream),
            _ => ncclRecv(buffer.pointer, 1, UINT8, 0, comm, rank.gpu.stream),
        };
        if number == 1 {
            both.wait();
        }
        assert_eq!(pass(), IN_PROGRESS, "the peer is new");
        if number == 0 {
            too_early();
            both.wait();
        }
        assert_eq!(rank.settle(), SUCCESS);
        assert_eq!(pass(), SUCCESS, "the peer is known");
        assert_eq!(rank.gpu.download(&buffer), [0]);
        let mut part = std::ptr::null_mut();
        assert_eq!(ncclCommSplit(comm, 0, number, &raw mut part, std::ptr::null()), IN_PROGRESS);
        assert_eq!(rank.settle(), SUCCESS);
        let part = Rank { gpu: Gpu::open(number), comm: part, rank: number };
        assert_eq!(part.settle(), SUCCESS);
        assert_eq!(ncclCommFinalize(comm), IN_PROGRESS);
        assert_eq!(rank.settle(), SUCCESS);
        assert_eq!(pass(), INVALID_USAGE, "it was finalized");
        ok(ncclCommDestroy(comm));
        ok(ncclCommDestroy(part.comm));
    });
}

fn abort_on_the_host() {
    // A thread that waits for a peer in a group, and one that waits for ranks.
    let begun = Barrier::new(3);
    ranks(2, |rank| {
        if rank.rank == 1 {
            begun.wait();
            return;
        }
        let buffer = rank.gpu.zeros::<u8>(1);
        let comm = rank.comm.expose_provenance();
        std::thread::scope(|scope| {
            let aborts = || {
                begun.wait();
                std::thread::sleep(Duration::from_millis(50));
                ok(ncclCommAbort(std::ptr::with_exposed_provenance_mut(comm)));
                Instant::now()
            };
            let aborts = scope.spawn(aborts);
            begun.wait();
            let sent = ncclSend(buffer.pointer, 1, UINT8, 1, rank.comm, rank.gpu.stream);
            let ended = Instant::now();
            assert_eq!(sent, 3, "an internal error, as in NCCL");
            assert!(ended.duration_since(aborts.join().unwrap()) < Duration::from_secs(1));
        });
    });
    with_devices(2, |rank, id| {
        if rank == 1 {
            return;
        }
        Gpu::open(0);
        let mut comm = std::ptr::null_mut();
        let config = Config::nonblocking();
        assert_eq!(ncclCommInitRankConfig(&raw mut comm, 2, id, 0, &raw const config), IN_PROGRESS);
        std::thread::sleep(Duration::from_millis(20));
        let begin = Instant::now();
        ok(ncclCommAbort(comm));
        assert!(begin.elapsed() < Duration::from_secs(1));
    });
}

fn ended() {
    ranks(2, |rank| {
        let (gpu, peer) = (&rank.gpu, 1 - rank.rank);
        let (sent, got) = (gpu.upload(&[1u8; 4]), gpu.zeros::<u8>(4));
        group(|| {
            rank.send(sent.pointer, 4, peer);
            rank.receive(got.pointer, 4, peer);
        });
        ok(ncclCommFinalize(rank.comm));
        // SAFETY: emulated memory is the process's own, and the work that writes to it has ended.
        let first = unsafe { std::ptr::with_exposed_provenance::<u8>(got.pointer as usize).read_volatile() };
        assert_eq!(first, 1, "the work has ended");
        assert_eq!(ncclSend(sent.pointer, 4, UINT8, peer, rank.comm, gpu.stream), INVALID_USAGE);
        ok(ncclCommDestroy(rank.comm));
        let mut value = 0;
        assert_eq!(ncclCommDestroy(rank.comm), INVALID_ARGUMENT);
        assert_eq!(ncclCommGetAsyncError(rank.comm, &raw mut value), INVALID_ARGUMENT);
        ok(ncclCommDestroy(std::ptr::null_mut()));
    });
}

fn refused() {
    with_devices(2, |rank, id| {
        let expect = |size, id, rank, result, text: &str| {
            let (returned, comm) = init(size, id, rank);
            assert_eq!((returned, comm.is_null()), (result, true));
            assert!(last_error().contains(text), "{}", last_error());
        };
        if rank == 0 {
            Gpu::open(0);
            expect(2, id, 2, INVALID_ARGUMENT, "rank 2 of 2");
            expect(0, id, 0, INVALID_ARGUMENT, "rank 0 of 0");
            expect(1, Id([0; 128]), 0, INVALID_ARGUMENT, "no unique id");
            let mut comm = std::ptr::null_mut();
            // SAFETY: all of its fields are numbers.
            let empty: Config = unsafe { std::mem::zeroed() };
            assert_eq!(ncclCommInitRankConfig(&raw mut comm, 1, id, 0, &raw const empty), INVALID_ARGUMENT);
        }
    });
    let mut comms = [std::ptr::null_mut(); 2];
    let devices = [0, 7];
    assert_eq!(ncclCommInitAll(comms.as_mut_ptr(), 2, devices.as_ptr()), super::ranks::CUDA_ERROR);
    assert!(comms[0].is_null() && comms[1].is_null());
    // Communicators are not made in a group that uses others.
    let alone = ranks(1, |rank| {
        ok(ncclGroupStart());
        let mut part = std::ptr::null_mut();
        ok(ncclCommSplit(rank.comm, 0, 0, &raw mut part, std::ptr::null()));
        let buffer = rank.gpu.zeros::<u8>(2);
        rank.send(buffer.pointer, 1, 0);
        rank.receive(buffer.pointer + 1, 1, 0);
        ncclGroupEnd()
    });
    assert_eq!(alone, [INVALID_USAGE]);
}

fn allocations() {
    Gpu::open(0);
    let before = controls().live_allocations();
    let mut memory = 0;
    ok(ncclMemAlloc(&raw mut memory, 100));
    assert_eq!(controls().live_allocations(), before + 1);
    ok(ncclMemFree(memory));
    assert_eq!(controls().live_allocations(), before);
}
