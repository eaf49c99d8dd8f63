//! A GPU with the kernels of the codec, and memory that messages are coded in.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use zipwire_codec::{DType, Spec};
use zipwire_kernels::{
    Block, Coder, Decoder, Device, DeviceRegion, Encoder, Event, GpuError, HostBuffer, Stream,
};

use super::handshake::one_line;
use super::wire::ALIGN;

/// Bytes of the least piece of memory that is allocated for messages.
const CHUNK_BYTES: u64 = 16 << 20;
/// Prepared launches of each kind that a desk keeps.
const LAUNCHES: usize = 1024;
/// Places for lengths that a communicator has: for messages of a group, and twice for each rank.
const LEAST_PLACES: u64 = 8192;

/// A GPU of this process.
#[derive(Debug)]
pub(crate) struct Gpu {
    pub(super) device: Device,
    /// Kernels of the codec, or why there are none.
    pub(super) coder: Result<Coder, String>,
    desks: Mutex<Vec<Desk>>,
    /// Places of communicators that have ended.
    places: Mutex<Vec<Places>>,
}

/// All GPUs of this process, by number.
#[derive(Debug, Default)]
pub(crate) struct Gpus(Mutex<HashMap<usize, Arc<Gpu>>>);

impl Gpus {
    /// The GPU of this number.
    ///
    /// # Errors
    /// If it cannot be used.
    pub(super) fn get(&self, ordinal: usize, spec: &Spec) -> Result<Arc<Gpu>, GpuError> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gpu) = known.get(&ordinal) {
            return Ok(gpu.clone());
        }
        let device = Device::open(ordinal)?;
        let coder = Coder::new(&device, spec, DType::Bf16).map_err(|why| one_line(&why));
        let gpu = Arc::new(Gpu { device, coder, desks: Mutex::default(), places: Mutex::default() });
        known.insert(ordinal, gpu.clone());
        Ok(gpu)
    }
}

impl Gpu {
    /// Kernels of the codec.
    pub(super) fn coder(&self) -> &Coder {
        self.coder.as_ref().expect("ranks without kernels compress nothing")
    }

    /// A desk that nobody else has, from those that have been given back.
    pub(super) fn desk(&self) -> Desk {
        self.desks.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    /// Gives a desk back when all that was on it is done.
    pub(super) fn give_back(&self, mut desk: Desk) {
        desk.chunks.iter_mut().for_each(|chunk| chunk.taken = 0);
        self.desks.lock().unwrap_or_else(PoisonError::into_inner).push(desk);
    }
}

impl Gpu {
    /// Places for a communicator of so many ranks.
    pub(super) fn places(&self, ranks: u64) -> Result<Places, GpuError> {
        let len = 8 * LEAST_PLACES.max(4 * (ranks + 1));
        let mut kept = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = kept.iter().position(|places| places.region.len() >= len) {
            return Ok(kept.swap_remove(found));
        }
        let device = &self.device;
        Ok(Places { region: DeviceRegion::allocate(device, len)?, host: HostBuffer::new(device, len)? })
    }

    /// Keeps places for the next communicator.
    pub(super) fn keep(&self, places: Places) {
        self.places.lock().unwrap_or_else(PoisonError::into_inner).push(places);
    }
}

/// Memory that the messages of one group on a GPU are coded in, and launches that have been prepared. It grows and is never freed, because that would
/// wait for all streams of the device.
#[derive(Debug, Default)]
pub(super) struct Desk {
    chunks: Vec<Chunk>,
    /// Findings of decoders, in the last one; those that were too short are kept.
    states: Vec<HostBuffer>,
    states_len: u64,
    event: Option<Arc<Event>>,
    /// Memory of the host for copies of values.
    kept: Vec<HostBuffer>,
    encoders: Launches<Encoder>,
    decoders: Launches<Decoder>,
}

#[derive(Debug)]
struct Chunk {
    region: DeviceRegion,
    taken: u64,
}

impl Desk {
    /// Memory for a message; `None` if the GPU has none.
    pub(super) fn take(&mut self, device: &Device, len: u64) -> Option<DeviceRegion> {
        let (exact, len) = (len, len.next_multiple_of(ALIGN));
        let fits = |chunk: &Chunk| chunk.region.len() - chunk.taken >= len;
        if !self.chunks.iter().any(fits) {
            let all: u64 = self.chunks.iter().map(|chunk| chunk.region.len()).sum();
            let region = DeviceRegion::allocate(device, len.max(all).max(CHUNK_BYTES));
            let region = region.or_else(|_| DeviceRegion::allocate(device, len)).ok()?;
            self.chunks.push(Chunk { region, taken: 0 });
        }
        let chunk = self.chunks.iter_mut().find(|chunk| fits(chunk))?;
        let begin = chunk.taken;
        chunk.taken += len;
        Some(chunk.region.part(begin..begin + exact))
    }

    /// Memory of the host, from what has been kept.
    pub(super) fn host_buffer(&mut self, device: &Device, len: u64) -> Result<HostBuffer, GpuError> {
        match self.kept.iter().position(|known| known.len() >= len) {
            Some(found) => Ok(self.kept.swap_remove(found)),
            None => HostBuffer::new(device, len),
        }
    }

    /// Keeps memory of the host for later.
    pub(super) fn keep(&mut self, buffer: HostBuffer) {
        self.kept.push(buffer);
    }

    /// An event of this desk's own.
    pub(super) fn event(&mut self, device: &Device) -> Result<Arc<Event>, GpuError> {
        if self.event.is_none() {
            self.event = Some(Arc::new(Event::new(device)?));
        }
        Ok(self.event.clone().expect("it has just been made"))
    }

    /// Queues a decoder of these blocks, and a copy of its findings to the host.
    pub(super) fn decode(&mut self, gpu: &Gpu, stream: &Stream, blocks: &[Block]) -> Result<(), GpuError> {
        let decoder = Self::decoder(&mut self.decoders, gpu.coder(), blocks)?;
        let states = decoder.states();
        if self.states.last().is_none_or(|known| known.len() < states.len()) {
            self.states.push(HostBuffer::new(&gpu.device, states.len().next_power_of_two().max(4096))?);
        }
        decoder.launch(stream)?;
        self.states_len = states.len();
        stream.download(states, self.states.last().expect("it has just been made"), 0)
    }

    /// Whether each frame of the last decoder was wrong, when it is done.
    pub(super) fn faults(&self) -> Vec<bool> {
        let mut states = vec![0; self.states_len as usize];
        if let Some(host) = self.states.last() {
            host.read(0, &mut states);
        }
        Decoder::faults(&states).iter().map(Option::is_some).collect()
    }

    /// The launch that encodes these blocks.
    pub(super) fn encoder(&mut self, coder: &Coder, blocks: &[Block]) -> Result<&Encoder, GpuError> {
        let prepare = || coder.encoder(blocks.to_vec());
        launch(&mut self.encoders, blocks, prepare, |known| known.reuse(blocks.to_vec()))
    }

    /// The launch that decodes these blocks.
    fn decoder<'a>(
        decoders: &'a mut Launches<Decoder>,
        coder: &Coder,
        blocks: &[Block],
    ) -> Result<&'a Decoder, GpuError> {
        let prepare = || coder.decoder(blocks.to_vec());
        launch(decoders, blocks, prepare, |known| known.reuse(blocks.to_vec()))
    }
}

/// Launches that have been prepared, by all that they know of their blocks.
type Launches<T> = HashMap<Vec<[u64; 4]>, T>;

/// The launch of these blocks. Where there are many, one whose memory has room for them takes the place of another: none is dropped, because that
/// would wait for all streams of the device. None of them is under way.
fn launch<'a, T>(
    launches: &'a mut Launches<T>,
    blocks: &[Block],
    prepare: impl FnOnce() -> Result<T, GpuError>,
    mut reuse: impl FnMut(&mut T) -> Result<bool, GpuError>,
) -> Result<&'a T, GpuError> {
    let key = key(blocks);
    if !launches.contains_key(&key) {
        let most = if launches.len() < LAUNCHES { 0 } else { usize::MAX };
        let others = launches.iter_mut().take(most);
        let mut reused = others.map(|(other, known)| (other, reuse(known)));
        let found = reused.find(|(_, is_reused)| !matches!(is_reused, Ok(false)));
        let found = found.map(|(other, is_reused)| (other.clone(), is_reused));
        let launch = match found {
            None => prepare()?,
            Some((other, is_reused)) => {
                let launch = launches.remove(&other).expect("it is one of these");
                if let Err(why) = is_reused {
                    std::mem::forget(launch);
                    return Err(why);
                }
                launch
            }
        };
        launches.insert(key.clone(), launch);
    }
    Ok(&launches[&key])
}

/// All that a launch knows of its blocks.
fn key(blocks: &[Block]) -> Vec<[u64; 4]> {
    let key = |block: &Block| {
        let values = &block.values;
        [values.address(), values.len(), block.static_section.address(), block.size.address()]
    };
    blocks.iter().map(key).collect()
}

/// Places of 8 bytes for lengths of dynamic sections, on the GPU and on the host: allocated before a communicator compresses anything, so that an end
/// can always say that it has not coded a message.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) region: DeviceRegion,
    pub(super) host: HostBuffer,
}
