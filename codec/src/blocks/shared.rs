//! A table of frequencies that many frames share: they name it, and carry none.
//!
//! Its bytes are the tags of codec and type, the rounding of bases, and a zero; then the table as in a frame.

use super::coding::{Coding, Format};
use super::fields::Fields;
use super::rans;
use super::sample::{self, Table};
use crate::{DType, DecodeError, Layout, levels, tables};

/// Bytes in front of the table.
const HEAD: usize = 4;
/// Allowed roundings of bases, in eighths.
const EIGHTHS: std::ops::RangeInclusive<u32> = 4..=11;

/// A table for the frames of values of one type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shared {
    pub(crate) dtype: DType,
    pub(super) table: Table,
    /// Id by which frames name the table.
    pub(super) id: u32,
}

impl Shared {
    /// The table for values like these samples, which are whole, in this layout: of exponents with bits of mantissas if that is asked for, or the type is
    /// FP8, and the layout has them. None if no value would be coded.
    pub(crate) fn train(layout: Layout, dtype: DType, mantissa: bool, samples: &[&[u8]]) -> Option<Self> {
        let format = Format::new(Coding::Rans, layout, dtype);
        let mantissa = rans::has_joint(layout, dtype) && (mantissa || Fields::of(dtype).is_short());
        let table = sample::train(levels::active(), format, mantissa, samples)?;
        Some(Self { dtype, table, id: tables::id_of(&to_bytes(dtype, table)) })
    }

    /// The table with these bytes.
    ///
    /// # Errors
    /// If it is no table of `rans`.
    pub(crate) fn read(table: &tables::Table) -> Result<Self, DecodeError> {
        // A tag that no type has is said as the first type.
        let wrong = || wrong(table, table.dtype().unwrap_or(DType::Bf16));
        let dtype = table.dtype().ok_or_else(wrong)?;
        let (head, mut rest) = table.as_bytes().split_first_chunk::<HEAD>().ok_or_else(wrong)?;
        let eighths = u32::from(head[2]);
        if head[0] != Coding::Rans.tag() || head[3] != 0 || !EIGHTHS.contains(&eighths) {
            return Err(wrong());
        }
        let (model, _) = rans::read(&mut rest).map_err(|_| wrong())?;
        if !rest.is_empty() || (model.joint().is_some() && dtype == DType::F32) {
            return Err(wrong());
        }
        Ok(Self { dtype, table: Table { model, eighths }, id: table.id() })
    }

    /// The table that a frame names, which has blocks that need one or has none.
    ///
    /// # Errors
    /// If it is not for such frames, or no block needs it.
    pub(super) fn of_frame(
        table: &tables::Table,
        Format { layout, fields, .. }: Format,
        is_needed: bool,
    ) -> Result<Self, DecodeError> {
        if !is_needed {
            return Err(DecodeError::UnusedTable { codec: "rans", id: table.id() });
        }
        let shared =
            Self::read(table).ok().filter(|shared| shared.dtype == fields.dtype && shared.fits(layout));
        shared.ok_or_else(|| wrong(table, fields.dtype))
    }

    /// Whether frames in this layout can name it.
    pub(super) fn fits(&self, layout: Layout) -> bool {
        self.table.model.joint().is_none() || rans::has_joint(layout, self.dtype)
    }

    /// The table for decoders.
    pub(crate) fn table(&self) -> tables::Table {
        tables::Table::new(to_bytes(self.dtype, self.table))
    }
}

fn wrong(table: &tables::Table, dtype: DType) -> DecodeError {
    DecodeError::Table { id: table.id(), codec: "rans", dtype }
}

fn to_bytes(dtype: DType, Table { model, eighths }: Table) -> Vec<u8> {
    [&[Coding::Rans.tag(), dtype.tag(), eighths as u8, 0], &model.to_bytes()[..]].concat()
}
