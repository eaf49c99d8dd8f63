//! The header of a log: what its comments, and lines of programs around it, say of what was measured.

use std::collections::{BTreeMap, BTreeSet};

use zipwire_cluster::library::Operation;

use crate::error::LogError;
use crate::log::Given;
use crate::series::{Nics, line_rate};

/// Program of nccl-tests or rccl-tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// One whose operation is modelled.
    Known(Operation),
    /// One whose operation is not modelled, by its name.
    Other(String),
}

/// Names of operations that nccl-tests and rccl-tests have, and that are not modelled.
const OTHERS: [&str; 4] = ["gather", "scatter", "alltoallv", "hypercube"];

impl Program {
    /// The program of an operation, however its name is spelt: `all_reduce`, `AllReduce`, `all-reduce`.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let plain: String =
            name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
        let known = Operation::ALL.into_iter().find(|operation| operation.name().replace('_', "") == plain);
        let other = || OTHERS.into_iter().find(|other| *other == plain);
        known.map(Self::Known).or_else(|| other().map(|other| Self::Other(other.to_owned())))
    }

    /// The one program that the name of a file names, `result_all_gather_perf.txt`; none if it names several.
    pub(crate) fn of_file(file: &str) -> Option<Self> {
        const MOST_PARTS: usize = 3;
        let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
        let words: Vec<&str> = name.split(|c: char| !c.is_ascii_alphanumeric()).collect();
        let mut found: Option<Self> = None;
        let mut at = 0;
        while at < words.len() {
            // `reduce_scatter` before `reduce`.
            let most = MOST_PARTS.min(words.len() - at);
            let hit = (1..=most)
                .rev()
                .find_map(|count| Some((count, Self::named(&words[at..at + count].concat())?)));
            // Files of other things are called so, too.
            let is_plain_word = |count: usize| {
                matches!(words[at], "gather" | "scatter") && words.get(at + count) != Some(&"perf")
            };
            let hit = hit.filter(|(count, _)| !is_plain_word(*count));
            let Some((count, program)) = hit else {
                at += 1;
                continue;
            };
            if found.as_ref().is_some_and(|found| *found != program) {
                return None;
            }
            found = Some(program);
            at += count;
        }
        found
    }
}

/// Most nodes, and most GPUs of a node, that a log may state.
pub(crate) const MOST_NODES: u32 = 65536;
pub(crate) const MOST_GPUS: u32 = 4096;

/// Where a log names its program, from the weakest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Naming {
    /// A word of a command line or of another program.
    Word,
    /// The program itself, as it starts.
    Start,
    /// A comment that somebody has added, `op: all_reduce`.
    Remark,
}

/// A rank, as the programs list it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rank {
    pub(crate) number: Option<u32>,
    /// Its communicator, of which there are several with `NCCL_TESTS_SPLIT`.
    pub(crate) group: u32,
    pub(crate) host: String,
    /// Number and bus of its GPU, as printed.
    pub(crate) device: Option<String>,
}

/// Facts that comment lines state; `None` where they do not.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Header {
    pub(crate) program: Option<(Program, Naming)>,
    pub(crate) nodes: Option<u32>,
    pub(crate) gpus_per_node: Option<u32>,
    /// From nccl-tests' own lines.
    pub(crate) ranks: Vec<Rank>,
    pub(crate) gpu: Option<String>,
    /// NICs of a node, or of a GPU where the flag is set.
    pub(crate) nics: Option<(Nics, bool)>,
    /// Line and text of NICs that nobody makes.
    pub(crate) odd_nics: Option<(usize, String)>,
    /// Line and number of wrong values, if the programs say that the run failed.
    pub(crate) failed: Option<(usize, String)>,
}

impl Header {
    /// Takes what it does not say of the cluster from the header of another run in the same file. Of a run that lists its ranks, nothing
    /// of another one holds but the NICs.
    pub(crate) fn fill(&mut self, other: &Self) {
        self.nics = self.nics.or(other.nics);
        if self.odd_nics.is_none() {
            self.odd_nics.clone_from(&other.odd_nics);
        }
        if self.ranks.is_empty() {
            self.nodes = self.nodes.or(other.nodes);
            self.gpus_per_node = self.gpus_per_node.or(other.gpus_per_node);
        }
        if self.gpu.is_none() {
            self.gpu.clone_from(&other.gpu);
        }
    }

    /// Takes what was said behind the rows.
    pub(crate) fn fill_from_end(&mut self, end: Self) {
        self.fill(&end);
        self.nodes = self.nodes.or(end.nodes);
        self.gpus_per_node = self.gpus_per_node.or(end.gpus_per_node);
        if let Some((program, naming)) = end.program.filter(|_| self.program.is_none()) {
            self.name(program, naming);
        }
        self.failed = self.failed.take().or(end.failed);
    }

    /// Whether a line is one of the programs' own with which a test begins; in some logs the `#` before it is gone.
    pub(crate) fn is_first(text: &str) -> bool {
        const FIRST: [&str; 4] =
            ["nccl-tests version", "Collective test starting", "nThread", "Using devices"];
        // Programs around it say `Rank 0 on a-host`, without a device.
        FIRST.iter().any(|first| text.starts_with(first))
            || rank(text).is_some_and(|rank| rank.device.is_some())
    }

    /// Whether a comment is one that a test begins with.
    pub(crate) fn begins(comment: &str) -> bool {
        let text = comment.trim_start();
        Self::is_first(text)
            || text.starts_with("rccl-tests")
            || pairs(comment).any(|(key, _)| matches!(key, "gpu" | "nodes" | "gpus_per_node" | "op"))
    }

    /// Whether a comment is one that a program begins with, before it lists ranks.
    pub(crate) fn restarts(comment: &str) -> bool {
        let text = comment.trim_start();
        Self::is_first(text) && rank(text).is_none()
    }

    /// Whether one run has listed its ranks, more than one.
    pub(crate) fn is_listed(&self) -> bool {
        self.ranks.len() > 1 && !self.has_rank_twice()
    }

    /// Takes what a line without its `#` says.
    pub(crate) fn read(&mut self, line: usize, comment: &str) {
        let words: Vec<&str> = comment.split_whitespace().collect();
        if let Some(rank) = rank(comment) {
            self.ranks.push(rank);
            if let Some(bus) = words.iter().position(|word| word.starts_with('[')) {
                self.gpu.get_or_insert_with(|| words[bus + 1..].join(" "));
            }
            return;
        }
        if let ["Collective", "test", verb, name, ..] = words[..] {
            let name = name.strip_suffix("_perf").unwrap_or(name);
            let program = Program::named(name).unwrap_or_else(|| Program::Other(name.to_owned()));
            // It is said again at the end, where a head is gone.
            self.name(program, if verb == "starting:" { Naming::Start } else { Naming::Word });
            return;
        }
        if let ["Out", "of", "bounds", "values", ":", count, "FAILED", ..] = words[..] {
            self.failed = Some((line, count.to_owned()));
        }
        words.iter().for_each(|word| self.read_program(word));
        pairs(comment).for_each(|(key, value)| self.read_pair(key, value));
        if comment.trim_start().starts_with("interconnect:") {
            (self.nics, self.odd_nics) = match nics(&words) {
                Some((nics, _)) if !nics.is_made() => (None, Some((line, comment.trim().to_owned()))),
                nics => (nics, None),
            };
        }
    }

    /// A word that names one of nccl-tests' programs, as `./build/all_reduce_perf`.
    pub(crate) fn read_program(&mut self, word: &str) {
        let program = word.rsplit('/').next().unwrap_or(word);
        let name = program.trim_end_matches([',', ';', ')', '"', ':']).strip_suffix("_perf");
        if let Some(program) = name.and_then(Program::named) {
            self.name(program, Naming::Word);
        }
    }

    /// Takes a program, if no stronger naming is there.
    pub(crate) fn name(&mut self, program: Program, naming: Naming) {
        if self.program.as_ref().is_none_or(|(_, known)| *known <= naming) {
            self.program = Some((program, naming));
        }
    }

    fn read_pair(&mut self, key: &str, value: &str) {
        match key {
            "gpu" => self.gpu = Some(value.to_owned()),
            "nodes" => self.nodes = value.parse().ok().filter(|nodes| (1..=MOST_NODES).contains(nodes)),
            "gpus_per_node" => {
                self.gpus_per_node = value.parse().ok().filter(|gpus| (1..=MOST_GPUS).contains(gpus));
            }
            "op" => {
                if let Some(program) = Program::named(value) {
                    self.name(program, Naming::Remark);
                }
            }
            _ => {}
        }
    }

    /// Hosts with their numbers of ranks.
    pub(crate) fn hosts(&self) -> BTreeMap<&str, usize> {
        let mut hosts = BTreeMap::new();
        for rank in &self.ranks {
            *hosts.entry(rank.host.as_str()).or_insert(0) += 1;
        }
        hosts
    }

    /// Host that has two ranks on one GPU, as far as its name tells.
    pub(crate) fn crowded_host(&self) -> Option<&str> {
        let mut seen = BTreeSet::new();
        for rank in self.ranks.iter().filter(|rank| rank.device.is_some()) {
            if !seen.insert((&rank.host, &rank.device)) {
                return Some(&rank.host);
            }
        }
        None
    }

    /// Whether a rank is listed twice, as where several runs have written at once.
    pub(crate) fn has_rank_twice(&self) -> bool {
        let of_group = |rank: &Rank| Some((rank.group, rank.number?));
        let mut numbers: Vec<(u32, u32)> = self.ranks.iter().filter_map(of_group).collect();
        numbers.sort_unstable();
        numbers.windows(2).any(|pair| pair[0] == pair[1])
    }

    /// Refuses NICs that nobody makes, unless the user states others.
    pub(crate) fn refuse_odd_nics(&self, file: &str, given: Given) -> Result<(), LogError> {
        match &self.odd_nics {
            Some((line, text)) if given.nics.is_none() => {
                Err(LogError::OddNics { file: file.to_owned(), line: *line, text: text.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Keeps the ranks of the first communicator, where several had one test each at the same time, and gives their number and the GPUs
    /// of a node that took part in all of them.
    ///
    /// # Errors
    /// With the numbers of ranks of each host in two communicators that are unlike.
    pub(crate) fn take_group(&mut self) -> Result<Option<(usize, u32)>, [String; 2]> {
        let mut groups: BTreeMap<u32, BTreeMap<&str, usize>> = BTreeMap::new();
        for rank in &self.ranks {
            *groups.entry(rank.group).or_default().entry(&rank.host).or_insert(0) += 1;
        }
        let spread = |hosts: &BTreeMap<&str, usize>| {
            let mut counts: Vec<usize> = hosts.values().copied().collect();
            counts.sort_unstable();
            counts
        };
        let mut all = groups.iter().map(|(group, hosts)| (*group, spread(hosts)));
        let Some((first, of_first)) = all.next().filter(|_| groups.len() > 1) else { return Ok(None) };
        if let Some((other, of_other)) = all.find(|(_, counts)| *counts != of_first) {
            return Err([(first, of_first), (other, of_other)]
                .map(|(group, counts)| format!("group {group} has {counts:?} ranks on its hosts")));
        }
        let of_node = self.hosts().values().copied().max().unwrap_or(1);
        let count = groups.len();
        self.ranks.retain(|rank| rank.group == first);
        Ok(Some((count, u32::try_from(of_node).unwrap_or(u32::MAX))))
    }

    /// NICs of a node of so many GPUs.
    pub(crate) fn nics_of(&self, gpus_per_node: u32) -> Option<Nics> {
        let (nics, is_per_gpu) = self.nics?;
        let factor = if is_per_gpu { gpus_per_node } else { 1 };
        Some(Nics { per_node: nics.per_node.saturating_mul(factor), ..nics })
    }
}

/// Keys and values of a comment, as `nodes: 2; gpus_per_node: 8`.
fn pairs(comment: &str) -> impl Iterator<Item = (&str, &str)> {
    comment.split(';').filter_map(|part| part.split_once(':')).map(|(key, value)| (key.trim(), value.trim()))
}

/// `Rank  0 Group  0 Pid 1234 on  node-a device  0 [0000:0f:00] NVIDIA H200`, where old versions have no group.
fn rank(comment: &str) -> Option<Rank> {
    let words: Vec<&str> = comment.split_whitespace().collect();
    let on = words.iter().position(|word| *word == "on").filter(|_| words[0] == "Rank")?;
    let host = (*words.get(on + 1)?).to_owned();
    let device = words.get(on + 3..on + 5).filter(|_| words[on + 2] == "device");
    let group = words.iter().position(|word| *word == "Group").and_then(|at| words.get(at + 1)?.parse().ok());
    let (number, device) = (words[1].parse().ok(), device.map(<[&str]>::concat));
    Some(Rank { number, group: group.unwrap_or(0), host, device })
}

/// `8x200G`, or `4x Slingshot-11 200G`, and whether `per GPU` follows.
fn nics(words: &[&str]) -> Option<(Nics, bool)> {
    words.iter().enumerate().find_map(|(index, word)| {
        let (count, same_word) = word.split_once('x')?;
        let per_node: u32 = count.trim_start_matches('(').parse().ok().filter(|count| *count > 0)?;
        let (bytes_per_s, last) = match line_rate(same_word) {
            Some(rate) => (rate, index),
            // A few words for the kind of NIC; another item of the list is not of this one.
            None if same_word.is_empty() => {
                let next = words.iter().enumerate().skip(index + 1).take(4);
                let mut item = next.scan(false, |ended, (at, word)| {
                    let taken = (!*ended).then_some((at, *word));
                    *ended |= word.ends_with([';', ',']);
                    taken
                });
                item.find_map(|(at, word)| Some((line_rate(word)?, at)))?
            }
            None => return None,
        };
        let is_per_gpu = words.get(last + 1..last + 3).is_some_and(|next| next == ["per", "GPU"]);
        Some((Nics { per_node, bytes_per_s }, is_per_gpu))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &[&str]) -> Header {
        let mut header = Header::default();
        lines.iter().for_each(|line| header.read(1, line));
        header
    }

    #[test]
    fn lines_of_the_programs_name_hosts_and_gpus() {
        let header = of(&[
            " Collective test starting: all_reduce_perf",
            "  Rank  0 Group  0 Pid 1234 on  node-a device  0 [0000:0f:00] NVIDIA H200",
            "  Rank  1 Group  0 Pid 1235 on  node-b device  0 [0000:0f:00] NVIDIA H200",
        ]);
        assert_eq!(header.program, Some((Program::Known(Operation::AllReduce), Naming::Start)));
        assert_eq!(header.hosts().into_iter().collect::<Vec<_>>(), [("node-a", 1), ("node-b", 1)]);
        assert_eq!((header.crowded_host(), header.has_rank_twice()), (None, false));
        assert_eq!(header.gpu.as_deref(), Some("NVIDIA H200"));
    }

    #[test]
    fn hosts_of_one_name_and_ranks_of_several_runs_are_seen() {
        let rank = |number: u32, device: u32| {
            format!("  Rank {number} Group  0 Pid 1 on  a device  {device} [0000:0{device}:00] NVIDIA H200")
        };
        let header = |ranks: [(u32, u32); 2]| {
            let lines = ranks.map(|(number, device)| rank(number, device));
            of(&lines.each_ref().map(String::as_str))
        };
        assert_eq!(header([(0, 0), (1, 1)]).crowded_host(), None);
        assert_eq!(header([(0, 0), (1, 0)]).crowded_host(), Some("a"));
        assert!(header([(0, 0), (0, 1)]).has_rank_twice() && !header([(0, 0), (1, 0)]).has_rank_twice());
    }

    #[test]
    fn programs_are_known_by_any_spelling() {
        for name in ["all_reduce", "AllReduce", "all-reduce"] {
            assert_eq!(Program::named(name), Some(Program::Known(Operation::AllReduce)), "{name}");
        }
        assert_eq!(Program::named("AlltoAllv"), Some(Program::Other("alltoallv".to_owned())));
        assert_eq!(Program::named("reduced"), None);
        let header =
            of(&[" Collective test starting: new_thing_perf", " Collective test concluded: reduce_perf"]);
        assert_eq!(header.program, Some((Program::Other("new_thing".to_owned()), Naming::Start)));
        let header = of(&["mpirun -np 8 ./build/reduce_scatter_perf -b 8", "now ./build/all_gather_perf"]);
        assert_eq!(
            header.program,
            Some((Program::Known(Operation::AllGather), Naming::Word)),
            "the last one"
        );
    }

    #[test]
    fn names_of_files_name_one_program_or_none() {
        let known = |file: &str| match Program::of_file(file) {
            Some(Program::Known(operation)) => Some(operation),
            _ => None,
        };
        assert_eq!(known("all_reduce/out_reduce_scatter_perf.txt"), Some(Operation::ReduceScatter));
        assert_eq!(known("006-h100-sxm-1x8-all_reduce.txt"), Some(Operation::AllReduce));
        assert_eq!(known("AllGather.8x8.log"), Some(Operation::AllGather));
        assert_eq!(known("all_reduce_and_all_gather.txt"), None);
        assert_eq!(known("reduced.txt"), None);
        assert_eq!(Program::of_file("gather_perf.txt"), Some(Program::Other("gather".to_owned())));
        assert_eq!(Program::of_file("gather-logs.txt"), None);
    }

    #[test]
    fn remarks_name_what_programs_leave_out() {
        let header = of(&[" gpu: H100-SXM; nodes: 2; gpus_per_node: 8; ranks: 16; op: alltoall"]);
        assert_eq!((header.nodes, header.gpus_per_node), (Some(2), Some(8)));
        assert_eq!(header.program, Some((Program::Known(Operation::AllToAll), Naming::Remark)));
        assert_eq!(header.gpu.as_deref(), Some("H100-SXM"));
    }

    #[test]
    fn nics_are_found_among_other_things() {
        let nics = |text: &str, gpus| {
            of(&[&format!(" interconnect: {text}")])
                .nics_of(gpus)
                .map(|nics| (nics.per_node, nics.bytes_per_s))
        };
        assert_eq!(nics("NVLink4; GCP A3 Mega 8x200G TCPXO", 8), Some((8, 25e9)));
        assert_eq!(nics("4x GH200 NVLink4; 4x Slingshot-11 200G per node", 4), Some((4, 25e9)));
        assert_eq!(nics("inferred 1x400G per GPU used", 2), Some((2, 50e9)));
        assert_eq!(nics("PCIe; 1x NIC RoCE, CX-7", 2), None);
        assert_eq!(nics("4x H100 SXM, NVLink4, one node", 4), None);
        let odd = of(&[" interconnect: 1x9223372036854775808G"]);
        assert_eq!((odd.nics, odd.odd_nics.map(|(line, _)| line)), (None, Some(1)));
    }
}
