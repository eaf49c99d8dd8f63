//! Frames of the kernels beside those of the CPU.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_codec::DType;
use zipwire_kernels::{Decoder, GpuError};

use super::frames::{Frame, Frames};

/// Frames that were compared, and those of them that are wrong.
#[derive(Clone, Debug, Default)]
pub(super) struct Compared {
    pub(super) frames: u64,
    pub(super) wrong: u64,
    /// Bytes of values of the first wrong frame, and the difference.
    pub(super) first: Option<(u64, String)>,
}

/// Numbers of values.
/// They lie around the lengths of groups and tiles.
const COUNTS: [usize; 12] = [1, 2, 13, 33, 513, 1023, 8191, 8192, 8193, 33_001, 65_536, 200_003];

/// Compares frames of the kernels with those of the CPU, and decodes them. Values are every bit pattern, noise, and those that are going
/// to be measured. A difference is counted, and the comparison goes on.
///
/// # Errors
/// If the device fails.
pub(super) fn compare(kernels: &Frames<'_>, values: &[u8], seed: u64) -> Result<Compared, GpuError> {
    let dtype = kernels.dtype;
    let mut noise = vec![0; COUNTS[COUNTS.len() - 1] * dtype.width()];
    ChaCha8Rng::seed_from_u64(seed).fill_bytes(&mut noise);
    let mut compared = Compared::default();
    for content in [patterns(dtype), noise, values.to_vec()] {
        let of_len = |count: usize| content.iter().copied().cycle().take(count * dtype.width()).collect();
        let all_values: Vec<Vec<u8>> = COUNTS.into_iter().map(of_len).collect();
        let on_cpu = |values: &Vec<u8>| kernels.on_cpu(values);
        let expected: Vec<Vec<u8>> = all_values.iter().map(on_cpu).collect();
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
            compared.frames += 1;
            let refused = fault.map(|fault| format!("the frame is refused: {fault}"));
            let found = match difference(&frame.read()?, expected).or(refused) {
                None if frame.decoded.read()? != *values => Some("it decodes to other values".to_owned()),
                found => found,
            };
            if let Some(what) = found {
                compared.wrong += 1;
                compared.first.get_or_insert((values.len() as u64, what));
            }
        }
    }
    Ok(compared)
}

/// The first difference of a frame from that of the CPU, in words.
pub(super) fn difference(found: &[u8], on_cpu: &[u8]) -> Option<String> {
    match found.iter().zip(on_cpu).position(|(a, b)| a != b) {
        Some(at) => Some(format!("byte {at} of the frame is not what the CPU writes")),
        None if found.len() != on_cpu.len() => {
            Some(format!("the frame has {} bytes where the CPU's has {}", found.len(), on_cpu.len()))
        }
        None => None,
    }
}

/// Every bit pattern of a type, in an order that mixes them; of F32 every upper half, with other lower ones.
fn patterns(dtype: DType) -> Vec<u8> {
    let width = dtype.width().min(2);
    let patterns = 1usize << (8 * width);
    let lower = |i: usize| i.wrapping_mul(40_505).to_le_bytes()[..dtype.width() - width].to_vec();
    let upper = |i: usize| (i.wrapping_mul(40_503) % patterns).to_le_bytes()[..width].to_vec();
    (0..patterns).flat_map(|i| [lower(i), upper(i)].concat()).collect()
}
