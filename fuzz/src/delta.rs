//! Frames of differences, and the bases that they are read with.

use arbitrary::{Result, Unstructured};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_codec::{Base, DType, DecodeError, Decoder, Delta, DeltaCoding, Layout};

use crate::frame::{CODEC, DELTA, EDIT_BYTES, Frame, damage};
use crate::values::{run_len, values};

/// Offset of the id of the base.
const BASE: usize = 32;

/// Values and a base that they differ from, the frame, damaged or naming another base, and what must hold of it.
///
/// # Errors
/// If there are too few bytes.
///
/// # Panics
/// If it does not hold.
pub fn damaged_difference(input: &mut Unstructured<'_>) -> Result<()> {
    let coding = *input.choose(&DeltaCoding::ALL)?;
    let dtype = *input.choose(&DType::ALL)?;
    let edits = input.int_in_range(0..=6)?;
    let named = input.int_in_range(0..=7)?;
    // The damage comes first in the bytes, so that it stays what it is when the values change.
    let mut bytes = Unstructured::new(input.bytes((edits * EDIT_BYTES).min(input.len()))?);
    let values = values(input, dtype)?;
    let before = changed(input, dtype, &values)?;

    let base = Base::new(dtype, before.clone());
    let same_shape = Base::new(dtype, values.iter().map(|byte| byte ^ 1).collect::<Vec<u8>>());
    let longer = Base::new(dtype, [&before[..], &vec![0; dtype.width()]].concat());
    let mut decoder = Decoder::new();
    for base in [&base, &same_shape, &longer] {
        decoder.add_base(base.clone()).expect("few bases have ids of their own");
    }
    let mut frame =
        Frame::new(&Delta::new(coding, base.clone()), Layout::Compact, dtype, &values).with(decoder);
    let names_base = frame.get(CODEC) == DELTA;
    if edits == 0 {
        frame.check_intact(&values);
        if names_base {
            frame.check_error(Decoder::new(), &DecodeError::UnknownBase { id: base.id() });
        }
    }
    if names_base && named < 2 {
        let other = if named == 0 { &same_shape } else { &longer };
        frame.put(BASE, &other.id().to_le_bytes());
        if named == 1 && edits == 0 {
            let error = DecodeError::Base { id: longer.id(), dtype, found: longer.count() };
            frame.check_error(frame.decoder().clone(), &error);
        }
    }
    for _ in 0..edits {
        damage(&mut frame, &mut bytes)?;
    }
    frame.check_damaged();
    Ok(())
}

/// Values as many as the given ones, which differ from them in runs of different kinds.
fn changed(input: &mut Unstructured<'_>, dtype: DType, values: &[u8]) -> Result<Vec<u8>> {
    let width = dtype.width();
    let mut changed = values.to_vec();
    let mut rest = &mut changed[..];
    while !rest.is_empty() {
        // Where the bytes end, values stay as they are.
        let (mut len, mut kind) = (rest.len(), 0);
        if !input.is_empty() {
            len = rest.len().min(run_len(input)? * width);
            kind = input.int_in_range(0..=5)?;
        }
        let run = rest.split_off_mut(..len).expect("the run is within the rest");
        if kind > 0 {
            let (bits, share) = (input.arbitrary::<u8>()?, input.arbitrary::<u8>()?);
            let mut rng = ChaCha8Rng::seed_from_u64(u64::from(input.arbitrary::<u16>()?));
            run.chunks_exact_mut(width).for_each(|value| change(value, kind, bits, share, &mut rng));
        }
    }
    Ok(changed)
}

/// Changes one value: by up to so many bits, in the share of those that are changed at all (of 255).
fn change(value: &mut [u8], kind: u8, bits: u8, share: u8, rng: &mut ChaCha8Rng) {
    let mut bytes = [0; 4];
    bytes[..value.len()].copy_from_slice(value);
    let old = u32::from_le_bytes(bytes);
    let most = u32::MAX >> (31 - bits % 32);
    let draw = rng.random::<u32>() & most;
    let new = match kind {
        // As integers, by a number of both signs.
        1 => old.wrapping_add(draw).wrapping_sub(most / 2),
        2 if rng.random::<u8>() <= share => old.wrapping_add(draw).wrapping_sub(most / 2),
        3 if rng.random::<u8>() <= share => old ^ draw,
        4 if rng.random::<u8>() <= share => 0,
        5 => rng.random(),
        _ => old,
    };
    value.copy_from_slice(&new.to_le_bytes()[..value.len()]);
}
