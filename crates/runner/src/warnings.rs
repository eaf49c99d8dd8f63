//! Which assumptions the numbers of a run rest on, in words: what the experiment says of its inputs ([`Experiment::warnings`]), and what
//! only its plans and its simulated results show.

use std::collections::BTreeMap;

use zipwire_cluster::{CallCost, Fabric, Rank, Topology};
use zipwire_scenarios::{Experiment, Variant};
use zipwire_schedule::{Algorithm, Plan};
use zipwire_traces::Executors;

use crate::executors::SIM;
use crate::split::coded;
use crate::{Cancel, ExecuteError, Prepared};

/// Seconds in which a host learns sizes that have arrived at a GPU: what all presets have, fitted to ZipCCL's testbed.
const TYPICAL_SYNC_S: f64 = 60e-6;
/// Changes of a speedup below this, as a part of it, are none.
const NOTHING: f64 = 0.005;
/// A NIC that carries less than this part of what the busiest one does is idle.
const IDLE: f64 = 0.01;

/// Warnings about assumptions that the numbers rest on, most telling first: at most one of a kind, each a sentence without a full stop that
/// says what to do. With `may_simulate`, further simulations show how much a speedup depends on an assumption.
///
/// # Errors
/// If a simulation is interrupted, or takes more memory than there is.
pub fn warnings(
    executors: &Executors,
    prepared: &mut Prepared<'_>,
    may_simulate: bool,
    cancel: &Cancel,
) -> Result<Vec<String>, ExecuteError> {
    let experiment = prepared.experiment();
    let mut warnings = experiment.warnings();
    if experiment.variants.iter().any(|variant| executors.get(SIM.name(), &variant.name).is_some()) {
        warnings.extend(fast_calls(prepared));
        warnings.extend(idle_nics(prepared));
        warnings.extend(crossed_gpus(prepared));
        let free_look = free_look(executors, prepared, may_simulate, cancel)?;
        warnings.extend(free_look.or_else(|| free_launch(experiment)));
        warnings.extend(stated_ratio(experiment));
    }
    Ok(warnings)
}

/// A declared cost of a library's call that links of GPUs and NICs, as they are declared, are too slow for: links decide.
fn fast_calls(prepared: &Prepared<'_>) -> Option<String> {
    let Experiment { topology, host, .. } = prepared.experiment();
    let nominal = Topology { link_bandwidths: BTreeMap::new(), ..topology.clone() };
    let capacities = nominal.capacities();
    prepared.variants().find_map(|(variant, planned)| {
        let mut calls = planned.plan.programs[0].ops.iter().filter_map(|op| op.kind.library());
        calls.find_map(|call| {
            let name = call.collective.name();
            let is_whole = call.group.is_all(topology.ranks());
            if !is_whole || !matches!(host.library.of(call.collective, call.group.count)?, CallCost::Declared(_)) {
                return None;
            }
            let mut activity = host.library.activity(call.collective, &nominal, 1 << 30)?;
            activity.demand.retain(|(link, _)| nominal.is_port(*link));
            let (declared_s, ports_s) = (activity.moving_s, activity.alone_s(&capacities) - activity.latency_s);
            (ports_s > declared_s * (1.0 + NOTHING)).then(|| {
                format!(
                    "`{}` takes {:.2} times as long as `cluster.library.{name}.bandwidth` says: GPUs and NICs of this cluster carry no more",
                    variant.name,
                    ports_s / declared_s
                )
            })
        })
    })
}

/// Steps of a ring in rank order that cross other GPUs, in a mesh without switches.
fn crossed_gpus(prepared: &Prepared<'_>) -> Option<String> {
    let topology = &prepared.experiment().topology;
    let Fabric::Graph(graph) = &topology.fabric else { return None };
    let ranks = topology.ranks();
    let ends = (0..ranks).map(|rank| (Rank(rank), Rank((rank + 1) % ranks)));
    let (src, dst) = ends.into_iter().find(|&(src, dst)| graph.crosses_gpus(src, dst))?;
    let is_ring =
        |variant: &Variant| variant.ways.iter().flatten().any(|way| way.algorithm == Algorithm::Ring);
    let (variant, _) = prepared.variants().find(|(variant, _)| is_ring(variant))?;
    Some(format!(
        "`{}` sends from `gpu {src}` to `gpu {dst}` over links of other GPUs: rings go in the order of the ranks, where a library \
         searches for rings along links and is faster; number the GPUs along such a ring",
        variant.name
    ))
}

/// NICs that a library would use: those over which the rings, trees and levels of a variant move next to nothing.
fn idle_nics(prepared: &Prepared<'_>) -> Option<String> {
    let experiment = prepared.experiment();
    let topology = &experiment.topology;
    // Inside a domain of several nodes nobody wants their NICs.
    let has_one_use = topology.nodes > 1 && topology.nodes_per_domain == 1;
    if !has_one_use || topology.nics_per_node < 2 || !topology.fabric.has_nics() {
        return None;
    }
    let count = (topology.nodes * topology.nics_per_node) as usize;
    prepared.variants().filter(|(variant, _)| !variant.is_adaptive()).find_map(|(variant, planned)| {
        let carried = nic_bytes(experiment, variant, &planned.plan);
        let busiest = carried.values().copied().max()?;
        let used = carried.values().filter(|&&bytes| bytes as f64 >= IDLE * busiest as f64).count();
        (used < count).then(|| {
            format!(
                "`{}` leaves {} of {count} NICs idle, which a library would use and be faster: set `channels = {}` or another \
                 `algorithm`",
                variant.name,
                count - used,
                topology.nics_per_node
            )
        })
    })
}

/// Bytes before compression that cross each NIC, either way, in an iteration of a variant; of calls whose way is one of several. Explicit
/// flows and All-to-Alls go where their bytes belong, by whatever library.
fn nic_bytes(experiment: &Experiment, variant: &Variant, plan: &Plan) -> BTreeMap<u32, u64> {
    let topology = &experiment.topology;
    let links = topology.folded(&plan.symmetry);
    // By link that stands for all that are like it.
    let mut by_place = vec![0; links.links().len()];
    for program in &plan.programs {
        let ops = program.ops.iter().filter(|op| variant.ways[op.segment.index()].is_some());
        for send in ops.filter_map(|op| op.kind.exchange()).flat_map(|exchange| &exchange.sends) {
            let bytes = send.content.region().map_or(0, |region| region.len) * u64::from(send.times);
            for &link in topology.route(program.rank, send.peer).links() {
                let place = links.place(link).index();
                by_place[place] += bytes * u64::from(links.links()[place].crossed);
            }
        }
    }
    let mut carried = BTreeMap::new();
    for link in topology.links() {
        let bytes = by_place[links.place(link).index()];
        if let Some(nic) = topology.nic_of(link).filter(|_| bytes > 0) {
            *carried.entry(nic).or_default() += bytes;
        }
    }
    carried
}

/// A coded variant whose host waits for sizes, on a cluster where that takes no time; and what it would be if it did.
fn free_look(
    executors: &Executors,
    prepared: &mut Prepared<'_>,
    may_simulate: bool,
    cancel: &Cancel,
) -> Result<Option<String>, ExecuteError> {
    let experiment = prepared.experiment();
    if experiment.host.sync_s > 0.0 {
        return Ok(None);
    }
    let mut worst: Option<(&Variant, f64, Option<f64>)> = None;
    for (index, variant) in coded(experiment, executors) {
        let result = executors.get(SIM.name(), &variant.name);
        let Some((now, mean_s)) =
            result.and_then(|result| Some((result.speedup?, result.metrics.iteration_s.mean)))
        else {
            continue;
        };
        if !looks_at_sizes(&prepared.planned(index).plan) {
            continue;
        }
        let then = if may_simulate {
            let changed = experiment.with_changed(|changed| changed.host.sync_s = TYPICAL_SYNC_S);
            Some(now * mean_s / prepared.mean_s_in(&changed, &changed.variants[index], index, cancel)?)
        } else {
            None
        };
        let loss = |now: f64, then: Option<f64>| then.map_or(f64::INFINITY, |then| now / then - 1.0);
        if loss(now, then) > worst.map_or(NOTHING, |(_, now, then)| loss(now, then)) {
            worst = Some((variant, now, then));
        }
    }
    Ok(worst.map(|(variant, now, then)| {
        let name = &variant.name;
        let typical = format!("{} us", TYPICAL_SYNC_S * 1e6);
        match then {
            Some(then) => format!(
                "`{name}` reads sizes on the host in no time: with `cluster.host_sync = \"{typical}\"` its speedup is {then:.2} \
                 instead of {now:.2}"
            ),
            None => format!(
                "`{name}` reads sizes on the host in no time: set `cluster.host_sync`, \"{typical}\" on the GPUs of presets"
            ),
        }
    }))
}

/// Whether a host must know a size before it can issue an op.
fn looks_at_sizes(plan: &Plan) -> bool {
    plan.programs.iter().flat_map(|program| &program.ops).any(|op| !op.kind.host_sizes().is_empty())
}

/// Coded variants have more to launch than others, which counts for nothing.
fn free_launch(experiment: &Experiment) -> Option<String> {
    let is_free = |variant: &&Variant| {
        let launch_s = experiment.codec_of(variant).map(|choice| choice.cost.launch_s);
        variant.is_coded() && !variant.is_adaptive() && launch_s == Some(0.0)
    };
    let variant = experiment.variants.iter().find(is_free).filter(|_| experiment.host.launch_s == 0.0)?;
    Some(format!(
        "launches take no time, of which `{}` has most: set `cluster.launch` and `codec.speed.launch` (`zipwire scenario presets`)",
        variant.name
    ))
}

/// A ratio that is said and not seen.
fn stated_ratio(experiment: &Experiment) -> Option<String> {
    let fixed = experiment.variants.iter().filter(|variant| variant.is_coded() && !variant.is_adaptive());
    let mut stated = fixed.filter_map(|variant| experiment.codec_of(variant)?.ratio);
    let ratio = stated.next().filter(|_| experiment.payload.is_none())?;
    Some(format!(
        "the ratio {ratio} is stated and rests on no payload: measure your tensors with `zipwire inspect`, or name them in \
         `workload.payload`"
    ))
}
