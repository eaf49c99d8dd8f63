//! Samples of messages: a copy on the stream of the call, looked at by the thread that writes the journal.
//!
//! The calling thread never waits: where there is no page-locked memory for its context yet, it asks for some, and the next call is sampled.

#![allow(unsafe_code, reason = "memory of the driver is read")]

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use zipwire_codec::{Codec, DType, Layout, Spec};

use crate::driver::{Context, Driver, Event};
use crate::settings::settings;

/// Bytes of a sample at most.
const SAMPLE_BYTES: usize = 1 << 20;

/// Page-locked memory that a sample is copied to, and the event behind the copy.
#[derive(Debug)]
pub(crate) struct Landing {
    context: usize,
    memory: usize,
    event: usize,
}

/// Chooses calls to sample, and keeps memory for their samples: one for each context.
#[derive(Debug, Default)]
pub(crate) struct Sampler {
    /// Calls until the next sample.
    remaining: AtomicI64,
    free: Mutex<HashMap<usize, Landing>>,
    /// Context that memory is asked for; 0 if there is none.
    asked: AtomicUsize,
}

/// A sample that is on its way.
#[derive(Debug)]
pub(crate) struct Pending {
    landing: Landing,
    bytes: usize,
    dtype: DType,
}

/// Findings of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Finding {
    /// Bytes that were looked at.
    pub(crate) bytes: usize,
    /// Entropy of the exponents in bits per value.
    pub(crate) entropy: f64,
    /// Bytes of the frame for each byte of the values.
    pub(crate) ratio: f64,
}

impl Sampler {
    /// Queues a copy of a part of `bytes` bytes at `address`, if this call is to be sampled and nothing speaks against it. The stream must not be
    /// capturing.
    pub(crate) fn take(
        &self,
        address: u64,
        bytes: u64,
        dtype: DType,
        stream: *mut std::ffi::c_void,
    ) -> Option<Pending> {
        let one_in = i64::try_from(settings().sample).unwrap_or(i64::MAX);
        if one_in == 0 || self.remaining.fetch_sub(1, Ordering::Relaxed) > 0 {
            return None;
        }
        let driver = Driver::get()?;
        let context = driver.context().filter(|context| !context.is_null())? as usize;
        let landing = self.free.try_lock().ok()?.remove(&context);
        let Some(landing) = landing else {
            self.asked.store(context, Ordering::Relaxed);
            return None;
        };
        self.remaining.store(one_in - 1, Ordering::Relaxed);
        let len = SAMPLE_BYTES.min(usize::try_from(bytes).ok()?);
        // The middle, at a whole value of every type.
        let offset = (bytes - len as u64) / 2 / 256 * 256;
        let (memory, event) = (landing.memory as *mut std::ffi::c_void, landing.event as Event);
        // SAFETY: the message is as long as the call says until it has been sent; the memory is this sample's until the event has passed.
        if !unsafe { driver.copy(memory, address + offset, len, stream) } {
            self.give_back(landing);
            return None;
        }
        // Without an event nobody knows when the copy is done: the memory stays unused.
        driver.record(event, stream).then_some(Pending { landing, bytes: len, dtype })
    }

    /// Makes memory for the context that has been asked for. Called by the thread that writes.
    pub(crate) fn serve(&self) {
        let context = self.asked.swap(0, Ordering::Relaxed);
        if context == 0 {
            return;
        }
        let Some(driver) = Driver::get() else { return };
        driver.relax();
        if !driver.set_context(context as Context) {
            return;
        }
        if let Some((memory, event)) = driver.landing(SAMPLE_BYTES) {
            self.give_back(Landing { context, memory: memory as usize, event: event as usize });
        }
    }

    fn give_back(&self, landing: Landing) {
        if let Ok(mut free) = self.free.lock() {
            free.insert(landing.context, landing);
        }
    }

    /// Finding of a sample: `Ok(None)` if it failed, and the sample itself if it is still on its way.
    pub(crate) fn look(&self, pending: Pending) -> Result<Option<Finding>, Pending> {
        let driver = Driver::get().filter(|driver| driver.set_context(pending.landing.context as Context));
        match driver.and_then(|driver| driver.has_passed(pending.landing.event as Event)) {
            None => Ok(None),
            Some(false) => Err(pending),
            Some(true) => {
                // SAFETY: the copy of so many bytes is done, and the memory is this sample's.
                let values =
                    unsafe { std::slice::from_raw_parts(pending.landing.memory as *const u8, pending.bytes) };
                let finding = finding(values, pending.dtype, &settings().spec);
                self.give_back(pending.landing);
                Ok(finding)
            }
        }
    }
}

/// Looks at values: entropy of their exponents, and the size of their frame.
fn finding(values: &[u8], dtype: DType, spec: &Spec) -> Option<Finding> {
    let values = &values[..values.len() / dtype.width() * dtype.width()];
    let frame = spec.codec().encode_to_vec(Layout::Split, dtype, values).ok()?;
    let ratio = frame.len() as f64 / values.len() as f64;
    (!values.is_empty()).then(|| Finding {
        bytes: values.len(),
        entropy: exponent_entropy(values, dtype),
        ratio,
    })
}

/// Entropy of the exponents of little-endian values, in bits per value.
fn exponent_entropy(values: &[u8], dtype: DType) -> f64 {
    let (shift, bits) = match dtype {
        DType::Bf16 => (7, 8),
        DType::F16 => (10, 5),
        DType::F32 => (23, 8),
        DType::F8E4M3 => (3, 4),
        DType::F8E5M2 => (2, 5),
    };
    let mut counts = [0_u64; 256];
    for value in values.chunks_exact(dtype.width()) {
        let value = value.iter().rev().fold(0_u32, |all, byte| all << 8 | u32::from(*byte));
        counts[(value >> shift & ((1 << bits) - 1)) as usize] += 1;
    }
    let all = (values.len() / dtype.width()) as f64;
    let share = |count: &u64| *count as f64 / all;
    // Not -0 for a single exponent.
    counts
        .iter()
        .filter(|count| **count > 0)
        .map(share)
        .map(|share| -share * libm::log2(share))
        .sum::<f64>()
        .max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponents_have_the_entropy_of_their_counts() {
        let of = |values: &[f32]| {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            let upper: Vec<u8> = bytes.chunks(4).flat_map(|value| [value[2], value[3]]).collect();
            (exponent_entropy(&bytes, DType::F32), exponent_entropy(&upper, DType::Bf16))
        };
        assert_eq!(of(&[1.0, -1.5, 1.25, 1.75]), (0.0, 0.0));
        assert_eq!(of(&[1.0, 2.0, -4.0, 8.0]), (2.0, 2.0));
        assert_eq!(exponent_entropy(&[0x08, 0x10, 0x08, 0x10], DType::F8E4M3), 1.0);
    }

    #[test]
    fn a_finding_has_the_ratio_of_the_codec() {
        let ones: Vec<u8> = std::iter::repeat_n([0x80, 0x3F], 4096).flatten().collect();
        let spec = "tiered".parse().unwrap();
        let found = finding(&ones, DType::Bf16, &spec).unwrap();
        let frame = Spec::codec(&spec).encode_to_vec(Layout::Split, DType::Bf16, &ones).unwrap();
        assert_eq!((found.bytes, found.entropy), (8192, 0.0));
        assert!((found.ratio - frame.len() as f64 / 8192.0).abs() < 1e-12 && found.ratio < 0.8, "{found:?}");
        assert_eq!(finding(&[1], DType::Bf16, &spec), None);
    }
}
