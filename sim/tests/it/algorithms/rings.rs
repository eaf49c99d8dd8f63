//! Rings in channels, as many as nodes have NICs: n ranks, S bytes of a block, latency a.

use std::collections::BTreeMap;

use zipwire_cluster::Topology;
use zipwire_codec::DType;
use zipwire_schedule::plan::OpKind;
use zipwire_schedule::{Algorithm, SumType};

use crate::algorithms::call::{
    Call, GPU, INTER_S, INTRA_S, LAUNCH_S, NIC, REDUCE, all_gather, all_reduce, assert_close, assert_takes,
    broadcast, nodes, reduce_scatter,
};

/// Divides by all channels, slices and the 16 KiB at which parts begin.
const SHARD: u64 = 8 * 4 * 16 * 1024 * 3;

/// (n - 1)(a + S / (M B_nic)): each of M rings leaves a node through a NIC of its own and carries a part S / M of every block, so in
/// each step each NIC sends S / M. Ranks within a node wait for those at its end. The steps are one kernel, with one launch.
#[test]
fn an_all_gather_shares_the_nics() {
    for (node_count, gpus, nics) in
        [(2, 4, 1), (2, 4, 2), (2, 4, 4), (3, 4, 4), (4, 8, 8), (3, 6, 3), (4, 1, 1)]
    {
        let n = node_count * gpus;
        let call = Call::new(nodes(node_count, gpus, nics), all_gather(n, SHARD), Algorithm::Ring);
        let step_s = INTER_S + SHARD as f64 / f64::from(nics) / NIC;
        assert_takes(&call, f64::from(n - 1) * step_s);
        assert_takes(&call.launched(), LAUNCH_S + f64::from(n - 1) * step_s);
    }
}

/// (n - 1)(a_intra + S / B_gpu), where NICs are as fast as GPUs and one GPU has one NIC. In each step a GPU sends S: with L channels all but
/// a part of S / L within the node. That part begins when its latency is over, while the others move, and then has the link for itself; so
/// the link is busy from a_intra on.
#[test]
fn gpus_are_the_limit_where_nics_are_as_fast() {
    for (node_count, gpus) in [(2, 4), (4, 4), (2, 8)] {
        let n = node_count * gpus;
        let topology = Topology { nic_bandwidth: GPU, ..nodes(node_count, gpus, gpus) };
        let call = Call::new(topology, all_gather(n, SHARD), Algorithm::Ring);
        let hidden_s = SHARD as f64 * f64::from(gpus - 1) / f64::from(gpus) / GPU;
        assert!(hidden_s > INTER_S - INTRA_S, "parts within the node outlast the latency between nodes");
        assert_close(call.seconds(), f64::from(n - 1) * (INTRA_S + SHARD as f64 / GPU));
        // With one latency for all, it is also what is predicted.
        let topology = Topology { latency_intra_s: INTER_S, ..call.topology.clone() };
        let call = Call { topology, ..call };
        assert_takes(&call.launched(), LAUNCH_S + f64::from(n - 1) * (INTER_S + SHARD as f64 / GPU));
    }
}

/// (n - 1)(a + P / (M B_nic) + (P + S) / R) with shards of S bytes that travel as sums of P: a rank adds up what came of all
/// parts before it hands them on. If P is wider than S, values are first widened, S / R, in a kernel of its own.
#[test]
fn a_reduce_scatter_adds_up_between_steps() {
    for (node_count, gpus, nics) in [(1, 5, 1), (2, 4, 4), (3, 4, 4), (4, 1, 1)] {
        let n = node_count * gpus;
        for (dtype, sums, width, widens) in [
            (DType::F32, SumType::Fp32, 1.0, 0.0),
            (DType::Bf16, SumType::Fp32, 2.0, 1.0),
            (DType::Bf16, SumType::Sent, 1.0, 0.0),
        ] {
            let s = SHARD as f64;
            let work = reduce_scatter(n, dtype, SHARD);
            let call = Call::new(nodes(node_count, gpus, nics), work, Algorithm::Ring).sums(sums);
            let (latency_s, link) =
                if node_count == 1 { (INTRA_S, GPU) } else { (INTER_S, NIC * f64::from(nics)) };
            let step_s = latency_s + width * s / link + (1.0 + width) * s / REDUCE;
            let expected = widens * s / REDUCE + f64::from(n - 1) * step_s;
            assert_takes(&call, expected);
            assert_takes(&call.launched(), expected + (1.0 + widens) * LAUNCH_S);
        }
    }
}

/// With k >= 2 slices one is added up while the next travels. Of a slice, an exchange takes e = a + S / (k M B) and a sum u = 2 S / (k R).
/// Exchanges follow one another on their lane, and sums on theirs. A slice comes by again k exchanges later, e + u <= 2 max(e, u) after it
/// began, so the slower lane never waits: it works (n - 1) k max(e, u), and the faster one adds the first or the last min(e, u).
#[test]
fn slices_are_added_up_while_others_travel() {
    let slow = REDUCE / 64.0;
    for reduce in [REDUCE, slow] {
        for (node_count, gpus, nics) in [(1, 4, 1), (2, 4, 4)] {
            for slices in [2, 4] {
                let n = node_count * gpus;
                let work = reduce_scatter(n, DType::F32, SHARD);
                let call = Call::new(nodes(node_count, gpus, nics), work, Algorithm::Ring);
                let call = Call { reduce, ..call.slices(slices).launched() };
                let (latency_s, link) =
                    if node_count == 1 { (INTRA_S, GPU) } else { (INTER_S, NIC * f64::from(nics)) };
                let slice = SHARD as f64 / f64::from(slices);
                let (e, u) = (latency_s + slice / link, 2.0 * slice / reduce);
                assert!(if reduce == slow { u > e } else { u < e }, "both lanes are the slower one once");
                let steps = f64::from((n - 1) * slices);
                assert_takes(&call, LAUNCH_S + steps * e.max(u) + e.min(u));
            }
        }
    }
}

/// A Reduce-Scatter and an All-Gather in the same kernel, with one launch. Slices are gathered all at once, in the type of the
/// contributions, when the last sum is made: (n - 1)(a + S / B) more.
#[test]
fn an_all_reduce_goes_on_in_the_same_kernel() {
    for (node_count, gpus, nics) in [(1, 4, 1), (2, 4, 4), (3, 4, 4)] {
        let n = node_count * gpus;
        let call = |slices| {
            let work = all_reduce(n, DType::F32, SHARD);
            Call::new(nodes(node_count, gpus, nics), work, Algorithm::Ring).slices(slices).launched()
        };
        let (latency_s, link) =
            if node_count == 1 { (INTRA_S, GPU) } else { (INTER_S, NIC * f64::from(nics)) };
        let (steps, s) = (f64::from(n - 1), SHARD as f64);
        let gather_s = steps * (latency_s + s / link);
        assert_takes(&call(1), LAUNCH_S + steps * (latency_s + s / link + 2.0 * s / REDUCE) + gather_s);
        for slices in [2, 4] {
            let k = f64::from(slices);
            let scatter_s = steps * k * (latency_s + s / k / link) + 2.0 * s / k / REDUCE;
            assert_takes(&call(slices), LAUNCH_S + scatter_s + gather_s);
        }
    }
}

/// Bytes that each NIC sends and receives in a plan, by the links of its routes.
fn nic_bytes(call: &Call) -> BTreeMap<String, u64> {
    let topology = &call.topology;
    let nics = topology.links().filter(|&link| topology.link_name(link).starts_with("nic"));
    let mut bytes: BTreeMap<String, u64> = nics.map(|link| (topology.link_name(link), 0)).collect();
    for program in &call.plan().programs {
        for op in &program.ops {
            let OpKind::Exchange(exchange) = &op.kind else { continue };
            for send in &exchange.sends {
                let len = send.content.region().map_or(0, |region| region.len);
                for &link in topology.route(program.rank, send.peer).links() {
                    if let Some(bytes) = bytes.get_mut(&topology.link_name(link)) {
                        *bytes += len;
                    }
                }
            }
        }
    }
    bytes
}

/// 1 GiB on 4 x 8 with 8 NICs: every NIC carries the same in both directions, within 2 %.
#[test]
fn all_nics_carry_the_same() {
    let gib = 1_u64 << 30;
    for (node_count, gpus, nics) in [(4, 8, 8), (4, 8, 4), (3, 4, 4)] {
        let n = node_count * gpus;
        // Whole values.
        let shard = gib / u64::from(n) / 2 * 2;
        for work in
            [all_gather(n, shard), reduce_scatter(n, DType::Bf16, shard), all_reduce(n, DType::Bf16, shard)]
        {
            let call = Call::new(nodes(node_count, gpus, nics), work, Algorithm::Ring);
            let bytes = nic_bytes(&call);
            let (least, most) = (bytes.values().min().unwrap(), bytes.values().max().unwrap());
            assert_eq!(bytes.len() as u32, 2 * node_count * nics);
            assert!(*least as f64 >= 0.98 * *most as f64, "{:?}: {bytes:?}", call.work);
        }
        // A chain ends in front of its root, so what leaves and enters nodes differs by node, but not by rail.
        let bytes = nic_bytes(&Call::new(
            nodes(node_count, gpus, nics),
            broadcast(node_count * gpus, gib, 0),
            Algorithm::Ring,
        ));
        let moved: Vec<u64> = bytes.into_values().filter(|&bytes| bytes > 0).collect();
        let (least, most) = (moved.iter().min().unwrap(), moved.iter().max().unwrap());
        assert!(*least as f64 >= 0.98 * *most as f64, "{moved:?}");
    }
}
