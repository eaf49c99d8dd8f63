//! CPU time and peak memory of this process, as the system counts them.

/// Seconds for which the system let this process run, in user and system mode. Only differences mean something.
#[cfg(unix)]
pub(super) fn cpu_s() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Seconds that have passed: what comes nearest where the system is not asked how long a process has run.
#[cfg(not(unix))]
pub(super) fn cpu_s() -> f64 {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed().as_secs_f64()
}

/// The most bytes that this process has had in memory at once, if the system says so.
pub(super) fn peak_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_time() {
        let begin_s = cpu_s();
        let sum = (0..10_000_000_u64).fold(0, |sum: u64, i| std::hint::black_box(sum.rotate_left(3) ^ i));
        assert!(cpu_s() > begin_s, "{sum} came for nothing");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn memory_that_was_used_counts() {
        let block = std::hint::black_box(vec![1_u8; 64 << 20]);
        assert!(peak_bytes().is_some_and(|peak| peak >= block.len() as u64));
    }
}
