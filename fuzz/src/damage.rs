//! Edits to a frame, so aimed that they reach what is behind the first checks.

use arbitrary::{Result, Unstructured};

use crate::Frame;

/// Bytes that an edit takes of the fuzzer's.
pub(crate) const EDIT_BYTES: usize = 8;

/// Most bytes that one edit writes, adds or takes.
const SPAN: usize = 24;

/// Changes a frame in one place.
///
/// # Errors
/// If there are too few bytes.
pub fn damage(frame: &mut Frame, input: &mut Unstructured<'_>) -> Result<()> {
    let kind = input.int_in_range(0..=8)?;
    let place = place(frame, input)?;
    let (value, other) = (input.arbitrary::<u8>()?, input.arbitrary::<u16>()?);
    let span = usize::from(other) % SPAN;
    match kind {
        0 => frame.set(place, |_| value),
        1 => frame.set(place, |byte| byte ^ 1 << (value % 8)),
        2 => frame.set(place, |byte| byte.wrapping_add(value)),
        // A number of two bytes, as tables have.
        3 => (0..2).for_each(|i| frame.set(place + i, |_| other.to_le_bytes()[i])),
        4 => (0..2).for_each(|i| frame.set(place + i, |byte| byte.wrapping_add(other.to_le_bytes()[i]))),
        5 => (0..span).for_each(|i| frame.set(place + i, |_| value)),
        // An entry of a table, or something else, in another place.
        6 => {
            let from = place + usize::from(value);
            let copied: Vec<u8> = (0..span).map(|i| frame.get(from + i)).collect();
            copied.into_iter().enumerate().for_each(|(i, byte)| frame.set(place + i, |_| byte));
        }
        7 => frame.lengthen(span, value),
        _ => frame.shorten(span),
    }
    Ok(())
}

/// A position in the sections, one after the other: in the tables, at the end, or anywhere.
fn place(frame: &Frame, input: &mut Unstructured<'_>) -> Result<usize> {
    let len = frame.len();
    Ok(match input.int_in_range(0..=7)? {
        0..=2 => 32 + usize::from(input.arbitrary::<u8>()? % 64),
        3 => len.saturating_sub(1 + usize::from(input.arbitrary::<u8>()? % 32)),
        4 => frame.static_len() + usize::from(input.arbitrary::<u8>()?),
        _ => {
            let share = usize::from(input.arbitrary::<u16>()?);
            (len * share) >> 16
        }
    })
}
