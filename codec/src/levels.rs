//! Choice of the implementation of the kernels: it decides speed, never bytes.

use std::sync::OnceLock;

use crate::kernel::{Kernel, PORTABLE, SimdLevel};
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
use crate::simd;

/// The level in use, once it is decided.
static ACTIVE: OnceLock<&'static Kernel> = OnceLock::new();

/// The best implementation for this machine, unless [`force_simd`] has chosen another.
pub fn active() -> &'static Kernel {
    #[cfg(fuzzing)]
    if let Some(kernel) = of_thread() {
        return kernel;
    }
    ACTIVE.get_or_init(|| all().last().unwrap_or(&PORTABLE))
}

/// All implementations that this machine can run, the portable one first, the best one last.
pub fn all() -> impl Iterator<Item = &'static Kernel> {
    #[cfg(target_arch = "x86_64")]
    let others = [simd::avx2::kernel(), simd::avx512::kernel()];
    #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
    let others = [simd::neon::kernel()];
    #[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))))]
    let others: [Option<&'static Kernel>; 0] = [];
    std::iter::once(&PORTABLE).chain(others.into_iter().flatten())
}

/// A level that cannot be chosen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "fields are named by the messages")]
#[non_exhaustive]
pub enum SimdUnavailable {
    /// The processor cannot run it.
    #[error("this machine has no `{level}`")]
    Machine { level: SimdLevel, valid: String },
    /// Another level is in use already.
    #[error("`{level}` comes too late, `{active}` is in use")]
    Decided { level: SimdLevel, active: SimdLevel },
}

impl SimdUnavailable {
    /// Advice on what would be right, in one line.
    pub fn help(&self) -> Option<String> {
        Some(match self {
            Self::Machine { valid, .. } => format!("it has {valid}"),
            Self::Decided { .. } => "choose before the first frame is coded".to_owned(),
        })
    }
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

    use super::{Kernel, SimdLevel, all};

    thread_local! {
        static OF_THREAD: Cell<Option<&'static Kernel>> = const { Cell::new(None) };
    }

    pub(super) fn of_thread() -> Option<&'static Kernel> {
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
use fuzzing::of_thread;
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
