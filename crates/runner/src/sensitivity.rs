//! Which constants of a scenario a speedup depends on most.

use std::borrow::Cow;
use std::sync::Arc;

use zipwire_cluster::library::{Activity, Constant as OfModel};
use zipwire_cluster::{CallCost, DeclaredCost, Fabric, HostCost, LibraryCost, Topology, Uplink};
use zipwire_scenarios::{CodecChoice, Experiment, ExperimentWork, Iterations};
use zipwire_schedule::plan::{Library, Op, Transfer};
use zipwire_schedule::{CostModel, Plan};
use zipwire_traces::{Executors, Sensitivity};

use crate::critical_path::last;
use crate::executors::SIM;
use crate::split::coded;
use crate::{Cancel, ExecuteError, Prepared};

/// A constant is made so many times as large.
const MORE: f64 = 1.1;
/// How many constants are named.
const NAMED: usize = 2;
/// Changes of a speedup below this, as a part of it, are none.
const NOTHING: f64 = 1e-4;

/// A constant: its path in scenarios, and how it is made larger.
struct Constant {
    path: Cow<'static, str>,
    enlarge: Box<dyn Fn(&mut Experiment)>,
}

fn of(path: impl Into<Cow<'static, str>>, enlarge: impl Fn(&mut Experiment) + 'static) -> Constant {
    Constant { path: path.into(), enlarge: Box::new(enlarge) }
}

/// All constants of the cluster, its codecs and compute, whether the scenario has them or not, but those of a library.
fn constants() -> Vec<Constant> {
    let mut all = vec![
        of("cluster.gpu_bandwidth", |experiment| {
            let topology = &mut experiment.topology;
            // Where there are no NICs, a model of a library takes the links of GPUs for them.
            let are_nics = !topology.fabric.has_nics() && topology.nic_bandwidth == topology.gpu_bandwidth;
            topology.gpu_bandwidth *= MORE;
            if are_nics {
                topology.nic_bandwidth = topology.gpu_bandwidth;
            }
        }),
        of("cluster.nic_bandwidth", |experiment| experiment.topology.nic_bandwidth *= MORE),
        of("cluster.latency_intra", |experiment| experiment.topology.latency_intra_s *= MORE),
        of("cluster.latency_inter", |experiment| experiment.topology.latency_inter_s *= MORE),
        of("cluster.launch", |experiment| experiment.host.launch_s *= MORE),
        of("cluster.host_sync", |experiment| experiment.host.sync_s *= MORE),
        of("cluster.reduce", |experiment| experiment.host.reduce_bytes_per_s *= MORE),
        of("codec.speed", |experiment| {
            for CodecChoice { cost, .. } in codecs(experiment) {
                cost.encode_bytes_per_s *= MORE;
                cost.decode_bytes_per_s *= MORE;
            }
        }),
        of("codec.speed.launch", |experiment| {
            codecs(experiment).for_each(|codec| codec.cost.launch_s *= MORE);
        }),
        of("compute", |experiment| {
            if let ExperimentWork::Iterations(Iterations { durations, .. }) = &mut experiment.work {
                *durations = std::mem::take(durations).scaled(MORE);
            }
        }),
        of("cluster.links", |experiment| {
            experiment.topology.link_bandwidths.values_mut().for_each(|bandwidth| *bandwidth *= MORE);
        }),
    ];
    all.extend(of_fabric());
    // A factor of 1 slows nothing.
    let slow = |factor: &mut f64| *factor = if *factor > 1.0 { *factor * MORE } else { *factor };
    all.extend([
        of("cluster.compute_slowdown.codec", move |experiment| {
            slow(&mut experiment.host.compute_slowdown.codec);
        }),
        of("cluster.compute_slowdown.exchange", move |experiment| {
            slow(&mut experiment.host.compute_slowdown.exchange);
        }),
    ]);
    all
}

/// Constants of what is between nodes, or between the GPUs of one.
fn of_fabric() -> Vec<Constant> {
    type Part = fn(&mut Uplink) -> Option<&mut f64>;
    let factor: Part = |uplink| match uplink {
        Uplink::Oversubscribed(factor) => Some(factor),
        Uplink::Bandwidth(_) => None,
    };
    let bandwidth: Part = |uplink| match uplink {
        Uplink::Oversubscribed(_) => None,
        Uplink::Bandwidth(bandwidth) => Some(bandwidth),
    };
    let lower = |part: Part| {
        move |experiment: &mut Experiment| {
            let uplink = match &mut experiment.topology.fabric {
                Fabric::Rail(rail) => Some(&mut rail.uplink),
                Fabric::FatTree(tree) => Some(&mut tree.uplink),
                Fabric::Flat | Fabric::Nodes | Fabric::Host { .. } | Fabric::Graph(_) => None,
            };
            uplink.and_then(part).into_iter().for_each(|value| *value *= MORE);
        }
    };
    let upper = |part: Part| {
        move |experiment: &mut Experiment| {
            let Fabric::FatTree(tree) = &mut experiment.topology.fabric else { return };
            let uplink = tree.pods.as_mut().map(|pods| &mut pods.uplink);
            uplink.and_then(part).into_iter().for_each(|value| *value *= MORE);
        }
    };
    let graph = |bandwidth: f64, latency: f64| {
        move |experiment: &mut Experiment| {
            let Fabric::Graph(graph) = &mut experiment.topology.fabric else { return };
            *graph = Arc::new(graph.scaled(bandwidth, latency));
        }
    };
    vec![
        of("cluster.topology.host_bandwidth", |experiment| {
            let Fabric::Host { bandwidth } = &mut experiment.topology.fabric else { return };
            *bandwidth *= MORE;
        }),
        of("cluster.topology.oversubscription", lower(factor)),
        of("cluster.topology.uplink_bandwidth", lower(bandwidth)),
        of("cluster.topology.pod_oversubscription", upper(factor)),
        of("cluster.topology.pod_uplink_bandwidth", upper(bandwidth)),
        of("cluster.topology.edges.bandwidth", graph(MORE, 1.0)),
        of("cluster.topology.edges.latency", graph(1.0, MORE)),
    ]
}

/// Declared costs of a library, and the constants of a model of it.
fn of_library(library: &LibraryCost) -> Vec<Constant> {
    type Declared = fn(&mut LibraryCost) -> &mut Option<DeclaredCost>;
    type Part = fn(&mut DeclaredCost) -> &mut f64;
    let collectives: [(&str, Declared); 4] = [
        ("all-gather", |library| &mut library.all_gather),
        ("reduce-scatter", |library| &mut library.reduce_scatter),
        ("all-reduce", |library| &mut library.all_reduce),
        ("broadcast", |library| &mut library.broadcast),
    ];
    let parts: [(&str, Part); 3] = [
        ("latency", |cost| &mut cost.latency_s),
        ("per_rank", |cost| &mut cost.per_rank_s),
        ("bandwidth", |cost| &mut cost.bytes_per_s),
    ];
    let declared = collectives.iter().flat_map(|&(collective, declared)| {
        parts.iter().map(move |&(name, part)| {
            of(format!("cluster.library.{collective}.{name}"), move |experiment| {
                let cost = declared(&mut experiment.host.library).as_mut();
                cost.into_iter().for_each(|cost| *part(cost) *= MORE);
            })
        })
    });
    let modelled = OfModel::ALL.into_iter().filter(|_| library.model.is_some()).map(|constant| {
        of(format!("cluster.library.constants.{}", constant.key()), move |experiment| {
            let Some(model) = &mut experiment.host.library.model else { return };
            model.constants.set(constant, model.constants.get(constant) * MORE);
        })
    });
    declared.chain(modelled).collect()
}

/// The codec of a scenario, and those that variants have of their own.
fn codecs(experiment: &mut Experiment) -> impl Iterator<Item = &mut CodecChoice> {
    let own = experiment.variants.iter_mut().filter_map(|variant| variant.codec.as_mut());
    own.chain(&mut experiment.codec)
}

/// The constants on which the speedup of the best coded variant depends most, the first most of all, each with the speedup of a run in which it
/// is a tenth larger and all else as it is: what follows from it follows, in all variants. Nothing where no coded variant has a simulated
/// speedup, faults or drift are part of it, or the first variant is adaptive.
///
/// # Errors
/// If a simulation is interrupted, or takes more memory than there is.
pub fn sensitivities(
    executors: &Executors,
    prepared: &mut Prepared<'_>,
    cancel: &Cancel,
) -> Result<Vec<Sensitivity>, ExecuteError> {
    let experiment = prepared.experiment();
    let speedup = |name: &str| executors.get(SIM.name(), name)?.speedup;
    let speedups = coded(experiment, executors)
        .into_iter()
        .filter_map(|(index, variant)| Some((speedup(&variant.name)?, index)));
    let best = last(speedups).filter(|_| !experiment.variants[0].is_adaptive());
    let Some((now, best)) = best else { return Ok(Vec::new()) };
    let compared = [0, best];
    let base = Experiment {
        variants: compared.map(|index| experiment.variants[index].clone()).to_vec(),
        ..experiment.clone()
    };
    let mut found = Vec::new();
    for Constant { path, enlarge } in constants().into_iter().chain(of_library(&experiment.host.library)) {
        let plans = compared.map(|index| &*prepared.planned(index).plan);
        if !matters(&base, &enlarge, &plans) {
            continue;
        }
        let changed = base.with_changed(enlarge);
        let mut mean_s =
            |place: usize| prepared.mean_s_in(&changed, &changed.variants[place], compared[place], cancel);
        let speedup = mean_s(0)? / mean_s(1)?;
        if (speedup / now - 1.0).abs() > NOTHING {
            let variant = experiment.variants[best].name.clone();
            found.push(Sensitivity { variant, constant: path.into_owned(), speedup });
        }
    }
    // The order among equals is that of the constants.
    found.sort_by(|a, b| (b.speedup - now).abs().total_cmp(&(a.speedup - now).abs()));
    found.truncate(NAMED);
    Ok(found)
}

/// Whether a simulation could find that a larger constant matters: it changes something, and not only costs of the library's that no plan has.
fn matters(experiment: &Experiment, enlarge: &dyn Fn(&mut Experiment), plans: &[&Plan]) -> bool {
    let mut changed = experiment.clone();
    enlarge(&mut changed);
    let then = std::mem::replace(&mut changed.host.library, experiment.host.library);
    let is_of_library = changed.topology == experiment.topology
        && changed.host == experiment.host
        && changed.codec == experiment.codec
        && changed.variants == experiment.variants
        && changed.work == experiment.work;
    !is_of_library || plans.iter().any(|plan| costs_otherwise(plan, experiment, &then))
}

/// Whether calls or grouped sends of a plan cost something else by other costs of the library.
fn costs_otherwise(plan: &Plan, experiment: &Experiment, then: &LibraryCost) -> bool {
    let (topology, now) = (&experiment.topology, &experiment.host.library);
    // The program of one rank has all calls.
    let mut calls = plan.programs.iter().take(1).flat_map(|program| &program.ops);
    let is_call = |op: &Op| {
        op.kind
            .library()
            .is_some_and(|call| call_cost(now, call, topology) != call_cost(then, call, topology))
    };
    let costs = |library: &LibraryCost| CostModel {
        host: HostCost { library: *library, ..experiment.host },
        codec: None,
    };
    let (now, then) = (costs(now), costs(then));
    let mut programs = plan.programs.iter();
    calls.any(is_call)
        || programs.any(|program| {
            let grouped =
                program.ops.iter().filter_map(|op| op.kind.exchange()).filter(|it| it.grouped.is_some());
            // Frames are shorter than the room that they have.
            grouped.flat_map(|exchange| [(exchange, 1), (exchange, 2)]).any(|(exchange, part)| {
                let bytes =
                    |transfer: &Transfer| transfer.content.region().map_or(0, |region| region.len / part);
                let sends = |costs: &CostModel| costs.sends(exchange, program.rank, topology, bytes);
                sends(&now) != sends(&then)
            })
        })
}

/// Cost of a call: of values in full, of frames, whose lengths only a run knows, by length.
fn call_cost(
    library: &LibraryCost,
    call: &Library,
    topology: &Topology,
) -> (Option<Activity>, Option<CallCost>) {
    let is_known = call.shares().all(|share| share.content.values().is_some());
    if is_known {
        let bytes = call.ring_bytes(|_| 0);
        return (library.activity_among(call.collective, topology, &call.group, bytes), None);
    }
    (None, library.of(call.collective, call.group.count))
}
