//! Which implementation of the kernels runs: a question of speed, never of bytes.

use super::{ACTIVE, active, all};

/// An implementation of the inner loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum SimdLevel {
    /// Plain Rust, on every machine. The reference.
    Portable,
    /// AVX2 with BMI1, BMI2 and POPCNT, on x86-64.
    Avx2,
    /// AVX-512 with BW, VL, VBMI and VBMI2, and all that [`Self::Avx2`] has.
    Avx512,
}

impl SimdLevel {
    /// All levels, of all machines.
    pub const ALL: [Self; 3] = [Self::Portable, Self::Avx2, Self::Avx512];

    /// Name in reports and options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }

    /// The level with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }
}

impl std::fmt::Display for SimdLevel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// A level that cannot be chosen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SimdUnavailable {
    /// The processor cannot run it.
    #[error("this machine has no `{level}`\nhint: it has {valid}")]
    Machine {
        /// The level that was asked for.
        level: SimdLevel,
        /// What the machine has, in backticks.
        valid: String,
    },
    /// Another level is in use already.
    #[error("`{level}` comes too late, `{active}` is in use\nhint: choose before the first frame is coded")]
    Decided {
        /// The level that was asked for.
        level: SimdLevel,
        /// The level in use.
        active: SimdLevel,
    },
}

/// The levels that this machine can run, slowest first.
pub fn simd_levels() -> Vec<SimdLevel> {
    all().map(|kernel| kernel.level).collect()
}

/// The level in use. Unless [`force_simd`] came before, this decides for the best one.
pub fn simd_level() -> SimdLevel {
    active().level
}

/// Chooses the level for the rest of the process: for tests, benchmarks, and to rule out a processor's fault.
///
/// Every level gives the same bytes. To choose the level that is in use already changes nothing.
///
/// # Errors
/// If the machine cannot run the level, or another one is in use already.
pub fn force_simd(level: SimdLevel) -> Result<(), SimdUnavailable> {
    let kernel = all().find(|kernel| kernel.level == level).ok_or_else(|| {
        let valid: Vec<String> = simd_levels().iter().map(|level| format!("`{level}`")).collect();
        SimdUnavailable::Machine { level, valid: valid.join(", ") }
    })?;
    let active = ACTIVE.get_or_init(|| kernel).level;
    if active == level { Ok(()) } else { Err(SimdUnavailable::Decided { level, active }) }
}

/// Fuzz targets hold levels against each other, in one process.
#[cfg(fuzzing)]
mod fuzzing {
    use std::cell::Cell;

    use super::super::Kernel;
    use super::{SimdLevel, all};

    thread_local! {
        static OF_THREAD: Cell<Option<&'static Kernel>> = const { Cell::new(None) };
    }

    pub(in super::super) fn of_thread() -> Option<&'static Kernel> {
        OF_THREAD.get()
    }

    /// Does `work` on a level, whatever the rest of the process does; work that it hands to other threads is not
    /// concerned.
    ///
    /// # Panics
    /// If the machine cannot run the level.
    pub fn with_simd<T>(level: SimdLevel, work: impl FnOnce() -> T) -> T {
        let kernel = all().find(|kernel| kernel.level == level).expect("the machine has the level");
        let before = OF_THREAD.replace(Some(kernel));
        let result = work();
        OF_THREAD.set(before);
        result
    }
}
#[cfg(fuzzing)]
pub(super) use fuzzing::of_thread;
#[cfg(fuzzing)]
pub use fuzzing::with_simd;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_names_and_the_active_one_stays() {
        for level in SimdLevel::ALL {
            assert_eq!(SimdLevel::from_name(level.name()), Some(level));
        }
        let (levels, active) = (simd_levels(), simd_level());
        assert_eq!(levels[0], SimdLevel::Portable);
        assert!(levels.is_sorted());
        for level in SimdLevel::ALL {
            match force_simd(level) {
                Ok(()) => assert_eq!(level, active),
                Err(SimdUnavailable::Machine { .. }) => assert!(!levels.contains(&level)),
                Err(SimdUnavailable::Decided { active: found, .. }) => {
                    assert_eq!(found, active);
                    assert!(levels.contains(&level) && level != active);
                }
            }
        }
        assert_eq!(simd_level(), active);
    }
}
