//! Calls that are wrong, or that differ between ranks, and planted faults.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use zipwire_emulation::{Scene, scene};

use super::ranks::{
    CUDA_ERROR, F32, INT32, INVALID_ARGUMENT, INVALID_USAGE, Rank, SUCCESS, SUM, SYSTEM_ERROR, UINT8,
    controls, group, last_error, library, ncclAllGather, ncclAllReduce, ncclAlltoAll, ncclBroadcast,
    ncclCommAbort, ncclCommInitRank, ncclGetVersion, ncclGroupEnd, ncclGroupStart, ncclMemAlloc, ncclRecv,
    ncclSend, ok, ranks, with_devices,
};
use crate::Test;
use crate::gpu::Gpu;

pub(crate) const TESTS: &[Test] = &[
    ("nccl::faults::ranks_that_differ_are_named", ranks_that_differ),
    ("nccl::faults::a_receive_of_another_length_is_named", another_length),
    ("nccl::faults::wrong_arguments_are_refused", wrong_arguments),
    ("nccl::faults::a_wrong_call_spoils_its_group", a_wrong_call),
    ("nccl::faults::versions_have_their_functions", versions),
    ("nccl::faults::planted_ones_come_once", planted_ones),
    ("nccl::faults::the_environment_plants_them", the_environment),
    ("nccl::faults::a_planted_asynchronous_error_needs_an_abort", asynchronous),
    ("nccl::faults::names_are_weak_and_have_strong_twins", names),
];

pub(crate) const SCENES: &[Scene] = &[
    Scene { name: "nccl-differ", run: differ },
    Scene { name: "nccl-length", run: length },
    Scene { name: "nccl-planted", run: planted },
];

/// Rank 1 of three calls otherwise than the others, in turn in all that they must agree about.
fn differ() -> ExitCode {
    let calls: [fn(&Rank, u64, bool) -> i32; 5] = [
        |rank, at, odd| {
            ncclAllReduce(at, at, if odd { 3 } else { 4 }, INT32, SUM, rank.comm, rank.gpu.stream)
        },
        |rank, at, odd| {
            ncclAllReduce(at, at, 4, if odd { F32 } else { INT32 }, SUM, rank.comm, rank.gpu.stream)
        },
        |rank, at, odd| ncclAllReduce(at, at, 4, INT32, i32::from(odd), rank.comm, rank.gpu.stream),
        |rank, at, odd| ncclBroadcast(at, at, 4, INT32, i32::from(odd), rank.comm, rank.gpu.stream),
        |rank, at, odd| match odd {
            true => ncclAllReduce(at, at, 4, INT32, SUM, rank.comm, rank.gpu.stream),
            false => ncclAllGather(at, at, 4, INT32, rank.comm, rank.gpu.stream),
        },
    ];
    for call in calls {
        ranks(3, |rank| {
            let buffer = rank.gpu.zeros::<i32>(12);
            ok(call(rank, buffer.pointer, rank.rank == 1));
            rank.gpu.synchronize().unwrap();
            assert_eq!(rank.async_error(), INVALID_USAGE);
            assert_eq!(call(rank, buffer.pointer, false), INVALID_USAGE, "it stays");
            ok(ncclCommAbort(rank.comm));
        });
    }
    ExitCode::SUCCESS
}

fn said(name: &str) -> String {
    let output = scene(name).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

fn ranks_that_differ() {
    let said = said("nccl-differ");
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("do not make the same call")).collect();
    let expected = [
        ["rank 0 ncclAllReduce of 4 values of type 2, reduction 0", "rank 1 ncclAllReduce of 3 values"],
        ["rank 0 ncclAllReduce of 4 values of type 2", "rank 1 ncclAllReduce of 4 values of type 7"],
        ["reduction 0;", "rank 1 ncclAllReduce of 4 values of type 2, reduction 1"],
        ["root 0;", "rank 1 ncclBroadcast of 4 values of type 2, root 1"],
        ["rank 0 ncclAllGather of 4 values", "rank 1 ncclAllReduce of 4 values"],
    ];
    assert_eq!(lines.len(), expected.len(), "{said}");
    for (line, parts) in lines.iter().zip(expected) {
        assert!(parts.iter().all(|part| line.contains(part)), "{parts:?} in {line}");
    }
}

fn length() -> ExitCode {
    ranks(2, |rank| {
        let buffer = rank.gpu.zeros::<u8>(8);
        match rank.rank {
            0 => rank.send(buffer.pointer, 8, 1),
            _ => rank.receive(buffer.pointer, 7, 0),
        }
        rank.gpu.synchronize().unwrap();
        // The sender may be through before its receiver looks.
        while rank.async_error() == SUCCESS {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(rank.async_error(), INVALID_USAGE);
    });
    ExitCode::SUCCESS
}

fn another_length() {
    let said = said("nccl-length");
    assert!(said.contains("rank 1 receives 7 bytes from rank 0, which sends 8"), "{said}");
}

fn wrong_arguments() {
    ranks(1, |rank| {
        let (comm, stream) = (rank.comm, rank.gpu.stream);
        let buffer = rank.gpu.zeros::<u8>(8);
        let host = [0u8; 8];
        let refused = |result, text: &str| {
            assert_eq!(result, INVALID_ARGUMENT);
            assert!(last_error().contains(text), "{}", last_error());
        };
        refused(ncclSend(buffer.pointer, 8, UINT8, 1, comm, stream), "there is no rank 1");
        refused(ncclSend(buffer.pointer, 8, 12, 0, comm, stream), "unknown type 12");
        refused(ncclSend(buffer.pointer, 9, UINT8, 0, comm, stream), "send buffer");
        refused(ncclRecv(host.as_ptr().addr() as u64, 8, UINT8, 0, comm, stream), "receive buffer");
        refused(
            ncclAllReduce(buffer.pointer, buffer.pointer, 2, INT32, 5, comm, stream),
            "unknown reduction 5",
        );
        refused(
            ncclAllReduce(buffer.pointer, buffer.pointer, 2, 10, SUM, comm, stream),
            "8 bits of floating point",
        );
        refused(
            ncclSend(buffer.pointer, 8, UINT8, 0, std::ptr::dangling_mut(), stream),
            "unknown communicator",
        );
    });
}

fn a_wrong_call() {
    assert_eq!(ncclGroupEnd(), INVALID_USAGE, "there is none");
    ranks(1, |rank| {
        let (sent, got) = (rank.gpu.upload(&[1u8]), rank.gpu.zeros::<u8>(1));
        ok(ncclGroupStart());
        rank.send(sent.pointer, 1, 0);
        rank.receive(got.pointer, 1, 0);
        assert_eq!(ncclSend(sent.pointer, 1, UINT8, 9, rank.comm, rank.gpu.stream), INVALID_ARGUMENT);
        assert_eq!(ncclGroupEnd(), INVALID_ARGUMENT);
        assert_eq!(rank.gpu.download(&got), [0], "nothing of the group runs");
        // A send to itself needs its receive in the same group.
        assert_eq!(ncclSend(sent.pointer, 1, UINT8, 0, rank.comm, rank.gpu.stream), INVALID_USAGE);
        group(|| {
            rank.receive(got.pointer, 1, 0);
            rank.send(sent.pointer, 1, 0);
        });
        assert_eq!(rank.gpu.download(&got), [1]);
    });
}

fn versions() {
    let version = || {
        let mut version = 0;
        ok(ncclGetVersion(&raw mut version));
        version
    };
    assert_eq!(version(), 23007);
    ranks(1, |rank| {
        let buffer = rank.gpu.zeros::<u8>(2);
        let call = || ncclAlltoAll(buffer.pointer, buffer.pointer + 1, 1, UINT8, rank.comm, rank.gpu.stream);
        ok(call());
        controls().set_nccl_version(22707);
        assert_eq!((version(), call()), (22707, INVALID_USAGE));
        assert!(last_error().contains("not in this version"));
        controls().set_nccl_version(23007);
    });
}

fn planted_ones() {
    ranks(1, |rank| {
        let (sent, got) = (rank.gpu.zeros::<u8>(9), rank.gpu.zeros::<u8>(9));
        let pass = || {
            ok(ncclGroupStart());
            let results = [
                ncclSend(sent.pointer, 9, UINT8, 0, rank.comm, rank.gpu.stream),
                ncclRecv(got.pointer, 9, UINT8, 0, rank.comm, rank.gpu.stream),
                ncclGroupEnd(),
            ];
            rank.gpu.synchronize().unwrap();
            results
        };
        controls().fail_nccl("ncclRecv", 2);
        assert_eq!(
            [pass(), pass(), pass()],
            [[SUCCESS; 3], [SUCCESS, SYSTEM_ERROR, SYSTEM_ERROR], [SUCCESS; 3]]
        );
        controls().fail_nccl("ncclGroupEnd", 1);
        assert_eq!(pass(), [SUCCESS, SUCCESS, SYSTEM_ERROR]);
        let before = (controls().nccl_messages(), controls().nccl_bytes());
        controls().corrupt_nccl_message(2);
        let sums = [0; 3].map(|_| {
            assert_eq!(pass(), [SUCCESS; 3]);
            rank.gpu.download(&got).iter().map(|byte| u32::from(*byte)).sum::<u32>()
        });
        assert_eq!(sums, [0, 1, 0]);
        assert_eq!((controls().nccl_messages(), controls().nccl_bytes()), (before.0 + 3, before.1 + 27));
        let mut memory = 0;
        controls().exhaust_nccl(2);
        let results = [0; 3].map(|_| ncclMemAlloc(&raw mut memory, 8));
        assert_eq!(results, [SUCCESS, CUDA_ERROR, SUCCESS]);
    });
    controls().exhaust_nccl(1);
    let without_memory = with_devices(1, |rank, id| {
        Gpu::open(rank);
        let mut comm = std::ptr::null_mut();
        ncclCommInitRank(&raw mut comm, 1, id, rank)
    });
    assert_eq!(without_memory, [CUDA_ERROR]);
    assert!(last_error().contains("out of memory"));
}

/// Prints the results of calls.
fn planted() -> ExitCode {
    let (mut version, mut memory) = (0, 0);
    Gpu::open(0);
    let results = [0; 3].map(|_| ncclGetVersion(&raw mut version));
    println!("{results:?} {version} {}", ncclMemAlloc(&raw mut memory, 8));
    ExitCode::SUCCESS
}

fn the_environment() {
    let says = |name: &str, value: &str, expected: &str| {
        let output = scene("nccl-planted").env(name, value).output().unwrap();
        let said =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        assert!(said.contains(expected), "{name}={value}: {said}");
    };
    says("FAKENCCL_VERSION", "", "[0, 0, 0] 23007 0");
    says("FAKENCCL_VERSION", "21907", "[0, 0, 0] 21907 0");
    says("FAKENCCL_FAIL", "ncclSend:1,ncclGetVersion:3", "[0, 0, 2]");
    says("FAKENCCL_FAIL", "ncclSend", "expected FUNCTION:NUMBER");
    says("FAKENCCL_OOM", "1", "23007 1");
}

fn asynchronous() {
    ranks(2, |rank| {
        let peer = 1 - rank.rank;
        let buffer = rank.gpu.zeros::<u8>(2);
        let pass = || {
            group(|| {
                rank.send(buffer.pointer, 1, peer);
                rank.receive(buffer.pointer + 1, 1, peer);
            });
        };
        pass();
        rank.gpu.synchronize().unwrap();
        // The groups of both ranks count: that of the faster rank is the next.
        controls().fail_nccl_group(1);
        pass();
        assert!(rank.hangs(), "an error of one rank leaves the other one waiting");
        let begin = Instant::now();
        let error = rank.async_error();
        ok(ncclCommAbort(rank.comm));
        rank.gpu.synchronize().unwrap();
        assert!(begin.elapsed() < Duration::from_secs(1));
        error
    })
    .iter()
    .for_each(|error| assert!([SUCCESS, SYSTEM_ERROR].contains(error)));
    controls().fail_nccl_group(0);
}

/// Functions that a library between a program and NCCL needs, and those that PyTorch 2.15 asks for, are there.
fn names() {
    const TORCH: &str = include_str!("torch.txt");
    for name in TORCH.split_whitespace() {
        for name in [name.to_owned(), format!("p{name}")] {
            // SAFETY: the symbol is only looked for.
            let found = unsafe { library().get::<unsafe extern "C" fn()>(name.as_bytes()) };
            assert!(found.is_ok(), "there is no {name}");
        }
    }
    // SAFETY: the function takes nothing that it looks at.
    unsafe {
        let grow = library().get::<unsafe extern "C" fn() -> i32>(b"ncclCommGrow\0").unwrap();
        assert_eq!(grow(), INVALID_USAGE);
    }
    assert!(last_error().contains("ncclCommGrow: the fake does not have it"), "{}", last_error());
}
