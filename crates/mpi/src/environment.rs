//! Detection of the launcher that started this process, from environment variables.

use std::env;

/// A process that a launcher has started as one of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launched {
    /// Name of the launcher.
    pub by: &'static str,
    /// Rank of this process.
    pub rank: u32,
    /// Number of processes; `None` where only MPI knows it.
    pub size: Option<u32>,
    /// Whether processes that this launcher starts find one another by MPI.
    pub has_mpi: bool,
}

/// A launcher and its variables, by which it is known.
struct Kind {
    by: &'static str,
    rank: &'static str,
    sizes: &'static [&'static str],
    has_mpi: bool,
}

/// Launchers by precedence: those of MPI first, as they are often started by others. SLURM's own variables are also in
/// scripts and shells that start nothing yet, so they count only in a step of several tasks, and torchrun's say nothing of MPI.
const KINDS: [Kind; 5] = [
    Kind { by: "Open MPI", rank: "OMPI_COMM_WORLD_RANK", sizes: &["OMPI_COMM_WORLD_SIZE"], has_mpi: true },
    Kind { by: "PMI", rank: "PMI_RANK", sizes: &["PMI_SIZE"], has_mpi: true },
    Kind { by: "PMIx", rank: "PMIX_RANK", sizes: &["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"], has_mpi: true },
    Kind { by: "SLURM", rank: "SLURM_PROCID", sizes: &["SLURM_STEP_NUM_TASKS"], has_mpi: false },
    Kind { by: "torchrun", rank: "RANK", sizes: &["WORLD_SIZE"], has_mpi: false },
];

/// Variable that is there whenever [PMIx](https://pmix.github.io) has started a process. It has none for the size, and that of SLURM can be another job's.
const PMIX_JOB: &str = "PMIX_NAMESPACE";

/// Step of a SLURM batch script and of what else is no `srun`: numbers from here on.
const NO_STEP: u64 = 0xffff_fff0;

/// How this process was started; `None` if it is on its own.
pub fn launched() -> Option<Launched> {
    launched_by(|name| env::var(name).ok())
}

fn launched_by(variable: impl Fn(&str) -> Option<String>) -> Option<Launched> {
    let number = |name: &str| variable(name)?.trim().parse::<u32>().ok();
    KINDS.iter().find_map(|kind| {
        let rank = number(kind.rank)?;
        // A rank without its size, or beyond it, was left over by something else.
        let size = kind.sizes.iter().find_map(|name| number(name)).filter(|size| rank < *size);
        let step = || variable("SLURM_STEP_ID").and_then(|step| step.trim().parse::<u64>().ok());
        let is_start = match kind.by {
            "PMIx" => variable(PMIX_JOB).is_some(),
            "SLURM" => size.is_some_and(|size| size > 1) && step().is_some_and(|step| step < NO_STEP),
            _ => size.is_some(),
        };
        is_start.then_some(Launched { by: kind.by, rank, size, has_mpi: kind.has_mpi })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Option<(&'static str, u32, Option<u32>, bool)> {
        let value =
            |name: &str| variables.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned());
        launched_by(value).map(|launched| (launched.by, launched.rank, launched.size, launched.has_mpi))
    }

    #[test]
    fn launchers_are_known_by_their_variables() {
        assert_eq!(of(&[]), None);
        let open_mpi = [("OMPI_COMM_WORLD_RANK", "3"), ("OMPI_COMM_WORLD_SIZE", "8"), ("PMIX_RANK", "3")];
        assert_eq!(of(&open_mpi), Some(("Open MPI", 3, Some(8), true)));
        assert_eq!(of(&[("PMI_RANK", "0"), ("PMI_SIZE", "2")]), Some(("PMI", 0, Some(2), true)));
        let slurm = [
            ("PMIX_RANK", "1"),
            ("PMIX_NAMESPACE", "slurm.pmix.7.0"),
            ("SLURM_PROCID", "1"),
            ("SLURM_NTASKS", "4"),
        ];
        assert_eq!(of(&slurm), Some(("PMIx", 1, Some(4), true)));
        assert_eq!(of(&[("RANK", "1"), ("WORLD_SIZE", "4")]), Some(("torchrun", 1, Some(4), false)));
        // Somebody's own variable.
        assert_eq!(of(&[("RANK", "1")]), None);
    }

    #[test]
    fn variables_that_were_left_over_are_no_launcher() {
        for rank in ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID", "RANK"] {
            assert_eq!(of(&[(rank, "3")]), None);
            // Nor do they hide the launcher that is at work.
            let hydra = [(rank, "3"), ("PMI_RANK", "1"), ("PMI_SIZE", "2")];
            let hydra = if rank == "PMI_RANK" { &hydra[1..] } else { &hydra };
            assert_eq!(of(hydra), Some(("PMI", 1, Some(2), true)));
        }
        assert_eq!(of(&[("PMI_RANK", "3"), ("PMI_SIZE", "2")]), None);
        // A shell that `srun --pty` has started.
        let shell = [("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "1"), ("SLURM_STEP_ID", "0")];
        assert_eq!(of(&shell), None);
    }

    #[test]
    fn a_batch_script_of_slurm_is_no_rank() {
        let script = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8"), ("SLURM_STEP_NUM_TASKS", "1")];
        assert_eq!(of(&script), None);
        let batch = [&script[..], &[("SLURM_STEP_ID", "4294967291")]].concat();
        assert_eq!(of(&batch), None);
        let step = [("SLURM_PROCID", "5"), ("SLURM_STEP_NUM_TASKS", "8"), ("SLURM_STEP_ID", "0")];
        assert_eq!(of(&step), Some(("SLURM", 5, Some(8), false)));
    }
}
