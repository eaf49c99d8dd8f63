//! Kernels against the codecs of the CPU, before anything is timed: every bit pattern, noise, the values that are going to be
//! measured, in lengths around those of groups and tiles.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_codec::DType;
use zipwire_kernels::Decoder;

use super::frames::{Frame, Frames};
use super::{GpuBenchError, wrong};

/// Numbers of values.
const COUNTS: [usize; 12] = [1, 2, 13, 33, 513, 1023, 8191, 8192, 8193, 33_001, 65_536, 200_003];

/// Compares frames of the kernels with those of the CPU, and decodes them; returns how many.
///
/// # Errors
/// If a frame has other bytes than the CPU's, or decodes to other values.
pub(super) fn compare(kernels: &Frames<'_>, values: &[u8], seed: u64) -> Result<u64, GpuBenchError> {
    let dtype = kernels.dtype;
    let mut noise = vec![0; COUNTS[COUNTS.len() - 1] * dtype.width()];
    ChaCha8Rng::seed_from_u64(seed).fill_bytes(&mut noise);
    let mut compared = 0;
    for content in [patterns(dtype), noise, values.to_vec()] {
        let of_len = |count: usize| content.iter().copied().cycle().take(count * dtype.width()).collect();
        let all_values: Vec<Vec<u8>> = COUNTS.into_iter().map(of_len).collect();
        let on_cpu = |values: &Vec<u8>| {
            kernels.on_cpu(values).map_err(|error| wrong(kernels, values, &error.to_string()))
        };
        let expected = all_values.iter().map(on_cpu).collect::<Result<Vec<_>, _>>()?;
        let frames =
            all_values.iter().zip(&expected).map(|(values, expected)| kernels.frame(values, expected));
        let frames = frames.collect::<Result<Vec<Frame>, _>>()?;
        if let Some(encoder) = kernels.encoder(&frames)? {
            encoder.launch(kernels.stream)?;
        }
        let decoder = kernels.decoder(&frames)?;
        decoder.launch(kernels.stream)?;
        kernels.stream.synchronize()?;
        let faults = Decoder::faults(&decoder.states().read()?);
        for (((values, expected), frame), fault) in all_values.iter().zip(&expected).zip(&frames).zip(faults)
        {
            if frame.read()? != *expected {
                return Err(wrong(kernels, values, "the frame is not that of the CPU"));
            }
            if let Some(fault) = fault {
                return Err(wrong(kernels, values, &format!("the frame is refused: {fault}")));
            }
            if frame.decoded.read()? != *values {
                return Err(wrong(kernels, values, "it decodes to other values"));
            }
            compared += 1;
        }
    }
    Ok(compared)
}

/// Every bit pattern of a type, in an order that mixes them; of F32 every upper half, with other lower ones.
fn patterns(dtype: DType) -> Vec<u8> {
    let width = dtype.width().min(2);
    let patterns = 1usize << (8 * width);
    let lower = |i: usize| i.wrapping_mul(40_505).to_le_bytes()[..dtype.width() - width].to_vec();
    let upper = |i: usize| (i.wrapping_mul(40_503) % patterns).to_le_bytes()[..width].to_vec();
    (0..patterns).flat_map(|i| [lower(i), upper(i)].concat()).collect()
}
