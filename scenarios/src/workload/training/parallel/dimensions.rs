//! `workload.parallel`: how many ranks share what, and how they are numbered.

use zipwire_cluster::{Part, Topology};
use zipwire_schedule::{Dimension, Group, Groups, Layout};

use super::pipeline::{Pipeline, Schedule};
use crate::error::Result;
use crate::language::{
    Field, Raw, Reader, Schema, array, choice, count, integer, keys, named, names, one_of, raw, table,
};
use crate::model::Architecture;
use crate::problem::{ParallelProblem, Problem};

/// Most ranks along a dimension, and of a group that sums something: sums count ranks in 16 bits.
const RANK_LIMIT: u32 = 1 << 15;
const CHUNK_LIMIT: u32 = 64;

keys! { static KEYS =
    tp: u32 = integer(1..=RANK_LIMIT), "ranks that share each layer (tensor parallelism); 1 by default";
    cp: u32 = integer(1..=RANK_LIMIT), "ranks that share each sequence (context parallelism); 1 by default";
    pp: u32 = integer(1..=RANK_LIMIT), "stages of a pipeline, each with its part of the layers; 1 by default";
    ep: u32 = integer(1..=RANK_LIMIT), "ranks that share the experts of a layer: those of `tp` and `cp`, and as many of `dp` as it takes; all of these by default";
    dp: Raw = raw(replicas), "ranks with micro-batches of their own (data parallelism); 1 by default";
    sharded: Sharded = choice("what replicas share", &Sharded::ALL, Sharded::name), "what the ranks of `dp` and `cp` share: `optimizer` states (ZeRO-1), so that gradients are scattered and parameters gathered once per iteration; `parameters` too, gathered for each pass (ZeRO-3, FSDP); or `nothing`; `optimizer` by default";
    schedule: Schedule = choice("schedule of a pipeline", &Schedule::ALL, Schedule::name), "order of the passes of a stage; `1f1b` by default";
    chunks: u32 = integer(2..=CHUNK_LIMIT), "chunks of layers of each stage, of `interleaved`; 2 by default";
    order: Raw = raw(|| array(names(Axis::ALL.map(Axis::name))).at_least(4).at_most(4)), "dimensions from the innermost on, whose ranks have neighbouring numbers; `tp`, `cp`, `dp`, `pp` by default", example = "[\"tp\", \"cp\", \"pp\", \"dp\"]";
}

keys! { static REPLICAS =
    shard: u32 = integer(1..=RANK_LIMIT), "ranks among which states or parameters are sharded", needed = "8";
    replicate: u32 = integer(1..=RANK_LIMIT), "groups of these, which have the same and sum their shards of gradients", needed = "2";
}

fn replicas() -> Schema {
    one_of([count(), table(REPLICAS.all)])
}

named! {
    /// States that ranks of equal place in their replicas share.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum Sharded {
        Optimizer = "optimizer",
        Parameters = "parameters",
        Nothing = "nothing",
    }
}

named! {
    /// Dimensions as scenarios order them.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Axis {
        Tp = "tp",
        Cp = "cp",
        Dp = "dp",
        Pp = "pp",
    }
}

/// Sizes of all dimensions, and the layout of the ranks.
#[derive(Clone, Debug)]
pub(super) struct Parallel {
    pub(super) tp: u32,
    pub(super) cp: u32,
    pub(super) pp: u32,
    /// Ranks that share the experts of a layer.
    pub(super) ep: u32,
    /// Ranks of `dp` that are sharded, those of `ep` among them, and groups of these.
    pub(super) shard: u32,
    pub(super) replicate: u32,
    pub(super) sharded: Sharded,
    pub(super) schedule: Schedule,
    pub(super) chunks: u32,
    pub(super) layout: Layout,
}

/// Names of the dimensions of a layout: `dp` is cut into ranks that share experts, groups of these, and replicas of all.
const TP: &str = "tp";
const CP: &str = "cp";
const PP: &str = "pp";
const EP: &str = "ep";
const DP: &str = "dp";
const REPLICATE: &str = "replicate";

impl Parallel {
    /// Reads the table of a model with experts or without.
    pub(super) fn read(field: &Field<'_>, has_experts: bool, topology: &Topology) -> Result<Self> {
        let reader = field.table(KEYS.all)?;
        let size = |key| Ok(reader.get(key)?.unwrap_or(1));
        let (tp, cp, pp) = (size(KEYS.tp)?, size(KEYS.cp)?, size(KEYS.pp)?);
        let (shard, replicate) = read_replicas(&reader)?;
        let ranks = [tp, cp, pp, shard, replicate].iter().map(|&size| u128::from(size)).product::<u128>();
        if ranks != u128::from(topology.ranks()) {
            let sizes = [("tp", tp), ("cp", cp), ("pp", pp), ("dp", shard * replicate)];
            return Err(field.error(ParallelProblem::Ranks { sizes, ranks: topology.ranks() }.into()));
        }
        let shards = u64::from(cp) * u64::from(shard);
        if shards > u64::from(RANK_LIMIT) {
            let limits = format!("at most {RANK_LIMIT}");
            return Err(field.error(Problem::out_of_range(
                "ranks of `cp` and `dp` that share states",
                shards,
                limits,
            )));
        }
        let ep = read_experts(&reader, has_experts, [tp * cp, shard])?;
        let sharded = reader.get(KEYS.sharded)?.unwrap_or(Sharded::Optimizer);
        if sharded == Sharded::Nothing && replicate > 1 {
            let dp = reader.need_field(KEYS.dp)?;
            return Err(dp.error(ParallelProblem::NothingToReplicate.into()));
        }
        let (schedule, chunks) = read_schedule(&reader, pp)?;
        let mut parallel =
            Self { tp, cp, pp, ep, shard, replicate, sharded, schedule, chunks, layout: Layout::default() };
        parallel.layout = parallel.layout(&read_order(&reader)?);
        parallel.check_groups(field, reader.field(KEYS.order).as_ref(), has_experts, topology)?;
        Ok(parallel)
    }

    pub(super) fn schema() -> Schema {
        table(KEYS.all)
    }

    /// Ranks of `dp` that share experts with one another.
    fn experts_along_dp(&self) -> u32 {
        self.ep / (self.tp * self.cp).min(self.ep)
    }

    fn layout(&self, order: &[Axis]) -> Layout {
        let inner = self.experts_along_dp();
        let of = |name, size| Dimension { name, size, is_alike: name != PP };
        let dimensions = order.iter().flat_map(|axis| match axis {
            Axis::Tp => vec![of(TP, self.tp)],
            Axis::Cp => vec![of(CP, self.cp)],
            Axis::Pp => vec![of(PP, self.pp)],
            Axis::Dp => vec![of(EP, inner), of(DP, self.shard / inner), of(REPLICATE, self.replicate)],
        });
        Layout::new(dimensions.collect())
    }

    pub(super) fn pipeline(&self, micro_batches: u32) -> Pipeline {
        Pipeline { schedule: self.schedule, stages: self.pp, micro_batches, chunks: self.chunks }
    }

    /// Ranks that share the parameters of a layer that are no experts'.
    pub(super) fn dense_shards(&self) -> u32 {
        self.cp * self.shard
    }

    /// Ranks that share those of the experts that one of them has.
    pub(super) fn expert_shards(&self) -> u32 {
        self.shard / self.experts_along_dp()
    }

    /// Values of the parameters of a layer that a rank computes with: dense ones, and those of its experts. Embedding and head are with the first and the last
    /// layer.
    pub(super) fn values_of_layer(&self, model: &Architecture, layer: u32) -> [u64; 2] {
        let of_layer = model.layer_parameters(layer);
        let ends = u64::from(layer == 0) + u64::from(layer + 1 == model.layers);
        let dense = of_layer.dense() + ends * model.vocabulary_parameters();
        [dense.div_ceil(self.tp.into()), of_layer.experts.div_ceil(self.ep.into())]
    }

    pub(super) fn of_tp(&self, stage: u32) -> Groups {
        self.layout.groups(&[TP], Some((PP, stage)))
    }

    pub(super) fn of_cp(&self, stage: u32) -> Groups {
        self.layout.groups(&[CP], Some((PP, stage)))
    }

    pub(super) fn of_ep(&self, stage: u32) -> Groups {
        self.layout.groups(&[TP, CP, EP], Some((PP, stage)))
    }

    /// Ranks with the same parameters, but for those of experts.
    pub(super) fn of_dense(&self, stage: u32) -> Groups {
        self.layout.groups(&[CP, EP, DP], Some((PP, stage)))
    }

    /// Ranks with the same experts.
    pub(super) fn of_experts(&self, stage: u32) -> Groups {
        self.layout.groups(&[DP], Some((PP, stage)))
    }

    pub(super) fn of_replicas(&self, stage: u32) -> Groups {
        self.layout.groups(&[REPLICATE], Some((PP, stage)))
    }

    /// All ranks of a stage, each by itself.
    pub(super) fn of_stage(&self, stage: u32) -> Groups {
        self.layout.groups(&[], Some((PP, stage)))
    }

    /// Ranks of equal place in two stages.
    pub(super) fn between(&self, stages: [u32; 2]) -> Groups {
        self.layout.pairs(PP, stages)
    }

    /// Refuses an order in which ranks of a group do not follow one another, and groups of which nodes have unequal parts.
    fn check_groups(
        &self,
        field: &Field<'_>,
        order: Option<&Field<'_>>,
        has_experts: bool,
        topology: &Topology,
    ) -> Result<()> {
        let mut needed = vec![(vec![TP], "tp"), (vec![CP], "cp"), (vec![CP, EP, DP], "dp with cp")];
        if has_experts {
            needed.push((vec![TP, CP, EP], "ep"));
        }
        needed.push((vec![REPLICATE], "dp.replicate"));
        for (along, what) in needed {
            if !self.follow(&along) {
                let blamed = order.unwrap_or(field);
                return Err(blamed.error(ParallelProblem::Apart { what }.into()));
            }
            let groups = self.layout.groups(&along, None);
            if groups.size() > 1 && !are_even(&groups, topology) {
                let (size, gpus) = (groups.size(), topology.gpus_per_node);
                return Err(field.error(ParallelProblem::Uneven { what, size, gpus }.into()));
            }
        }
        Ok(())
    }

    /// Whether nothing is between dimensions that has several ranks.
    fn follow(&self, along: &[&str]) -> bool {
        let several = self.layout.dimensions().iter().filter(|dimension| dimension.size > 1);
        let are_along: Vec<bool> = several.map(|dimension| along.contains(&dimension.name)).collect();
        let first = are_along.iter().position(|&is_along| is_along);
        let last = are_along.iter().rposition(|&is_along| is_along);
        first.zip(last).is_none_or(|(first, last)| are_along[first..=last].iter().all(|&is_along| is_along))
    }
}

/// Whether all groups have parts of nodes of one shape.
fn are_even(groups: &Groups, topology: &Topology) -> bool {
    let shape = |group: Group| {
        let Part { nodes, gpus_per_node, nodes_per_domain, nics_per_node, .. } = topology.part(&group)?;
        Some([nodes, gpus_per_node, nodes_per_domain, nics_per_node])
    };
    let first = shape(groups.group(0));
    first.is_some() && groups.all().all(|group| shape(group) == first)
}

/// Ranks that are sharded, and groups of these.
fn read_replicas(reader: &Reader<'_>) -> Result<(u32, u32)> {
    let Some(field) = reader.field(KEYS.dp) else { return Ok((1, 1)) };
    if field.entries().is_err() {
        return Ok((field.integer_u32(1..=RANK_LIMIT)?, 1));
    }
    let table = field.table(REPLICAS.all)?;
    let (shard, replicate) = (table.need(REPLICAS.shard)?, table.need(REPLICAS.replicate)?);
    if u64::from(shard) * u64::from(replicate) > u64::from(RANK_LIMIT) {
        let limits = format!("at most {RANK_LIMIT}");
        return Err(field.error(Problem::out_of_range(
            "ranks of `dp`",
            u64::from(shard) * u64::from(replicate),
            limits,
        )));
    }
    Ok((shard, replicate))
}

/// Ranks that share experts: whole groups of `tp` and `cp`, and so many of `dp` that these share it evenly.
fn read_experts(reader: &Reader<'_>, has_experts: bool, [inner, shard]: [u32; 2]) -> Result<u32> {
    if !has_experts {
        reader.refuse(KEYS.ep, "no layer of the model has experts")?;
        return Ok(inner);
    }
    let all = inner * shard;
    let ep = reader.get(KEYS.ep)?.unwrap_or(all);
    if ep.is_multiple_of(inner) && all.is_multiple_of(ep) {
        return Ok(ep);
    }
    let blamed = reader.need_field(KEYS.ep)?;
    Err(blamed.error(ParallelProblem::Experts { ep, inner, all }.into()))
}

/// The schedule, and chunks of each stage.
fn read_schedule(reader: &Reader<'_>, pp: u32) -> Result<(Schedule, u32)> {
    if pp == 1 {
        reader.refuse_all(&[KEYS.schedule, KEYS.chunks], "there is one stage: `pp` is 1")?;
    }
    let schedule = reader.get(KEYS.schedule)?.unwrap_or(Schedule::OneForwardOneBackward);
    let chunks = match schedule {
        Schedule::Interleaved => reader.get(KEYS.chunks)?.unwrap_or(2),
        _ => {
            reader.refuse(KEYS.chunks, "only `interleaved` has several chunks of layers for each stage")?;
            if schedule == Schedule::DualPipe { 2 } else { 1 }
        }
    };
    if schedule == Schedule::DualPipe && !pp.is_multiple_of(2) {
        let blamed = reader.need_field(KEYS.schedule)?;
        return Err(blamed.error(ParallelProblem::OddStages { stages: pp }.into()));
    }
    Ok((schedule, chunks))
}

fn read_order(reader: &Reader<'_>) -> Result<Vec<Axis>> {
    let Some(field) = reader.field(KEYS.order) else {
        return Ok(vec![Axis::Tp, Axis::Cp, Axis::Dp, Axis::Pp]);
    };
    let items = field.array()?;
    let named = |item: &Field<'_>| item.choice("dimension", &Axis::ALL, Axis::name);
    let order: Vec<Axis> = items.iter().map(named).collect::<Result<_>>()?;
    if Axis::ALL.iter().all(|axis| order.contains(axis)) && order.len() == Axis::ALL.len() {
        return Ok(order);
    }
    let all = Axis::ALL.map(Axis::name);
    Err(field.error(ParallelProblem::Order { all: all.to_vec() }.into()))
}
