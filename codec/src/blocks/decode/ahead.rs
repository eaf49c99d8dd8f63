//! Residuals coded by rANS: of several blocks side by side, because a lane waits for itself most of the time.

use std::collections::VecDeque;

use super::parts::Coded;
use super::{Body, take};
use crate::blocks::coding::Format;
use crate::blocks::geometry::BLOCK_VALUES;
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
    /// The escapes of joint symbols, if the codes are of these.
    pub(super) escapes: Option<&'a [u8]>,
}

impl<'a> Located<'a> {
    /// Takes a body off `dynamic`.
    ///
    /// # Errors
    /// If it contradicts itself or its entry.
    pub(super) fn read(
        format: Format,
        joint: bool,
        Body { entry, count, mut static_body }: Body<'a>,
        dynamic: &mut &'a [u8],
    ) -> Result<Self, BlockFault> {
        let block = Coded::read(format, entry, count, dynamic)?;
        let head = match format.layout {
            Layout::Split => &mut static_body,
            Layout::Compact => &mut *dynamic,
        };
        let shape = if joint {
            Shape::without_joint(format.fields, block.count())
        } else {
            Shape::read(format.layout, format.fields, block.count(), head)?
        };
        let carries = rans::carries(format, shape.planes_len());
        let rest = take(head, shape.planes_len() - if carries { CARRIED } else { 0 })?;
        let [words, escapes] = entry.words_and_escapes();
        let codes = take(dynamic, rans::codes_len(words, escapes))?;
        let escapes = joint.then(|| rans::escapes(codes, [words, escapes]));
        Ok(Self { block, shape, rest, carries, codes, escapes })
    }

    /// The rANS job that decodes the block's residuals to the end of `list`.
    fn job<'b>(&self, list: &'b mut List) -> Result<Job<'b>, BlockFault>
    where
        'a: 'b,
    {
        let residuals = &mut list[BLOCK_VALUES - self.block.count()..BLOCK_VALUES];
        let mut job = rans::job(self.block.entry.words_and_escapes(), self.codes, residuals)?;
        if self.escapes.is_some() {
            job.stream.escapes = &[];
        }
        Ok(job)
    }
}

/// Blocks that are decoded side by side.
const TOGETHER: usize = 4;

/// Residuals that have been decoded before the block's turn.
#[derive(Default)]
pub(super) struct Ahead {
    /// Decoded blocks, the next one first.
    found: VecDeque<(Residuals, Result<Payload, BlockFault>)>,
    /// Lists that are free.
    free: Vec<Residuals>,
}

/// The residuals of a block, at the end of a list.
type Residuals = Box<List>;

impl Ahead {
    /// The residuals of a block, and what its states carry; those of the blocks that come next are decoded as well, if they have not
    /// been. The list is to be given back ([`Self::give_back`]).
    ///
    /// # Errors
    /// If the codes contradict themselves.
    pub(super) fn residuals<'a>(
        &mut self,
        kernel: &Kernel,
        table: &DecodeTable,
        located: &Located<'a>,
        next: impl Iterator<Item = Located<'a>>,
    ) -> Result<(Residuals, Payload), BlockFault> {
        if self.found.is_empty() {
            // What is wrong with a block that comes next is told when it comes, and then it is the first.
            let next: Vec<Located<'a>> = next.take(TOGETHER - 1).collect();
            let mut lists: Vec<Residuals> = (0..=next.len()).map(|_| self.list()).collect();
            let mut jobs = Vec::with_capacity(TOGETHER);
            for (number, (located, list)) in [located].into_iter().chain(&next).zip(&mut lists).enumerate() {
                match located.job(list) {
                    Ok(job) => jobs.push(job),
                    Err(fault) if number == 0 => return Err(fault),
                    Err(_) => break,
                }
            }
            (kernel.decode_rans)(&mut jobs, table);
            let carries = [located].into_iter().chain(&next).map(|located| located.carries);
            let checked: Vec<_> =
                jobs.iter().zip(carries).map(|(job, carries)| rans::check(job, carries)).collect();
            self.found.extend(lists.into_iter().zip(checked));
        }
        let (list, payload) = self.found.pop_front().expect("a block has been decoded");
        Ok((list, payload?))
    }

    /// Takes a list for blocks that come later.
    pub(super) fn give_back(&mut self, list: Residuals) {
        self.free.push(list);
    }

    fn list(&mut self) -> Residuals {
        self.free.pop().unwrap_or_else(|| Box::new([0; BLOCK_VALUES + LIST_PAD]))
    }
}
