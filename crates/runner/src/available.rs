//! How much memory the system could give to this process: the machine, the container that it is in, and `ulimit -v`.

use std::fs;
use std::path::{Path, PathBuf};

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
}
