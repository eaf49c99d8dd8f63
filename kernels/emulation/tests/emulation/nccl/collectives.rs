//! Collectives, compared with a plain reference.

use super::ranks::{
    BF16, F16, F32, INT32, Rank, SUM, UINT8, controls, group, ncclAllGather, ncclAllReduce, ncclAlltoAll,
    ncclBcast, ncclBroadcast, ncclGather, ncclReduce, ncclReduceScatter, ncclScatter, ok, ranks,
};
use crate::Test;
use crate::gpu::Buffer;

pub(crate) const TESTS: &[Test] = &[
    ("nccl::collectives::move_what_they_should", moves),
    ("nccl::collectives::reduce_in_the_order_of_ranks", reductions),
    ("nccl::collectives::of_16_bits_round_once", rounding),
    ("nccl::collectives::work_in_place", in_place),
    ("nccl::collectives::share_a_group_with_messages", share_a_group),
    ("nccl::collectives::of_nothing_return_at_once", of_nothing),
];

const RANKS: i32 = 3;
/// Above what a send may be ahead.
const COUNT: usize = 70_001;

fn block(from: i32, to: i32) -> Vec<u8> {
    (0..COUNT).map(|i| (i as i32 * 3 + from * 50 + to * 7) as u8).collect()
}

fn blocks(of: impl Fn(i32) -> Vec<u8>) -> Vec<u8> {
    (0..RANKS).flat_map(of).collect()
}

fn moves() {
    ranks(RANKS, |rank| {
        let (gpu, me) = (&rank.gpu, rank.rank);
        let (comm, stream) = (rank.comm, gpu.stream);
        let sent = gpu.upload(&blocks(|to| block(me, to)));
        let check = |name: &str, call: &dyn Fn(u64, u64) -> i32, expected: Option<Vec<u8>>| {
            let got = gpu.zeros::<u8>(RANKS as usize * COUNT);
            ok(call(sent.pointer, got.pointer));
            let mut expected = expected.unwrap_or_default();
            expected.resize(got.len, 0);
            assert!(gpu.download(&got) == expected, "{name} on rank {me}");
        };
        check(
            "all-gather",
            &|s, r| ncclAllGather(s, r, COUNT, UINT8, comm, stream),
            Some(blocks(|i| block(i, 0))),
        );
        check(
            "all-to-all",
            &|s, r| ncclAlltoAll(s, r, COUNT, UINT8, comm, stream),
            Some(blocks(|i| block(i, me))),
        );
        for root in 0..RANKS {
            let at_root = |bytes| (me == root).then_some(bytes);
            check(
                "broadcast",
                &|s, r| ncclBroadcast(s, r, COUNT, UINT8, root, comm, stream),
                Some(block(root, 0)),
            );
            check(
                "gather",
                &|s, r| ncclGather(s, r, COUNT, UINT8, root, comm, stream),
                at_root(blocks(|i| block(i, 0))),
            );
            check(
                "scatter",
                &|s, r| ncclScatter(s, r, COUNT, UINT8, root, comm, stream),
                Some(block(root, me)),
            );
        }
    });
}

fn reduce_all<T: Copy + Default>(rank: &Rank, values: &[T], kind: i32, op: i32) -> Vec<T> {
    let sent = rank.gpu.upload(values);
    let got: Buffer<T> = rank.gpu.zeros(values.len());
    ok(ncclAllReduce(sent.pointer, got.pointer, values.len(), kind, op, rank.comm, rank.gpu.stream));
    rank.gpu.download(&got)
}

fn reductions() {
    ranks(RANKS, |rank| {
        let whole = |rank: i32| [1, -2, 3 + rank, 5 * rank];
        let results = [0, 1, 2, 3].map(|op| reduce_all(rank, &whole(rank.rank), INT32, op));
        let expected = [[3, -6, 12, 15], [1, -8, 60, 0], [1, -2, 5, 10], [1, -2, 3, 0]];
        assert_eq!(results, expected.map(Vec::from));
        // Floating point tells the order: (big + small) - big is not small.
        let parts = [1e8f32, 3.0, -1e8];
        let sum = reduce_all(rank, &[parts[rank.rank as usize]], F32, SUM);
        assert_eq!(sum, [(parts[0] + parts[1]) + parts[2]]);
        assert_eq!(reduce_all(rank, &[rank.rank as f32], F32, 4), [1.0], "mean");
        let (gpu, me) = (&rank.gpu, rank.rank);
        let sent = gpu.upload(&(0..6).map(|i| i * 10 + me).collect::<Vec<i32>>());
        let got = gpu.zeros::<i32>(2);
        ok(ncclReduceScatter(sent.pointer, got.pointer, 2, INT32, SUM, rank.comm, gpu.stream));
        assert_eq!(gpu.download(&got), [60 * me + 3, 60 * me + 33]);
        ok(ncclReduce(sent.pointer, got.pointer, 2, INT32, SUM, 1, rank.comm, gpu.stream));
        assert_eq!(gpu.download(&got), if me == 1 { [3, 33] } else { [60 * me + 3, 60 * me + 33] });
    });
}

fn rounding() {
    ranks(RANKS, |rank| {
        // 256 + 1 + 1 in bf16: each sum alone would be rounded down to 256.
        let bf16 = [0x4380u16, 0x3f80, 0x3f80][rank.rank as usize];
        assert_eq!(reduce_all(rank, &[bf16], BF16, SUM), [0x4381]);
        // 2048 + 1 + 1 in f16, the smallest value three times, and what is too large.
        let f16 = [[0x6800u16, 0x3c00, 0x3c00][rank.rank as usize], 1, 0x7bff];
        assert_eq!(reduce_all(rank, &f16, F16, SUM), [0x6801, 3, 0x7c00]);
    });
}

fn in_place() {
    ranks(RANKS, |rank| {
        let (gpu, me, comm, stream) = (&rank.gpu, rank.rank, rank.comm, rank.gpu.stream);
        let own = (me as usize * COUNT) as u64;
        let buffer = gpu.upload(&blocks(|to| block(me, to)));
        ok(ncclAllGather(buffer.pointer + own, buffer.pointer, COUNT, UINT8, comm, stream));
        assert!(gpu.download(&buffer) == blocks(|i| block(i, i)));
        ok(ncclBcast(buffer.pointer, COUNT, UINT8, 2, comm, stream));
        let first = gpu.download(&buffer);
        assert!(first[..COUNT] == block(0, 0));
        let sums = gpu.upload(&[me + 1, 10 * me, 100]);
        ok(ncclReduceScatter(sums.pointer, sums.pointer + 4 * me as u64, 1, INT32, SUM, comm, stream));
        assert_eq!(gpu.download(&sums)[me as usize], [6, 30, 300][me as usize]);
        let sums = gpu.upload(&[me; COUNT]);
        ok(ncclAllReduce(sums.pointer, sums.pointer, COUNT, INT32, SUM, comm, stream));
        assert!(gpu.download(&sums) == [3; COUNT]);
    });
}

fn share_a_group() {
    controls().set_delay_us(500);
    ranks(RANKS, |rank| {
        let (gpu, me) = (&rank.gpu, rank.rank);
        let sums = gpu.upload(&[me]);
        let (sent, got) = (gpu.upload(&[me; 4]), gpu.zeros::<i32>(4));
        group(|| {
            rank.send(sent.pointer, 16, (me + 1) % RANKS);
            ok(ncclAllReduce(sums.pointer, sums.pointer, 1, INT32, SUM, rank.comm, gpu.stream));
            rank.receive(got.pointer, 16, (me + RANKS - 1) % RANKS);
        });
        assert_eq!(gpu.download(&got), [(me + RANKS - 1) % RANKS; 4]);
        assert_eq!(gpu.download(&sums), [3]);
    });
    controls().set_delay_us(0);
}

fn of_nothing() {
    let before = controls().nccl_groups();
    ranks(2, |rank| {
        if rank.rank == 0 {
            ok(ncclAllReduce(0, 0, 0, INT32, SUM, rank.comm, rank.gpu.stream));
            rank.gpu.synchronize().unwrap();
        }
    });
    assert_eq!(controls().nccl_groups(), before);
}
