//! Collectives as MPI has them, for comparison with what plans do.
#![allow(unsafe_code, reason = "functions of a C library are called")]

use std::ffi::c_int;

use crate::endpoint::check;
use crate::{Channel, Endpoint, Library, MpiError};

/// A collective of MPI, in which all processes take part and wait for one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// Every process has a part for each.
    AllToAll,
    /// Every process gets the part of each.
    AllGather,
    /// Every process gets what the first one has.
    Broadcast,
    /// Every process gets the sums of 32-bit floats.
    AllReduce,
    /// Every process gets its part of the sums of 32-bit floats.
    ReduceScatter,
}

/// The buffers of a collective on one process, of whole 32-bit floats.
#[derive(Clone, Debug)]
pub struct CollectiveBuffers {
    collective: Collective,
    sent: Vec<f32>,
    received: Vec<f32>,
    /// Values of a part, or of all where there are no parts.
    count: c_int,
}

impl CollectiveBuffers {
    /// For `values` in all: those that a process has where it sends parts or contributes, and those that it gets where it gathers. `None` if
    /// they are not equal parts, or too many for MPI. There is one job in a process, so these are for its number of processes.
    pub fn new(endpoint: &Endpoint, collective: Collective, values: usize) -> Option<Self> {
        let processes = usize::try_from(endpoint.size()).ok().filter(|processes| *processes > 0)?;
        let part = values / processes;
        let (sent, received, count) = match collective {
            Collective::AllToAll => (values, values, part),
            Collective::AllGather => (part, values, part),
            Collective::Broadcast => (values, 0, values),
            Collective::AllReduce => (values, values, values),
            Collective::ReduceScatter => (values, part, part),
        };
        let count = c_int::try_from(count).ok()?;
        let is_whole =
            part * processes == values || matches!(collective, Collective::Broadcast | Collective::AllReduce);
        let value = |index: usize| (index % 251) as f32;
        is_whole.then(|| Self {
            collective,
            sent: (0..sent).map(value).collect(),
            received: vec![0.0; received],
            count,
        })
    }

    /// Values received by the last call.
    pub fn received(&self) -> &[f32] {
        &self.received
    }
}

impl Endpoint {
    /// Carries a collective out, together with all processes.
    ///
    /// # Errors
    /// If MPI fails.
    pub fn collective(&mut self, buffers: &mut CollectiveBuffers) -> Result<(), MpiError> {
        let (library, communicator) = (self.library, self.communicators[Channel::Calls as usize]);
        let Library { calls, constants, .. } = library;
        let CollectiveBuffers { collective, sent, received, count } = buffers;
        let (count, float, sum) = (*count, constants.float, constants.sum);
        let (from, to) = (sent.as_mut_ptr(), received.as_mut_ptr());
        // SAFETY: `CollectiveBuffers::new` has made both buffers as long as the collective takes with this count and the number of processes of
        // the only job that this process has, and MPI is done with them when the call returns.
        let code = unsafe {
            match collective {
                Collective::AllToAll => {
                    (calls.alltoall)(from.cast(), count, float, to.cast(), count, float, communicator)
                }
                Collective::AllGather => {
                    (calls.allgather)(from.cast(), count, float, to.cast(), count, float, communicator)
                }
                Collective::Broadcast => (calls.bcast)(from.cast(), count, float, 0, communicator),
                Collective::AllReduce => {
                    (calls.allreduce)(from.cast(), to.cast(), count, float, sum, communicator)
                }
                Collective::ReduceScatter => {
                    (calls.reduce_scatter_block)(from.cast(), to.cast(), count, float, sum, communicator)
                }
            }
        };
        check(library, collective.function(), code)
    }
}

impl Collective {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::AllToAll, Self::AllGather, Self::Broadcast, Self::AllReduce, Self::ReduceScatter];

    /// The function, as MPI calls it.
    pub fn function(self) -> &'static str {
        match self {
            Self::AllToAll => "MPI_Alltoall",
            Self::AllGather => "MPI_Allgather",
            Self::Broadcast => "MPI_Bcast",
            Self::AllReduce => "MPI_Allreduce",
            Self::ReduceScatter => "MPI_Reduce_scatter_block",
        }
    }
}
