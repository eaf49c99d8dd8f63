//! Sums of decoded values on the device, as in a Reduce-Scatter or an All-Reduce.
#![allow(unsafe_code, reason = "kernels are launched")]

use std::fmt;
use std::sync::Arc;

use zipwire_codec::DType;

use crate::coder::parameter;
use crate::compile::load;
use crate::device::{Code, Device, DeviceRegion, Function, Stream};
use crate::error::GpuError;
use crate::module::Source;

/// Values and threads of a block of threads.
const TILE: u64 = 4096;
const THREADS: u32 = 256;
/// Bytes of `Addition` and of `Term` in `cuda/sum.cu`.
const ADDITION_LEN: usize = 40;
const TERM_LEN: usize = 16;
/// Where everything should begin, so that eight values are loaded at once.
const ALIGN: u64 = 16;

/// Values on a device: BF16 or FP32.
#[derive(Clone, Debug)]
pub struct Values {
    /// Whole values, at a multiple of their width. At multiples of 16 bytes they are loaded eight at a time, otherwise one by one.
    pub region: DeviceRegion,
    /// [`DType::Bf16`] or [`DType::F32`].
    pub dtype: DType,
}

/// A sum: `output[i] = terms[0][i] + terms[1][i] + ..`, in FP32 and in this order.
#[derive(Clone, Debug)]
pub struct Addition {
    /// Where sums go. BF16 ones are rounded once, at the end, to the nearest, to even between two.
    pub output: Values,
    /// At least one, of as many values each. One may be where the sums go, with the same type. Otherwise no term of a launch shares bytes
    /// with the output of this or another addition.
    pub terms: Vec<Values>,
}

/// The kernel that adds up, on a device.
#[derive(Clone, Debug)]
pub struct Summer(Arc<Kernel>);

struct Kernel {
    device: Device,
    add: Function,
    /// The function is in it.
    _code: Code,
}

/// Adds up the same values, again and again.
#[derive(Debug)]
pub struct Sums {
    summer: Summer,
    /// Descriptions of the sums, and of all terms behind them.
    described: DeviceRegion,
    addition_count: u32,
    tile_count: u32,
    /// Regions that the descriptions point to.
    _kept: Vec<Addition>,
}

impl Summer {
    /// Compiles the kernel, or takes it from the cache, and loads it.
    ///
    /// # Errors
    /// If there is no compiler, or the driver fails.
    pub fn new(device: &Device) -> Result<Self, GpuError> {
        let code = load(device, &Source::sum())?;
        let add = code.function("sum_add")?;
        Ok(Self(Arc::new(Kernel { device: device.clone(), add, _code: code })))
    }

    /// Bytes of device memory that a launch takes for so many sums with so many terms in all, in one allocation. Needs no GPU.
    pub fn described_len(additions: usize, terms: usize) -> u64 {
        (ADDITION_LEN * additions + TERM_LEN * terms) as u64
    }

    /// Prepares a launch that adds these up. Waits for the device.
    ///
    /// # Errors
    /// If values are not as [`Addition`] and [`Values`] say, or the device has no room.
    pub fn sums(&self, additions: Vec<Addition>) -> Result<Sums, GpuError> {
        additions.iter().try_for_each(|addition| check(addition, &self.0.device))?;
        check_apart(&additions)?;
        let term_count = additions.iter().map(|addition| addition.terms.len()).sum();
        let len = Self::described_len(additions.len(), term_count);
        let described = DeviceRegion::allocate(&self.0.device, len)?;
        let (mut heads, mut terms, mut first_tile) = (Vec::new(), Vec::new(), 0);
        for Addition { output, terms: of_sum } in &additions {
            let terms_at = described.address() + (ADDITION_LEN * additions.len() + terms.len()) as u64;
            let count = output.count();
            let is_aligned = of_sum.iter().chain([output]).all(|values| values.region.address() % ALIGN == 0);
            let words = [output.region.address(), terms_at, count];
            let halves = [
                u32::try_from(of_sum.len()).expect("terms are counted in 32 bits"),
                u32::from(output.is_wide()),
                u32::from(is_aligned),
                u32::try_from(first_tile).expect("tiles are counted in 32 bits"),
            ];
            heads.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            heads.extend(halves.iter().flat_map(|half| half.to_le_bytes()));
            let fields = of_sum.iter().flat_map(|term| [term.region.address(), u64::from(term.is_wide())]);
            terms.extend(fields.flat_map(u64::to_le_bytes));
            first_tile += count.div_ceil(TILE);
        }
        heads.extend(terms);
        described.write(&heads)?;
        Ok(Sums {
            summer: self.clone(),
            described,
            addition_count: u32::try_from(additions.len()).expect("sums are counted in 32 bits"),
            tile_count: u32::try_from(first_tile).expect("tiles are counted in 32 bits"),
            _kept: additions,
        })
    }
}

impl Sums {
    /// Queues the sums: terms are read, outputs written.
    ///
    /// # Errors
    /// If the driver fails.
    pub fn launch(&self, stream: &Stream) -> Result<(), GpuError> {
        if self.tile_count == 0 {
            return Ok(());
        }
        let (mut additions, mut count) = (self.described.address(), self.addition_count);
        let mut params = [parameter(&mut additions), parameter(&mut count)];
        // SAFETY: the kernel takes the address of the descriptions and their number. What they point to has been checked and is
        // kept, and so is the function's code.
        unsafe { self.summer.0.add.launch(stream, (self.tile_count, 1), THREADS, &mut params) }
    }
}

impl Values {
    fn is_wide(&self) -> bool {
        self.dtype == DType::F32
    }

    fn count(&self) -> u64 {
        self.region.len() / self.dtype.width() as u64
    }

    /// The bytes that it has, as addresses.
    fn span(&self) -> std::ops::Range<u64> {
        self.region.address()..self.region.address() + self.region.len()
    }
}

/// Whether types, lengths and places of a sum and its terms are what they must be.
fn check(addition: &Addition, device: &Device) -> Result<(), GpuError> {
    let Addition { output, terms } = addition;
    if terms.is_empty() {
        return refuse(output, "at least one term");
    }
    for values in terms.iter().chain([output]) {
        let width = values.dtype.width() as u64;
        if !values.region.buffer().device().is(device) {
            return refuse(values, "values on one GPU");
        }
        if !matches!(values.dtype, DType::Bf16 | DType::F32) {
            return refuse(values, "BF16 or FP32");
        }
        let is_whole =
            values.region.len().is_multiple_of(width) && values.region.address().is_multiple_of(width);
        if !is_whole || values.count() != output.count() {
            return refuse(
                values,
                &format!("{} whole values at a multiple of {width} bytes", output.count()),
            );
        }
    }
    Ok(())
}

/// Whether no sum reads or writes what another one writes, or what it writes itself but in place.
fn check_apart(additions: &[Addition]) -> Result<(), GpuError> {
    let mut outputs: Vec<(usize, &Values)> =
        additions.iter().map(|addition| &addition.output).enumerate().collect();
    outputs.sort_by_key(|(_, output)| output.span().start);
    if let Some(pair) = outputs.windows(2).find(|pair| pair[1].1.span().start < pair[0].1.span().end) {
        return refuse(pair[1].1, "outputs that share no bytes");
    }
    for (number, addition) in additions.iter().enumerate() {
        for term in &addition.terms {
            let span = term.span();
            let first = outputs.partition_point(|(_, output)| output.span().end <= span.start);
            let mut met = outputs[first..].iter().take_while(|(_, output)| output.span().start < span.end);
            let is_there = |(other, output): &(usize, &Values)| {
                *other == number && output.span() == span && output.dtype == term.dtype
            };
            if !met.all(is_there) {
                return refuse(term, "to be where its own sum goes, or to share no bytes with any sum");
            }
        }
    }
    Ok(())
}

fn refuse(values: &Values, needed: &str) -> Result<(), GpuError> {
    let (dtype, len, address) = (values.dtype, values.region.len(), values.region.address());
    Err(GpuError::Term { dtype, len, address, needed: needed.to_owned() })
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel").field("device", &self.device).finish_non_exhaustive()
    }
}
