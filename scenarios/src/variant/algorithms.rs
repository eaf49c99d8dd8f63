//! Keys of a variant that say along which edges its collectives travel.

use std::sync::Arc;

use zipwire_cluster::{HostCost, LibraryCost};
use zipwire_schedule::estimate::{Costs, Way, best};
use zipwire_schedule::{Algorithm, CallKind, Choice, Job, Protocol, Segment, Work};

use super::{KEYS, Variant, codes_along};
use crate::cluster::library;
use crate::error::Result;
use crate::experiment::Experiment;
use crate::language::{AnyKey, Field, Key, Raw, Reader, Schema, keys, names, one_of, raw, table};
use crate::problem::Problem;

/// The name that stands for the algorithm that is predicted to take least time.
const AUTO: &str = "auto";

// Collectives that have several algorithms.
keys! { static COLLECTIVES =
    all_gather as "all-gather": Raw = raw(all_schema), "of All-Gathers";
    broadcast: Raw = raw(all_schema), "of broadcasts";
    reduce_scatter as "reduce-scatter": Raw = raw(all_schema), "of Reduce-Scatters";
    all_reduce as "all-reduce": Raw = raw(all_schema), "of All-Reduces";
}

/// The algorithms that a variant pins, by collective; `None` where the one that is predicted to take least time is taken, call by call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Algorithms {
    /// Algorithm of All-Gathers.
    pub all_gather: Option<Algorithm>,
    /// Algorithm of broadcasts.
    pub broadcast: Option<Algorithm>,
    /// Algorithm of Reduce-Scatters.
    pub reduce_scatter: Option<Algorithm>,
    /// Algorithm of All-Reduces.
    pub all_reduce: Option<Algorithm>,
}

impl Algorithms {
    /// The one that is pinned for some work.
    pub fn of(mut self, work: &Work) -> Option<Algorithm> {
        self.entry(work).and_then(|(_, pinned)| *pinned)
    }

    /// The key of some work's collective, and what it pins.
    fn entry(&mut self, work: &Work) -> Option<(&'static Key<Raw>, &mut Option<Algorithm>)> {
        match work.call()? {
            CallKind::AllGather { .. } => Some((COLLECTIVES.all_gather, &mut self.all_gather)),
            CallKind::Broadcast { .. } => Some((COLLECTIVES.broadcast, &mut self.broadcast)),
            CallKind::ReduceScatter { .. } => Some((COLLECTIVES.reduce_scatter, &mut self.reduce_scatter)),
            CallKind::AllReduce { .. } => Some((COLLECTIVES.all_reduce, &mut self.all_reduce)),
            CallKind::AllToAll { .. } | CallKind::Send { .. } => None,
        }
    }
}

/// Whether it is the collective of a key.
fn is_called(work: &Work, key: &dyn AnyKey) -> bool {
    Algorithms::default().entry(work).is_some_and(|(own, _)| own.name == key.name())
}

/// Inputs on which pins of algorithms depend.
pub(super) struct Calls<'a> {
    pub(super) job: &'a Job,
    pub(super) protocol: Protocol,
    pub(super) native_reductions: bool,
    pub(super) dimensions: Option<&'a [Arc<str>]>,
    pub(super) library: &'a LibraryCost,
    pub(super) gpus_per_node: u32,
}

impl<'a> Calls<'a> {
    /// The first call of each collective that has several algorithms, along each dimension.
    fn several(&self) -> Vec<&'a Segment> {
        let mut first: Vec<&Segment> = Vec::new();
        for segment in &self.job.segments {
            let Some(name) = segment.work.collective_name().filter(|_| !segment.work.algorithms().is_empty())
            else {
                continue;
            };
            let is_like = |other: &&Segment| {
                other.dimension == segment.dimension && other.work.collective_name() == Some(name)
            };
            if !first.iter().any(is_like) {
                first.push(segment);
            }
        }
        first
    }

    fn is_coded(&self, segment: &Segment) -> bool {
        let is_kept = self.native_reductions && segment.work.is_reduction();
        self.protocol.is_coded() && !is_kept && codes_along(self.dimensions, segment)
    }

    /// Why a call cannot travel in an algorithm that its collective has.
    fn obstacle(&self, segment: &Segment, algorithm: Algorithm) -> Option<Problem> {
        let (work, ranks) = (&segment.work, segment.groups(self.job.rank_count).size());
        let (name, protocol, is_coded) = (algorithm.name(), self.protocol.name(), self.is_coded(segment));
        if algorithm == Algorithm::PaddedRing && !is_coded {
            return Some(Problem::PaddedValues { algorithm: name, protocol });
        }
        if is_coded && !algorithm.takes_frames(work.is_reduction()) {
            return Some(Problem::CodedSums { algorithm: name, protocol });
        }
        let is_partial = work.collective(ranks).is_none();
        if algorithm == Algorithm::Library && is_partial {
            return Some(Problem::PartialCall {
                algorithm: name,
                collective: work.collective_name().unwrap_or_default(),
            });
        }
        let collective = work.collective(ranks).filter(|_| algorithm == Algorithm::Library)?;
        // What is declared is the cost of calls of all ranks.
        if segment.among.is_some() {
            let collective = collective.name();
            return self.library.model.is_none().then_some(Problem::NoGroupCost { collective });
        }
        if self.library.knows(collective) {
            return None;
        }
        let (collective, gpus_per_node) = (collective.name(), self.gpus_per_node);
        Some(Problem::NoCallCost { collective, gpus_per_node, example: library::EXAMPLE })
    }
}

/// The pinned algorithms. Refuses an order or a window where no call asks for them.
pub(super) fn read(table: &Reader<'_>, calls: &Calls<'_>) -> Result<Algorithms> {
    let several = calls.several();
    let field = table.field(KEYS.algorithm);
    let mut pinned = Algorithms::default();
    if several.is_empty() {
        return match field {
            Some(field) => Err(field.error(Problem::NoAlgorithms { path: field.path.clone() })),
            None => Ok(pinned),
        };
    }
    match &field {
        Some(field) if field.as_string().is_none() => read_each(field, calls, &several, &mut pinned)?,
        Some(field) => {
            let mut all: Vec<Option<Algorithm>> = vec![None];
            for &algorithm in several.iter().flat_map(|segment| segment.work.algorithms()) {
                if !all.contains(&Some(algorithm)) {
                    all.push(Some(algorithm));
                }
            }
            let chosen = field.choice("algorithm of this collective", &all, name_of)?;
            read_one(field, calls, &several, chosen, &mut pinned)?;
        }
        None => {}
    }
    check_order(table, calls, &several, &pinned)?;
    Ok(pinned)
}

fn name_of(algorithm: Option<Algorithm>) -> &'static str {
    algorithm.map_or(AUTO, Algorithm::name)
}

/// One algorithm for all collectives that can travel so; at least one must.
fn read_one(
    field: &Field<'_>,
    calls: &Calls<'_>,
    several: &[&Segment],
    chosen: Option<Algorithm>,
    pinned: &mut Algorithms,
) -> Result<()> {
    let Some(algorithm) = chosen else { return Ok(()) };
    let mut obstacles = Vec::new();
    for segment in several.iter().filter(|segment| segment.work.algorithms().contains(&algorithm)) {
        match (calls.obstacle(segment, algorithm), pinned.entry(&segment.work)) {
            // What a library is not known to cost is an error, also beside calls whose cost is known.
            (Some(problem @ (Problem::NoCallCost { .. } | Problem::NoGroupCost { .. })), _) => {
                return Err(field.error(problem));
            }
            (Some(problem), _) => obstacles.push(problem),
            (None, entry) => *entry.expect("it has several algorithms").1 = Some(algorithm),
        }
    }
    match obstacles.into_iter().next().filter(|_| *pinned == Algorithms::default()) {
        Some(problem) => Err(field.error(problem)),
        None => Ok(()),
    }
}

/// A table of algorithms by collective.
fn read_each(
    field: &Field<'_>,
    calls: &Calls<'_>,
    several: &[&Segment],
    pinned: &mut Algorithms,
) -> Result<()> {
    let each = field.table(COLLECTIVES.all)?;
    for &collective in COLLECTIVES.all {
        let called: Vec<_> = several.iter().filter(|segment| is_called(&segment.work, collective)).collect();
        let Some(work) = called.first().map(|segment| &segment.work) else {
            each.refuse(collective, "the workload has no such collective")?;
            continue;
        };
        let Some(field) = each.field(collective) else { continue };
        let all: Vec<Option<Algorithm>> =
            [None].into_iter().chain(work.algorithms().iter().copied().map(Some)).collect();
        let chosen = field.choice("algorithm of this collective", &all, name_of)?;
        // Along some dimensions it may be as it is chosen, and along others not.
        let obstacle = |segment: &&&Segment| calls.obstacle(segment, chosen?);
        let obstacles: Vec<Problem> = called.iter().filter_map(obstacle).collect();
        let is_everywhere = obstacles.len() == called.len();
        let mut obstacles = obstacles.into_iter();
        let is_unknown =
            |problem: &Problem| matches!(problem, Problem::NoCallCost { .. } | Problem::NoGroupCost { .. });
        if let Some(problem) = obstacles.find(|problem| is_everywhere || is_unknown(problem)) {
            return Err(field.error(problem));
        }
        *pinned.entry(work).expect("it has several algorithms").1 = chosen;
    }
    Ok(())
}

/// An order and a window are for what goes straight.
fn check_order(
    table: &Reader<'_>,
    calls: &Calls<'_>,
    several: &[&Segment],
    pinned: &Algorithms,
) -> Result<()> {
    let is_direct = |segment: &&Segment| pinned.of(&segment.work).is_some_and(Algorithm::takes_order);
    let all_to_all = calls
        .job
        .segments
        .iter()
        .any(|segment| matches!(segment.work, Work::Call { kind: CallKind::AllToAll { .. }, .. }));
    if all_to_all || several.iter().any(is_direct) {
        return Ok(());
    }
    let algorithm = name_of(several.iter().find_map(|segment| pinned.of(&segment.work)));
    match table.field(KEYS.order).or_else(|| table.field(KEYS.window)) {
        Some(field) => {
            let (path, free) = (field.path.clone(), Algorithm::Direct.name());
            Err(field.error(Problem::FixedOrder { path, algorithm, free }))
        }
        None => Ok(()),
    }
}

pub(super) fn schema() -> Schema {
    one_of([all_schema(), table(COLLECTIVES.all)])
}

fn all_schema() -> Schema {
    names([AUTO].into_iter().chain(Algorithm::ALL.map(Algorithm::name)))
}

/// Raw over coded bytes where a scenario states no ratio: what BF16 tensors have as a rule. Which algorithm takes least time hardly
/// depends on it.
const TYPICAL_RATIO: f64 = 1.3;

impl Experiment {
    /// Chooses the way of every call of every variant: what is pinned, and else what is predicted to take least time. Must be called again
    /// when what it rests on has changed.
    pub fn choose_ways(&mut self) {
        for index in 0..self.variants.len() {
            let mut variant = self.variants[index].clone();
            for arm in &mut variant.arms {
                arm.ways = self.ways(arm);
            }
            variant.ways = self.ways(&variant);
            self.variants[index] = variant;
        }
    }

    /// By segment.
    fn ways(&self, variant: &Variant) -> Vec<Option<Way>> {
        let codec = self.codec_of(variant);
        let mut known: Vec<(&Segment, Option<Way>)> = Vec::new();
        let way = |segment: &Segment| {
            let work = &segment.work;
            let part = self.part(segment).filter(|part| !part.group.is_all(self.topology.ranks()));
            let of_part = part.map(|part| {
                let library = self.host.library.among(&self.topology, &part);
                (self.topology.of_part(&part), HostCost { library, ..self.host })
            });
            let (topology, host) =
                of_part.as_ref().map_or((&self.topology, &self.host), |(topology, host)| (topology, host));
            let costs = Costs {
                topology,
                host,
                codec: codec.map(|codec| codec.cost),
                ratio: codec.and_then(|codec| codec.ratio).unwrap_or(TYPICAL_RATIO),
            };
            let protocol = variant.protocol_of(segment);
            let choice = Choice {
                algorithm: variant.algorithms.of(work),
                sums: self.sums,
                ..Choice::of(protocol, codec.map(|codec| codec.spec.clone()))
            };
            let rings = (variant.channels, variant.slices);
            best(work, &choice, &costs, rings, variant.may_call).map(|(way, _)| way)
        };
        let segments = self.work.segments();
        let mut ways = Vec::with_capacity(segments.len());
        for segment in segments {
            // Layers are alike: of calls that differ in their buffers only, one is predicted.
            let is_alike = |other: &Segment| is_alike(other, segment);
            let found = known.iter().find(|(other, _)| is_alike(other)).map(|(_, way)| *way);
            ways.push(found.unwrap_or_else(|| {
                let way = way(segment);
                known.push((segment, way));
                way
            }));
        }
        ways
    }
}

/// Whether two calls move the same.
fn is_alike(a: &Segment, b: &Segment) -> bool {
    let has_one_way = |segment: &Segment| segment.work.algorithms().is_empty();
    let moves_alike = (a.among, &a.dimension, a.work.dtype()) == (b.among, &b.dimension, b.work.dtype());
    (has_one_way(a) && has_one_way(b)) || moves_alike && a.work.call() == b.work.call()
}
