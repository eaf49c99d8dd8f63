//! Frames on a device, in either layout, beside their values and room for what they decode to.

use zipwire_codec::{Codec, DType, FrameShape, Layout, Spec};
use zipwire_kernels::{Block, Coder, CompactBlock, Decoder, Device, DeviceRegion, Encoder, GpuError, Stream};

/// Fill byte of device memory before kernels write it.
const POISON: u8 = 0xee;

/// The kernels of a codec for a type and a layout, on a device.
#[derive(Clone, Copy)]
pub(super) struct Frames<'a> {
    pub(super) device: &'a Device,
    pub(super) stream: &'a Stream,
    pub(super) spec: &'a Spec,
    pub(super) coder: &'a Coder,
    pub(super) dtype: DType,
    pub(super) layout: Layout,
}

pub(super) struct Frame {
    pub(super) values: DeviceRegion,
    /// Room for the decoded values.
    pub(super) decoded: DeviceRegion,
    sections: Sections,
    /// Length of the dynamic section, or of a compact frame: a `u64` on the device.
    size: DeviceRegion,
}

enum Sections {
    Split([DeviceRegion; 2]),
    Compact(DeviceRegion),
}

impl Frames<'_> {
    /// Whether there are kernels that encode it; others decode what the CPU encodes.
    pub(super) fn is_encoded(&self) -> bool {
        self.layout == Layout::Split || Coder::check_compact(self.spec, self.dtype).is_ok()
    }

    /// The frame of the CPU.
    pub(super) fn on_cpu(&self, values: &[u8]) -> Vec<u8> {
        let encoded = self.spec.codec().encode_to_vec(self.layout, self.dtype, values);
        encoded.expect("codecs that have kernels for a type encode its values")
    }

    /// Uploads values, and the CPU's frame `on_cpu` if no kernel encodes this layout.
    pub(super) fn frame(&self, values: &[u8], on_cpu: &[u8]) -> Result<Frame, GpuError> {
        let codec = self.spec.codec();
        let shape = FrameShape::new(self.layout, self.dtype, values.len() / self.dtype.width());
        let region = |len: usize| DeviceRegion::allocate(self.device, len as u64);
        let bound = codec.bound(shape);
        let sections = match self.layout {
            Layout::Split => {
                let static_len = codec.static_len(shape);
                Sections::Split([region(static_len)?, region(bound - static_len)?])
            }
            Layout::Compact => Sections::Compact(region(bound)?),
        };
        let frame = Frame {
            values: region(values.len())?,
            decoded: region(values.len())?,
            sections,
            size: region(8)?,
        };
        frame.values.write(values)?;
        frame.poison(self.stream)?;
        if !self.is_encoded() {
            self.stream.synchronize()?;
            frame.write(on_cpu)?;
        }
        Ok(frame)
    }

    /// Encodes all of them in one launch, if there are kernels for that.
    pub(super) fn encoder(&self, frames: &[Frame]) -> Result<Option<Encoder>, GpuError> {
        if !self.is_encoded() {
            return Ok(None);
        }
        let encoder = match self.layout {
            Layout::Split => {
                self.coder.encoder(frames.iter().map(|frame| frame.block(&frame.values)).collect())
            }
            Layout::Compact => {
                self.coder.compact_encoder(frames.iter().map(|frame| frame.compact(&frame.values)).collect())
            }
        };
        encoder.map(Some)
    }

    /// Decodes all of them in one launch.
    pub(super) fn decoder(&self, frames: &[Frame]) -> Result<Decoder, GpuError> {
        match self.layout {
            Layout::Split => {
                self.coder.decoder(frames.iter().map(|frame| frame.block(&frame.decoded)).collect())
            }
            Layout::Compact => {
                self.coder.compact_decoder(frames.iter().map(|frame| frame.compact(&frame.decoded)).collect())
            }
        }
    }
}

impl Frame {
    fn block(&self, values: &DeviceRegion) -> Block {
        let Sections::Split([static_section, dynamic_section]) = &self.sections else {
            unreachable!("frames have the layout of their kernels")
        };
        Block {
            values: values.clone(),
            static_section: static_section.clone(),
            dynamic_section: dynamic_section.clone(),
            size: self.size.clone(),
        }
    }

    fn compact(&self, values: &DeviceRegion) -> CompactBlock {
        let Sections::Compact(frame) = &self.sections else {
            unreachable!("frames have the layout of their kernels")
        };
        CompactBlock { values: values.clone(), frame: frame.clone(), size: self.size.clone() }
    }

    fn poison(&self, stream: &Stream) -> Result<(), GpuError> {
        let sections = match &self.sections {
            Sections::Split(sections) => sections.as_slice(),
            Sections::Compact(frame) => std::slice::from_ref(frame),
        };
        sections.iter().chain([&self.size, &self.decoded]).try_for_each(|region| stream.fill(region, POISON))
    }

    fn write(&self, frame: &[u8]) -> Result<(), GpuError> {
        let size = match &self.sections {
            Sections::Split([fixed, dynamic]) => {
                let (of_fixed, of_dynamic) =
                    frame.split_at(usize::try_from(fixed.len()).expect("it is in memory"));
                fixed.write(of_fixed)?;
                dynamic.part(0..of_dynamic.len() as u64).write(of_dynamic)?;
                of_dynamic.len()
            }
            Sections::Compact(region) => {
                region.part(0..frame.len() as u64).write(frame)?;
                frame.len()
            }
        };
        self.size.write(&(size as u64).to_le_bytes())
    }

    /// All of it in one buffer, static section first; cut where its size says more than there is room for.
    pub(super) fn read(&self) -> Result<Vec<u8>, GpuError> {
        let size = u64::from_le_bytes(self.size.read()?.try_into().expect("a size has eight bytes"));
        let live = |region: &DeviceRegion| region.part(0..size.min(region.len())).read();
        match &self.sections {
            Sections::Split([fixed, dynamic]) => Ok([fixed.read()?, live(dynamic)?].concat()),
            Sections::Compact(frame) => live(frame),
        }
    }
}
