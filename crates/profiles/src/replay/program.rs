//! Programs of ranks: those that do the same have one, and calls of groups that do the same are one call of all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use zipwire_cluster::{Group, Groups, Rank};

use super::calls::{Kind, Maker, Nodes, RankCall, RankCalls};
use super::lanes::Lane;
use super::steps::Steps;
use super::{Item, ReplayCall, ReplayError};
use crate::op::CollectiveOp;
use crate::profile::Profile;

/// Calls of groups that are alike, and ranks that do the same.
pub(super) struct Programs {
    calls: Vec<Call>,
    program: Vec<Item>,
}

/// Calls of some groups as one.
struct Call {
    groups: Groups,
    nodes: Vec<usize>,
}

/// Ranks that make the same calls in the same order.
struct Class {
    ranks: Vec<u32>,
    groups: Groups,
    calls: Vec<usize>,
}

impl Programs {
    /// `lanes` are by present rank and step.
    pub(super) fn of(nodes: &Nodes, lanes: &[Vec<Lane>]) -> Result<Self, ReplayError> {
        let (calls, classes) = classes(nodes);
        let mut takes_part = vec![0; calls.len()];
        for class in &classes {
            class.calls.iter().for_each(|call| takes_part[*call] += 1);
        }
        let lists: Vec<Vec<Item>> = classes.iter().map(|class| items(class, nodes, lanes)).collect();
        let name = |call: usize| {
            let node = &nodes.nodes[calls[call].nodes[0]];
            let rank = node.group.first.0;
            format!(
                "`{}` {} of rank {rank} in groups of {}",
                node.kind.op.name(),
                node.occurrence,
                node.kind.count
            )
        };
        let program = merged(lists, &takes_part)
            .map_err(|(first, second)| ReplayError::Circle { first: name(first), second: name(second) })?;
        Ok(Self { calls, program })
    }

    /// Calls and programs with everything that the profile says of them.
    pub(super) fn finish(
        self,
        profile: &Profile,
        ranks: &[RankCalls<'_>],
        steps: &Steps,
        nodes: &Nodes,
    ) -> (Vec<ReplayCall>, Vec<Item>) {
        let main_streams: Vec<u64> = ranks.iter().map(main_stream).collect();
        let calls = self.calls.iter().map(|call| {
            let makers = || call.nodes.iter().flat_map(|node| nodes.nodes[*node].made_by.iter().copied());
            let mut made_by: Vec<Maker> = makers().filter(|maker| maker.is_present).collect();
            if made_by.is_empty() {
                made_by = makers().collect();
            }
            let Kind { op, from, bytes, .. } = nodes.nodes[call.nodes[0]].kind;
            let at = |step: usize, maker: Maker| {
                &ranks[maker.place].calls[steps.of_rank(maker.place, step)][maker.index]
            };
            let all = || made_by.iter().map(|made| at(0, *made));
            let transfers_s = (0..steps.count).map(|step| {
                let sum: i64 = made_by.iter().map(|made| at(step, *made).record.transfer_ns).sum();
                sum as f64 / 1e9 / made_by.len() as f64
            });
            let is_compute_known = profile.is_compute_known;
            let stalled = (0..steps.count).flat_map(|step| made_by.iter().map(move |made| (step, *made)));
            let stalled_ns: i64 = stalled
                .map(|(step, made)| {
                    let record = at(step, made).record;
                    if is_compute_known { record.stall_ns } else { record.duration_ns }
                })
                .sum();
            let shares: Vec<f64> = all().filter_map(|own| own.record.coded_share).collect();
            let (first, is_uneven) = (at(0, made_by[0]), bytes == (0, 0));
            let named = |own: ReplayCall| {
                let is_value = own.codable().is_some() || own.op == CollectiveOp::Barrier;
                let suffix = if is_value { String::new() } else { format!(" ({})", own.dtype) };
                ReplayCall { class: format!("{}{suffix}", own.class).into(), ..own }
            };
            named(ReplayCall {
                class: class_name(profile, first.record.group, op),
                op,
                groups: call.groups,
                bytes_in: all().map(|own| own.bytes.0).max().unwrap_or_default(),
                bytes_out: all().map(|own| own.bytes.1).max().unwrap_or_default(),
                splits: is_uneven.then(|| {
                    let own = &nodes.nodes[call.nodes[0]];
                    let makers = own.made_by.iter().map(|maker| (maker.place, at(0, *maker)));
                    splits(&own.group, &nodes.twins, &makers.collect())
                }),
                from,
                dtype: first.record.dtype.clone(),
                is_beside: first.record.stream != main_streams[made_by[0].place],
                transfers_s: transfers_s.collect(),
                stalled_s: stalled_ns as f64 / 1e9 / (steps.count * ranks.len()) as f64,
                coded_share: (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64),
            })
        });
        (calls.collect(), self.program)
    }
}

/// Operation and group, for people: groups by their purpose if the job names it.
fn class_name(profile: &Profile, group: usize, op: CollectiveOp) -> Arc<str> {
    let group = &profile.groups[group];
    let name = if group.description.is_empty() { &group.name } else { &group.description };
    let op = if op == CollectiveOp::Recv { CollectiveOp::Send } else { op };
    if name.is_empty() { op.name().into() } else { format!("{} {name}", op.name()).into() }
}

/// The stream with most of a rank's calls.
fn main_stream(rank: &RankCalls<'_>) -> u64 {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for call in &rank.calls {
        *counts.entry(call.record.stream).or_default() += 1;
    }
    let most = counts.iter().max_by_key(|(stream, count)| (**count, std::cmp::Reverse(**stream)));
    most.map(|(stream, _)| *stream).unwrap_or_default()
}

/// Bytes from each rank of a group to each; `made_by` has calls by place of a present rank, which stands for its twins, too.
fn splits(group: &Group, twins: &[usize], made_by: &BTreeMap<usize, &RankCall<'_>>) -> Vec<Vec<u64>> {
    let ranks = u64::from(group.count);
    let row = |rank: Rank| -> Vec<u64> {
        let Some(own) = made_by.get(&twins[rank.index()]) else { return vec![0; ranks as usize] };
        let (splits, given) = (&own.record.splits_in, own.bytes.0);
        let rows: u64 = splits.iter().sum();
        if rows == 0 || splits.len() as u64 != ranks {
            return vec![given / ranks; ranks as usize];
        }
        let bytes = |rows_to: &u64| (u128::from(given) * u128::from(*rows_to) / u128::from(rows)) as u64;
        splits.iter().map(bytes).collect()
    };
    group.ranks().map(row).collect()
}

/// Calls that groups of ranks which do the same make alike, and these ranks.
fn classes(nodes: &Nodes) -> (Vec<Call>, Vec<Class>) {
    // Ranks differ by the kinds of their calls first, then by the others with whom they make them.
    let kinds = |calls: &Vec<usize>| calls.iter().map(|node| nodes.nodes[*node].kind).collect::<Vec<_>>();
    let mut class_of = numbered(nodes.of_rank.iter().map(kinds));
    loop {
        let calls = alike(nodes, &class_of);
        let mut call_of = vec![0; nodes.nodes.len()];
        for (index, call) in calls.iter().enumerate() {
            call.nodes.iter().for_each(|node| call_of[*node] = index);
        }
        let own = |calls: &Vec<usize>| calls.iter().map(|node| call_of[*node]).collect::<Vec<_>>();
        let finer = numbered(nodes.of_rank.iter().map(own));
        let count = |class_of: &[usize]| class_of.iter().max().map_or(0, |last| last + 1);
        if count(&finer) == count(&class_of) {
            let classes = (0..count(&finer)).flat_map(|class| of_class(nodes, &finer, class, &call_of));
            return (calls, classes.collect());
        }
        class_of = finer;
    }
}

/// Numbers of equals, in the order of their first.
fn numbered<T: Ord>(items: impl Iterator<Item = T>) -> Vec<usize> {
    let mut known = BTreeMap::new();
    let number = |item| {
        let next = known.len();
        *known.entry(item).or_insert(next)
    };
    items.map(number).collect()
}

/// Calls of groups whose ranks are of the same classes, as one call where their ranks are rows.
fn alike(nodes: &Nodes, class_of: &[usize]) -> Vec<Call> {
    let mut parts: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    let is_made: BTreeSet<usize> = nodes.of_rank.iter().flatten().copied().collect();
    for (index, node) in nodes.nodes.iter().enumerate().filter(|(index, _)| is_made.contains(index)) {
        let classes: BTreeSet<usize> = node.group.ranks().map(|rank| class_of[rank.index()]).collect();
        // Tokens go elsewhere in each group.
        let alone = (node.kind.bytes == (0, 0)).then_some(node.group);
        parts.entry((node.kind, node.occurrence, classes, alone)).or_default().push(index);
    }
    let calls = parts.into_values().flat_map(|part| {
        let groups: Vec<Group> = part.iter().map(|node| nodes.nodes[*node].group).collect();
        match Groups::from_all(&groups) {
            Some(groups) => vec![Call { groups, nodes: part }],
            None => part
                .iter()
                .zip(groups)
                .filter_map(|(node, group)| {
                    Some(Call { groups: Groups::from_all(&[group])?, nodes: vec![*node] })
                })
                .collect(),
        }
    });
    calls.collect()
}

/// A class, or its ranks one by one if they are no rows.
fn of_class(nodes: &Nodes, class_of: &[usize], class: usize, call_of: &[usize]) -> Vec<Class> {
    let ranks: Vec<u32> =
        (0..).zip(class_of).filter(|(_, own)| **own == class).map(|(rank, _)| rank).collect();
    let calls: Vec<usize> = nodes.of_rank[ranks[0] as usize].iter().map(|node| call_of[*node]).collect();
    let of = |ranks: &[u32]| {
        let groups: Vec<Group> =
            ranks.iter().map(|rank| Group { first: Rank(*rank), count: 1, stride: 1 }).collect();
        let groups = Groups::from_all(&groups)?;
        Some(Class { ranks: ranks.to_vec(), groups, calls: calls.clone() })
    };
    match of(&ranks) {
        Some(class) => vec![class],
        None => ranks.iter().filter_map(|rank| of(&[*rank])).collect(),
    }
}

/// Compute and calls of the ranks of a class in turn.
fn items(class: &Class, nodes: &Nodes, lanes: &[Vec<Lane>]) -> Vec<Item> {
    let places: BTreeSet<usize> = class.ranks.iter().map(|rank| nodes.twins[*rank as usize]).collect();
    let all: Vec<&Lane> = places.iter().flat_map(|place| &lanes[*place]).collect();
    // A wait that some rank shows, all have: behind as many calls as any has made by then.
    let mut behind: BTreeMap<usize, usize> = BTreeMap::new();
    for wait in all.iter().flat_map(|lane| &lane.waits) {
        let most = behind.entry(wait.call).or_default();
        *most = wait.behind.max(*most);
    }
    let mut waits: Vec<(usize, usize)> = behind.into_iter().map(|(call, behind)| (behind, call)).collect();
    waits.sort_unstable();
    let mut waits = waits.into_iter().peekable();
    let mut items: Vec<Item> = Vec::new();
    let mut from: Vec<Vec<i64>> = of_lanes(class, nodes, lanes, |_| 0);
    let mut waiting: Vec<usize> = Vec::new();
    for made in 0..=class.calls.len() {
        let until = |lane: &Lane| lane.made_ns.get(made).copied().unwrap_or(lane.end_ns);
        while let Some((_, call)) = waits.next_if(|(behind, _)| *behind == made) {
            // Ranks that do not show it wait as late as they can.
            let to = of_lanes(class, nodes, lanes, |lane| lane.waits_for(call, made).unwrap_or(until(lane)));
            compute(&mut items, class, &mut waiting, &mut from, to);
            waiting.push(class.calls[call]);
        }
        compute(&mut items, class, &mut waiting, &mut from, of_lanes(class, nodes, lanes, until));
        if let Some(call) = class.calls.get(made) {
            let last = items.iter_mut().rev().find(|item| matches!(item, Item::Compute { .. }));
            if let Some(Item::Compute { allows, .. }) = last {
                allows.push(*call);
            }
            items.push(Item::Call(*call));
        }
    }
    items
}

/// A number of each lane, by step and by rank of a class.
fn of_lanes(class: &Class, nodes: &Nodes, lanes: &[Vec<Lane>], of: impl Fn(&Lane) -> i64) -> Vec<Vec<i64>> {
    let steps = lanes.first().map_or(0, Vec::len);
    let rank = |step: usize, rank: &u32| of(&lanes[nodes.twins[*rank as usize]][step]);
    (0..steps).map(|step| class.ranks.iter().map(|own| rank(step, own)).collect()).collect()
}

/// Adds compute up to a time of each step and rank, if there is any or something is waited for.
fn compute(
    items: &mut Vec<Item>,
    class: &Class,
    waiting: &mut Vec<usize>,
    from: &mut [Vec<i64>],
    to: Vec<Vec<i64>>,
) {
    let lasts = |(from, to): (&i64, &i64)| (to - from).max(0) as f64 / 1e9;
    let seconds: Vec<Vec<f64>> =
        from.iter().zip(&to).map(|(from, to)| from.iter().zip(to).map(lasts).collect()).collect();
    for (from, to) in from.iter_mut().flatten().zip(to.into_iter().flatten()) {
        *from = to.max(*from);
    }
    if !waiting.is_empty() || seconds.iter().flatten().any(|seconds| *seconds > 0.0) {
        let waits = std::mem::take(waiting);
        items.push(Item::Compute { ranks: class.groups, waits, allows: Vec::new(), seconds });
    }
}

/// Puts programs together, so that each keeps its order and calls that several have are there once: an error names two calls that
/// they have in unlike order.
fn merged(lists: Vec<Vec<Item>>, takes_part: &[usize]) -> Result<Vec<Item>, (usize, usize)> {
    let mut lists: Vec<_> = lists.into_iter().map(|list| list.into_iter().peekable()).collect();
    let mut arrived = vec![0; takes_part.len()];
    let mut is_counted = vec![false; lists.len()];
    let mut merged = Vec::new();
    loop {
        let mut goes_on = false;
        for (list, is_counted) in lists.iter_mut().zip(&mut is_counted) {
            loop {
                match list.peek() {
                    Some(Item::Call(call)) => {
                        if !*is_counted {
                            *is_counted = true;
                            arrived[*call] += 1;
                        }
                        if arrived[*call] < takes_part[*call] {
                            break;
                        }
                        if arrived[*call] == takes_part[*call] {
                            merged.push(Item::Call(*call));
                            arrived[*call] += 1;
                        }
                        (*is_counted, goes_on) = (false, true);
                        list.next();
                    }
                    Some(Item::Compute { .. }) => {
                        goes_on = true;
                        merged.extend(list.next());
                    }
                    None => break,
                }
            }
        }
        if lists.iter_mut().all(|list| list.peek().is_none()) {
            return Ok(merged);
        }
        if !goes_on {
            let mut next = lists.iter_mut().filter_map(|list| match list.peek() {
                Some(Item::Call(call)) => Some(*call),
                _ => None,
            });
            let first = next.next().unwrap_or_default();
            return Err((first, next.find(|call| *call != first).unwrap_or(first)));
        }
    }
}
