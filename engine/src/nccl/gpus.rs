//! GPUs of ranks: which one a process takes, and whether ranks can share one.

use zipwire_kernels::{Device, GpuError};
use zipwire_nccl_binding::{Library, Version};
use zipwire_schedule::{Failure, FailureKind};

use super::connect::CTAS_ON_SHARED;
use crate::report::ended_early;
use crate::transport::Meeting;

/// First version in which ranks of one process can share a GPU.
const SHARING: Version = Version::new(2, 30, 0);

type Id = [u8; 16];

/// The GPU of a process.
pub(super) struct Chosen {
    pub(super) device: Device,
    /// Ranks on this host, itself included.
    pub(super) here: usize,
    /// Ranks of the GPU that has the most, anywhere.
    pub(super) most: u32,
}

/// Takes a GPU for this process, as all processes do: those of a host take theirs in the order of ranks, each the one of those that it sees which
/// the fewest before it have.
pub(super) fn choose<M: Meeting + ?Sized>(host: &str, meeting: &mut M) -> Result<Chosen, Failure> {
    let rank = meeting.rank();
    let broken = |error: GpuError| Failure::new(rank, None, FailureKind::Device, error.to_string());
    let seen = Device::ids().map_err(broken)?;
    let mut word = host.as_bytes().to_vec();
    word.push(0);
    word.extend(seen.iter().flatten());
    let words = meeting.barrier(&word).map_err(|ended| ended_early(rank, &ended))?;
    let taken = assign(&words);
    let own = taken[rank.index()];
    let count = |of: &dyn Fn(&Taken<'_>) -> bool| taken.iter().filter(|taken| of(taken)).count();
    let most = taken.iter().map(|one| count(&|other| other == one)).max().unwrap_or(1);
    let ordinal = seen.iter().position(|id| Some(*id) == own.gpu).unwrap_or(0);
    let device = Device::open(ordinal).map_err(broken)?;
    Ok(Chosen { device, here: count(&|other| other.host == own.host), most: most as u32 })
}

/// A rank's host and GPU; none if it sees none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Taken<'a> {
    host: &'a [u8],
    gpu: Option<Id>,
}

/// GPUs by rank. Words are a host's name, a zero, and the ids of the GPUs that the process sees.
fn assign(words: &[Vec<u8>]) -> Vec<Taken<'_>> {
    let mut taken: Vec<Taken<'_>> = Vec::new();
    for word in words {
        let end = word.iter().position(|byte| *byte == 0).unwrap_or(word.len());
        let (host, ids) = (&word[..end], word.get(end + 1..).unwrap_or_default().as_chunks().0);
        let users = |id: &Id| taken.iter().filter(|other| **other == Taken { host, gpu: Some(*id) }).count();
        let gpu = ids.iter().min_by_key(|id| users(id)).copied();
        taken.push(Taken { host, gpu });
    }
    taken
}

/// Whether so many ranks can share a GPU, with communicators for so many lanes each; `in_one_process` if they are threads.
///
/// # Errors
/// If NCCL or the GPU lacks something: what, and a remedy.
pub(super) fn check_sharing(
    library: &Library,
    device: &Device,
    ranks: u32,
    lanes: usize,
    in_one_process: bool,
) -> Result<(), String> {
    let version = library.version();
    let is_refused = if in_one_process { true } else { std::env::var_os("NCCL_HOSTID").is_none() };
    if ranks > 1 && version < SHARING && is_refused {
        return Err(format!(
            "{ranks} ranks share a GPU, which NCCL {version} refuses\nhelp: NCCL {SHARING} and later let ranks of one process share one; processes do with a name of a host each in NCCL_HOSTID"
        ));
    }
    let room = device.multiprocessors().map_err(|error| error.to_string())?;
    let blocks = ranks * lanes as u32 * CTAS_ON_SHARED;
    // Kernels of NCCL wait for those of other ranks: all must run at the same time.
    if ranks > 1 && room > 0 && blocks > room {
        return Err(format!(
            "{ranks} ranks with {lanes} communicators each share a GPU, and their kernels need {blocks} of its {room} multiprocessors at the same time\nhelp: use fewer ranks on a GPU"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(host: &str, gpus: &[u8]) -> Vec<u8> {
        let ids = gpus.iter().flat_map(|gpu| [*gpu; 16]);
        host.bytes().chain([0]).chain(ids).collect()
    }

    fn gpus(words: &[Vec<u8>]) -> Vec<u8> {
        assign(words).iter().map(|taken| taken.gpu.map_or(0, |id| id[0])).collect()
    }

    #[test]
    fn processes_of_a_host_spread_over_the_gpus_that_they_see() {
        let all = [word("a", &[1, 2]), word("a", &[1, 2]), word("b", &[1, 2]), word("a", &[1, 2])];
        assert_eq!(gpus(&all), [1, 2, 1, 1]);
        // A launcher that gives each process a GPU.
        assert_eq!(gpus(&[word("a", &[1]), word("a", &[2]), word("a", &[3])]), [1, 2, 3]);
        // Halves in turns: none is left idle.
        let halves = [word("a", &[1, 2]), word("a", &[3, 4]), word("a", &[1, 2]), word("a", &[3, 4])];
        assert_eq!(gpus(&halves), [1, 3, 2, 4]);
    }
}
