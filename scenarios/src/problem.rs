//! Everything that can be wrong with a scenario, as data, and the words for it.

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

/// What is wrong with a scenario. `Display` gives one line; [`help`](Self::help) says what would be right.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Problem {
    /// The scenario or a table that it names cannot be read.
    #[error("cannot read `{path}`: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// Not TOML; duplicate keys are this, too.
    #[error("invalid TOML: {message}")]
    Syntax {
        /// The parser's words.
        message: String,
        /// Whether the text begins as JSON does.
        is_json: bool,
    },
    /// A key that the language does not have there.
    #[error("unknown key `{key}`{}", in_table(table))]
    UnknownKey {
        /// The key.
        key: String,
        /// Path of the table, empty for the top level.
        table: String,
        /// The keys that the table takes.
        valid: Vec<&'static str>,
    },
    /// A key of an earlier version.
    #[error("key `{key}`{} is now `{new}`", in_table(table))]
    RenamedKey {
        /// The key.
        key: String,
        /// Path of the table, empty for the top level.
        table: String,
        /// Its name in this version.
        new: &'static str,
        /// What has changed with it.
        values: &'static str,
    },
    /// A key that is always needed.
    #[error("missing key `{key}`{}", in_table(table))]
    MissingKey {
        /// The key.
        key: String,
        /// Path of the table, empty for the top level.
        table: String,
        /// A value that it could have, as TOML.
        example: String,
    },
    /// None or several of keys of which exactly one is needed.
    #[error(
        "`{table}` needs exactly one of {}, found {}",
        list(choices.iter().copied()),
        list(found.iter().copied())
    )]
    NotOneOf {
        /// Path of the table.
        table: String,
        /// The keys to choose from.
        choices: Vec<&'static str>,
        /// Those that are there.
        found: Vec<&'static str>,
    },
    /// A key that means nothing here.
    #[error("`{path}` has no effect: {reason}")]
    NoEffect {
        /// Path of the key.
        path: String,
        /// Why.
        reason: &'static str,
    },
    /// A value of another TOML type.
    #[error("`{path}` must be {expected}, found {found}")]
    WrongType {
        /// Path of the key.
        path: String,
        /// What is needed.
        expected: &'static str,
        /// What is there.
        found: &'static str,
    },
    /// A bare number where a quantity is needed.
    #[error("`{path}` needs a unit: `{number}` could be anything")]
    MissingUnit {
        /// Path of the key.
        path: String,
        /// The number.
        number: String,
        /// What it should measure.
        dimension: Dimension,
    },
    /// A unit that does not exist, or is of another dimension.
    #[error("`{path}` is {}, and `{unit}` is no unit of that", dimension.name())]
    UnknownUnit {
        /// Path of the key.
        path: String,
        /// The unit.
        unit: String,
        /// What it should measure.
        dimension: Dimension,
    },
    /// A text that does not begin with a number.
    #[error("`{path}` must be {}, found `{text}`", dimension.name())]
    NotQuantity {
        /// Path of the key.
        path: String,
        /// The text.
        text: String,
        /// What it should measure.
        dimension: Dimension,
    },
    /// A number outside its limits.
    #[error("`{path}` is out of range: `{value}`")]
    OutOfRange {
        /// Path of the key, or what the number is.
        path: String,
        /// The number.
        value: String,
        /// The limits, as the end of "must be".
        limits: String,
    },
    /// A name that is none of those that exist.
    #[error("unknown {what} `{name}`")]
    UnknownName {
        /// What it should name: `protocol`, `variant`.
        what: &'static str,
        /// The name.
        name: String,
        /// The names that exist.
        valid: Vec<String>,
    },
    /// More NICs than GPUs, where one of both numbers is from elsewhere.
    #[error("a node of `{gpus}` GPUs cannot have `{nics}` NICs")]
    NicsPerNode {
        /// GPUs of a node.
        gpus: u32,
        /// NICs of a node.
        nics: u32,
    },
    /// A link that the cluster does not have.
    #[error("the cluster has no link `{name}`")]
    UnknownLink {
        /// The name.
        name: String,
        /// The link that was probably meant.
        nearest: Option<String>,
        /// What has links up and down, and how many of each there are; none in a graph.
        kinds: Vec<(&'static str, u32)>,
        /// All links of a graph.
        edges: Vec<String>,
    },
    /// A topology that needs sizes, by name alone.
    #[error("`{path}` cannot be the name `{name}` alone")]
    BareTopology {
        /// Path of the key.
        path: String,
        /// The topology.
        name: &'static str,
        /// A table that says all, as TOML.
        example: &'static str,
    },
    /// A topology that is drawn vertex by vertex.
    #[error(transparent)]
    Graph(#[from] GraphProblem),
    /// A name that cannot be part of a file name.
    #[error("`{path}` cannot be part of a file name: `{name}`")]
    BadName {
        /// Path of the key.
        path: String,
        /// The name.
        name: String,
    },
    /// Two variants of one name.
    #[error("two variants are called `{name}`")]
    DuplicateVariant {
        /// The name.
        name: String,
    },
    /// `--set` or `--real-set` without `=`.
    #[error("`{flag}` takes `path=value`")]
    NotAssignment {
        /// The flag.
        flag: String,
    },
    /// `--set` or `--real-set` with a path that leads nowhere.
    #[error("`{path}` does not exist in the scenario")]
    NoSuchPath {
        /// The path up to the part that is missing.
        path: String,
        /// The names that exist at that point.
        valid: Vec<String>,
    },
    /// `--set` or `--real-set` with a path through something without keys.
    #[error("`{path}` is {found} and has no keys")]
    NotTable {
        /// The path up to the value.
        path: String,
        /// Its type.
        found: &'static str,
    },
    /// A key of `[sweep]` that spells no path.
    #[error("`{path}` is no path of the scenario")]
    NotPath {
        /// The key.
        path: String,
    },
    /// A path in `[sweep]` without quotes, which TOML takes apart.
    #[error("`sweep.{key}` is a table: a path needs quotes")]
    BarePath {
        /// The key.
        key: String,
    },
    /// What is wrong with one point of a sweep.
    #[error("{problem}, at point {point} of {count}: {set}")]
    AtPoint {
        /// The problem.
        problem: Box<Problem>,
        /// The point, counted from 1.
        point: usize,
        /// All points.
        count: usize,
        /// What the sweep sets there.
        set: String,
    },
    /// More experts per token than experts.
    #[error("a token cannot go to `{top_k}` of `{experts}` experts")]
    TopK {
        /// Experts per token.
        top_k: u64,
        /// Experts of the model.
        experts: u64,
    },
    /// No or several records of a recording fit.
    #[error("`{file}` has {count} records with {wanted}, and exactly one is needed")]
    NotOneRecord {
        /// The file.
        file: String,
        /// How many fit.
        count: usize,
        /// What was asked for.
        wanted: String,
        /// All records that the file has.
        available: Vec<String>,
    },
    /// The recording is of a model with another number of experts.
    #[error("the model has `{wanted}` experts, the record in `{file}` has `{found}`")]
    ExpertCount {
        /// The file.
        file: String,
        /// Experts of the record.
        found: usize,
        /// Experts of the model.
        wanted: usize,
    },
    /// A record says nothing about where a rank's tokens go.
    #[error("the record in `{file}` routes no token{}", from_rank(*rank))]
    NoShares {
        /// The file.
        file: String,
        /// The source rank; `None` if the record is not by rank.
        rank: Option<u32>,
    },
    /// The length of a list or matrix is not the rank count.
    #[error("`{path}` has {found} {what} for `{ranks}` ranks")]
    NotPerRank {
        /// Path of the key.
        path: String,
        /// Entries found.
        found: usize,
        /// What an entry is: `entries`, `rows`, `columns`.
        what: &'static str,
        /// Ranks of the cluster.
        ranks: u32,
    },
    /// Bytes that are no whole number of values.
    #[error("`{bytes}` bytes are no whole number of {dtype} values of {width} bytes")]
    NotWhole {
        /// The bytes.
        bytes: u64,
        /// Type of the values.
        dtype: &'static str,
        /// Bytes per value.
        width: usize,
    },
    /// A fault of what a rank keeps to itself.
    #[error("rank `{rank}` sends nothing to itself: a fault hits a transfer between two ranks")]
    SelfFault {
        /// The rank.
        rank: u32,
    },
    /// A table in a file whose columns are others.
    #[error("the columns must be `{expected}`, found {}", if .found.is_empty() { "nothing".to_owned() } else { format!("`{found}`") })]
    BadHeader {
        /// The header that is needed.
        expected: &'static str,
        /// A row under it.
        example: &'static str,
        /// The header that is there.
        found: String,
    },
    /// A table in a file that ends behind its header.
    #[error("`{}` holds no rows", path.display())]
    NoRows {
        /// The file.
        path: PathBuf,
        /// A row.
        example: &'static str,
    },
    /// A field of a table in a file that is no number.
    #[error("column `{column}` must be {expected}, found `{found}`")]
    BadField {
        /// The column.
        column: String,
        /// What is needed.
        expected: &'static str,
        /// What is there.
        found: String,
    },
    /// A row with too few or too many fields.
    #[error("a row of {found} fields where {expected} are needed")]
    RowLength {
        /// Fields of the row.
        found: usize,
        /// Fields needed.
        expected: usize,
    },
    /// A codec id that does not parse.
    #[error("{0}")]
    Codec(#[source] SpecError),
    /// A coded variant in a scenario without codec.
    #[error("protocol `{protocol}` needs a codec, and the scenario has none")]
    NoCodec {
        /// The protocol.
        protocol: &'static str,
    },
    /// A codec of which nothing says how fast it is.
    #[error("how fast is codec `{codec}`? neither the scenario nor its cluster says so")]
    NoCodecSpeed {
        /// The codec.
        codec: String,
        /// Presets that know.
        presets: Vec<&'static str>,
    },
    /// Rows that are put together in a scenario without codec.
    #[error("`dedup` puts rows together at the decode speed of a codec, and the scenario has none")]
    NoCopySpeed,
    /// The codec cannot code the workload's values.
    #[error("codec `{codec}` does not code {dtype} values")]
    CodecType {
        /// The codec.
        codec: String,
        /// Type of the workload's values.
        dtype: &'static str,
    },
    /// A protocol that sends ahead what its codec does not have.
    #[error(
        "protocol `{protocol}` sends ahead what a codec leaves as it is, and frames of `{codec}` have no such part of {dtype} values"
    )]
    NoRests {
        /// The protocol.
        protocol: &'static str,
        /// The codec.
        codec: String,
        /// Type of the workload's values.
        dtype: &'static str,
    },
    /// Arms with different codecs.
    #[error("the arms of variant `{name}` have different codecs")]
    ArmCodecs {
        /// The adaptive variant.
        name: String,
    },
    /// Nothing to measure a compression ratio on.
    #[error("the compression ratio of codec `{codec}` is unknown: the workload has no payload")]
    NoPayload {
        /// The codec.
        codec: String,
        /// Type of the workload's values.
        dtype: &'static str,
    },
    /// An algorithm for a workload whose calls have only one.
    #[error("`{path}` has no effect: nothing in the workload has several algorithms")]
    NoAlgorithms {
        /// Path of the key.
        path: String,
    },
    /// An order or a window for an algorithm that leaves no choice of what comes next, or has no transfers.
    #[error(
        "`{path}` has no effect: the algorithm `{algorithm}` leaves no choice of which transfer comes next"
    )]
    FixedOrder {
        /// Path of the key.
        path: String,
        /// The algorithm.
        algorithm: &'static str,
        /// An algorithm in which it has one.
        free: &'static str,
    },
    /// A call of a library without a cost.
    #[error(
        "algorithm `library` calls the library for each {collective}, and `cluster.library` does not say what that costs with \
         {gpus_per_node} GPUs per node"
    )]
    NoCallCost {
        /// The collective.
        collective: &'static str,
        /// Those of the cluster: costs may be declared for other nodes only.
        gpus_per_node: u32,
        /// A cost, as TOML.
        example: &'static str,
    },
    /// An arm whose calls of a library carry frames.
    #[error(
        "variant `{name}` cannot be an arm: it is coded and calls a library, and a switcher has no model of that"
    )]
    LibraryArm {
        /// The arm.
        name: String,
    },
    /// Padding for a protocol without frames.
    #[error("algorithm `{algorithm}` pads frames, and protocol `{protocol}` has none")]
    PaddedValues {
        /// The algorithm.
        algorithm: &'static str,
        /// The protocol.
        protocol: &'static str,
    },
    /// Sums on the way for a protocol with frames.
    #[error(
        "algorithm `{algorithm}` adds up on the way, and frames of protocol `{protocol}` are decoded at their end"
    )]
    CodedSums {
        /// The algorithm.
        algorithm: &'static str,
        /// The protocol.
        protocol: &'static str,
    },
    /// A recording that cannot be read.
    #[error("{0}")]
    Recording(#[source] TraceError),
    /// What is sent, and what ranks have of it before.
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
    /// What was sent from one host to others.
    #[error(transparent)]
    Parcel(ParcelProblem),
}
