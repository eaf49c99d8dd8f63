//! Problems of scenarios as data, with their messages.

#![allow(missing_docs, reason = "fields are named by the messages")]

use std::io;
use std::path::PathBuf;

use thiserror::Error;
use zipwire_cluster::GraphError;
use zipwire_codec::{SpecError, TableError};
use zipwire_serving::ShardError;
use zipwire_traces::{TableFileError, TraceError};

use crate::error::ScenarioError;
use crate::quantity::Dimension;
use crate::tree::Place;
use crate::words::{counted, from_rank, gigabytes, in_table, list, meant, shortened_names};

/// A problem of a scenario. `Display` gives one line; [`help`](Self::help) gives the remedy.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Problem {
    #[error("cannot read `{path}`: {source}")]
    Unreadable { path: PathBuf, source: io::Error },
    /// Not TOML; duplicate keys are this, too.
    #[error("invalid TOML: {message}")]
    Syntax { message: String, is_json: bool },
    #[error("unknown key `{key}`{}", in_table(table))]
    UnknownKey { key: String, table: String, valid: Vec<&'static str> },
    #[error("key `{key}`{} is now `{new}`", in_table(table))]
    RenamedKey { key: String, table: String, new: &'static str, values: &'static str },
    #[error("missing key `{key}`{}", in_table(table))]
    MissingKey { key: String, table: String, example: String },
    #[error(
        "`{table}` needs exactly one of {}, found {}",
        list(choices.iter().copied()),
        list(found.iter().copied())
    )]
    NotOneOf { table: String, choices: Vec<&'static str>, found: Vec<&'static str> },
    #[error("`{path}` has no effect: {reason}")]
    NoEffect { path: String, reason: &'static str },
    #[error("`{path}` must be {expected}, found {found}")]
    WrongType { path: String, expected: &'static str, found: &'static str },
    #[error("`{path}` needs a unit: `{number}` could be anything")]
    MissingUnit { path: String, number: String, dimension: Dimension },
    #[error("`{path}` is {}, and `{unit}` is no unit of that", dimension.name())]
    UnknownUnit { path: String, unit: String, dimension: Dimension },
    /// A text that does not begin with a number.
    #[error("`{path}` must be {}, found `{text}`", dimension.name())]
    NotQuantity { path: String, text: String, dimension: Dimension },
    #[error("`{path}` is out of range: `{value}`")]
    OutOfRange { path: String, value: String, limits: String },
    #[error("unknown {what} `{name}`")]
    UnknownName {
        /// Kind of name: `protocol`, `variant`.
        what: &'static str,
        name: String,
        valid: Vec<String>,
    },
    /// More NICs than GPUs, where one of both numbers is from elsewhere.
    #[error("a node of `{gpus}` GPUs cannot have `{nics}` NICs")]
    NicsPerNode { gpus: u32, nics: u32 },
    #[error("the cluster has no link `{name}`")]
    UnknownLink {
        name: String,
        nearest: Option<String>,
        /// Names and counts of vertices with a link up and one down; empty in a graph.
        kinds: Vec<(&'static str, u32)>,
        edges: Vec<String>,
    },
    /// A topology that needs sizes, by name alone.
    #[error("`{path}` cannot be the name `{name}` alone")]
    BareTopology { path: String, name: &'static str, example: &'static str },
    /// A topology that is drawn vertex by vertex.
    #[error(transparent)]
    Graph(#[from] GraphProblem),
    #[error("`{path}` cannot be part of a file name: `{name}`")]
    BadName { path: String, name: String },
    #[error("two variants are called `{name}`")]
    DuplicateVariant { name: String },
    #[error("`{flag}` takes `path=value`")]
    NotAssignment { flag: String },
    #[error("`{path}` does not exist in the scenario")]
    NoSuchPath { path: String, valid: Vec<String> },
    #[error("`{path}` is {found} and has no keys")]
    NotTable { path: String, found: &'static str },
    #[error("`{path}` is no path of the scenario")]
    NotPath { path: String },
    /// A path in `[sweep]` without quotes, which TOML takes apart.
    #[error("`sweep.{key}` is a table: a path needs quotes")]
    BarePath { key: String },
    #[error("{problem}, at point {point} of {count}: {set}")]
    AtPoint { problem: Box<Problem>, point: usize, count: usize, set: String },
    #[error("a token cannot go to `{top_k}` of `{experts}` experts")]
    TopK { top_k: u64, experts: u64 },
    /// Heads of queries that tensor parallelism cannot deal out.
    #[error("{heads} heads of attention cannot be split over {ranks} GPUs")]
    Heads { heads: u32, ranks: u32 },
    /// Dimensions that ranks cannot have.
    #[error(transparent)]
    Parallel(#[from] ParallelProblem),
    /// Weights of one GPU, and its memory.
    #[error(
        "{} of weights for each GPU, whose memory has {}",
        gigabytes(*weights),
        gigabytes(*memory)
    )]
    Memory { weights: u64, memory: u64 },
    #[error("`{file}` has {count} records with {wanted}, and exactly one is needed")]
    NotOneRecord { file: String, count: usize, wanted: String, available: Vec<String> },
    #[error("the model has `{wanted}` experts, the record in `{file}` has `{found}`")]
    ExpertCount { file: String, found: usize, wanted: usize },
    #[error("the record in `{file}` routes no token{}", from_rank(*rank))]
    NoShares {
        file: String,
        /// The source rank; `None` if the record is not by rank.
        rank: Option<u32>,
    },
    #[error("`{path}` has {found} {what} for `{ranks}` ranks")]
    NotPerRank {
        path: String,
        found: usize,
        /// Name of an entry: `entries`, `rows`, `columns`.
        what: &'static str,
        ranks: u32,
    },
    #[error("`{bytes}` bytes are no whole number of {dtype} values of {width} bytes")]
    NotWhole { bytes: u64, dtype: &'static str, width: usize },
    #[error("rank `{rank}` sends nothing to itself: a fault hits a transfer between two ranks")]
    SelfFault { rank: u32 },
    #[error("the columns must be `{expected}`, found {}", if .found.is_empty() { "nothing".to_owned() } else { format!("`{found}`") })]
    BadHeader { expected: &'static str, example: &'static str, found: String },
    #[error("`{}` holds no rows", path.display())]
    NoRows { path: PathBuf, example: &'static str },
    /// A profile of a real job, with the remedy behind `help: `.
    #[error("cannot replay `{path}`: {reason}")]
    Profile { path: PathBuf, reason: String, remedy: String },
    #[error("column `{column}` must be {expected}, found `{found}`")]
    BadField { column: String, expected: &'static str, found: String },
    #[error("column `{column}` is out of range: `{value}`")]
    FieldRange { column: String, value: String, limits: String },
    #[error("a row of {found} fields where {expected} are needed")]
    RowLength { found: usize, expected: usize },
    /// A codec id that does not parse.
    #[error("{0}")]
    Codec(#[source] SpecError),
    #[error("protocol `{protocol}` needs a codec, and the scenario has none")]
    NoCodec { protocol: &'static str },
    #[error("how fast is codec `{codec}`? neither the scenario nor its cluster says so")]
    NoCodecSpeed { codec: String, presets: Vec<&'static str> },
    #[error("`dedup` puts rows together at the decode speed of a codec, and the scenario has none")]
    NoCopySpeed,
    #[error("codec `{codec}` does not code {dtype} values")]
    CodecType { codec: String, dtype: &'static str },
    #[error(
        "protocol `{protocol}` sends ahead what a codec leaves as it is, and frames of `{codec}` have no such part of {dtype} values"
    )]
    NoRests { protocol: &'static str, codec: String, dtype: &'static str },
    #[error("the arms of variant `{name}` have different codecs")]
    ArmCodecs { name: String },
    #[error("the compression ratio of codec `{codec}` is unknown: the workload has no payload")]
    NoPayload { codec: String, dtype: &'static str },
    #[error("`{path}` has no effect: nothing in the workload has several algorithms")]
    NoAlgorithms { path: String },
    /// An order or a window for an algorithm that leaves no choice of what comes next, or has no transfers.
    #[error(
        "`{path}` has no effect: the algorithm `{algorithm}` leaves no choice of which transfer comes next"
    )]
    FixedOrder { path: String, algorithm: &'static str, free: &'static str },
    #[error(
        "algorithm `library` calls the library for each {collective}, and `cluster.library` does not say what that costs with \
         {gpus_per_node} GPUs per node"
    )]
    NoCallCost { collective: &'static str, gpus_per_node: u32, example: &'static str },
    #[error(
        "algorithm `library` calls the library for each {collective} of some of the ranks, and only a model of it says what that costs"
    )]
    NoGroupCost { collective: &'static str },
    #[error("algorithm `{algorithm}` reaches all ranks, and not every {collective} of this workload does")]
    PartialCall { algorithm: &'static str, collective: &'static str },
    #[error(
        "variant `{name}` cannot be an arm: it is coded and calls a library, and a switcher has no model of that"
    )]
    LibraryArm { name: String },
    #[error("algorithm `{algorithm}` pads frames, and protocol `{protocol}` has none")]
    PaddedValues { algorithm: &'static str, protocol: &'static str },
    #[error(
        "algorithm `{algorithm}` adds up on the way, and frames of protocol `{protocol}` are decoded at their end"
    )]
    CodedSums { algorithm: &'static str, protocol: &'static str },
    /// A recording that cannot be read.
    #[error("{0}")]
    Recording(#[source] TraceError),
    /// The values that are sent, or their base.
    #[error(transparent)]
    Payload(PayloadProblem),
    /// Explicit flows.
    #[error(transparent)]
    Flow(FlowProblem),
    /// A table that frames are to share.
    #[error(transparent)]
    Table(TableProblem),
    /// Requests, pools and caches.
    #[error(transparent)]
    Serving(#[from] ServingProblem),
    /// A parcel from one host to others.
    #[error(transparent)]
    Parcel(ParcelProblem),
}

/// Why ranks cannot share a model so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParallelProblem {
    #[error("{} are {} ranks, and the cluster has {ranks}", product(sizes), sizes.iter().map(|(_, size)| u128::from(*size)).product::<u128>())]
    Ranks { sizes: [(&'static str, u32); 4], ranks: u32 },
    #[error("{ep} ranks cannot share experts: `tp` x `cp` are {inner}, and with `dp` {all}")]
    Experts { ep: u32, inner: u32, all: u32 },
    #[error("{experts} experts cannot be split over {ep} ranks")]
    UnevenExperts { experts: u32, ep: u32 },
    #[error("replicas that share nothing are all alike: `replicate` means nothing")]
    NothingToReplicate,
    #[error("`dualpipe` needs an even number of stages, and `pp` is {stages}")]
    OddStages { stages: u32 },
    #[error("`dualpipe` carries out passes in pairs, for which parameters are not gathered in turn")]
    PairsGather,
    #[error(
        "schedule `{schedule}` needs {needed} as the number of micro-batches: with {stages} stages not {micro_batches}"
    )]
    MicroBatches {
        schedule: &'static str,
        stages: u32,
        micro_batches: u32,
        needed: &'static str,
        example: u32,
    },
    #[error("{layers} layers cannot be split into {parts} parts")]
    Layers { layers: u32, parts: u32 },
    #[error("a sequence of {tokens} tokens cannot be split over {ranks} ranks")]
    Tokens { tokens: u64, ranks: u32 },
    #[error("the order is of all dimensions, each once")]
    Order { all: Vec<&'static str> },
    #[error("in this order the ranks of `{what}` do not follow one another")]
    Apart { what: &'static str },
    #[error("{size} ranks of `{what}` have unequal parts of nodes of {gpus} GPUs")]
    Uneven { what: &'static str, size: u32, gpus: u32 },
    #[error("weights, gradients and optimizer states take {} of each GPU, whose memory has {}", gigabytes(*needed), gigabytes(*memory))]
    Memory { needed: u64, memory: u64 },
}

/// For instance `tp = 2 x cp = 1`.
fn product(sizes: &[(&'static str, u32)]) -> String {
    let all: Vec<String> = sizes.iter().map(|(name, size)| format!("`{name}` {size}")).collect();
    all.join(" x ")
}

impl ParallelProblem {
    /// The remedy.
    pub fn help(&self) -> String {
        match self {
            Self::Ranks { sizes, ranks } => {
                let others: u128 = sizes[..3].iter().map(|(_, size)| u128::from(*size)).product();
                if u128::from(*ranks).is_multiple_of(others) {
                    format!("set `dp` to {}, or take another number of nodes", u128::from(*ranks) / others)
                } else {
                    "choose sizes whose product is `cluster.nodes` x `cluster.gpus_per_node`".to_owned()
                }
            }
            Self::Experts { inner, all, .. } => {
                format!("set `ep` to a multiple of {inner} that divides {all}")
            }
            Self::UnevenExperts { experts, .. } => format!("set `ep` to a divisor of {experts}"),
            Self::NothingToReplicate => "name one number of ranks, `dp = N`, or shard the `optimizer` states".to_owned(),
            Self::OddStages { stages } => format!("set `pp` to {}, or take another schedule", stages + 1),
            Self::PairsGather => "set `sharded` to \"optimizer\", or take another schedule".to_owned(),
            Self::MicroBatches { example, .. } => format!("set `workload.micro_batches` to {example}"),
            Self::Layers { layers, .. } => {
                format!("take at most {} stages times chunks: embedding and head may each be a part", layers + 2)
            }
            Self::Tokens { ranks, .. } => format!("set `workload.sequence` to a multiple of {ranks}"),
            Self::Order { all } => format!("name {}", list(all.iter().copied())),
            Self::Apart { .. } => "leave `order` out, or let what is between them have one rank".to_owned(),
            Self::Uneven { gpus, .. } => {
                format!("choose sizes that divide {gpus} inside a node, or are multiples of it across nodes")
            }
            Self::Memory { .. } => {
                "take more stages or more `tp`, share `parameters` (`sharded`), or leave `cluster.gpu_memory` out".to_owned()
            }
        }
    }
}

/// Why flows cannot start, or not travel so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FlowProblem {
    #[error("a flow from rank `{rank}` to itself")]
    SelfFlow { rank: u32 },
    /// `start = "rank-ready"` with two start times for one rank.
    #[error("rank `{rank}` is ready at `{second_s}` s here and at `{first_s}` s before")]
    TwoStarts { rank: u32, first_s: f64, second_s: f64 },
    #[error("protocol `{protocol}` chooses anew for each collective call, and explicit flows are none")]
    Adaptive { protocol: &'static str },
    /// A flow that is to be coded and does not end with a value.
    #[error(
        "protocol `{protocol}` codes whole values, and flow {number} of `workload`, from rank {src} to rank {dst}, has {bytes} \
         bytes: {dtype} has {width} bytes per value"
    )]
    Broken {
        protocol: &'static str,
        number: usize,
        src: u32,
        dst: u32,
        bytes: u64,
        dtype: &'static str,
        width: usize,
    },
}

impl FlowProblem {
    /// The remedy, where the message does not name it already.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::SelfFlow { .. } | Self::TwoStarts { .. } => None,
            Self::Adaptive { .. } => {
                Some("leave `protocol` out, or name one of those that a run is to compare".to_owned())
            }
            Self::Broken { width, .. } => Some(format!(
                "make its `bytes` a multiple of {width}, set `workload.dtype` to a type of one byte, `F8_E4M3` or `F8_E5M2`, or let the \
                 variant be `native`"
            )),
        }
    }

    /// The error of this problem at a place.
    pub(crate) fn at(self, place: Place) -> ScenarioError {
        Problem::Flow(self).at(place)
    }
}

/// A wrong graph. `Display` gives one line; [`Problem::help`](Problem::help) gives the remedy.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GraphProblem {
    #[error("the graph has no vertex `{name}`")]
    UnknownVertex { name: String, nearest: Option<String>, gpus: u32, switches: Vec<String> },
    #[error("a switch cannot be called `{name}`")]
    BadSwitch { name: String },
    #[error("two switches are called `{name}`")]
    TwoSwitches { name: String },
    #[error("`{path}` names {found} ends of an edge, and it has two")]
    NotTwoEnds { path: String, found: usize },
    #[error("an edge from `{vertex}` to itself")]
    Loop { vertex: String },
    #[error("two edges lead from `{src}` to `{dst}`")]
    TwoEdges { src: String, dst: String },
    /// More ranks than routes of graphs are computed for.
    #[error("{error}")]
    Ranks { error: GraphError, others: Vec<&'static str> },
    /// A graph that is no cluster.
    #[error(transparent)]
    Graph(GraphError),
}

impl GraphProblem {
    pub(crate) fn help(&self) -> String {
        let fixed = match self {
            Self::UnknownVertex { nearest, gpus, switches, .. } => {
                let (meant, gpus) = (meant(nearest.as_deref()), counted("gpu", *gpus));
                return match switches.as_slice() {
                    [] => format!("{meant}there are {gpus}; list others in `switches`"),
                    _ => format!("{meant}there are {gpus} and the switches {}", shortened_names(switches)),
                };
            }
            Self::Ranks { others, .. } => {
                return format!("take fewer, or one of the topologies {}", list(others.iter().copied()));
            }
            Self::BadSwitch { .. } => {
                "words of letters, digits, `-`, `_` and `.` with a blank between two of them; `gpu` is what ranks are \
                 called"
            }
            Self::TwoSwitches { .. } => "give each switch a name of its own",
            Self::NotTwoEnds { .. } => "like `between = [\"gpu 0\", \"gpu 1\"]`",
            Self::Loop { .. } => "leave it out: what stays where it is crosses no link",
            Self::TwoEdges { .. } => {
                "make them one with the bandwidth of both; `between` counts in both directions"
            }
            Self::Graph(GraphError::Disconnected { .. }) => {
                "every rank must reach every other one; `between` is an edge in both directions, `from` and `to` in one"
            }
            Self::Graph(_) => "leave out switches that only pass on what they get",
        };
        fixed.to_owned()
    }
}

/// A failure to send an experiment, or a wrong parcel. `Display` gives one line; [`Problem::help`](Problem::help) gives the
/// remedy.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ParcelProblem {
    #[error("`{path}` has changed since the scenario was loaded")]
    Changed { path: PathBuf },
    #[error("with `{path}` the scenario and the files that it names have more than {limit} bytes")]
    TooLarge { path: PathBuf, limit: u64 },
    /// A tensor whose place other hosts cannot be told.
    #[error("`{path}` must lie at the same path on every host, and the path is not UTF-8")]
    NotText { path: PathBuf },
    /// A tensor that the host that sent the scenario could read, and this one cannot: its file, or the tensor in it, is not there.
    #[error("a tensor that every host needs is not on this one: {error}")]
    Tensor {
        #[source]
        error: TraceError,
    },
    #[error("tensor `{tensor}` of `{path}` has other rows on this host than where the scenario was loaded")]
    OtherRows { path: PathBuf, tensor: String },
    #[error("the scenario was sent with a tensor of `{dtype}` values, which this host does not know")]
    UnknownType { dtype: String },
    #[error("point {} was sent of a sweep that does not have it on this host", point + 1)]
    NoPoint { point: usize },
}

impl ParcelProblem {
    /// The error of this problem: there is no text to point into.
    pub(crate) fn nowhere(self) -> ScenarioError {
        Problem::Parcel(self).nowhere()
    }

    pub(crate) fn help(&self) -> String {
        let help = match self {
            Self::Tensor { .. } | Self::OtherRows { .. } => "copy the file to the same path on every host",
            Self::Changed { .. } => "start again, and leave it as it is until all hosts have begun",
            Self::TooLarge { .. } => "leave out of it what the scenario does not use",
            Self::NotText { .. } => "rename it, or the folder with such a name",
            Self::UnknownType { .. } | Self::NoPoint { .. } => {
                "run the same version of zipwire on every host"
            }
        };
        help.to_owned()
    }
}

/// Why values cannot be sent, or differ from nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PayloadProblem {
    #[error("values are drawn as BF16, and the workload sends {dtype}")]
    DrawnType { dtype: &'static str },
    #[error("the base: {0}")]
    Base(#[source] TraceError),
    /// The base is no earlier state of the tensor.
    #[error(
        "tensor `{tensor}` of the base has {} rows of {} values, and the one that is sent {} of {}",
        .found[0], .found[1], .needed[0], .needed[1]
    )]
    BaseShape { tensor: String, found: [usize; 2], needed: [usize; 2] },
    #[error("the workload carries gradients only, of which no rank has an earlier state")]
    GradientBase,
    #[error("codec `{codec}` takes differences from a base, and the payload has none")]
    NoBase { codec: String, is_recorded: bool },
    #[error("FP8 values have a scale for every {block}, and a token has {hidden} values")]
    PartialBlock { hidden: u32, block: usize },
    #[error("codec `{codec}` takes differences from a base, and no rank has one of what is added up")]
    SumBase { codec: String, has_others: bool },
}

impl PayloadProblem {
    /// The remedy, where the message does not name it already.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::DrawnType { dtype } => Some(format!(
                "name a recorded tensor of {dtype} by `file` and `tensor`, leave `payload` out, or send `dtype = \"BF16\"`"
            )),
            Self::Base(error) => error.help(),
            Self::BaseShape { .. } => {
                Some("name a checkpoint of the same model: its tensors have the same shapes".to_owned())
            }
            Self::PartialBlock { block, .. } => {
                Some(format!("leave `dispatch_dtype` out, or take a model whose `hidden` is a multiple of {block}"))
            }
            Self::GradientBase => Some("leave `base` out".to_owned()),
            Self::NoBase { is_recorded: true, .. } => Some(
                "name the file of the tensors as all ranks have them already, `base = \"OLD.safetensors\"`, beside `file`"
                    .to_owned(),
            ),
            Self::NoBase { codec, .. } => Some(format!(
                "name a recorded tensor, and the file of it as all ranks have it already, `payload = {{ file = \"NEW.safetensors\", \
                 tensor = \"NAME\", base = \"OLD.safetensors\" }}`, or take the codec `{}`",
                behind(codec)
            )),
            Self::SumBase { codec, has_others: true } => Some(format!(
                "let sums travel uncompressed, `reductions = \"native\"`, or take the codec `{}`",
                behind(codec)
            )),
            Self::SumBase { codec, .. } => Some(format!("take the codec `{}`", behind(codec))),
        }
    }

    /// The error of this problem at a place.
    pub(crate) fn at(self, place: Place) -> ScenarioError {
        Problem::Payload(self).at(place)
    }
}

/// The codec without what stands in front of it.
fn behind(codec: &str) -> &str {
    codec.rsplit('+').next().unwrap_or(codec)
}

/// Why a scenario of serving cannot be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServingProblem {
    #[error("serving has no iterations, and the scenario asks for {iterations}")]
    Iterations { iterations: u32 },
    #[error("the pools have {needed} ranks, and the cluster has {found}")]
    Ranks { needed: u32, found: u32 },
    /// Caches that cannot be dealt to the ranks of both pools.
    #[error(transparent)]
    Shards(ShardError),
    /// Groups of a cache that cannot be.
    #[error("{why}")]
    Geometry { why: String },
    #[error("`kv_memory` of `{pool}` is less than the cache of one token takes on a rank")]
    NoMemory { pool: &'static str },
    #[error("no request: {why}")]
    Line { why: String, example: &'static str },
    #[error("`{path}` has no request{}", if *without_tokens > 0 { " with a prompt and an answer" } else { "" })]
    Empty { path: String, without_tokens: usize },
    /// Ids of blocks that are not those of the prompt.
    #[error("{ids} `hash_ids` for a prompt of {tokens} tokens: by blocks of {block} it has {}", tokens.div_ceil(*block))]
    Blocks { ids: u32, tokens: u32, block: u32, fitting: Option<u32> },
    #[error("the caches of this model are not made of `{tensor}`")]
    Tensors { tensor: &'static str, is_latent: bool },
    #[error("protocol `{protocol}` is one of collective calls, and serving has none")]
    Protocol { protocol: &'static str },
    #[error("codec `{codec}` cannot code caches: {why}")]
    Codec { codec: String, why: String },
}

impl ServingProblem {
    /// The remedy, where the message does not name it already.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::Iterations { .. } => {
                Some("leave `iterations` out: more requests make a longer run".to_owned())
            }
            Self::Ranks { needed, .. } => Some(format!(
                "ranks are instances x tensor_parallel of both pools: take fewer, or a cluster of {needed} GPUs"
            )),
            Self::Shards(ShardError::Heads { heads, .. }) => {
                Some(format!("set `tensor_parallel` of both pools to divisors or multiples of {heads}"))
            }
            Self::Shards(_) => {
                Some("set `tensor_parallel` of one pool to a multiple of the other's".to_owned())
            }
            Self::NoMemory { .. } => Some("it is bytes of each rank for caches, like `\"40 GB\"`".to_owned()),
            Self::Line { example, .. } => Some(format!("a line is like `{example}`")),
            Self::Protocol { .. } => Some(
                "take `native`, which moves caches as they are, or `in-band`, which codes them in pieces with their lengths"
                    .to_owned(),
            ),
            Self::Tensors { is_latent: true, .. } => Some("they are latents: name a tensor by `latent`".to_owned()),
            Self::Tensors { .. } => {
                Some("they are keys and values: name a tensor of each by `keys` and `values`".to_owned())
            }
            Self::Codec { .. } => Some("take a codec of single values, like `tiered`".to_owned()),
            Self::Blocks { fitting, .. } => Some(match fitting {
                Some(tokens) => format!(
                    "state how many tokens an id of this file stands for: it seems to be {tokens}, `block = {tokens}`"
                ),
                None => "state how many tokens an id of this file stands for, like `block = 512`".to_owned(),
            }),
            Self::Geometry { .. } | Self::Empty { .. } => None,
        }
    }
}

/// Why a codec has no table.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableProblem {
    /// The file holds none.
    #[error(transparent)]
    File(TableFileError),
    /// It is none of the codec, or not the one that the codec names.
    #[error(transparent)]
    Codec(TableError),
    #[error("codec `{codec}` names a table, and no file has it")]
    Nowhere { codec: String },
    #[error("the table of codec `{codec}` is for {of_table} values, and the workload sends {dtype}")]
    Type { codec: String, of_table: &'static str, dtype: &'static str },
}

impl TableProblem {
    /// The remedy, where the message does not name it already.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::File(error) => error.help(),
            Self::Codec(TableError::NoTables { .. }) => {
                Some("leave `table` out, or take the codec `codebook16` or `rans`".to_owned())
            }
            Self::Codec(TableError::Other { .. }) => {
                Some("leave the table out of `id`: the file says which it is".to_owned())
            }
            Self::Codec(_) => Some("name a table of the codec".to_owned()),
            Self::Nowhere { .. } => Some("name the file of the table, `table = \"FILE.json\"`".to_owned()),
            Self::Type { dtype, .. } => Some(format!(
                "train one from samples of that type, `zipwire calibrate table --dtype {dtype}`, or leave `table` out"
            )),
        }
    }

    /// The error of this problem at a place.
    pub(crate) fn at(self, place: Place) -> ScenarioError {
        Problem::Table(self).at(place)
    }
}
