//! Frames whose signs and mantissas are apart: the kernels write and read what the CPU writes and reads, three parts of each frame.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_codec::{DType, Spec, encode_exponents, sign_mantissa_len, write_sign_mantissa};
use zipwire_kernels::{Apart, Block, Decoder, Fault, GpuError};

use crate::Extent;
use crate::bench::{Bench, POISON, assert_same};
use crate::content::Content;
use crate::corrupt::agree;
use crate::samples::samples;

/// Whether frames of a codec have signs and mantissas.
pub(crate) fn is_in(spec: &str, dtype: DType) -> bool {
    sign_mantissa_len(&*spec.parse::<Spec>().unwrap().codec(), dtype, 1).is_some()
}

/// Signs and mantissas, the static section without them, and the dynamic one.
#[derive(Clone)]
struct Parts([Vec<u8>; 3]);

impl Bench {
    fn apart_on_cpu(&self, values: &[u8]) -> Parts {
        let count = values.len() / 2;
        let block = self.block(values.len());
        let mut rests = vec![0; count];
        write_sign_mantissa(values, &mut rests);
        let mut fixed = vec![0; block.static_section.len() as usize - count];
        let mut dynamic = vec![0; block.dynamic_section.len() as usize];
        let len = encode_exponents(&*self.codec, self.dtype, values, &mut fixed, &mut dynamic).unwrap();
        dynamic.truncate(len);
        Parts([rests, fixed, dynamic])
    }

    fn apart(&self, values_len: usize) -> Apart {
        let block = self.block(values_len);
        let bare = block.static_section.len() as usize - values_len / 2;
        let block = Block { static_section: self.region(bare), ..block };
        Apart { block, sign_mantissa: self.region(values_len / 2) }
    }

    fn encode_apart(&self, all_values: &[Vec<u8>]) -> Vec<Parts> {
        let frames: Vec<Apart> = all_values.iter().map(|values| self.apart(values.len())).collect();
        frames.iter().zip(all_values).for_each(|(frame, values)| frame.block.values.write(values).unwrap());
        let splitter = self.coder.splitter(&frames).unwrap();
        let encoder = self.coder.encoder_apart(frames.clone()).unwrap();
        // Nothing of the first launch may matter for the second.
        for _ in 0..2 {
            for Apart { block, sign_mantissa } in &frames {
                let regions = [sign_mantissa, &block.static_section, &block.dynamic_section, &block.size];
                regions.into_iter().for_each(|region| self.stream.fill(region, POISON).unwrap());
            }
            splitter.launch(&self.stream).unwrap();
            encoder.launch(&self.stream).unwrap();
        }
        self.stream.synchronize().unwrap();
        let parts = |Apart { block, sign_mantissa }: &Apart| {
            let size = u64::from_le_bytes(block.size.read().unwrap().try_into().unwrap());
            let behind = block.dynamic_section.part(size..block.dynamic_section.len()).read().unwrap();
            assert!(
                behind.iter().all(|byte| *byte == POISON),
                "bytes behind the dynamic section were written"
            );
            let dynamic = block.dynamic_section.part(0..size);
            Parts([sign_mantissa, &block.static_section, &dynamic].map(|region| region.read().unwrap()))
        };
        frames.iter().map(parts).collect()
    }

    fn decode_apart(&self, all_parts: &[(Parts, usize)]) -> Vec<Result<Vec<u8>, Fault>> {
        let filled = |(Parts([rests, fixed, dynamic]), values_len): &(Parts, usize)| {
            let frame = self.apart(*values_len);
            let live = dynamic.len() as u64;
            frame.sign_mantissa.write(rests).unwrap();
            frame.block.static_section.write(fixed).unwrap();
            frame.block.dynamic_section.part(0..live).write(dynamic).unwrap();
            frame.block.size.write(&live.to_le_bytes()).unwrap();
            frame
        };
        let frames: Vec<Apart> = all_parts.iter().map(filled).collect();
        let decoder = self.coder.decoder_apart(frames.clone()).unwrap();
        for _ in 0..2 {
            frames.iter().for_each(|frame| self.stream.fill(&frame.block.values, POISON).unwrap());
            decoder.launch(&self.stream).unwrap();
        }
        self.stream.synchronize().unwrap();
        for (frame, (Parts([rests, fixed, dynamic]), _)) in frames.iter().zip(all_parts) {
            let live = frame.block.dynamic_section.part(0..dynamic.len() as u64);
            let came = [&frame.sign_mantissa, &frame.block.static_section, &live];
            let is_kept = came
                .iter()
                .zip([rests, fixed, dynamic])
                .all(|(region, sent)| region.read().unwrap() == *sent);
            assert!(is_kept, "decoding changes nothing that was received: it may be on its way to others");
        }
        let faults = Decoder::faults(&decoder.states().read().unwrap());
        let values = frames.iter().map(|frame| frame.block.values.read().unwrap());
        values.zip(faults).map(|(values, fault)| fault.map_or(Ok(values), Err)).collect()
    }

    fn check_apart(&self, all_values: &[Vec<u8>], context: &str) {
        let expected: Vec<Parts> = all_values.iter().map(|values| self.apart_on_cpu(values)).collect();
        for (number, (found, expected)) in self.encode_apart(all_values).iter().zip(&expected).enumerate() {
            let what = format!("{context}, frame {number} of {} bytes", all_values[number].len());
            let names = ["signs and mantissas", "static section", "dynamic section"];
            for ((found, expected), name) in found.0.iter().zip(&expected.0).zip(names) {
                assert_same(found, expected, &format!("{what}: {name}"));
            }
        }
        let frames: Vec<_> = expected.into_iter().zip(all_values.iter().map(Vec::len)).collect();
        for (number, (found, values)) in self.decode_apart(&frames).into_iter().zip(all_values).enumerate() {
            let found = found.unwrap_or_else(|fault| panic!("{context}, frame {number}: {fault}"));
            assert_same(&found, values, &format!("{context}, frame {number}: values"));
        }
    }
}

/// All kinds of values in lengths around those of tiles; each batch has frames of several lengths.
pub(crate) fn every_content_and_length(spec: &'static str, dtype: DType, extent: Extent) {
    let bench = Bench::new(spec, dtype);
    for (number, content) in Content::ALL.into_iter().enumerate() {
        let lens: &[usize] = extent.of(
            &[1, 33, 1023, 8193, 33_001],
            &[1, 2, 7, 12, 13, 31, 33, 255, 513, 1025, 5000, 8191, 8192, 8193, 32_768, 33_001, 70_001],
        );
        let values: Vec<Vec<u8>> =
            lens.iter().map(|&count| content.values(dtype, count, (100 * number + count) as u64)).collect();
        bench.check_apart(&values, &format!("{content:?}"));
    }
    // Tiles that are stored between tiles that are coded.
    let kinds = [Content::Gaussian, Content::Noise, Content::SomeZeros, Content::Noise, Content::Rows];
    let mixed = kinds.map(|content| content.values(dtype, 32_768, 3)).concat();
    bench.check_apart(&[mixed.clone(), mixed[..2 * 100_003].to_vec()], "stored tiles among coded ones");
}

pub(crate) fn recorded_tensors(spec: &'static str, dtype: DType) {
    Bench::new(spec, dtype).check_apart(&samples(dtype), "recorded tensors");
}

/// Frames with bits flipped in any part: what the CPU refuses is reported, any other one gives the same values.
pub(crate) fn flipped_bits(spec: &'static str, dtype: DType, extent: Extent) {
    let bench = Bench::new(spec, dtype);
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    for (content, count) in [(Content::Gaussian, 20_011), (Content::Noise, 20_011), (Content::Rows, 40_003)] {
        let values = content.values(dtype, count, 4);
        let whole = bench.apart_on_cpu(&values);
        let damaged = |number: usize| {
            let mut parts = whole.clone();
            let of = |part: usize, most: usize| (part, whole.0[part].len().min(most));
            let (part, len) =
                [of(0, usize::MAX), of(1, 256), of(1, usize::MAX), of(2, usize::MAX)][number % 4];
            if len > 0 {
                parts.0[part][rng.random_range(0..len)] ^= 1 << rng.random_range(0..8);
            }
            // Sections that end early.
            if number % 7 == 6 {
                let dynamic = &mut parts.0[2];
                dynamic.truncate(rng.random_range(0..=dynamic.len()));
            }
            (parts, values.len())
        };
        let frames: Vec<(Parts, usize)> = (0..extent.of(28, 200)).map(damaged).collect();
        for ((Parts([rests, fixed, dynamic]), len), found) in frames.iter().zip(bench.decode_apart(&frames)) {
            let mut out = vec![POISON; *len];
            let on_cpu = zipwire_codec::Decoder::new()
                .decode_exponents(dtype, rests, fixed, dynamic, &mut out)
                .ok()
                .map(|()| out);
            agree(content, on_cpu, found);
        }
    }
}

/// Frames without signs and mantissas have none to take out.
pub(crate) fn refused(spec: &'static str, dtype: DType) {
    let bench = Bench::new(spec, dtype);
    let frame = Apart { block: bench.block(64), sign_mantissa: bench.region(64 / dtype.width()) };
    for error in [
        bench.coder.splitter(std::slice::from_ref(&frame)).unwrap_err(),
        bench.coder.encoder_apart(vec![frame.clone()]).unwrap_err(),
        bench.coder.decoder_apart(vec![frame]).unwrap_err(),
    ] {
        assert!(matches!(error, GpuError::Unsupported { .. }), "{error}");
    }
}
