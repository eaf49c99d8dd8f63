//! Problems of scenarios as data, with their messages.

#![allow(missing_docs, reason = "fields are named by the messages")]

mod flows;
mod graph;
mod parcel;
mod payload;
mod serving;
mod table;

use std::{io, path::PathBuf};

use thiserror::Error;
use zipwire_codec::SpecError;
use zipwire_traces::TraceError;

pub use self::{
    flows::FlowProblem, graph::GraphProblem, parcel::ParcelProblem, payload::PayloadProblem,
    serving::ServingProblem, table::TableProblem,
};
use crate::quantity::Dimension;
use crate::words::{from_rank, in_table, list};

/// A problem of a scenario. `Display` gives one line; [`help`](Self::help) gives the remedy.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Problem {
    /// The scenario or a table that it names cannot be read.
    #[error("cannot read `{path}`: {source}")]
    Unreadable { path: PathBuf, source: io::Error },
    /// Not TOML; duplicate keys are this, too.
    #[error("invalid TOML: {message}")]
    Syntax { message: String, is_json: bool },
    /// A key that the language does not have there.
    #[error("unknown key `{key}`{}", in_table(table))]
    UnknownKey { key: String, table: String, valid: Vec<&'static str> },
    /// A key of an earlier version.
    #[error("key `{key}`{} is now `{new}`", in_table(table))]
    RenamedKey { key: String, table: String, new: &'static str, values: &'static str },
    /// A key that is always needed.
    #[error("missing key `{key}`{}", in_table(table))]
    MissingKey { key: String, table: String, example: String },
    /// Keys of which exactly one is needed, and none or several are there.
    #[error(
        "`{table}` needs exactly one of {}, found {}",
        list(choices.iter().copied()),
        list(found.iter().copied())
    )]
    NotOneOf { table: String, choices: Vec<&'static str>, found: Vec<&'static str> },
    /// A key that means nothing here.
    #[error("`{path}` has no effect: {reason}")]
    NoEffect { path: String, reason: &'static str },
    /// A value of another TOML type.
    #[error("`{path}` must be {expected}, found {found}")]
    WrongType { path: String, expected: &'static str, found: &'static str },
    /// A bare number where a quantity is needed.
    #[error("`{path}` needs a unit: `{number}` could be anything")]
    MissingUnit { path: String, number: String, dimension: Dimension },
    /// A unit that does not exist, or is of another dimension.
    #[error("`{path}` is {}, and `{unit}` is no unit of that", dimension.name())]
    UnknownUnit { path: String, unit: String, dimension: Dimension },
    /// A text that does not begin with a number.
    #[error("`{path}` must be {}, found `{text}`", dimension.name())]
    NotQuantity { path: String, text: String, dimension: Dimension },
    /// A number outside its limits.
    #[error("`{path}` is out of range: `{value}`")]
    OutOfRange { path: String, value: String, limits: String },
    /// A name that is none of those that exist.
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
    /// A link that the cluster does not have.
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
    /// A name that cannot be part of a file name.
    #[error("`{path}` cannot be part of a file name: `{name}`")]
    BadName { path: String, name: String },
    /// Two variants of one name.
    #[error("two variants are called `{name}`")]
    DuplicateVariant { name: String },
    /// `--set` or `--real-set` without `=`.
    #[error("`{flag}` takes `path=value`")]
    NotAssignment { flag: String },
    /// `--set` or `--real-set` with a path that leads nowhere.
    #[error("`{path}` does not exist in the scenario")]
    NoSuchPath { path: String, valid: Vec<String> },
    /// `--set` or `--real-set` with a path through something without keys.
    #[error("`{path}` is {found} and has no keys")]
    NotTable { path: String, found: &'static str },
    /// A key of `[sweep]` that spells no path.
    #[error("`{path}` is no path of the scenario")]
    NotPath { path: String },
    /// A path in `[sweep]` without quotes, which TOML takes apart.
    #[error("`sweep.{key}` is a table: a path needs quotes")]
    BarePath { key: String },
    /// A problem of one point of a sweep.
    #[error("{problem}, at point {point} of {count}: {set}")]
    AtPoint { problem: Box<Problem>, point: usize, count: usize, set: String },
    /// More experts per token than experts.
    #[error("a token cannot go to `{top_k}` of `{experts}` experts")]
    TopK { top_k: u64, experts: u64 },
    /// No or several records of a recording fit.
    #[error("`{file}` has {count} records with {wanted}, and exactly one is needed")]
    NotOneRecord { file: String, count: usize, wanted: String, available: Vec<String> },
    /// The recording is of a model with another number of experts.
    #[error("the model has `{wanted}` experts, the record in `{file}` has `{found}`")]
    ExpertCount { file: String, found: usize, wanted: usize },
    /// A record says nothing about where a rank's tokens go.
    #[error("the record in `{file}` routes no token{}", from_rank(*rank))]
    NoShares {
        file: String,
        /// The source rank; `None` if the record is not by rank.
        rank: Option<u32>,
    },
    /// The length of a list or matrix is not the rank count.
    #[error("`{path}` has {found} {what} for `{ranks}` ranks")]
    NotPerRank {
        path: String,
        found: usize,
        /// Name of an entry: `entries`, `rows`, `columns`.
        what: &'static str,
        ranks: u32,
    },
    /// Bytes that are no whole number of values.
    #[error("`{bytes}` bytes are no whole number of {dtype} values of {width} bytes")]
    NotWhole { bytes: u64, dtype: &'static str, width: usize },
    /// A fault of what a rank keeps to itself.
    #[error("rank `{rank}` sends nothing to itself: a fault hits a transfer between two ranks")]
    SelfFault { rank: u32 },
    /// A table in a file whose columns are others.
    #[error("the columns must be `{expected}`, found {}", if .found.is_empty() { "nothing".to_owned() } else { format!("`{found}`") })]
    BadHeader { expected: &'static str, example: &'static str, found: String },
    /// A table in a file that ends behind its header.
    #[error("`{}` holds no rows", path.display())]
    NoRows { path: PathBuf, example: &'static str },
    /// A field of a table in a file that is no number.
    #[error("column `{column}` must be {expected}, found `{found}`")]
    BadField { column: String, expected: &'static str, found: String },
    /// A row with too few or too many fields.
    #[error("a row of {found} fields where {expected} are needed")]
    RowLength { found: usize, expected: usize },
    /// A codec id that does not parse.
    #[error("{0}")]
    Codec(#[source] SpecError),
    /// A coded variant in a scenario without codec.
    #[error("protocol `{protocol}` needs a codec, and the scenario has none")]
    NoCodec { protocol: &'static str },
    /// A codec without a speed.
    #[error("how fast is codec `{codec}`? neither the scenario nor its cluster says so")]
    NoCodecSpeed { codec: String, presets: Vec<&'static str> },
    /// Rows that are put together in a scenario without codec.
    #[error("`dedup` puts rows together at the decode speed of a codec, and the scenario has none")]
    NoCopySpeed,
    /// The codec cannot code the workload's values.
    #[error("codec `{codec}` does not code {dtype} values")]
    CodecType { codec: String, dtype: &'static str },
    /// A protocol that sends ahead what its codec does not have.
    #[error(
        "protocol `{protocol}` sends ahead what a codec leaves as it is, and frames of `{codec}` have no such part of {dtype} values"
    )]
    NoRests { protocol: &'static str, codec: String, dtype: &'static str },
    /// Arms with different codecs.
    #[error("the arms of variant `{name}` have different codecs")]
    ArmCodecs { name: String },
    /// Nothing to measure a compression ratio on.
    #[error("the compression ratio of codec `{codec}` is unknown: the workload has no payload")]
    NoPayload { codec: String, dtype: &'static str },
    /// An algorithm for a workload whose calls have only one.
    #[error("`{path}` has no effect: nothing in the workload has several algorithms")]
    NoAlgorithms { path: String },
    /// An order or a window for an algorithm that leaves no choice of what comes next, or has no transfers.
    #[error(
        "`{path}` has no effect: the algorithm `{algorithm}` leaves no choice of which transfer comes next"
    )]
    FixedOrder { path: String, algorithm: &'static str, free: &'static str },
    /// A call of a library without a cost.
    #[error(
        "algorithm `library` calls the library for each {collective}, and `cluster.library` does not say what that costs with \
         {gpus_per_node} GPUs per node"
    )]
    NoCallCost { collective: &'static str, gpus_per_node: u32, example: &'static str },
    /// An arm whose calls of a library carry frames.
    #[error(
        "variant `{name}` cannot be an arm: it is coded and calls a library, and a switcher has no model of that"
    )]
    LibraryArm { name: String },
    /// Padding for a protocol without frames.
    #[error("algorithm `{algorithm}` pads frames, and protocol `{protocol}` has none")]
    PaddedValues { algorithm: &'static str, protocol: &'static str },
    /// Sums on the way for a protocol with frames.
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
