//! One run of a program of nccl-tests, from its header and rows to series: what was measured among which ranks, whether that can be,
//! and the rows that count.

use zipwire_cluster::library::Operation;

use crate::calibrate::size;
use crate::cluster_file::significant;
use crate::error::LogError;
use crate::factor::{allowed, check, named};
use crate::header::{Header, Naming, Program};
use crate::log::Given;
use crate::row::Row;
use crate::series::{Series, points};

/// Rows that a note names one by one; of further ones it says how many there are.
const MOST_NAMED: usize = 3;

/// A run with its rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Run {
    pub(crate) header: Header,
    /// In the order of the log.
    pub(crate) rows: Vec<Row>,
}

impl Run {
    /// Line of the first row, from 1.
    pub(crate) fn line(&self) -> usize {
        self.rows.first().map_or(1, |row| row.line)
    }

    /// Number of processes that measured alone, each as the one rank of its own run, if that is what the log has.
    pub(crate) fn alone(&self, given: Given) -> Option<usize> {
        let header = &self.header;
        let stated = [given.nodes, given.gpus_per_node, header.nodes, header.gpus_per_node];
        let is_stated = stated.into_iter().flatten().any(|count| count > 1);
        let is_alone = header.ranks.len() == 1
            || header.has_rank_twice() && header.ranks.iter().all(|rank| rank.number == Some(0));
        (is_alone && !is_stated).then_some(header.ranks.len())
    }

    /// Series of the run, one for each type of values.
    ///
    /// # Errors
    /// If neither log nor user says what was measured among which ranks, the rows say another thing, or the results were wrong.
    pub(crate) fn series(
        mut self,
        file: &str,
        given: Given,
        notes: &mut Vec<String>,
    ) -> Result<Vec<Series>, LogError> {
        if self.header.has_rank_twice() {
            return Err(LogError::Mixed { file: file.to_owned(), line: self.line() });
        }
        self.header.refuse_odd_nics(file, given)?;
        let gpus_of_node = self.take_group(file, given, notes)?;
        let shape = shape(file, self.line(), &self.header, given);
        let operation = self.operation(file, shape.as_ref().ok().copied(), given, notes)?;
        let (nodes, gpus_per_node) = shape?;
        self.leave_out_wrong(file, notes)?;
        check(file, &self.rows, operation, nodes * gpus_per_node, notes)?;
        self.remark_odd_bandwidths(file, notes);
        self.leave_out_other_sums(file, notes);
        let gpus_of_node = gpus_of_node.unwrap_or(gpus_per_node);
        let nics = given.nics.or_else(|| self.header.nics_of(gpus_of_node));
        let nics = nics.map(|nics| nics.of_part(gpus_per_node, gpus_of_node));
        let gpu = self.header.gpu;
        let mut kinds: Vec<(String, Vec<Row>)> = Vec::new();
        for row in self.rows {
            match kinds.iter_mut().find(|(dtype, _)| *dtype == row.dtype) {
                Some((_, rows)) => rows.push(row),
                None => kinds.push((row.dtype.clone(), vec![row])),
            }
        }
        let series = kinds.into_iter().map(|(dtype, rows)| {
            let points = points(rows.iter().filter(|row| row.first.us > 0.0).map(|row| {
                let in_place = row.second.filter(|second| second.us > 0.0);
                (row.bytes, row.first.us * 1e-6, in_place.map(|second| second.us * 1e-6))
            }));
            let (file, gpu) = (file.to_owned(), gpu.clone());
            Series { file, operation, nodes, gpus_per_node, gpu, nics, dtype, points }
        });
        Ok(series.collect())
    }

    /// Keeps the ranks of one communicator, where `NCCL_TESTS_SPLIT` made several that ran at the same time, and gives the GPUs of a node
    /// in all of them. What the user states is that of one.
    fn take_group(
        &mut self,
        file: &str,
        given: Given,
        notes: &mut Vec<String>,
    ) -> Result<Option<u32>, LogError> {
        let line = self.line();
        match self.header.take_group() {
            Err(_) if given.nodes.is_some() && given.gpus_per_node.is_some() => Ok(None),
            Err(groups) => Err(LogError::Groups { file: file.to_owned(), line, groups }),
            Ok(None) => Ok(None),
            Ok(Some((count, gpus_of_node))) => {
                notes.push(format!(
                    "{file}:{line}: {count} communicators of {} ranks each ran the test at the same time (NCCL_TESTS_SPLIT): it counts as \
                     that of one of them, with its GPUs' part of each node's NICs",
                    self.header.ranks.len()
                ));
                Ok(Some(gpus_of_node))
            }
        }
    }

    /// The operation: of the user, of the log, or what the file's name or the rows tell.
    fn operation(
        &self,
        file: &str,
        shape: Option<(u32, u32)>,
        given: Given,
        notes: &mut Vec<String>,
    ) -> Result<Operation, LogError> {
        let line = self.line();
        let not_modelled = |operation| Err(LogError::NotModelled { file: file.to_owned(), line, operation });
        let mut by = |operation: Operation, source: &str| {
            notes.push(format!("{file}:{line}: the operation is {}, by {source}", operation.name()));
            Ok(operation)
        };
        match (given.operation, self.header.program.clone()) {
            (Some(Operation::AllToAll), Some((Program::Other(other), _))) if other == "alltoallv" => {
                Ok(Operation::AllToAll)
            }
            (Some(operation), Some((Program::Other(_), Naming::Word))) => Ok(operation),
            (_, Some((Program::Other(operation), _))) => not_modelled(operation),
            (Some(operation), _) => Ok(operation),
            (None, Some((Program::Known(operation), Naming::Word))) => {
                by(operation, "a command line in the log")
            }
            (None, Some((Program::Known(operation), _))) => Ok(operation),
            (None, None) => match Program::of_file(file) {
                Some(Program::Known(operation)) => by(operation, "the name of the file"),
                Some(Program::Other(operation)) => not_modelled(operation),
                None => self.operation_of_rows(file, shape, notes),
            },
        }
    }

    /// The one operation that bandwidths, counts and further fields of the rows allow.
    fn operation_of_rows(
        &self,
        file: &str,
        shape: Option<(u32, u32)>,
        notes: &mut Vec<String>,
    ) -> Result<Operation, LogError> {
        let line = self.line();
        let operations = shape.map_or(Vec::new(), |(nodes, gpus)| self.candidates(nodes * gpus));
        if let [operation] = operations[..] {
            notes.push(format!(
                "{file}:{line}: the operation is {}, by the factor of bandwidths and the fields of the rows",
                operation.name()
            ));
            return Ok(operation);
        }
        let is_some_ruled_out = operations.len() < Operation::ALL.len();
        let candidates = named(operations.into_iter()).filter(|_| is_some_ruled_out);
        let candidates = candidates.map_or(String::new(), |names| format!(": by its rows it is {names}"));
        Err(LogError::NoOperation { file: file.to_owned(), line, candidates })
    }

    /// Operations that the rows allow: by the factor of their bandwidths, by whether they add up, have a root, and are checked in
    /// place, and by how many values are counted.
    fn candidates(&self, ranks: u32) -> Vec<Operation> {
        use Operation::{AllGather, AllToAll, Broadcast, Reduce, ReduceScatter, SendRecv};
        let all = |is: fn(&Row) -> bool| self.rows.iter().all(is);
        let has_sum = all(|row| row.redop.as_deref().is_some_and(|redop| redop != "none"));
        let has_none = all(|row| row.redop.as_deref() == Some("none"));
        let has_root = all(|row| row.root.is_some_and(|root| root >= 0));
        let has_no_root = all(|row| row.root.is_some_and(|root| root < 0));
        let is_checked = all(|row| row.first.wrong.is_some() && row.second.is_some());
        // In place these two cannot be checked.
        let is_checked_once =
            is_checked && all(|row| row.second.is_some_and(|second| second.wrong.is_none()));
        let is_checked_twice =
            is_checked && all(|row| row.second.is_some_and(|second| second.wrong.is_some()));
        let fits = |operation: &Operation| {
            let has_in_place = !matches!(operation, AllToAll | SendRecv);
            // The programs print `sum` for sends, too.
            !(has_none && (operation.is_reduction() || *operation == SendRecv)
                || has_sum && matches!(operation, AllGather | AllToAll | Broadcast)
                || has_root && !matches!(operation, Broadcast | Reduce)
                || has_no_root && matches!(operation, Broadcast | Reduce)
                || is_checked_once && has_in_place
                || is_checked_twice && !has_in_place)
        };
        let fitting: Vec<Operation> = allowed(&self.rows, ranks).into_iter().filter(fits).collect();
        // The count is that of one rank's part where operations have parts.
        let is_in_parts = |row: &Row| Some(row.count?.saturating_mul(width(&row.dtype)?) != row.bytes);
        let parts: Vec<bool> = self.rows.iter().filter(|row| row.bytes > 0).filter_map(is_in_parts).collect();
        let is_of_count = |operation: &Operation| {
            let has_parts = matches!(operation, AllGather | ReduceScatter | AllToAll);
            parts.iter().all(|in_parts| *in_parts == has_parts)
        };
        let counted: Vec<Operation> = fitting.iter().copied().filter(is_of_count).collect();
        if counted.is_empty() { fitting } else { counted }
    }

    /// Leaves out rows whose results were wrong.
    fn leave_out_wrong(&mut self, file: &str, notes: &mut Vec<String>) -> Result<(), LogError> {
        let total = self.rows.len();
        let (wrong, right): (Vec<Row>, Vec<Row>) =
            std::mem::take(&mut self.rows).into_iter().partition(|row| row.wrong() > 0.0);
        self.rows = right;
        let refused = |line, wrong| Err(LogError::Wrong { file: file.to_owned(), line, wrong });
        match (wrong.first(), &self.header.failed) {
            (None, Some((line, count))) => {
                refused(*line, format!("out of bounds values: {count}, of which no row tells"))
            }
            (None, None) => Ok(()),
            (Some(first), _) if self.rows.is_empty() => {
                refused(first.line, format!("`#wrong` is above 0 in all {total} rows"))
            }
            (Some(_), _) => {
                let names = wrong.iter().take(MOST_NAMED).map(|row| {
                    format!("{} in line {} ({} wrong values)", size(row.bytes), row.line, row.wrong())
                });
                let names: Vec<String> = names.collect();
                notes.push(format!(
                    "{file}:{}: results were wrong in {} of {total} rows, which are left out: {}{}",
                    wrong[0].line,
                    wrong.len(),
                    names.join(", "),
                    if wrong.len() > MOST_NAMED { ", ..." } else { "" }
                ));
                Ok(())
            }
        }
    }

    /// Remarks on bandwidths that are not those of size and time.
    fn remark_odd_bandwidths(&self, file: &str, notes: &mut Vec<String>) {
        let odd: Vec<(&Row, f64)> = self
            .rows
            .iter()
            .filter(|row| row.bytes > 0 && !row.first.fits(row.bytes))
            .filter_map(|row| Some((row, row.first.algbw?.value)))
            .collect();
        notes.extend(odd.iter().take(MOST_NAMED).map(|(row, algbw)| {
            format!(
                "{file}:{}: an algorithm bandwidth of {} GB/s does not fit {} bytes in {} us; the time is taken",
                row.line,
                significant(*algbw),
                row.bytes,
                significant(row.first.us)
            )
        }));
        if odd.len() > MOST_NAMED {
            notes.push(format!("{file}: the same of {} further rows", odd.len() - MOST_NAMED));
        }
    }

    /// Leaves out whole numbers where there are others, and reductions that are no sums where there are sums.
    fn leave_out_other_sums(&mut self, file: &str, notes: &mut Vec<String>) {
        let mut left_out = Vec::new();
        let mut keep =
            |rows: &mut Vec<Row>, is_kept: &dyn Fn(&Row) -> bool, name: &dyn Fn(&Row) -> String| {
                for row in rows.iter().filter(|row| !is_kept(row)) {
                    if !left_out.contains(&name(row)) {
                        left_out.push(name(row));
                    }
                }
                rows.retain(is_kept);
            };
        if self.rows.iter().any(|row| !row.is_integer()) {
            keep(&mut self.rows, &|row| !row.is_integer(), &|row| row.dtype.clone());
        }
        let redop = |row: &Row| row.redop.clone().unwrap_or_default();
        let redops: Vec<String> = self.rows.iter().map(redop).collect();
        let is_sum = |redop: &&String| *redop == "sum";
        if let Some(kept) = redops.iter().find(is_sum).or_else(|| redops.first()) {
            keep(&mut self.rows, &|row| redop(row) == *kept, &redop);
        }
        if !left_out.is_empty() {
            let kept = self.rows.first().map_or(String::new(), |row| format!("{} {}", row.dtype, redop(row)));
            notes.push(format!(
                "{file}:{}: of several types and reductions, {} is taken, and left out are: {}",
                self.line(),
                kept.trim_end(),
                left_out.join(", ")
            ));
        }
    }
}

/// Nodes and GPUs per node of a run.
fn shape(file: &str, line: usize, header: &Header, given: Given) -> Result<(u32, u32), LogError> {
    let stated_nodes = given.nodes.or(header.nodes);
    let stated_gpus = given.gpus_per_node.or(header.gpus_per_node);
    let shape = match (stated_nodes, stated_gpus) {
        (Some(nodes), Some(gpus)) => (nodes, gpus),
        _ if header.ranks.is_empty() => {
            let named = |what, flag| LogError::NoShape { file: file.to_owned(), line, what, flag };
            return Err(match stated_nodes {
                None => named("nodes", "--nodes 1"),
                Some(_) => named("GPUs per node", "--gpus-per-node 8"),
            });
        }
        _ => counted(file, line, header, stated_nodes, stated_gpus)?,
    };
    if shape.0.saturating_mul(shape.1) < 2 {
        return Err(LogError::OneGpu { file: file.to_owned(), line });
    }
    Ok(shape)
}

/// Nodes and GPUs per node by the lines for each rank, one of which may be stated.
fn counted(
    file: &str,
    line: usize,
    header: &Header,
    nodes: Option<u32>,
    gpus: Option<u32>,
) -> Result<(u32, u32), LogError> {
    let file = || file.to_owned();
    if let Some(host) = header.crowded_host().filter(|_| nodes.is_none()) {
        return Err(LogError::OneName { file: file(), line, host: host.to_owned() });
    }
    let hosts = header.hosts();
    let ranks = header.ranks.len();
    let uneven = |spread| LogError::Uneven { file: file(), line, ranks, nodes: hosts.len(), spread };
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let by_host = nodes.is_none_or(|nodes| nodes == count(hosts.len()));
    let nodes = nodes.unwrap_or(count(hosts.len()));
    if let Some(gpus) = gpus {
        return Ok((nodes, gpus));
    }
    let mut counts = hosts.values();
    let first = counts.next();
    if by_host && counts.any(|count| Some(count) != first) {
        let each: Vec<String> =
            hosts.iter().take(8).map(|(host, count)| format!("{count} on `{host}`")).collect();
        return Err(uneven(each.join(", ") + if hosts.len() > each.len() { ", ..." } else { "" }));
    }
    if !ranks.is_multiple_of(nodes as usize) {
        return Err(uneven(format!("{nodes} nodes are stated")));
    }
    Ok((nodes, count(ranks / nodes as usize)))
}

/// Bytes of a value, by the names of nccl-tests.
fn width(dtype: &str) -> Option<u64> {
    match dtype {
        "int8" | "uint8" | "char" => Some(1),
        "half" | "bfloat16" | "float16" => Some(2),
        "float" | "int32" | "uint32" | "int" | "float32" => Some(4),
        "double" | "int64" | "uint64" | "float64" => Some(8),
        dtype if dtype.contains("fp8") || dtype.contains("f8") => Some(1),
        _ => None,
    }
}
