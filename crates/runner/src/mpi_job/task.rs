//! Tasks that rank 0 sends to the other ranks.

use serde::{Deserialize, Serialize};
use zipwire_scenarios::Parcel;

use super::JobError;
use crate::adaptive::Key;

/// Something to do together.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Task {
    /// Take up an experiment, which all that follows is about.
    Load(Parcel),
    /// Run a variant, all iterations.
    Run {
        /// Its name.
        variant: String,
        /// Whether what is received is compared.
        verifies: bool,
    },
    /// Serve all requests as a variant says.
    Serve {
        /// Its name.
        variant: String,
        /// Whether what is received is compared.
        verifies: bool,
    },
    /// Carry out a collective of MPI itself.
    Collective {
        /// The function, as MPI calls it.
        collective: String,
        bytes: u64,
        rounds: u32,
    },
    /// Run one iteration of an adaptive variant.
    Adapt {
        /// Its name.
        variant: String,
        iteration: u32,
        /// Arms of all segments in this iteration.
        key: Key,
        /// Bytes of the table that frames name in place of the scenario's.
        table: Option<Vec<u8>>,
        /// Whether what is received is compared.
        verifies: bool,
    },
}

impl Task {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        postcard::to_allocvec(self).expect("tasks are plain data")
    }

    pub(crate) fn of_bytes(bytes: &[u8]) -> Result<Self, JobError> {
        postcard::from_bytes(bytes).map_err(|error| JobError::Task(error.to_string()))
    }
}
