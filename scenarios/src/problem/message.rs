//! The message of each problem, in one line.

use std::fmt;

use super::Problem;
use crate::help::HINT;
use crate::nearest::list;

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, source } => write!(f, "cannot read `{}`: {source}", path.display()),
            Self::Syntax { message } => write!(f, "invalid TOML: {message}"),
            Self::UnknownKey { key, table, .. } => write!(f, "unknown key `{key}`{}", in_table(table)),
            Self::RenamedKey { key, table, new, .. } => {
                write!(f, "key `{key}`{} is now `{new}`", in_table(table))
            }
            Self::MissingKey { key, table, .. } => write!(f, "missing key `{key}`{}", in_table(table)),
            Self::NotOneOf { table, choices, found } => write!(
                f,
                "`{table}` needs exactly one of {}, found {}",
                list(choices.iter().copied()),
                list(found.iter().copied())
            ),
            Self::NoEffect { path, reason } => write!(f, "`{path}` has no effect: {reason}"),
            Self::WrongType { path, expected, found } => {
                write!(f, "`{path}` must be {expected}, found {found}")
            }
            Self::MissingUnit { path, number, .. } => {
                write!(f, "`{path}` needs a unit: `{number}` could be anything")
            }
            Self::UnknownUnit { path, unit, dimension } => {
                write!(f, "`{path}` is {}, and `{unit}` is no unit of that", dimension.name())
            }
            Self::NotQuantity { path, text, dimension } => {
                write!(f, "`{path}` must be {}, found `{text}`", dimension.name())
            }
            Self::OutOfRange { path, value, .. } => write!(f, "`{path}` is out of range: `{value}`"),
            Self::UnknownName { what, name, .. } => write!(f, "unknown {what} `{name}`"),
            Self::NicsPerNode { gpus, nics } => {
                write!(f, "a node of `{gpus}` GPUs cannot have `{nics}` NICs")
            }
            Self::UnknownLink { name, .. } => write!(f, "the cluster has no link `{name}`"),
            Self::BareTopology { path, name, .. } => write!(f, "`{path}` cannot be the name `{name}` alone"),
            Self::UnknownVertex { name, .. } => write!(f, "the graph has no vertex `{name}`"),
            Self::BadSwitch { name } => write!(f, "a switch cannot be called `{name}`"),
            Self::TwoSwitches { name } => write!(f, "two switches are called `{name}`"),
            Self::NotTwoEnds { path, found } => {
                write!(f, "`{path}` names {found} ends of an edge, and it has two")
            }
            Self::Loop { vertex } => write!(f, "an edge from `{vertex}` to itself"),
            Self::TwoEdges { src, dst } => write!(f, "two edges lead from `{src}` to `{dst}`"),
            Self::Graph(error) => error.fmt(f),
            Self::BadName { path, name } => write!(f, "`{path}` cannot be part of a file name: `{name}`"),
            Self::DuplicateVariant { name } => write!(f, "two variants are called `{name}`"),
            Self::NotAssignment { flag } => write!(f, "`{flag}` takes `path=value`"),
            Self::NoSuchPath { path, .. } => write!(f, "`{path}` does not exist in the scenario"),
            Self::NotTable { path, found } => write!(f, "`{path}` is {found} and has no keys"),
            Self::NotPath { path } => write!(f, "`{path}` is no path of the scenario"),
            Self::BarePath { key } => write!(f, "`sweep.{key}` is a table: a path needs quotes"),
            Self::AtPoint { problem, point, count, set } => {
                write!(f, "{problem}, at point {point} of {count}: {set}")
            }
            Self::TopK { top_k, experts } => {
                write!(f, "a token cannot go to `{top_k}` of `{experts}` experts")
            }
            Self::NotOneRecord { file, count, wanted, .. } => {
                write!(f, "`{file}` has {count} records with {wanted}, and exactly one is needed")
            }
            Self::ExpertCount { file, found, wanted } => {
                write!(f, "the model has `{wanted}` experts, the record in `{file}` has `{found}`")
            }
            Self::NoShares { file, rank } => {
                write!(f, "the record in `{file}` routes no token{}", from_rank(*rank))
            }
            Self::NotPerRank { path, found, what, ranks } => {
                write!(f, "`{path}` has {found} {what} for `{ranks}` ranks")
            }
            Self::NotWhole { bytes, dtype, width } => {
                write!(f, "`{bytes}` bytes are no whole number of {dtype} values of {width} bytes")
            }
            Self::SelfFault { rank } => {
                write!(f, "rank `{rank}` sends nothing to itself: a fault hits a transfer between two ranks")
            }
            Self::SelfFlow { rank } => write!(f, "a flow from rank `{rank}` to itself"),
            Self::TwoStarts { rank, first_s, second_s } => {
                write!(f, "rank `{rank}` is ready at `{second_s}` s here and at `{first_s}` s before")
            }
            Self::BadHeader { expected, found } => {
                write!(f, "the columns must be `{expected}`, found `{found}`")
            }
            Self::BadField { column, expected, found } => {
                write!(f, "column `{column}` must be {expected}, found `{found}`")
            }
            Self::RowLength { found, expected } => {
                write!(f, "a row of {found} fields where {expected} are needed")
            }
            Self::Codec(error) => write!(f, "{error}"),
            Self::NoCodec { protocol } => {
                write!(f, "protocol `{protocol}` needs a codec, and the scenario has none")
            }
            Self::NoCodecSpeed { codec, .. } => {
                write!(f, "how fast is codec `{codec}`? neither the scenario nor its cluster says so")
            }
            Self::NoCopySpeed => write!(
                f,
                "`dedup` puts rows together at the decode speed of a codec, and the scenario has none"
            ),
            Self::CodecType { codec, dtype } => write!(f, "codec `{codec}` does not code {dtype} values"),
            Self::NoRests { protocol, codec, dtype } => write!(
                f,
                "protocol `{protocol}` sends ahead what a codec leaves as it is, and frames of `{codec}` have no such part of {dtype} values"
            ),
            Self::ArmCodecs { name } => write!(f, "the arms of variant `{name}` have different codecs"),
            Self::NoPayload { codec, .. } => {
                write!(f, "the compression ratio of codec `{codec}` is unknown: the workload has no payload")
            }
            Self::PartialBlock { hidden, block } => {
                write!(f, "FP8 values have a scale for every {block}, and a token has {hidden} values")
            }
            Self::PayloadType { dtype } => {
                write!(f, "a payload holds BF16 values, and the workload sends {dtype}")
            }
            Self::CodedFlows { protocol } => {
                write!(f, "explicit flows travel uncompressed: protocol `{protocol}` does not apply")
            }
            Self::NoAlgorithms { path } => {
                write!(f, "`{path}` has no effect: nothing in the workload has several algorithms")
            }
            Self::FixedOrder { path, algorithm, .. } => write!(
                f,
                "`{path}` has no effect: the algorithm `{algorithm}` leaves no choice of which transfer comes next"
            ),
            Self::NoCallCost { collective, gpus_per_node } => write!(
                f,
                "algorithm `library` calls the library for each {collective}, and `cluster.library` does not say what that costs with \
                 {gpus_per_node} GPUs per node"
            ),
            Self::LibraryArm { name } => write!(
                f,
                "variant `{name}` cannot be an arm: a switcher models what links take, and a call of a library uses none"
            ),
            Self::PaddedValues { algorithm, protocol } => {
                write!(f, "algorithm `{algorithm}` pads frames, and protocol `{protocol}` has none")
            }
            Self::CodedSums { algorithm, protocol } => write!(
                f,
                "algorithm `{algorithm}` adds up on the way, and frames of protocol `{protocol}` are decoded at their end"
            ),
            Self::Recording(error) => write!(f, "{}", first_line(error)),
        }
    }
}

fn in_table(table: &str) -> String {
    if table.is_empty() { String::new() } else { format!(" in `{table}`") }
}

/// The message of another crate's error without its hint.
fn first_line(error: &impl ToString) -> String {
    let text = error.to_string();
    text.split(HINT).next().unwrap_or_default().to_owned()
}

fn from_rank(rank: Option<u32>) -> String {
    rank.map_or(String::new(), |rank| format!(" from rank `{rank}`"))
}
