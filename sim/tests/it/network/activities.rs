//! Activities beside flows, against a slow solver written from the definition, SimGrid, and closed forms.

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_cluster::{LinkId, NetworkModel};
use zipwire_sim::Network;

use crate::common::{assert_close, log_uniform};

/// A flow, or an activity with bytes on each link.
#[derive(Clone, Debug)]
struct Load {
    bytes: Vec<(LinkId, f64)>,
    /// Seconds where no link holds it back; of a flow none.
    moving_s: f64,
    is_flow: bool,
    start_s: f64,
}

impl Load {
    /// The link that would be full first if nothing else moved, and the bytes there: of equals the least.
    fn fullest(&self, capacities: &[f64]) -> f64 {
        let share = |&(link, bytes): &(LinkId, f64)| bytes / capacities[link.index()];
        let most = self.bytes.iter().map(share).fold(0.0, f64::max);
        let of_equals = self.bytes.iter().filter(|part| share(part) == most);
        of_equals.map(|part| part.1).fold(f64::INFINITY, f64::min)
    }
}

/// Levels of all loads: one level rises for all, a load takes its bytes over those of its fullest link times the level, and stops at its
/// bound, or when one of its links is full.
fn levels(capacities: &[f64], loads: &[&Load], model: NetworkModel) -> Vec<f64> {
    let fullest: Vec<f64> = loads.iter().map(|load| load.fullest(capacities)).collect();
    let bounds: Vec<f64> = loads.iter().zip(&fullest).map(|(load, bytes)| bytes / load.moving_s).collect();
    let weight = |index: usize, link: usize| {
        let part = loads[index].bytes.iter().find(|(other, _)| other.index() == link);
        part.map_or(0.0, |(_, bytes)| bytes / fullest[index])
    };
    let all = |link: usize| (0..loads.len()).map(|index| weight(index, link)).sum::<f64>();
    if model != NetworkModel::MaxMin {
        let level = |index: usize| {
            let links = loads[index].bytes.iter().map(|(link, _)| {
                let shared = if model == NetworkModel::Ports {
                    all(link.index())
                } else {
                    weight(index, link.index())
                };
                capacities[link.index()] / shared
            });
            links.fold(bounds[index], f64::min)
        };
        return (0..loads.len()).map(level).collect();
    }
    let mut levels = vec![None; loads.len()];
    while levels.contains(&None) {
        let open = |index: &usize| levels[*index].is_none();
        let full = (0..capacities.len()).map(|link| {
            let taken: f64 =
                (0..loads.len()).filter_map(|index| Some(levels[index]? * weight(index, link))).sum();
            let rising: f64 = (0..loads.len()).filter(open).map(|index| weight(index, link)).sum();
            (capacities[link] - taken) / rising
        });
        let full: Vec<f64> = full.collect();
        let stop = |index: usize| {
            let links = loads[index].bytes.iter().map(|(link, _)| full[link.index()]);
            links.fold(bounds[index], f64::min)
        };
        let first = (0..loads.len()).filter(open).map(stop).fold(f64::INFINITY, f64::min);
        let stopping: Vec<usize> =
            (0..loads.len()).filter(open).filter(|&index| stop(index) == first).collect();
        stopping.into_iter().for_each(|index| levels[index] = Some(first));
    }
    levels.into_iter().flatten().collect()
}

/// When each load ends, step by step.
fn expected_s(capacities: &[f64], loads: &[Load], model: NetworkModel) -> Vec<f64> {
    let mut end_s = vec![f64::NAN; loads.len()];
    let mut left = vec![1.0; loads.len()];
    let mut now_s = 0.0;
    loop {
        let moving: Vec<usize> =
            (0..loads.len()).filter(|&i| end_s[i].is_nan() && loads[i].start_s <= now_s).collect();
        let start_s = loads
            .iter()
            .map(|load| load.start_s)
            .filter(|start_s| *start_s > now_s)
            .fold(f64::INFINITY, f64::min);
        if moving.is_empty() && start_s.is_infinite() {
            return end_s;
        }
        let active: Vec<&Load> = moving.iter().map(|&i| &loads[i]).collect();
        let levels = levels(capacities, &active, model);
        let speed = |(&i, level): (&usize, &f64)| level / loads[i].fullest(capacities);
        let speeds: Vec<f64> = moving.iter().zip(&levels).map(speed).collect();
        let ends: Vec<f64> = moving.iter().zip(&speeds).map(|(&i, speed)| now_s + left[i] / speed).collect();
        let next_s = ends.iter().copied().fold(start_s, f64::min);
        for ((&i, speed), &own_s) in moving.iter().zip(&speeds).zip(&ends) {
            left[i] -= speed * (next_s - now_s);
            if own_s <= next_s * (1.0 + 1e-12) {
                end_s[i] = next_s;
            }
        }
        now_s = next_s;
    }
}

fn found_s(capacities: &[f64], loads: &[Load], model: NetworkModel) -> Vec<f64> {
    let mut network = Network::with_model(capacities, model);
    let mut waiting: Vec<usize> = (0..loads.len()).collect();
    waiting.sort_by(|&a, &b| loads[b].start_s.total_cmp(&loads[a].start_s));
    let mut end_s = vec![f64::NAN; loads.len()];
    let (mut flows, mut activities) = (Vec::new(), Vec::new());
    let (mut ended, mut over) = (Vec::new(), Vec::new());
    let mut now_s = 0.0;
    loop {
        let start_s = waiting.last().map_or(f64::INFINITY, |&i| loads[i].start_s);
        let next_s = start_s.min(now_s + network.next_in_s());
        if next_s.is_infinite() {
            return end_s;
        }
        network.advance(next_s - now_s);
        now_s = next_s;
        network.take_ended(&mut ended);
        network.take_ended_activities(&mut over);
        for flow in ended.drain(..) {
            let at = flows.iter().position(|(other, _)| *other == flow).unwrap();
            end_s[flows.swap_remove(at).1] = now_s;
        }
        for activity in over.drain(..) {
            let at = activities.iter().position(|(other, _)| *other == activity).unwrap();
            end_s[activities.swap_remove(at).1] = now_s;
        }
        while let Some(i) = waiting.pop_if(|i| loads[*i].start_s <= now_s) {
            let Load { bytes, moving_s, is_flow, .. } = &loads[i];
            if *is_flow {
                let links: Vec<LinkId> = bytes.iter().map(|part| part.0).collect();
                flows.push((network.add(&links, bytes[0].1 as u64), i));
            } else {
                activities.push((network.add_activity(bytes, *moving_s), i));
            }
        }
    }
}

fn random_load(random: &mut ChaCha8Rng, capacities: &[f64], is_flow: bool) -> Load {
    let mut links: Vec<LinkId> = (0..capacities.len() as u32).map(LinkId).collect();
    let most = if is_flow { Network::MAX_HOPS.min(links.len()) } else { links.len() };
    let hops = random.random_range(1..=most);
    let mut links = links.partial_shuffle(random, hops).0.to_vec();
    links.sort_unstable();
    let flow = log_uniform(random, 1e6, 1e9).round();
    let bytes: Vec<(LinkId, f64)> = links
        .into_iter()
        .map(|link| (link, if is_flow { flow } else { log_uniform(random, 1e5, 1e9) }))
        .collect();
    let least_s = bytes.iter().map(|(link, bytes)| bytes / capacities[link.index()]).fold(0.0, f64::max);
    let moving_s = if is_flow { 0.0 } else { least_s * log_uniform(random, 0.1, 4.0) };
    Load { bytes, moving_s, is_flow, start_s: random.random_range(0.0..least_s * 4.0) }
}

#[test]
fn activities_and_flows_end_when_the_definition_says() {
    for seed in 0..300 {
        let random = &mut ChaCha8Rng::seed_from_u64(seed);
        let link_count = random.random_range(1..=10);
        let capacities: Vec<f64> = (0..link_count).map(|_| log_uniform(random, 1e8, 1e11)).collect();
        let loads: Vec<Load> = (0..random.random_range(1..16))
            .map(|_| {
                let is_flow = random.random_bool(0.6);
                random_load(random, &capacities, is_flow)
            })
            .collect();
        for model in NetworkModel::ALL {
            let expected = expected_s(&capacities, &loads, model);
            let found = found_s(&capacities, &loads, model);
            for ((found, expected), load) in found.iter().zip(&expected).zip(&loads) {
                let off = (found - expected).abs() / (expected - load.start_s);
                assert!(
                    off < 1e-7,
                    "seed {seed}, {model:?}: {found} and {expected} s, {off:e} off: {load:?}"
                );
            }
        }
    }
}

/// A load as the file with SimGrid's times has it, and when it ends there.
fn read_load(line: &str) -> (Load, f64) {
    let [kind, end_s, start_s, moving_s, links @ ..] = &line.split(' ').collect::<Vec<_>>()[..] else {
        panic!("not a load: {line}");
    };
    let bytes = links.iter().map(|part| {
        let (link, bytes) = part.split_once(':').unwrap();
        (LinkId(link.parse().unwrap()), bytes.parse().unwrap())
    });
    let load = Load {
        bytes: bytes.collect(),
        moving_s: moving_s.parse().unwrap(),
        is_flow: *kind == "flow",
        start_s: start_s.parse().unwrap(),
    };
    (load, end_s.parse().unwrap())
}

#[test]
fn activities_and_flows_end_when_they_do_in_simgrid() {
    let cases = include_str!("simgrid-activities.txt").split("\n\n").skip(1);
    let mut case_count = 0;
    for case in cases {
        case_count += 1;
        let (links, loads) = case.split_once('\n').unwrap();
        let capacities: Vec<f64> = links.split(' ').skip(1).map(|part| part.parse().unwrap()).collect();
        let (loads, ends_s): (Vec<Load>, Vec<f64>) = loads.lines().map(read_load).unzip();
        let found = found_s(&capacities, &loads, NetworkModel::MaxMin);
        for ((found, end_s), load) in found.iter().zip(&ends_s).zip(&loads) {
            let off = (found - end_s).abs() / (end_s - load.start_s);
            assert!(off < 1e-6, "{found} and in SimGrid {end_s} s, {off:e} off: {load:?} of\n{case}");
        }
    }
    assert_eq!(case_count, 50);
}

fn whole(bytes: &[f64], moving_s: f64) -> Load {
    let bytes = (0..).map(LinkId).zip(bytes.iter().copied()).filter(|part| part.1 > 0.0).collect();
    Load { bytes, moving_s, is_flow: false, start_s: 0.0 }
}

/// Alone it takes its own time or that of its fullest link; two at once share that link; what it leaves goes to others.
#[test]
fn closed_forms() {
    let capacities = [1e9, 1e10, 4e9];
    let ends = |loads: &[Load]| found_s(&capacities, loads, NetworkModel::MaxMin);
    let call = whole(&[1e9, 4e9, 1e9], 0.5);
    assert_close(ends(std::slice::from_ref(&call))[0], 1.0);
    assert_close(ends(&[whole(&[1e9, 4e9, 1e9], 3.0)])[0], 3.0);
    ends(&[call.clone(), call.clone()]).into_iter().for_each(|end_s| assert_close(end_s, 2.0));
    ends(&vec![call.clone(); 5]).into_iter().for_each(|end_s| assert_close(end_s, 5.0));
    // Bound to half of the first link, it leaves the other half to a flow.
    let flow = Load { bytes: vec![(LinkId(0), 1e9)], moving_s: 0.0, is_flow: true, start_s: 0.0 };
    let [bound, beside] = ends(&[whole(&[1e9], 2.0), flow.clone()])[..] else { unreachable!() };
    assert_close(bound, 2.0);
    assert_close(beside, 2.0);
    // An equal share of its fullest link each: then the flow has 1e9 bytes over 0.5e9 per second.
    let [call_s, flow_s] = ends(&[call, flow])[..] else { unreachable!() };
    assert_close(call_s, 2.0);
    assert_close(flow_s, 2.0);
}

/// Three hundred links of alike ranks: one demand, and the time of one link.
#[test]
fn a_call_over_many_links_takes_what_one_takes() {
    let capacities = vec![1e9; 300];
    let end_s = found_s(&capacities, &[whole(&vec![1e9; 300], 1e-3)], NetworkModel::MaxMin)[0];
    assert_close(end_s, 1.0);
}
