//! Speed of summing decoded values, as a Reduce-Scatter does behind its decoders.

use zipwire_codec::DType;
use zipwire_kernels::{Addition, Device, DeviceRegion, Event, GpuError, Stream, Summer, Values};

use super::timing::seconds_per_launch;
use super::{GpuBenchError, GpuSum};

/// Contributions to a sum: of two ranks, and of eight.
const TERMS: [u64; 2] = [2, 8];

/// Measures sums that read `bytes` bytes of BF16 values, which are parts of `values`; launches take turns among `sets` of them.
pub(super) fn rows(
    device: &Device,
    stream: &Stream,
    values: &[u8],
    sets: u64,
    shortest_s: f64,
) -> Result<Vec<GpuSum>, GpuBenchError> {
    let summer = Summer::new(device)?;
    let region = |bytes: u64| DeviceRegion::allocate(device, bytes);
    let (width, mut rows) = (DType::Bf16.width() as u64, Vec::new());
    for terms in TERMS {
        let of_term = values.len() as u64 / terms / width * width;
        if of_term == 0 {
            continue;
        }
        let bytes = terms * of_term;
        let events = [Event::new(device)?, Event::new(device)?];
        let sources = (0..sets).map(|_| region(bytes)).collect::<Result<Vec<_>, _>>()?;
        let targets = (0..sets).map(|_| region(bytes)).collect::<Result<Vec<_>, _>>()?;
        let sums = sources.iter().zip(&targets).map(|(source, target)| {
            source.write(&values[..usize::try_from(bytes).expect("it is in memory")])?;
            let bf16 = |region| Values { region, dtype: DType::Bf16 };
            // Terms begin at multiples of 16 bytes where their number and length allow it.
            let terms =
                (0..terms).map(|term| bf16(source.part(term * of_term..(term + 1) * of_term))).collect();
            summer.sums(vec![Addition { output: bf16(target.part(0..of_term)), terms }])
        });
        let sums = sums.collect::<Result<Vec<_>, GpuError>>()?;
        let of_set = |launch: usize| launch % sums.len();
        let time = |launch: &dyn Fn(usize) -> Result<(), GpuError>| {
            seconds_per_launch(stream, &events, shortest_s, launch)
        };
        let copy_s = time(&|launch| stream.copy(&sources[of_set(launch)], &targets[of_set(launch)]))?;
        let sum_s = time(&|launch| sums[of_set(launch)].launch(stream))?;
        rows.push(GpuSum {
            terms,
            bytes_read: bytes,
            read_gbps: bytes as f64 / sum_s / 1e9,
            share: (bytes + of_term) as f64 / sum_s / (2 * bytes) as f64 * copy_s,
        });
    }
    Ok(rows)
}
