//! Everything that can be wrong with a scenario, as data.

mod message;

use std::io;
use std::path::PathBuf;

use thiserror::Error;
use zipwire_codec::SpecError;
use zipwire_schedule::GraphError;
use zipwire_traces::TraceError;

use crate::quantity::Dimension;

/// What is wrong with a scenario. `Display` gives one line; [`help`](Self::help) says what would be right.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Problem {
    /// The scenario or a table that it names cannot be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// Not TOML; duplicate keys are this, too.
    Syntax {
        /// The parser's words.
        message: String,
    },
    /// A key that the language does not have there.
    UnknownKey {
        /// The key.
        key: String,
        /// Path of the table, empty for the top level.
        table: String,
        /// The keys that the table takes.
        valid: Vec<&'static str>,
    },
    /// A key of an earlier version.
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
    MissingKey {
        /// The key.
        key: String,
        /// Path of the table, empty for the top level.
        table: String,
        /// A value that it could have, as TOML.
        example: String,
    },
    /// None or several of keys of which exactly one is needed.
    NotOneOf {
        /// Path of the table.
        table: String,
        /// The keys to choose from.
        choices: Vec<&'static str>,
        /// Those that are there.
        found: Vec<&'static str>,
    },
    /// A key that means nothing here.
    NoEffect {
        /// Path of the key.
        path: String,
        /// Why.
        reason: &'static str,
    },
    /// A value of another TOML type.
    WrongType {
        /// Path of the key.
        path: String,
        /// What is needed.
        expected: &'static str,
        /// What is there.
        found: &'static str,
    },
    /// A bare number where a quantity is needed.
    MissingUnit {
        /// Path of the key.
        path: String,
        /// The number.
        number: String,
        /// What it should measure.
        dimension: Dimension,
    },
    /// A unit that does not exist, or is of another dimension.
    UnknownUnit {
        /// Path of the key.
        path: String,
        /// The unit.
        unit: String,
        /// What it should measure.
        dimension: Dimension,
    },
    /// A text that does not begin with a number.
    NotQuantity {
        /// Path of the key.
        path: String,
        /// The text.
        text: String,
        /// What it should measure.
        dimension: Dimension,
    },
    /// A number outside its limits.
    OutOfRange {
        /// Path of the key, or what the number is.
        path: String,
        /// The number.
        value: String,
        /// The limits, as the end of "must be".
        limits: String,
    },
    /// A name that is none of those that exist.
    UnknownName {
        /// What it should name: `protocol`, `variant`.
        what: &'static str,
        /// The name.
        name: String,
        /// The names that exist.
        valid: Vec<String>,
    },
    /// More NICs than GPUs, where one of both numbers is from elsewhere.
    NicsPerNode {
        /// GPUs of a node.
        gpus: u32,
        /// NICs of a node.
        nics: u32,
    },
    /// A link that the cluster does not have.
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
    BareTopology {
        /// Path of the key.
        path: String,
        /// The topology.
        name: &'static str,
        /// A table that says all, as TOML.
        example: &'static str,
    },
    /// A vertex that a graph does not have.
    UnknownVertex {
        /// The name.
        name: String,
        /// The vertex that was probably meant.
        nearest: Option<String>,
        /// GPUs of the cluster.
        gpus: u32,
        /// Names of the switches.
        switches: Vec<String>,
    },
    /// A switch that cannot be called so.
    BadSwitch {
        /// The name.
        name: String,
    },
    /// Two switches of one name.
    TwoSwitches {
        /// The name.
        name: String,
    },
    /// An edge with one end, or with three.
    NotTwoEnds {
        /// Path of the key.
        path: String,
        /// Ends found.
        found: usize,
    },
    /// An edge that leads nowhere.
    Loop {
        /// The vertex.
        vertex: String,
    },
    /// Two edges of a graph from one vertex to another.
    TwoEdges {
        /// Where they begin.
        src: String,
        /// Where they end.
        dst: String,
    },
    /// A graph that is no cluster.
    Graph(GraphError),
    /// A name that cannot be part of a file name.
    BadName {
        /// Path of the key.
        path: String,
        /// The name.
        name: String,
    },
    /// Two variants of one name.
    DuplicateVariant {
        /// The name.
        name: String,
    },
    /// `--set` or `--real-set` without `=`.
    NotAssignment {
        /// The flag.
        flag: String,
    },
    /// `--set` or `--real-set` with a path that leads nowhere.
    NoSuchPath {
        /// The path up to the part that is missing.
        path: String,
        /// The names that exist at that point.
        valid: Vec<String>,
    },
    /// `--set` or `--real-set` with a path through something without keys.
    NotTable {
        /// The path up to the value.
        path: String,
        /// Its type.
        found: &'static str,
    },
    /// A key of `[sweep]` that spells no path.
    NotPath {
        /// The key.
        path: String,
    },
    /// A path in `[sweep]` without quotes, which TOML takes apart.
    BarePath {
        /// The key.
        key: String,
    },
    /// What is wrong with one point of a sweep.
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
    TopK {
        /// Experts per token.
        top_k: u64,
        /// Experts of the model.
        experts: u64,
    },
    /// No or several records of a recording fit.
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
    ExpertCount {
        /// The file.
        file: String,
        /// Experts of the record.
        found: usize,
        /// Experts of the model.
        wanted: usize,
    },
    /// A record says nothing about where a rank's tokens go.
    NoShares {
        /// The file.
        file: String,
        /// The source rank; `None` if the record is not by rank.
        rank: Option<u32>,
    },
    /// The length of a list or matrix is not the rank count.
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
    NotWhole {
        /// The bytes.
        bytes: u64,
        /// Type of the values.
        dtype: &'static str,
        /// Bytes per value.
        width: usize,
    },
    /// A fault of what a rank keeps to itself.
    SelfFault {
        /// The rank.
        rank: u32,
    },
    /// A flow from a rank to itself.
    SelfFlow {
        /// The rank.
        rank: u32,
    },
    /// `start = "rank-ready"` with two start times for one rank.
    TwoStarts {
        /// The sender.
        rank: u32,
        /// Start of its first row in seconds.
        first_s: f64,
        /// Start of this row in seconds.
        second_s: f64,
    },
    /// A table in a file whose columns are others.
    BadHeader {
        /// The header that is needed.
        expected: &'static str,
        /// The header that is there.
        found: String,
    },
    /// A field of a table in a file that is no number.
    BadField {
        /// The column.
        column: String,
        /// What is needed.
        expected: &'static str,
        /// What is there.
        found: String,
    },
    /// A row with too few or too many fields.
    RowLength {
        /// Fields of the row.
        found: usize,
        /// Fields needed.
        expected: usize,
    },
    /// A codec id that does not parse.
    Codec(#[source] SpecError),
    /// A coded variant in a scenario without codec.
    NoCodec {
        /// The protocol.
        protocol: &'static str,
    },
    /// A codec of which nothing says how fast it is.
    NoCodecSpeed {
        /// The codec.
        codec: String,
        /// Presets that know.
        presets: Vec<&'static str>,
    },
    /// Rows that are put together in a scenario without codec.
    NoCopySpeed,
    /// The codec cannot code the workload's values.
    CodecType {
        /// The codec.
        codec: String,
        /// Type of the workload's values.
        dtype: &'static str,
    },
    /// A protocol that sends ahead what its codec does not have.
    NoRests {
        /// The protocol.
        protocol: &'static str,
        /// The codec.
        codec: String,
        /// Type of the workload's values.
        dtype: &'static str,
    },
    /// Arms with different codecs.
    ArmCodecs {
        /// The adaptive variant.
        name: String,
    },
    /// Nothing to measure a compression ratio on.
    NoPayload {
        /// The codec.
        codec: String,
        /// Type of the workload's values.
        dtype: &'static str,
    },
    /// A token that is no whole number of blocks with a scale each.
    PartialBlock {
        /// Values of a token.
        hidden: u32,
        /// Values of a block.
        block: usize,
    },
    /// A payload for values of another type.
    PayloadType {
        /// Type of the workload's values.
        dtype: &'static str,
    },
    /// A coded protocol for explicit flows.
    CodedFlows {
        /// The protocol.
        protocol: &'static str,
    },
    /// An algorithm for a workload whose calls have only one.
    NoAlgorithms {
        /// Path of the key.
        path: String,
    },
    /// An order or a window for an algorithm that leaves no choice of what comes next, or has no transfers.
    FixedOrder {
        /// Path of the key.
        path: String,
        /// The algorithm.
        algorithm: &'static str,
        /// An algorithm in which it has one.
        free: &'static str,
    },
    /// A call of a library without a cost.
    NoCallCost {
        /// The collective.
        collective: &'static str,
        /// Those of the cluster: costs may be declared for other nodes only.
        gpus_per_node: u32,
    },
    /// An arm that no model of links describes.
    LibraryArm {
        /// The arm.
        name: String,
    },
    /// Padding for a protocol without frames.
    PaddedValues {
        /// The algorithm.
        algorithm: &'static str,
        /// The protocol.
        protocol: &'static str,
    },
    /// Sums on the way for a protocol with frames.
    CodedSums {
        /// The algorithm.
        algorithm: &'static str,
        /// The protocol.
        protocol: &'static str,
    },
    /// A recording that cannot be read.
    Recording(#[source] TraceError),
}
