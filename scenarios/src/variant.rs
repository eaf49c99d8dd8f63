//! `[[variant]]`: the ways to do the same work that a run compares.

mod algorithms;
mod coding;

use zipwire_cluster::LibraryCost;
use zipwire_codec::Layout;
use zipwire_schedule::estimate::Way;
use zipwire_schedule::{Algorithm, Choice, Job, Order, Protocol, Selection, Work};

pub use self::algorithms::Algorithms;
use self::algorithms::Calls;
use self::coding::{Compress, NODE, read_arenas, read_dedup, read_reductions, read_selection};
use crate::cluster::CodecSpeeds;
use crate::codec::{self, CodecChoice};
use crate::document::Place;
use crate::error::Result;
use crate::problem::Problem;
use crate::reader::{Field, Reader};
use crate::schema::{
    Condition, Rule, Schema, array, bytes, count, integer, names, needed, number, optional, string, table,
};

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
    pub chunks: u32,
    /// Ranks of a node, if tokens that several ranks of a node want cross the network once.
    pub dedup: Option<u32>,
    /// How many calls have scratch memory of their own, at least 1: see [`Choice::arenas`].
    pub arenas: u32,
    /// Bytes of a frame that its slot holds, over those of its values; `None` is what the codec is predicted to need.
    pub slot: Option<f64>,
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
    pub fn protocol_of(&self, work: &Work) -> Protocol {
        if self.native_reductions && work.is_reduction() { Protocol::Native } else { self.protocol }
    }

    /// The algorithm in which the call of a segment travels, if it has several.
    pub fn algorithm_of(&self, segment: usize) -> Option<Algorithm> {
        self.ways[segment].map(|way| way.algorithm)
    }

    /// Whether a codec may code what it sends.
    pub fn is_coded(&self) -> bool {
        self.protocol.is_coded() || self.arms.iter().any(Self::is_coded)
    }
}

/// The name that stands in the place of a protocol where there are several.
const ADAPTIVE: &str = "adaptive";

/// Most arms.
const ARM_LIMIT: usize = 16;

/// A variant and what errors about it point at.
pub(crate) struct Placed {
    pub(crate) variant: Variant,
    pub(crate) protocol: Place,
    /// What needs the speed of a codec, also where nothing is coded.
    pub(crate) dedup: Option<Place>,
    /// The header of its own codec.
    pub(crate) codec: Option<Place>,
    /// Names of the arms, and where they stand.
    arms: Vec<(String, Place)>,
}

const KEYS: &[&str] = &[
    "name",
    "protocol",
    "algorithm",
    "channels",
    "slices",
    "reductions",
    "layout",
    "order",
    "window",
    "compress",
    "raw_below",
    "chunks",
    "slot",
    "dedup",
    "arenas",
    "codec",
    "arms",
];

/// Keys that only fixed variants have.
const FIXED_KEYS: [&str; 14] = [
    "algorithm",
    "channels",
    "slices",
    "reductions",
    "layout",
    "order",
    "window",
    "compress",
    "raw_below",
    "chunks",
    "slot",
    "codec",
    "dedup",
    "arenas",
];

/// Keys that say what a codec does with a call.
const CODING_KEYS: [&str; 4] = ["compress", "raw_below", "codec", "reductions"];
/// Cuts a call into parts, for a codec or for gateways.
const PARTS_KEYS: [&str; 1] = ["chunks"];

/// Most parts of a call.
const CHUNK_LIMIT: u32 = 64;
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

/// Reads the array of tables; without one there is a single variant, `native`.
pub(crate) fn read(
    field: Option<&Field<'_>>,
    job: &Job,
    gpus_per_node: u32,
    library: &LibraryCost,
    speeds: &CodecSpeeds,
) -> Result<Vec<Placed>> {
    let items = match field {
        Some(field) => field.array()?,
        None => Vec::new(),
    };
    if let Some(extra) = items.get(LIMIT) {
        let (path, value) = ("variant".to_owned(), items.len().to_string());
        return Err(extra.error(Problem::OutOfRange {
            path,
            value,
            limits: format!("at most {LIMIT} variants"),
        }));
    }
    let mut variants: Vec<Placed> = Vec::with_capacity(items.len());
    let mut names: Vec<Place> = Vec::with_capacity(items.len());
    for item in &items {
        let (placed, name) = read_one(item, job, gpus_per_node, library, speeds)?;
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
fn resolve_arms(variants: &mut [Placed]) -> Result<()> {
    let is_fixed = |placed: &&Placed| placed.arms.is_empty();
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
            if all.contains(&Some(Algorithm::Library)) {
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
        let (path, value) = (format!("the number of `{}`", field.path), items.len().to_string());
        let limits = format!("from 2 to {ARM_LIMIT} names of variants");
        return Err(field.error(Problem::OutOfRange { path, value, limits }));
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
        native_reductions: false,
        layout: None,
        order: Order::default(),
        window: None,
        selection: Selection::default(),
        chunks: 1,
        dedup: None,
        arenas: Choice::ARENAS,
        slot: None,
        codec: None,
        arms: Vec::new(),
    }
}

fn read_one(
    item: &Field<'_>,
    job: &Job,
    gpus_per_node: u32,
    library: &LibraryCost,
    speeds: &CodecSpeeds,
) -> Result<(Placed, Place)> {
    let table = item.table(KEYS)?;
    let name = table.need("name", "\"native\"")?;
    let protocol_field = table.get("protocol");
    if let Some(field) = protocol_field.as_ref().filter(|field| field.as_string() == Some(ADAPTIVE)) {
        FIXED_KEYS
            .iter()
            .try_for_each(|key| table.refuse(key, "an adaptive variant does what its arms do"))?;
        if !job.segments.iter().any(|segment| segment.work.is_collective()) {
            return Err(field.error(Problem::CodedFlows { protocol: ADAPTIVE }));
        }
        let arms = read_arms(&table.need("arms", "[\"native\", \"static-first\"]")?)?;
        let variant = Variant { name: name.name()?, ..default() };
        let placed = Placed { variant, protocol: field.place(), dedup: None, codec: None, arms };
        return Ok((placed, name.place()));
    }
    table.refuse("arms", "only `adaptive` variants have arms")?;
    let protocol = match &protocol_field {
        Some(field) => {
            // Every protocol by its name, and the name that stands for several.
            let all: Vec<Option<Protocol>> = Protocol::ALL.into_iter().map(Some).chain([None]).collect();
            let chosen =
                field.choice("protocol", &all, |protocol| protocol.map_or(ADAPTIVE, Protocol::name))?;
            chosen.expect("adaptive variants are read above")
        }
        None => Protocol::Native,
    };
    let blamed = protocol_field.as_ref().unwrap_or(item);
    if job.segments.iter().any(|segment| matches!(segment.work, Work::Transfers { .. })) {
        if protocol.is_coded() {
            return Err(blamed.error(Problem::CodedFlows { protocol: protocol.name() }));
        }
        let reason = "explicit flows are ordered by `workload.order`";
        table.refuse("order", reason)?;
        table.refuse("window", reason)?;
    }
    let native_reductions = read_reductions(&table, job)?;
    let algorithms =
        algorithms::read(&table, &Calls { job, protocol, native_reductions, library, gpus_per_node })?;
    let (channels, slices) = read_rings(&table, job, gpus_per_node)?;
    if !protocol.takes_layout() {
        table.refuse("layout", "only frames of `size-first` and `speculative` can have several layouts")?;
    }
    if !protocol.is_coded() {
        CODING_KEYS.iter().try_for_each(|key| table.refuse(key, "`native` codes nothing"))?;
    }
    let dedup = read_dedup(&table, job, gpus_per_node)?;
    if !protocol.is_coded() && dedup.is_none() {
        let reason = "`native` codes nothing, and without `dedup` nothing is handed on";
        PARTS_KEYS.iter().try_for_each(|key| table.refuse(key, reason))?;
    }
    if protocol != Protocol::Speculative {
        table.refuse("slot", "only `speculative` has slots")?;
    }
    let layout =
        table.get("layout").map(|field| field.choice("layout", &Layout::ALL, Layout::name)).transpose()?;
    let order = match table.get("order") {
        Some(field) => field.choice("order", &Order::ALL, Order::name)?,
        None => Order::default(),
    };
    if order == Order::ShiftedRounds {
        table.refuse("window", "the window of `shifted-rounds` is 1")?;
    }
    let window = table.get("window").map(|field| field.integer_u32(1..=job.rank_count - 1)).transpose()?;
    let (name_field, name) = (&name, name.name()?);
    let selection = read_selection(&table, gpus_per_node)?;
    let chunks = table.get("chunks").map_or(Ok(1), |field| field.integer_u32(1..=CHUNK_LIMIT))?;
    let arenas = read_arenas(&table, job, protocol.is_coded() || dedup.is_some())?;
    let slot = table.get("slot").map(|field| field.number(0.0..=SLOT_LIMIT)).transpose()?;
    let (dedup, dedup_place) = dedup.unzip();
    let (codec, header) = table.get("codec").map(|field| codec::read(&field, speeds)).transpose()?.unzip();
    let arms = Vec::new();
    let variant = Variant {
        name,
        protocol,
        algorithms,
        channels,
        slices,
        may_call: true,
        ways: Vec::new(),
        native_reductions,
        layout,
        order,
        window,
        selection,
        chunks,
        dedup,
        arenas,
        slot,
        codec,
        arms,
    };
    let (protocol, arms) = (blamed.place(), Vec::new());
    let placed = Placed { variant, protocol, dedup: dedup_place, codec: header, arms };
    Ok((placed, name_field.place()))
}

/// What [`read`] reads.
pub(crate) fn schema() -> Schema {
    #[rustfmt::skip]
    let keys = [
        needed("name", "unique name; it becomes part of file names", Field::name_schema()),
        optional("protocol", "how a collective travels; `native`, uncompressed, by default; `adaptive` chooses between other variants", names(Protocol::ALL.map(Protocol::name).into_iter().chain([ADAPTIVE]))),
        optional("algorithm", "along which edges an All-Gather, a broadcast or a reduction travels, for all of them or by collective; `auto`, the one that is predicted to take least time, by default; `library` needs `cluster.library`", algorithms::schema()),
        optional("channels", "rings, or trees, of a collective, each with a part of every block; one for each NIC of a node by default", integer(1..=CHANNEL_LIMIT)),
        optional("slices", "in how many slices a reduction goes around a ring or along a tree, and a broadcast around a ring, one while another is added up; what is predicted to take least time by default", integer(1..=SLICE_LIMIT)),
        optional("reductions", "`native`: reductions travel uncompressed, and the other calls as the protocol says", names([Protocol::Native.name()])),
        optional("layout", "layout of the frames of `size-first`; `compact`, the smaller one, by default; GPUs have kernels for `split`", names(Layout::ALL.map(Layout::name))),
        optional("order", "in which order a rank's transfers enter its window; `rotation` by default", names(Order::ALL.map(Order::name))),
        optional("compress", "what a codec codes: everything, or what All-to-Alls send to other nodes; `all` by default", names(Compress::ALL.map(Compress::name))),
        optional("raw_below", "what is shorter travels as it is; nothing by default", bytes()),
        optional("chunks", "in how many parts a call is coded or handed on, one while another travels; 1 by default", integer(1..=CHUNK_LIMIT)),
        optional("dedup", "tokens that several ranks of a `node` want cross the network once, and one of these hands them on; none by default", names([NODE])),
        optional("arenas", "how many calls of a channel have memory of their own for frames, summands and gateways; with 1, a call is coded only when the one before has been decoded; 2 by default", integer(1..=ARENA_LIMIT)),
        optional("codec", "codec of this variant and its cost; that of the scenario by default", codec::schema()),
        optional("slot", "bytes of a frame that its slot holds, over those of its values; predicted by default", number(0.0..=SLOT_LIMIT)),
        optional("arms", "names of the variants between which an `adaptive` one chooses", array(string()).at_least(2).at_most(ARM_LIMIT)),
        optional("window", "how many sends, and how many receives, a rank has open; ranks - 1, the most, by default", count()),
    ];
    let one_open = Condition::Is("order", names([Order::ShiftedRounds.name()]));
    let those = |filter: fn(&Protocol) -> bool| {
        Condition::Is("protocol", names(Protocol::ALL.into_iter().filter(filter).map(Protocol::name)))
    };
    let adaptive = || names([ADAPTIVE]);
    let table = table(KEYS, keys)
        .when(Condition::Is("protocol", adaptive()), Rule::Needs(&["arms"]))
        .when(Condition::Is("protocol", adaptive()), Rule::Refuses(&FIXED_KEYS))
        .when(Condition::IsNot("protocol", adaptive()), Rule::Refuses(&["arms"]))
        .when(one_open, Rule::Refuses(&["window"]))
        .when(those(|protocol| !protocol.takes_layout()), Rule::Refuses(&["layout"]))
        .when(those(|protocol| !protocol.is_coded()), Rule::Refuses(&CODING_KEYS))
        .when(those(|protocol| *protocol != Protocol::Speculative), Rule::Refuses(&["slot"]))
        .when(Condition::Lacks("protocol"), Rule::Refuses(&["layout", "slot"]))
        .when(Condition::Lacks("protocol"), Rule::Refuses(&CODING_KEYS))
        .when(
            Condition::All(vec![those(|protocol| !protocol.is_coded()), Condition::Lacks("dedup")]),
            Rule::Refuses(&PARTS_KEYS),
        )
        .when(
            Condition::All(vec![Condition::Lacks("protocol"), Condition::Lacks("dedup")]),
            Rule::Refuses(&PARTS_KEYS),
        );
    array(table).at_most(LIMIT)
}

/// Channels and slices, where calls have some.
fn read_rings(table: &Reader<'_>, job: &Job, gpus_per_node: u32) -> Result<(Option<u32>, Option<u32>)> {
    if job.segments.iter().all(|segment| segment.work.algorithms().is_empty()) {
        let reason = "nothing in the workload has several algorithms";
        ["channels", "slices"].iter().try_for_each(|key| table.refuse(key, reason))?;
    }
    let channels = table.get("channels").map(|field| field.integer_u32(1..=gpus_per_node)).transpose()?;
    let slices = table.get("slices").map(|field| field.integer_u32(1..=SLICE_LIMIT)).transpose()?;
    Ok((channels, slices))
}
