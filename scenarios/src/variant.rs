//! `[[variant]]`: the ways to do the same work that a run compares.

mod algorithms;

use std::sync::Arc;

use zipwire_cluster::LibraryCost;
use zipwire_codec::Layout;
use zipwire_schedule::estimate::Way;
use zipwire_schedule::{Algorithm, Choice, Job, Order, Protocol, Segment, Selection, Work};

use self::algorithms::Calls;
use crate::cluster::CodecSpeeds;
use crate::codec::{self, CodecChoice};
use crate::error::Result;
use crate::files::Files;
use crate::language::{
    self, Condition, Field, Keys, Raw, Reader, Rule, Schema, Then, array, choice, count, custom, file_name,
    integer, keys, named, names, number, raw, string, table,
};
use crate::problem::{FlowProblem, Problem, ServingProblem};
use crate::tree::Place;
use crate::workload::DIMENSIONS;

pub use self::algorithms::Algorithms;

/// One way to do the work.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// Unique in its scenario.
    pub name: String,
    /// In which stages its collectives travel.
    pub protocol: Protocol,
    /// Along which edges they travel, where that is pinned; the ways that come of it are in [`Self::ways`].
    pub algorithms: Algorithms,
    /// Rings of a collective, from 1 on; `None` is one for each NIC of a node.
    pub channels: Option<u32>,
    /// Slices of what goes around a ring or along a tree, from 1 on; `None` is what is predicted to take least time.
    pub slices: Option<u32>,
    /// Whether its calls may be those of a library where nothing is pinned.
    pub may_call: bool,
    /// The way of each segment's call; `None` where there is only one ([`Experiment::choose_ways`](crate::Experiment::choose_ways)).
    pub ways: Vec<Option<Way>>,
    /// Dimensions of a layout along which it codes what is sent; `None` is all of them.
    pub dimensions: Option<Vec<Arc<str>>>,
    /// Whether its reductions travel uncompressed, whatever the protocol of its other calls.
    pub native_reductions: bool,
    /// Layout of its frames; `None` is that of the protocol.
    pub layout: Option<Layout>,
    /// In which order its transfers start.
    pub order: Order,
    /// Open sends of a rank, and open receives, from 1 to ranks - 1; `None` leaves them to the order, which bounds them
    /// only as `shifted-rounds`.
    pub window: Option<u32>,
    /// Which pieces its codec codes.
    pub selection: Selection,
    /// In how many parts a call is coded, at least 1.
    pub parts: u32,
    /// Ranks of a node, if tokens that several ranks of a node want cross the network once.
    pub dedup: Option<u32>,
    /// How many calls have scratch memory of their own, at least 1: see [`Choice::arenas`].
    pub arenas: u32,
    /// Bytes of a frame that its slot holds, over those of its values; `None` is what the codec is predicted to need.
    pub speculative_capacity: Option<f64>,
    /// Its codec; `None` is that of the scenario.
    pub codec: Option<CodecChoice>,
    /// The variants between which it chooses for each call and iteration, at least two, none of them adaptive; none if it always
    /// does the same. The rest of an adaptive variant is that of its first arm.
    pub arms: Vec<Variant>,
}

impl Variant {
    /// Whether it chooses anew in each iteration.
    pub fn is_adaptive(&self) -> bool {
        !self.arms.is_empty()
    }

    /// In which stages a call of its travels.
    pub fn protocol_of(&self, segment: &Segment) -> Protocol {
        let is_kept = self.native_reductions && segment.work.is_reduction();
        let is_coded = !is_kept && codes_along(self.dimensions.as_deref(), segment);
        if is_coded { self.protocol } else { Protocol::Native }
    }

    /// Whether a codec may code what it sends.
    pub fn is_coded(&self) -> bool {
        self.protocol.is_coded() || self.arms.iter().any(Self::is_coded)
    }
}

/// Whether what is sent along the dimension of a segment may be coded, if it is along these; along all without any.
fn codes_along(dimensions: Option<&[Arc<str>]>, segment: &Segment) -> bool {
    let is_coded = |dimension| dimensions.is_none_or(|all| all.contains(dimension));
    segment.dimension.as_ref().is_none_or(is_coded)
}

/// The name that stands in the place of a protocol where there are several.
const ADAPTIVE: &str = "adaptive";

const ARM_LIMIT: usize = 16;

/// A variant and what errors about it point at.
pub(crate) struct ParsedVariant {
    pub(crate) variant: Variant,
    pub(crate) protocol: Place,
    /// The key that needs the speed of a codec, also where nothing is coded.
    pub(crate) dedup: Option<Place>,
    /// The header of its own codec.
    pub(crate) codec: Option<Place>,
    /// Names of the arms, and where they stand.
    arms: Vec<(String, Place)>,
}

/// Most parts of a call.
const PART_LIMIT: u32 = 64;
/// Most calls with scratch memory of their own.
const ARENA_LIMIT: u32 = 64;
/// Most rings of a call: one for each rank of a node.
const CHANNEL_LIMIT: u32 = 1024;
/// Most slices of a channel.
const SLICE_LIMIT: u32 = 64;
/// Largest slot: codecs have room for little more than the values.
const SLOT_LIMIT: f64 = 2.0;

/// Most variants of a scenario.
const LIMIT: usize = 1000;

keys! { static KEYS =
    name: String = file_name(), "unique name; it becomes part of file names", needed = "\"native\"";
    protocol: Option<Protocol> = custom(read_protocol, || names(protocols().into_iter().map(name_of))), "how a collective or an explicit flow travels; `native`, uncompressed, by default; `adaptive` chooses between other variants";
    algorithm: Raw = raw(algorithms::schema), "along which edges an All-Gather, a broadcast or a reduction travels, for all of them or by collective; `auto`, the one that is predicted to take least time, by default; `library` needs `cluster.library`";
    channels: u32 = integer(1..=CHANNEL_LIMIT), "rings, or trees, of a collective, each with a part of every block; one for each NIC of a node by default";
    slices: u32 = integer(1..=SLICE_LIMIT), "in how many slices a reduction goes around a ring or along a tree, and a broadcast around a ring, one while another is added up; what is predicted to take least time by default";
    dimensions: Raw = raw(|| array(string()).at_least(1)), "dimensions of `workload.parallel`, or classes of the calls of a profile, along which calls are coded, the others travel as they are; all by default", example = "[\"dp\", \"ep\"]";
    reductions: Protocol = choice("way of reductions", &[Protocol::Native], Protocol::name), "`native`: reductions travel uncompressed, and the other calls as the protocol says";
    layout: Layout = choice("layout", &Layout::ALL, Layout::name), "layout of the frames of `size-first`; `compact`, the smaller one, by default; GPUs have kernels for `split`";
    order: Order = choice("order", &Order::ALL, Order::name), "in which order a rank's transfers enter its window; `rotation` by default";
    window: Raw = raw(count), "how many sends, and how many receives, a rank has open; ranks - 1, the most, by default";
    compress: Compress = choice("part of the traffic", &Compress::ALL, Compress::name), "what a codec codes: everything, or what All-to-Alls send to other nodes; `all` by default";
    raw_below: u64 = custom(|field| field.bytes(0), language::schema::bytes), "what is shorter travels as it is; nothing by default";
    parts: u32 = integer(1..=PART_LIMIT), "in how many parts a call is coded or handed on, one while another travels; 1 by default";
    speculative_capacity: f64 = number(0.0..=SLOT_LIMIT), "bytes of a frame that its slot holds, over those of its values; predicted by default";
    dedup: &'static str = choice("group of ranks", &[NODE], |name| name), "tokens that several ranks of a `node` want cross the network once, and one of these hands them on; none by default";
    arenas: u32 = integer(1..=ARENA_LIMIT), "how many calls of a channel have memory of their own for frames, summands and gateways; with 1, a call is coded only when the one before has been decoded; 2 by default";
    codec: Raw = raw(|| table(codec::KEYS.all)), "codec of this variant and its cost; that of the scenario by default";
    arms: Raw = raw(|| array(string()).at_least(2).at_most(ARM_LIMIT)), "names of the variants between which an `adaptive` one chooses", example = "[\"native\", \"static-first\"]";
}

/// Every protocol, and `None` for the name that stands for several.
fn protocols() -> Vec<Option<Protocol>> {
    Protocol::ALL.into_iter().map(Some).chain([None]).collect()
}

fn name_of(protocol: Option<Protocol>) -> &'static str {
    protocol.map_or(ADAPTIVE, Protocol::name)
}

fn read_protocol(field: &Field<'_>) -> Result<Option<Protocol>> {
    field.choice("protocol", &protocols(), name_of)
}

fn rules() -> Vec<Rule> {
    let own: [&str; 3] = [KEYS.name.name, KEYS.protocol.name, KEYS.arms.name];
    let fixed: Vec<_> = KEYS.all.iter().copied().filter(|key| !own.contains(&key.name())).collect();
    let coding: Keys<'_> = &[KEYS.compress, KEYS.raw_below, KEYS.codec, KEYS.reductions, KEYS.dimensions];
    let is_adaptive = || Condition::Fits(KEYS.protocol, names([ADAPTIVE]));
    let those = |filter: fn(&Protocol) -> bool| {
        Condition::Fits(KEYS.protocol, names(Protocol::ALL.into_iter().filter(filter).map(Protocol::name)))
    };
    let lacks = || Condition::Lacks(KEYS.protocol);
    let alone = |condition| Condition::All(vec![condition, Condition::Lacks(KEYS.dedup)]);
    let (native, layout) =
        ("`native` codes nothing", "only frames of `size-first` and `speculative` can have several layouts");
    let (slot, parts) =
        ("only `speculative` has slots", "`native` codes nothing, and without `dedup` nothing is handed on");
    vec![
        is_adaptive().needs(&[KEYS.arms]),
        is_adaptive().refuses(&fixed, "an adaptive variant does what its arms do"),
        Condition::Misfits(KEYS.protocol, names([ADAPTIVE]))
            .refuses(&[KEYS.arms], "only `adaptive` variants have arms"),
        Condition::Fits(KEYS.order, names([Order::ShiftedRounds.name()]))
            .refuses(&[KEYS.window], "the window of `shifted-rounds` is 1"),
        those(|protocol| !protocol.takes_layout()).refuses(&[KEYS.layout], layout),
        those(|protocol| !protocol.is_coded()).refuses(coding, native),
        those(|protocol| *protocol != Protocol::Speculative).refuses(&[KEYS.speculative_capacity], slot),
        Rule::If(lacks(), Then::Refuses(vec![(KEYS.layout, layout), (KEYS.speculative_capacity, slot)])),
        lacks().refuses(coding, native),
        alone(those(|protocol| !protocol.is_coded())).refuses(&[KEYS.parts], parts),
        alone(lacks()).refuses(&[KEYS.parts], parts),
    ]
}

/// Inputs of variants from the rest of the scenario.
pub(crate) struct Context<'a> {
    /// The job of an iteration; `None` where requests are served.
    pub(crate) job: Option<&'a Job>,
    pub(crate) gpus_per_node: u32,
    pub(crate) library: &'a LibraryCost,
    pub(crate) speeds: &'a CodecSpeeds,
    pub(crate) files: &'a Files,
}

/// Reads the array of tables; without one there is a single variant, `native`.
pub(crate) fn read(field: Option<&Field<'_>>, context: &Context<'_>) -> Result<Vec<ParsedVariant>> {
    let items = match field {
        Some(field) => field.tables(LIMIT, "variants")?,
        None => Vec::new(),
    };
    let mut variants: Vec<ParsedVariant> = Vec::with_capacity(items.len());
    let mut names: Vec<Place> = Vec::with_capacity(items.len());
    for item in &items {
        let (placed, name) = read_one(item, context)?;
        if let Some(index) = variants.iter().position(|other| other.variant.name == placed.variant.name) {
            let problem = Problem::DuplicateVariant { name: placed.variant.name };
            return Err(problem.at(name).with(names[index].clone(), "the first one"));
        }
        variants.push(placed);
        names.push(name);
    }
    resolve_arms(&mut variants)?;
    Ok(variants)
}

/// Finds the arms of adaptive variants among the others.
fn resolve_arms(variants: &mut [ParsedVariant]) -> Result<()> {
    let is_fixed = |placed: &&ParsedVariant| placed.arms.is_empty();
    let fixed: Vec<Variant> = variants.iter().filter(is_fixed).map(|placed| placed.variant.clone()).collect();
    for placed in variants.iter_mut().filter(|placed| !placed.arms.is_empty()) {
        for (name, place) in &placed.arms {
            let Some(arm) = fixed.iter().find(|variant| variant.name == *name) else {
                let valid = fixed.iter().map(|variant| variant.name.clone()).collect();
                let problem = Problem::UnknownName { what: "fixed variant", name: name.clone(), valid };
                return Err(problem.at(place.clone()));
            };
            let pins = &arm.algorithms;
            let all = [pins.all_gather, pins.broadcast, pins.reduce_scatter, pins.all_reduce];
            if arm.protocol.is_coded() && all.contains(&Some(Algorithm::Library)) {
                return Err(Problem::LibraryArm { name: name.clone() }.at(place.clone()));
            }
            if placed.variant.arms.iter().any(|other| other.name == arm.name) {
                return Err(Problem::DuplicateVariant { name: name.clone() }.at(place.clone()));
            }
            placed.variant.arms.push(Variant { may_call: false, ..arm.clone() });
        }
        let (name, arms) = (placed.variant.name.clone(), std::mem::take(&mut placed.variant.arms));
        let mut coded = arms.iter().filter(|arm| arm.protocol.is_coded());
        let codec = coded.next().and_then(|arm| arm.codec.clone());
        if coded.any(|arm| arm.codec != codec) {
            return Err(Problem::ArmCodecs { name }.at(placed.protocol.clone()));
        }
        placed.variant = Variant { name, codec, arms: arms.clone(), ..arms[0].clone() };
    }
    Ok(())
}

fn read_arms(field: &Field<'_>) -> Result<Vec<(String, Place)>> {
    let items = field.array()?;
    if !(2..=ARM_LIMIT).contains(&items.len()) {
        let (what, limits) =
            (format!("the number of {}", field.path), format!("from 2 to {ARM_LIMIT} names of variants"));
        return Err(field.error(Problem::out_of_range(what, items.len(), limits)));
    }
    items.iter().map(|item| Ok((item.string()?.to_owned(), item.place()))).collect()
}

/// The variant of a scenario that names none.
pub(crate) fn default() -> Variant {
    let protocol = Protocol::Native;
    Variant {
        name: protocol.name().to_owned(),
        protocol,
        algorithms: Algorithms::default(),
        channels: None,
        slices: None,
        may_call: true,
        ways: Vec::new(),
        dimensions: None,
        native_reductions: false,
        layout: None,
        order: Order::default(),
        window: None,
        selection: Selection::default(),
        parts: 1,
        dedup: None,
        arenas: Choice::ARENAS,
        speculative_capacity: None,
        codec: None,
        arms: Vec::new(),
    }
}

/// Protocol where caches move, and no collective calls: a variant says whether they are coded, and by what.
fn read_serving(
    table: &Reader<'_>,
    protocol: Option<Protocol>,
    blamed: &Field<'_>,
    context: &Context<'_>,
) -> Result<ParsedVariant> {
    let Some(protocol @ (Protocol::Native | Protocol::InBand)) = protocol else {
        let problem = ServingProblem::Protocol { protocol: name_of(protocol) };
        return Err(blamed.error(problem.into()));
    };
    let own: [&str; 3] = [KEYS.name.name, KEYS.protocol.name, KEYS.codec.name];
    let others: Vec<_> = KEYS.all.iter().copied().filter(|key| !own.contains(&key.name())).collect();
    table.refuse_all(&others, "caches move piece by piece, and nothing of that is a collective call")?;
    let (codec, header) = read_codec(table, context)?;
    let variant = Variant { name: table.need(KEYS.name)?, protocol, codec, ..default() };
    Ok(ParsedVariant { variant, protocol: blamed.place(), dedup: None, codec: header, arms: Vec::new() })
}

/// The codec of a variant of its own, and its place.
fn read_codec(table: &Reader<'_>, context: &Context<'_>) -> Result<(Option<CodecChoice>, Option<Place>)> {
    let field = table.field(KEYS.codec);
    let codec = field.map(|field| codec::read(&field, context.speeds, context.files)).transpose()?;
    Ok(codec.unzip())
}

fn read_one(item: &Field<'_>, context: &Context<'_>) -> Result<(ParsedVariant, Place)> {
    let &Context { gpus_per_node, library, .. } = context;
    let table = item.table(KEYS.all)?;
    let name_field = table.need_field(KEYS.name)?;
    let protocol_field = table.field(KEYS.protocol);
    let chosen = table.get(KEYS.protocol)?.unwrap_or(Some(Protocol::Native));
    table.check(&rules())?;
    let name = table.need(KEYS.name)?;
    let blamed = protocol_field.as_ref().unwrap_or(item);
    let Some(job) = context.job else {
        return Ok((read_serving(&table, chosen, blamed, context)?, name_field.place()));
    };
    let has = |of: fn(&Work) -> bool| job.segments.iter().any(|segment| of(&segment.work));
    let Some(protocol) = chosen else {
        if !has(Work::is_collective) {
            return Err(FlowProblem::Adaptive { protocol: ADAPTIVE }.at(blamed.place()));
        }
        let arms = read_arms(&table.need_field(KEYS.arms)?)?;
        let variant = Variant { name, ..default() };
        let placed = ParsedVariant { variant, protocol: blamed.place(), dedup: None, codec: None, arms };
        return Ok((placed, name_field.place()));
    };
    if has(|work| matches!(work, Work::Transfers { .. })) {
        if let Some(broken) = broken_flow(job, protocol) {
            return Err(broken.at(blamed.place()));
        }
        table.refuse_all(&[KEYS.order, KEYS.window], "explicit flows are ordered by `workload.order`")?;
        table.refuse(KEYS.arenas, "the frames of each explicit flow have memory of their own")?;
    }
    let native_reductions = read_reductions(&table, job)?;
    let dimensions = read_dimensions(&table, job)?;
    let calls =
        Calls { job, protocol, native_reductions, dimensions: dimensions.as_deref(), library, gpus_per_node };
    let algorithms = algorithms::read(&table, &calls)?;
    let (channels, slices) = read_rings(&table, job, gpus_per_node)?;
    let (dedup, dedup_place) = read_dedup(&table, job, gpus_per_node)?.unzip();
    let window = table.field(KEYS.window).map(|field| field.integer_u32(1..=job.rank_count - 1));
    let (codec, header) = read_codec(&table, context)?;
    let variant = Variant {
        name,
        protocol,
        algorithms,
        channels,
        slices,
        may_call: true,
        ways: Vec::new(),
        dimensions,
        native_reductions,
        layout: table.get(KEYS.layout)?,
        order: table.get(KEYS.order)?.unwrap_or_default(),
        window: window.transpose()?,
        selection: read_selection(&table, gpus_per_node)?,
        parts: table.get(KEYS.parts)?.unwrap_or(1),
        dedup,
        arenas: read_arenas(&table, job, protocol.is_coded() || dedup.is_some())?,
        speculative_capacity: table.get(KEYS.speculative_capacity)?,
        codec,
        arms: Vec::new(),
    };
    let arms = Vec::new();
    let placed = ParsedVariant { variant, protocol: blamed.place(), dedup: dedup_place, codec: header, arms };
    Ok((placed, name_field.place()))
}

pub(crate) fn schema() -> Schema {
    array(table(KEYS.all).with(rules())).at_most(LIMIT)
}

/// Channels and slices, where calls have some.
fn read_rings(table: &Reader<'_>, job: &Job, gpus_per_node: u32) -> Result<(Option<u32>, Option<u32>)> {
    if job.segments.iter().all(|segment| segment.work.algorithms().is_empty()) {
        let reason = "nothing in the workload has several algorithms";
        table.refuse_all(&[KEYS.channels, KEYS.slices], reason)?;
    }
    let channels = table.field(KEYS.channels).map(|field| field.integer_u32(1..=gpus_per_node));
    Ok((channels.transpose()?, table.get(KEYS.slices)?))
}

named! {
    /// Calls that a coded variant codes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Compress {
        All = "all",
        InterNode = "inter-node",
    }
}

/// Among whom tokens cross the network once: the one value of `dedup`.
const NODE: &str = "node";

/// Names of the dimensions along which calls are coded; `None` if nothing is said of them.
fn read_dimensions(table: &Reader<'_>, job: &Job) -> Result<Option<Vec<Arc<str>>>> {
    let Some(field) = table.field(KEYS.dimensions) else { return Ok(None) };
    if job.segments.iter().all(|segment| segment.dimension.is_none()) {
        table.refuse(
            KEYS.dimensions,
            "nothing moves along a dimension: workloads `training` and `profile` have some",
        )?;
    }
    let mut valid: Vec<Arc<str>> = Vec::new();
    for name in job.segments.iter().filter_map(|segment| segment.dimension.as_ref()) {
        if !valid.contains(name) {
            valid.push(Arc::clone(name));
        }
    }
    // Those of `training` may be left at size 1, and then nothing moves along them.
    if valid.iter().all(|name| DIMENSIONS.contains(&&**name)) {
        valid = DIMENSIONS.map(Arc::from).to_vec();
    }
    let named = |item: &Field<'_>| {
        let name = item.string()?;
        valid.iter().find(|known| ***known == *name).cloned().ok_or_else(|| {
            let valid = valid.iter().map(ToString::to_string).collect();
            item.error(Problem::UnknownName { what: "dimension", name: name.to_owned(), valid })
        })
    };
    field.array()?.iter().map(named).collect::<Result<Vec<_>>>().map(Some)
}

/// Whether reductions stay uncompressed, in a workload that has them and calls that do not.
fn read_reductions(table: &Reader<'_>, job: &Job) -> Result<bool> {
    if table.get(KEYS.reductions)?.is_none() {
        return Ok(false);
    }
    let mut works = job.segments.iter().map(|segment| &segment.work).filter(|work| work.is_collective());
    if works.clone().all(|work| !work.is_reduction()) {
        table.refuse(KEYS.reductions, "the workload adds nothing up")?;
    }
    if works.all(Work::is_reduction) {
        let reason = "the workload has no other calls: that is the protocol `native`";
        table.refuse(KEYS.reductions, reason)?;
    }
    Ok(true)
}

/// Ranks of a node, if tokens cross the network once, and the place of that key.
fn read_dedup(table: &Reader<'_>, job: &Job, gpus_per_node: u32) -> Result<Option<(u32, Place)>> {
    if table.get(KEYS.dedup)?.is_none() {
        return Ok(None);
    }
    if job.segments.iter().all(|segment| segment.work.tokens().is_none()) {
        let reason = "the workload does not say which tokens its rows are (`tokens = \"shared\"`)";
        table.refuse(KEYS.dedup, reason)?;
    }
    Ok(Some((gpus_per_node, table.need_field(KEYS.dedup)?.place())))
}

/// The first explicit flow that a protocol cannot code, as it does not end with a value.
fn broken_flow(job: &Job, protocol: Protocol) -> Option<FlowProblem> {
    let mut works = job.segments.iter().map(|segment| &segment.work).filter(|_| protocol.is_coded());
    works.find_map(|work| {
        let Work::Transfers { dtype, flows, .. } = work else { return None };
        let width = dtype.width();
        let is_broken = |(_, bytes): &(usize, u64)| !bytes.is_multiple_of(width as u64);
        let (number, bytes) = flows.iter().map(|flow| flow.bytes).enumerate().find(is_broken)?;
        let (src, dst) = (flows[number].src.0, flows[number].dst.0);
        let (protocol, dtype) = (protocol.name(), dtype.name());
        Some(FlowProblem::Broken { protocol, number, src, dst, bytes, dtype, width })
    })
}

/// How many calls have scratch memory of their own, where any need some.
fn read_arenas(table: &Reader<'_>, job: &Job, codes_or_hands_on: bool) -> Result<u32> {
    if !codes_or_hands_on && job.segments.iter().all(|segment| !segment.work.is_reduction()) {
        let reason = "nothing is coded, handed on or added up, so calls need no memory of their own";
        table.refuse(KEYS.arenas, reason)?;
    }
    Ok(table.get(KEYS.arenas)?.unwrap_or(Choice::ARENAS))
}

fn read_selection(table: &Reader<'_>, gpus_per_node: u32) -> Result<Selection> {
    let ranks_per_node = match table.get(KEYS.compress)? {
        Some(Compress::InterNode) => Some(gpus_per_node),
        Some(Compress::All) | None => None,
    };
    let least_bytes = table.get(KEYS.raw_below)?.unwrap_or(0);
    Ok(Selection { least_bytes, ranks_per_node })
}
