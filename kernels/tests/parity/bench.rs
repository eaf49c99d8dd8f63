//! A device, and frames on it.

use std::ops::Range;

use zipwire_codec::{Codec, DType, FrameShape, Layout, Spec};
use zipwire_kernels::{Block, Coder, CompactBlock, Decoder, Device, DeviceRegion, Fault, GpuError, Stream};

/// Fill byte of device memory before kernels write it.
pub(crate) const POISON: u8 = 0xee;

/// A frame in the split layout, in host memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) fixed: Vec<u8>,
    pub(crate) dynamic: Vec<u8>,
}

/// The kernels of a codec on the first device, beside the codec of the CPU.
pub(crate) struct Bench {
    device: Device,
    pub(crate) stream: Stream,
    pub(crate) coder: Coder,
    pub(crate) codec: Box<dyn Codec>,
    pub(crate) dtype: DType,
    /// Whether there are kernels that encode the layout `compact`.
    encodes_compact: bool,
    /// How often the same is done; what counts is what the last launch leaves.
    pub(crate) launches: usize,
}

impl Bench {
    pub(crate) fn new(spec: &str, dtype: DType) -> Self {
        let device = Device::open(0).unwrap();
        let stream = Stream::new(&device).unwrap();
        let spec: Spec = spec.parse().unwrap();
        let coder = Coder::for_measuring(&device, &spec, dtype).unwrap();
        let encodes_compact = Coder::check_compact(&spec, dtype).is_ok();
        Self { device, stream, coder, codec: spec.codec(), dtype, encodes_compact, launches: 1 }
    }

    /// Launches everything twice: nothing of the first launch may matter for the second.
    pub(crate) fn twice(self) -> Self {
        Self { launches: 2, ..self }
    }

    /// Frame as the CPU encodes it.
    pub(crate) fn on_cpu(&self, values: &[u8]) -> Frame {
        cpu_frame(&*self.codec, self.dtype, values)
    }

    /// Frames that the kernels encode in one launch.
    pub(crate) fn encode(&self, all_values: &[Vec<u8>]) -> Vec<Frame> {
        let blocks: Vec<Block> = all_values.iter().map(|values| self.block(values.len())).collect();
        for (block, values) in blocks.iter().zip(all_values) {
            block.values.write(values).unwrap();
        }
        let encoder = self.coder.encoder(blocks.clone()).unwrap();
        for _ in 0..self.launches {
            for region in
                blocks.iter().flat_map(|block| [&block.static_section, &block.dynamic_section, &block.size])
            {
                self.stream.fill(region, POISON).unwrap();
            }
            encoder.launch(&self.stream).unwrap();
        }
        self.stream.synchronize().unwrap();
        let frame = |block: &Block| {
            let size = u64::from_le_bytes(block.size.read().unwrap().try_into().unwrap());
            assert!(size <= block.dynamic_section.len(), "a size of {size}");
            let dynamic = block.dynamic_section.part(0..size).read().unwrap();
            let behind = block.dynamic_section.part(size..block.dynamic_section.len()).read().unwrap();
            assert!(
                behind.iter().all(|byte| *byte == POISON),
                "bytes behind the dynamic section were written"
            );
            Frame { fixed: block.static_section.read().unwrap(), dynamic }
        };
        blocks.iter().map(frame).collect()
    }

    /// Values, or faults, that the kernels decode in one launch from frames of so many bytes of values.
    pub(crate) fn decode(&self, frames: &[(Frame, usize)]) -> Vec<Result<Vec<u8>, Fault>> {
        let blocks: Vec<Block> = frames.iter().map(|(frame, len)| self.filled_block(frame, *len)).collect();
        let decoder = self.coder.decoder(blocks.clone()).unwrap();
        for _ in 0..self.launches {
            for block in &blocks {
                self.stream.fill(&block.values, POISON).unwrap();
            }
            decoder.launch(&self.stream).unwrap();
        }
        self.stream.synchronize().unwrap();
        let faults = Decoder::faults(&decoder.states().read().unwrap());
        let values = blocks.iter().map(|block| block.values.read().unwrap());
        values.zip(faults).map(|(values, fault)| fault.map_or(Ok(values), Err)).collect()
    }

    /// Compact frame as the CPU encodes it.
    pub(crate) fn compact_on_cpu(&self, values: &[u8]) -> Vec<u8> {
        self.codec.encode_to_vec(Layout::Compact, self.dtype, values).unwrap()
    }

    /// Values that the CPU decodes from a compact frame of so many bytes of values.
    pub(crate) fn compact_decoded_on_cpu(&self, frame: &[u8], len: usize) -> Option<Vec<u8>> {
        let mut out = vec![POISON; len];
        zipwire_codec::Decoder::new()
            .decode(Layout::Compact, self.dtype, &[], frame, &mut out)
            .ok()
            .map(|()| out)
    }

    /// Values, or faults, that the kernels decode in one launch from compact frames of so many bytes of values. The frames are adjacent, with
    /// no more room than they take: at every byte of a word, where that may be.
    pub(crate) fn decode_compact(&self, frames: &[(Vec<u8>, usize)]) -> Vec<Result<Vec<u8>, Fault>> {
        let (first, align) = if self.codec.id() == "huffman" { (0, 16) } else { (1, 1) };
        let room = |frame: &[u8]| (frame.len() + 1).next_multiple_of(align);
        let arena = self.region(first + frames.iter().map(|(frame, _)| room(frame)).sum::<usize>());
        let mut at = first as u64;
        let mut blocks = Vec::new();
        for (frame, len) in frames {
            let place = arena.part(at..at + frame.len() as u64);
            place.write(frame).unwrap();
            let size = self.region(8);
            size.write(&(frame.len() as u64).to_le_bytes()).unwrap();
            blocks.push(CompactBlock { values: self.region(*len), frame: place, size });
            at += room(frame) as u64;
        }
        let before = arena.read().unwrap();
        let decoder = self.coder.compact_decoder(blocks.clone()).unwrap();
        for _ in 0..self.launches {
            decoder.launch(&self.stream).unwrap();
        }
        self.stream.synchronize().unwrap();
        assert!(arena.read().unwrap() == before, "a decoder writes no frames");
        let faults = Decoder::faults(&decoder.states().read().unwrap());
        let values = blocks.iter().map(|block| block.values.read().unwrap());
        values.zip(faults).map(|(values, fault)| fault.map_or(Ok(values), Err)).collect()
    }

    /// Compact frames that the kernels encode in one launch. The frames are adjacent, each with no more room than an encoder
    /// asks for: at every byte of a word, where that may be. Around them nothing is written.
    pub(crate) fn encode_compact(&self, all_values: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let align = if self.codec.id() == "huffman" { 16 } else { 1 };
        let mut end = 0;
        let mut places = Vec::new();
        for (number, values) in all_values.iter().enumerate() {
            let shape = FrameShape::new(Layout::Compact, self.dtype, values.len() / self.dtype.width());
            let at = (end + [1, 0, 2, 1, 0usize][number % 5]).next_multiple_of(align);
            end = at + self.codec.bound(shape);
            places.push(at as u64..end as u64);
        }
        let arena = self.region(end + 1);
        let block = |(values, place): (&Vec<u8>, &Range<u64>)| {
            let region = self.region(values.len());
            region.write(values).unwrap();
            CompactBlock { values: region, frame: arena.part(place.clone()), size: self.region(8) }
        };
        let blocks: Vec<CompactBlock> = all_values.iter().zip(&places).map(block).collect();
        let encoder = self.coder.compact_encoder(blocks.clone()).unwrap();
        for _ in 0..self.launches {
            for region in blocks.iter().map(|block| &block.size).chain([&arena]) {
                self.stream.fill(region, POISON).unwrap();
            }
            encoder.launch(&self.stream).unwrap();
        }
        self.stream.synchronize().unwrap();
        let mut written = arena.read().unwrap();
        let frame = |(block, place): (&CompactBlock, &Range<u64>)| {
            let size = u64::from_le_bytes(block.size.read().unwrap().try_into().unwrap());
            assert!(size <= block.frame.len(), "a size of {size}");
            let frame = &mut written[place.start as usize..][..size as usize];
            let found = frame.to_vec();
            frame.fill(POISON);
            found
        };
        let frames = blocks.iter().zip(&places).map(frame).collect();
        assert!(written.iter().all(|byte| *byte == POISON), "bytes around frames were written");
        frames
    }

    /// Bytes that the longest compact frame of so many values has.
    pub(crate) fn compact_bound(&self, count: usize) -> u64 {
        self.codec.bound(FrameShape::new(Layout::Compact, self.dtype, count)) as u64
    }

    /// Whether so many values can be encoded to a compact frame in so many bytes, at this place of an allocation.
    pub(crate) fn compact_encoder_at(&self, count: usize, at: u64, len: u64) -> Result<(), GpuError> {
        let frame = self.region((at + len) as usize).part(at..at + len);
        let values = self.region(count * self.dtype.width());
        self.coder.compact_encoder(vec![CompactBlock { values, frame, size: self.region(8) }]).map(drop)
    }

    /// The kernels write what the CPU writes, and read it; in the layout `compact` as well, where they write it.
    pub(crate) fn check(&self, all_values: &[Vec<u8>], context: &str) {
        let expected: Vec<Frame> = all_values.iter().map(|values| self.on_cpu(values)).collect();
        for (number, (found, expected)) in self.encode(all_values).iter().zip(&expected).enumerate() {
            let what = format!("{context}, frame {number} of {} bytes", all_values[number].len());
            assert_same(&found.fixed, &expected.fixed, &format!("{what}: static section"));
            assert_same(&found.dynamic, &expected.dynamic, &format!("{what}: dynamic section"));
        }
        self.check_decoding(expected.into_iter().zip(all_values.iter().cloned()).collect(), context);
        self.check_compact(&*self.codec, all_values, context);
        if self.encodes_compact {
            self.check_compact_encoding(all_values, context);
        }
    }

    /// The kernels write the compact frames that the CPU writes.
    pub(crate) fn check_compact_encoding(&self, all_values: &[Vec<u8>], context: &str) {
        for (number, (found, values)) in self.encode_compact(all_values).iter().zip(all_values).enumerate() {
            let what = format!("{context}, encoded compact frame {number} of {} bytes", values.len());
            assert_same(found, &self.compact_on_cpu(values), &what);
            assert!(
                self.compact_decoded_on_cpu(found, values.len()).as_ref() == Some(values),
                "{what}: the CPU reads it"
            );
        }
    }

    /// The kernels read these values out of the compact frames that a codec of the CPU writes, all in one launch.
    pub(crate) fn check_compact(&self, codec: &dyn Codec, all_values: &[Vec<u8>], context: &str) {
        let frame = |values: &Vec<u8>| codec.encode_to_vec(Layout::Compact, self.dtype, values).unwrap();
        let frames: Vec<_> = all_values.iter().map(|values| (frame(values), values.len())).collect();
        for (number, (found, expected)) in
            self.decode_compact(&frames).into_iter().zip(all_values).enumerate()
        {
            let what = format!("{context}, compact frame {number} of {} bytes", expected.len());
            match found {
                Ok(found) => assert_same(&found, expected, &format!("{what}: values")),
                Err(fault) => panic!("{what}: {fault}"),
            }
        }
    }

    /// The kernels read these values out of these frames.
    pub(crate) fn check_decoding(&self, frames: Vec<(Frame, Vec<u8>)>, context: &str) {
        let (frames, values): (Vec<_>, Vec<_>) =
            frames.into_iter().map(|(frame, values)| ((frame, values.len()), values)).unzip();
        for (number, (found, expected)) in self.decode(&frames).into_iter().zip(&values).enumerate() {
            let what = format!("{context}, frame {number} of {} bytes", expected.len());
            match found {
                Ok(found) => assert_same(&found, expected, &format!("{what}: values")),
                Err(fault) => panic!("{what}: {fault}"),
            }
        }
    }

    /// The kernels write so many frames of one value each in one launch as the CPU does.
    pub(crate) fn check_many(&self, frame_count: usize) {
        let width = self.dtype.width();
        let shape = FrameShape::new(Layout::Split, self.dtype, 1);
        let static_len = self.codec.static_len(shape);
        let room = self.codec.bound(shape) - static_len;
        let value = |number: usize| (number as u32).wrapping_mul(0x9e37_79b1).to_le_bytes()[..width].to_vec();
        let [values_step, static_step, dynamic_step] =
            [16, static_len.next_multiple_of(128), room.next_multiple_of(16)];
        let arenas = [values_step, static_step, dynamic_step, 8].map(|step| self.region(frame_count * step));
        let part = |arena: usize, step: usize, number: usize, len: usize| {
            let at = (number * step) as u64;
            arenas[arena].part(at..at + len as u64)
        };
        let block = |number| Block {
            values: part(0, values_step, number, width),
            static_section: part(1, static_step, number, static_len),
            dynamic_section: part(2, dynamic_step, number, room),
            size: part(3, 8, number, 8),
        };
        let blocks: Vec<Block> = (0..frame_count).map(block).collect();
        let all_values: Vec<u8> = (0..frame_count)
            .flat_map(|number| [value(number), vec![POISON; values_step - width]].concat())
            .collect();
        arenas[0].write(&all_values).unwrap();
        self.coder.encoder(blocks).unwrap().launch(&self.stream).unwrap();
        self.stream.synchronize().unwrap();
        let [_, fixed, dynamic, sizes] = [0, 1, 2, 3].map(|arena| arenas[arena].read().unwrap());
        for number in 0..frame_count {
            let expected = self.on_cpu(&value(number));
            let size = u64::from_le_bytes(*sizes[8 * number..].first_chunk().unwrap()) as usize;
            assert_same(
                &fixed[static_step * number..][..static_len],
                &expected.fixed,
                &format!("frame {number}"),
            );
            assert_same(
                &dynamic[dynamic_step * number..][..size],
                &expected.dynamic,
                &format!("frame {number}"),
            );
        }
    }

    /// Values that the CPU decodes from a frame of so many bytes of values.
    pub(crate) fn decoded_on_cpu(&self, frame: &Frame, len: usize) -> Option<Vec<u8>> {
        let mut out = vec![POISON; len];
        zipwire_codec::Decoder::new()
            .decode(Layout::Split, self.dtype, &frame.fixed, &frame.dynamic, &mut out)
            .ok()
            .map(|()| out)
    }

    fn filled_block(&self, frame: &Frame, values_len: usize) -> Block {
        let block = self.block(values_len);
        let live = frame.dynamic.len() as u64;
        block.static_section.write(&frame.fixed).unwrap();
        block.dynamic_section.part(0..live).write(&frame.dynamic).unwrap();
        block.size.write(&live.to_le_bytes()).unwrap();
        block
    }

    pub(crate) fn block(&self, values_len: usize) -> Block {
        let count = values_len / self.dtype.width();
        let static_len = self.codec.static_len(FrameShape::new(Layout::Split, self.dtype, count));
        Block {
            values: self.region(values_len),
            static_section: self.region(static_len),
            dynamic_section: self
                .region(self.codec.bound(FrameShape::new(Layout::Split, self.dtype, count)) - static_len),
            size: self.region(8),
        }
    }

    pub(crate) fn region(&self, len: usize) -> DeviceRegion {
        let region = DeviceRegion::allocate(&self.device, len as u64).unwrap();
        region.write(&vec![POISON; len]).unwrap();
        region
    }
}

/// Frame that a CPU codec encodes.
pub(crate) fn cpu_frame(codec: &dyn Codec, dtype: DType, values: &[u8]) -> Frame {
    let count = values.len() / dtype.width();
    let static_len = codec.static_len(FrameShape::new(Layout::Split, dtype, count));
    let mut fixed = vec![0; static_len];
    let mut dynamic = vec![0; codec.bound(FrameShape::new(Layout::Split, dtype, count)) - static_len];
    let len = codec.encode(Layout::Split, dtype, values, &mut fixed, &mut dynamic).unwrap();
    dynamic.truncate(len);
    Frame { fixed, dynamic }
}

pub(crate) fn assert_same(found: &[u8], expected: &[u8], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}: another length");
    if let Some(at) = found.iter().zip(expected).position(|(a, b)| a != b) {
        let end = (at + 16).min(found.len());
        panic!(
            "{what}: from byte {at} on {:02x?} where {:02x?} is expected",
            &found[at..end],
            &expected[at..end]
        );
    }
}
