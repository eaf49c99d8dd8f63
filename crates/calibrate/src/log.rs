//! Logs of nccl-tests, whatever their form.

use zipwire_cluster::library::Operation;

use crate::error::LogError;
use crate::header::Header;
use crate::series::Series;
use crate::{json, table, text};

/// Facts that the user states about a log; they override the log's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// Number of nodes.
    pub nodes: Option<u32>,
    /// GPUs of each node that took part.
    pub gpus_per_node: Option<u32>,
    /// Operation that was measured.
    pub operation: Option<Operation>,
}

/// Contents of a log.
#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    /// At least one; several if the log is a table of several operations or shapes.
    pub series: Vec<Series>,
    /// Remarks on oddities.
    pub notes: Vec<String>,
}

/// Reads a log: the text that a program of nccl-tests prints, the JSON that it writes with `-J`, or a table of several operations.
///
/// # Errors
/// If it is none of these, or neither it nor `given` says what was measured on how many nodes. They name file, line and remedy.
pub fn parse_log(file: &str, text: &str, given: Given) -> Result<Log, LogError> {
    if text.trim_start().starts_with('{') {
        return json::parse(file, text, given);
    }
    if text.lines().any(|line| table::columns(line).is_some()) {
        return table::parse(file, text, given);
    }
    text::parse(file, text, given)
}

/// The operation, nodes and GPUs per node of a log.
pub(crate) fn shape(
    file: &str,
    line: usize,
    header: &Header,
    given: Given,
) -> Result<(Operation, u32, u32), LogError> {
    let named = |what, flag| LogError::NoShape { file: file.to_owned(), line, what, flag };
    let operation = given.operation.or(header.operation);
    let operation = operation.ok_or_else(|| LogError::NoOperation { file: file.to_owned(), line })?;
    let mut hosts = header.hosts.clone();
    hosts.sort();
    hosts.dedup();
    let (ranks, host_count) = (header.hosts.len(), hosts.len());
    let counted = (ranks > 0).then_some(host_count).and_then(|count| u32::try_from(count).ok());
    let nodes = given.nodes.or(header.nodes).or(counted);
    let nodes = nodes.ok_or_else(|| named("nodes", "--nodes 1"))?;
    let counted = match counted {
        Some(_) if given.gpus_per_node.or(header.gpus_per_node).is_none() => {
            let (all, nodes) = (ranks, nodes as usize);
            if all % nodes != 0 {
                return Err(LogError::Uneven { file: file.to_owned(), line, ranks, nodes: host_count });
            }
            u32::try_from(all / nodes).ok()
        }
        _ => None,
    };
    let gpus = given.gpus_per_node.or(header.gpus_per_node).or(counted);
    let gpus = gpus.ok_or_else(|| named("GPUs per node", "--gpus-per-node 8"))?;
    if nodes.saturating_mul(gpus) < 2 {
        return Err(named("GPUs: one alone has nothing to exchange", "--gpus-per-node 8"));
    }
    Ok((operation, nodes, gpus))
}
