//! How much memory a run takes, estimated before anything is planned, and how much the system could give.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use zipwire_scenarios::Experiment;
use zipwire_schedule::{Plan, PlanSize, WHOLE_PLAN_RANKS};

use crate::folded::Folded;
use crate::outlook::Outlook;
use crate::{Cancel, ExecuteError};

/// Bytes that a span takes until it is written, with what a simulation keeps of its transfer: an All-to-All of 1024 ranks peaks at
/// 195 for each beside the plan, in one burst, and at 110 in rounds.
const SPAN_BYTES: u64 = 200;

/// Bytes that a run may take.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MemoryLimit {
    Stated(u64),
    /// Memory that was available at the time of the query.
    Available(u64),
    /// The system does not say.
    Unknown,
}

impl MemoryLimit {
    /// The stated limit, or what the system could give now.
    pub(crate) fn new(stated: Option<u64>) -> Self {
        match (stated, available()) {
            (Some(bytes), _) => Self::Stated(bytes),
            (None, Some(bytes)) => Self::Available(bytes),
            (None, None) => Self::Unknown,
        }
    }

    /// Bytes, if there is a limit.
    pub(crate) fn bytes(self) -> Option<u64> {
        match self {
            Self::Stated(bytes) | Self::Available(bytes) => Some(bytes),
            Self::Unknown => None,
        }
    }

    /// Whether a run of so many bytes stays within it.
    pub(crate) fn allows(self, bytes: u64) -> bool {
        self.bytes().is_none_or(|limit| bytes <= limit)
    }
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Stated(bytes) => write!(f, "`--memory` allows {}", gigabytes(bytes)),
            Self::Available(bytes) => write!(f, "{} are available", gigabytes(bytes)),
            Self::Unknown => write!(f, "it is not known how much is available"),
        }
    }
}

pub(crate) fn gigabytes(bytes: u64) -> String {
    if bytes < 100_000_000 {
        format!("{:.2} MB", bytes as f64 / 1e6)
    } else {
        format!("{:.2} GB", bytes as f64 / 1e9)
    }
}

/// Bytes that the timeline of running `plan` takes: those of all spans.
pub(crate) fn timeline_bytes(plan: &Plan, iterations: u32) -> u64 {
    span_bytes(&PlanSize::of(plan), iterations)
}

/// [`timeline_bytes`] of a plan of a size.
pub(crate) fn span_bytes(size: &PlanSize, iterations: u32) -> u64 {
    size.spans * u64::from(iterations) * SPAN_BYTES
}

/// Bytes that are available: the least of what the machine, control groups and the process's own limit allow; `None` if none of them is known.
pub(crate) fn available() -> Option<u64> {
    let root = Path::new("/");
    [machine(root), control_groups(root), address_space(root)].into_iter().flatten().min()
}

/// Bytes that the kernel could give without swapping.
fn machine(root: &Path) -> Option<u64> {
    kibibytes(root, "proc/meminfo", "MemAvailable:")
}

/// A line of a file below `/proc` that counts kibibytes, in bytes.
fn kibibytes(root: &Path, file: &str, key: &str) -> Option<u64> {
    let text = fs::read_to_string(root.join(file)).ok()?;
    let line = text.lines().find(|line| line.starts_with(key))?;
    let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// Bytes left of `ulimit -v`, if it is set.
#[cfg(unix)]
fn address_space(root: &Path) -> Option<u64> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::As).current?;
    Some(limit.saturating_sub(kibibytes(root, "proc/self/status", "VmSize:")?))
}

#[cfg(not(unix))]
fn address_space(_: &Path) -> Option<u64> {
    None
}

/// Files of a hierarchy of control groups.
struct Hierarchy {
    mount: &'static str,
    limit: &'static str,
    usage: &'static str,
    /// The key in `memory.stat` of cached file contents that the kernel drops when memory is short.
    cache: &'static str,
}

const V2: Hierarchy = Hierarchy {
    mount: "sys/fs/cgroup",
    limit: "memory.max",
    usage: "memory.current",
    cache: "inactive_file ",
};
const V1: Hierarchy = Hierarchy {
    mount: "sys/fs/cgroup/memory",
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    cache: "total_inactive_file ",
};

/// Least bytes left in the control group of this process and its ancestors; `None` if none has a limit.
fn control_groups(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let left = groups.lines().filter_map(|line| {
        // `hierarchy:controllers:path`; version 2 names no controllers.
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let hierarchy = match controllers {
            "" => V2,
            v1 if v1.split(',').any(|controller| controller == "memory") => V1,
            _ => return None,
        };
        hierarchy.left(root, path.trim_start_matches('/'))
    });
    left.min()
}

impl Hierarchy {
    /// The least that is left in a group and in those around it. In a container its own group may be the top of what can be
    /// seen, whatever its path is outside.
    fn left(&self, root: &Path, group: &str) -> Option<u64> {
        let top = root.join(self.mount);
        let below: Vec<PathBuf> = Path::new(group).ancestors().map(|path| top.join(path)).collect();
        below.iter().filter_map(|folder| self.left_in(folder)).min()
    }

    fn left_in(&self, folder: &Path) -> Option<u64> {
        let number = |name| fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
        // `max` where there is no limit.
        let limit = number(self.limit)?;
        let stat = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
        let cached = stat.lines().find_map(|line| line.strip_prefix(self.cache)?.trim().parse::<u64>().ok());
        let used = number(self.usage).unwrap_or(0).saturating_sub(cached.unwrap_or(0));
        Some(limit.saturating_sub(used))
    }
}

/// Bytes of an experiment. Plans are held together; beside them there is the check of one at a time or, if they are run, its timeline.
/// They are estimated before any plan is made: too much is refused without planning anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Footprint {
    /// All plans; of adaptive variants, those of the largest arm.
    pub(crate) plans: u64,
    pub(crate) check: u64,
    /// Longest timeline of all iterations; 0 if nothing is run.
    pub(crate) timeline: u64,
}

/// Bytes that a check of a whole plan takes for each of its transfers: both ends, open exchanges, and the graph of waits. An
/// All-to-All of 256 ranks under `static-first` has 195 840, and `zipwire scenario check` of it peaks at 177 MB, of which its plan
/// and the program itself are 60.
const CHECK_BYTES: u64 = 600;

impl Footprint {
    /// Footprint of an experiment, as far as it fits into the limit: what does not is counted no further; and, with `folding`, the variants in which some ranks
    /// stand for all.
    pub(crate) fn of(
        experiment: &Experiment,
        folding: Option<&Cancel>,
        is_run: bool,
        limit: MemoryLimit,
    ) -> (Self, Vec<Option<Folded>>) {
        let (mut all, mut folded) = (Self::default(), Vec::new());
        for variant in &experiment.variants {
            let allows = |size: &PlanSize| limit.allows(all.and(experiment, is_run, size).bytes());
            let outlook = Outlook::new(experiment, variant, folding, allows);
            all = all.and(experiment, is_run, &outlook.kept);
            if !limit.allows(all.bytes()) {
                break;
            }
            folded.push(outlook.folded.ok());
        }
        (all, folded)
    }

    /// Refuses what does not fit into memory.
    pub(crate) fn check(&self, variants: usize, limit: MemoryLimit) -> Result<(), ExecuteError> {
        let Self { plans, check, timeline } = *self;
        if limit.allows(self.bytes()) {
            return Ok(());
        }
        Err(ExecuteError::TooLarge { variants, plans, check, timeline, limit: limit.to_string() })
    }

    /// Bytes that are taken at the same time.
    pub(crate) fn bytes(&self) -> u64 {
        self.plans + self.check.max(self.timeline)
    }

    /// With one plan more.
    pub(crate) fn and(self, experiment: &Experiment, is_run: bool, size: &PlanSize) -> Self {
        let is_checked = experiment.topology.ranks() <= WHOLE_PLAN_RANKS;
        let check = if is_checked { size.ends / 2 * CHECK_BYTES } else { 0 };
        let timeline = if is_run { span_bytes(size, experiment.iterations) } else { 0 };
        Self {
            plans: self.plans + size.bytes(),
            check: self.check.max(check),
            timeline: self.timeline.max(timeline),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with these files.
    fn machine_with(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        root
    }

    #[test]
    fn the_nearest_limit_counts_less_what_is_used() {
        let root = machine_with(&[
            ("proc/self/cgroup", "0::/pod/job\n"),
            ("sys/fs/cgroup/pod/job/memory.max", "max\n"),
            ("sys/fs/cgroup/pod/memory.max", "1000\n"),
            ("sys/fs/cgroup/pod/memory.current", "700\n"),
            ("sys/fs/cgroup/pod/memory.stat", "anon 400\ninactive_file 200\nactive_file 100\n"),
        ]);
        assert_eq!(control_groups(root.path()), Some(500));
        fs::write(root.path().join("sys/fs/cgroup/pod/job/memory.max"), "300\n").unwrap();
        assert_eq!(control_groups(root.path()), Some(300));
    }

    #[test]
    fn a_container_sees_its_own_group_at_the_top() {
        let root = machine_with(&[
            ("proc/self/cgroup", "0::/docker/0123\n"),
            ("sys/fs/cgroup/memory.max", "4096"),
            ("sys/fs/cgroup/memory.current", "96"),
        ]);
        assert_eq!(control_groups(root.path()), Some(4000));
    }

    #[test]
    fn so_do_groups_of_version_1() {
        let root = machine_with(&[
            ("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/a\n0::/\n"),
            ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "2000"),
            ("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "1500"),
            ("sys/fs/cgroup/memory/a/memory.stat", "total_inactive_file 300\n"),
            // The largest number of pages: no limit.
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712"),
        ]);
        assert_eq!(control_groups(root.path()), Some(800));
    }

    #[test]
    fn no_limit_is_no_answer() {
        let root = machine_with(&[("proc/self/cgroup", "0::/a\n"), ("sys/fs/cgroup/a/memory.max", "max\n")]);
        assert_eq!(control_groups(root.path()), None);
        assert_eq!(control_groups(machine_with(&[]).path()), None);
        let root = machine_with(&[("proc/meminfo", "MemTotal: 9 kB\nMemAvailable:  5 kB\n")]);
        assert_eq!(machine(root.path()), Some(5120));
    }

    fn load(path: &std::path::Path) -> Experiment {
        let source = zipwire_scenarios::Source::read(path).unwrap();
        zipwire_scenarios::load(&source, &[], None).unwrap()
    }

    #[test]
    fn nothing_is_counted_beyond_the_limit() {
        let experiment = load(std::path::Path::new("../../scenarios/smoke/moe-dirichlet-2x2.toml"));
        let whole = Footprint::of(&experiment, None, true, MemoryLimit::Unknown).0;
        let limit = MemoryLimit::Stated(whole.bytes() / 4);
        let part = Footprint::of(&experiment, None, true, limit).0;
        assert!(!limit.allows(part.bytes()) && part.bytes() < whole.bytes(), "{part:?} of {whole:?}");
        assert!(MemoryLimit::Stated(whole.bytes()).allows(whole.bytes()));
    }
}
