//! Kernels against the codecs of the CPU, before anything is timed: every bit pattern, noise, the values that are going to be
//! measured, in lengths around those of groups and tiles.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_codec::{DType, Layout, Spec, encode_to_vec};
use zipwire_kernels::{Block, Coder, Decoder, Device, DeviceRegion, GpuError, Stream};

use super::{GpuBenchError, POISON};

/// Numbers of values.
const COUNTS: [usize; 12] = [1, 2, 13, 33, 513, 1023, 8191, 8192, 8193, 33_001, 65_536, 200_003];

/// Compares every codec with each type that it has kernels for; returns how many frames were compared.
///
/// # Errors
/// If a frame has other bytes than the CPU's, or decodes to other values.
pub(super) fn compare(
    device: &Device,
    stream: &Stream,
    codecs: &[Spec],
    values: &[u8],
    seed: u64,
) -> Result<u64, GpuBenchError> {
    let mut compared = 0;
    for spec in codecs {
        for dtype in DType::ALL {
            let coder = match Coder::new(device, spec, dtype) {
                Ok(coder) => coder,
                Err(GpuError::Unsupported { .. }) => continue,
                Err(error) => return Err(error.into()),
            };
            let mut noise = vec![0; COUNTS[COUNTS.len() - 1] * dtype.width()];
            ChaCha8Rng::seed_from_u64(seed).fill_bytes(&mut noise);
            for content in [patterns(dtype), noise, values.to_vec()] {
                let lens = COUNTS.map(|count| count * dtype.width());
                let frames = lens.map(|len| content.iter().copied().cycle().take(len).collect::<Vec<u8>>());
                let wrong = |values: &Vec<u8>, what: &str| GpuBenchError::Wrong {
                    codec: spec.to_string(),
                    bytes: values.len() as u64,
                    what: format!("{dtype}: {what}"),
                };
                let blocks = frames.iter().map(|values| super::block(device, spec, dtype, values));
                let blocks = blocks.collect::<Result<Vec<Block>, _>>()?;
                for block in &blocks {
                    for region in [&block.static_section, &block.dynamic_section, &block.size] {
                        stream.fill(region, POISON)?;
                    }
                }
                coder.encoder(blocks.clone())?.launch(stream)?;
                let decoded = blocks.iter().map(|block| {
                    let values = DeviceRegion::allocate(device, block.values.len())?;
                    stream.fill(&values, POISON)?;
                    Ok(Block { values, ..block.clone() })
                });
                let decoded = decoded.collect::<Result<Vec<Block>, GpuError>>()?;
                let decoder = coder.decoder(decoded.clone())?;
                decoder.launch(stream)?;
                stream.synchronize()?;
                let faults = Decoder::faults(&decoder.states().read()?);
                for (((values, block), decoded), fault) in
                    frames.iter().zip(&blocks).zip(&decoded).zip(faults)
                {
                    let expected = encode_to_vec(&*spec.codec(), Layout::Split, dtype, values)
                        .map_err(|error| wrong(values, &error.to_string()))?;
                    if super::frame_of(block)? != expected {
                        return Err(wrong(values, "the frame is not that of the CPU"));
                    }
                    if let Some(fault) = fault {
                        return Err(wrong(values, &format!("the frame is refused: {fault}")));
                    }
                    if decoded.values.read()? != *values {
                        return Err(wrong(values, "it decodes to other values"));
                    }
                    compared += 1;
                }
            }
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
