//! Who uses which bytes of a rank at the same time.

use zipwire_schedule::OpId;
use zipwire_schedule::machine::{Direction, TransferId};
use zipwire_schedule::plan::Region;

use super::World;

/// Something that a rank reads or writes while something else may happen.
pub(super) struct Access {
    pub(super) id: u64,
    pub(super) region: Region,
    pub(super) writes: bool,
    pub(super) by: String,
}

impl World<'_> {
    pub(super) fn id_of(op: OpId) -> u64 {
        u64::from(op.0) << 34
    }

    pub(super) fn id_of_transfer(id: TransferId) -> u64 {
        Self::id_of(id.op) | 1 << 33 | u64::from(id.direction == Direction::Send) << 32 | u64::from(id.index)
    }

    pub(super) fn transfer_access(&self, rank: usize, id: TransferId, region: Region) -> Access {
        let key = self.ranks[rank].machine.key(id);
        let (writes, by) = (id.direction == Direction::Receive, format!("{key:?}"));
        Access { id: Self::id_of_transfer(id), region, writes, by }
    }

    /// Notes the regions that an op reads and writes from now on until it ends.
    pub(super) fn access(
        &mut self,
        rank: usize,
        op: OpId,
        reads: &[Region],
        writes: &[Region],
    ) -> Result<(), String> {
        let by = format!("op {op}");
        let all =
            reads.iter().map(|region| (region, false)).chain(writes.iter().map(|region| (region, true)));
        for (&region, writes) in all {
            self.add(rank, Access { id: Self::id_of(op), region, writes, by: by.clone() })?;
        }
        Ok(())
    }

    pub(super) fn add(&mut self, rank: usize, access: Access) -> Result<(), String> {
        let clashes = |other: &&Access| {
            other.id != access.id && (other.writes || access.writes) && other.region.overlaps(&access.region)
        };
        let accesses = &mut self.ranks[rank].accesses;
        if let Some(other) = accesses.iter().find(clashes) {
            return Err(format!("on rank {rank} {} and {} use the same bytes", other.by, access.by));
        }
        accesses.push(access);
        Ok(())
    }
}
