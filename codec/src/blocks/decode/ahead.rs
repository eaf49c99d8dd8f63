//! Residuals coded by rANS: of two blocks side by side, because a lane waits for itself most of the time.

use super::parts::Coded;
use super::{Body, take};
use crate::blocks::block::BLOCK;
use crate::blocks::coding::Format;
use crate::blocks::rans::{self, CARRIED, Payload};
use crate::blocks::rest::Shape;
use crate::blocks::tiers::List;
use crate::kernel::Kernel;
use crate::kernel::rans::{DecodeTable, Job};
use crate::kernel::tier::LIST_PAD;
use crate::{BlockFault, Layout};

/// A block that is coded by rANS, and where its parts are.
pub(super) struct Located<'a> {
    pub(super) block: Coded<'a>,
    pub(super) shape: Shape,
    /// The rest, without what states carry of it.
    pub(super) rest: &'a [u8],
    pub(super) carries: bool,
    codes: &'a [u8],
}

impl<'a> Located<'a> {
    /// Takes a body off `dynamic`.
    ///
    /// # Errors
    /// If it contradicts itself or its entry.
    pub(super) fn read(
        format: Format,
        Body { entry, count, mut static_body }: Body<'a>,
        dynamic: &mut &'a [u8],
    ) -> Result<Self, BlockFault> {
        let block = Coded::read(format, entry, count, dynamic)?;
        let head = match format.layout {
            Layout::Split => &mut static_body,
            Layout::Compact => &mut *dynamic,
        };
        let shape = Shape::read(format.layout, format.fields, block.count(), head)?;
        let carries = rans::carries(format, shape.planes_len());
        let rest = take(head, shape.planes_len() - if carries { CARRIED } else { 0 })?;
        let [words, escapes] = entry.words_and_escapes();
        let codes = take(dynamic, rans::codes_len(words, escapes))?;
        Ok(Self { block, shape, rest, carries, codes })
    }

    /// What there is to do for its residuals, which come to the end of `list`.
    fn job<'b>(&self, list: &'b mut List) -> Result<Job<'b>, BlockFault>
    where
        'a: 'b,
    {
        rans::job(
            self.block.entry.words_and_escapes(),
            self.codes,
            &mut list[BLOCK - self.block.count()..BLOCK],
        )
    }
}

/// What has been decoded of the block that comes next.
#[derive(Default)]
pub(super) struct Ahead {
    /// As [`List`], once it has been needed.
    list: Option<Box<List>>,
    /// What its states carry, if its residuals are in the list.
    found: Option<Result<Payload, BlockFault>>,
}

impl Ahead {
    /// Leaves the residuals of a block at the end of `list`, and those of the next one here; returns what the states of the first one
    /// carry.
    ///
    /// # Errors
    /// If the codes contradict themselves.
    pub(super) fn residuals(
        &mut self,
        kernel: &Kernel,
        table: &DecodeTable,
        located: &Located<'_>,
        next: Option<&Located<'_>>,
        list: &mut List,
    ) -> Result<Payload, BlockFault> {
        if let (Some(found), Some(ahead)) = (self.found.take(), &self.list) {
            let residuals = BLOCK - located.block.count()..BLOCK;
            list[residuals.clone()].copy_from_slice(&ahead[residuals]);
            return found;
        }
        let mut job = located.job(list)?;
        let ahead = next.map(|next| {
            let list = self.list.get_or_insert_with(|| Box::new([0; BLOCK + LIST_PAD]));
            (next.job(list), next.carries)
        });
        match ahead {
            Some((Ok(ahead), carries)) => {
                let mut jobs = [job, ahead];
                (kernel.decode_rans)(&mut jobs, table);
                self.found = Some(rans::check(&jobs[1], carries));
                return rans::check(&jobs[0], located.carries);
            }
            Some((Err(fault), _)) => self.found = Some(Err(fault)),
            None => {}
        }
        (kernel.decode_rans)(std::slice::from_mut(&mut job), table);
        rans::check(&job, located.carries)
    }
}
