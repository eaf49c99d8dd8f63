//! Chunks of the payload on a rank's device: those that it contributes, and those that it has received.
//!
//! Contributions are uploaded once; a compute op copies them to where the model would compute them. Received chunks are
//! copied aside before an op overwrites them, and go to the host when the iteration is over. So neither takes the
//! way to the host while the clock runs.

use std::collections::HashMap;

use zipwire_kernels::{Device, DeviceRegion, GpuError, Stream};
use zipwire_payload::Payload;
use zipwire_schedule::OpId;
use zipwire_schedule::plan::Region;

use crate::chunks::{Chunk, Chunks};

/// A copy from one place on the device to another.
pub(super) type Copy = (DeviceRegion, DeviceRegion);

/// A received chunk, and where it is at the end of an iteration.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) chunk: Chunk,
    /// First op that overwrites the received bytes.
    pub(super) consumer: Option<OpId>,
    pub(super) kept: DeviceRegion,
}

/// The chunks of one rank.
#[derive(Debug)]
pub(super) struct Samples {
    filled_before: Vec<Copy>,
    filled_by: HashMap<OpId, Vec<Copy>>,
    kept_before: HashMap<OpId, Vec<Copy>>,
    /// All that is to be checked after an iteration.
    pub(super) received: Vec<Received>,
}

impl Samples {
    /// Uploads what a rank contributes and makes room for what it receives. Waits for the device.
    pub(super) fn new(
        device: &Device,
        chunks: &Chunks,
        payload: &Payload,
        place: impl Fn(&Region) -> DeviceRegion,
    ) -> Result<Self, GpuError> {
        let upload = |chunk: &Chunk| -> Result<Copy, GpuError> {
            let mut bytes = vec![0; usize::try_from(chunk.region.len).expect("chunks fit into memory")];
            payload.fill(chunk.id, &mut bytes);
            let source = DeviceRegion::allocate(device, chunk.region.len)?;
            source.write(&bytes)?;
            Ok((source, place(&chunk.region)))
        };
        let filled_before = chunks.filled_before.iter().map(upload).collect::<Result<_, _>>()?;
        let mut filled_by = HashMap::new();
        for (&op, chunks) in &chunks.filled_by {
            filled_by.insert(op, chunks.iter().map(upload).collect::<Result<_, _>>()?);
        }
        let (mut kept_before, mut received) = (HashMap::new(), Vec::new());
        for (&op, chunks) in &chunks.checked_before {
            let mut copies = Vec::with_capacity(chunks.len());
            for &chunk in chunks {
                let kept = DeviceRegion::allocate(device, chunk.region.len)?;
                copies.push((place(&chunk.region), kept.clone()));
                received.push(Received { chunk, consumer: Some(op), kept });
            }
            kept_before.insert(op, copies);
        }
        let at_end = chunks.checked_at_end.iter();
        received.extend(at_end.map(|&chunk| Received { chunk, consumer: None, kept: place(&chunk.region) }));
        // The same chunk is named first on every run.
        received.sort_by_key(|received| {
            let Chunk { id, region } = received.chunk;
            (id.segment, region.buffer, region.offset)
        });
        Ok(Self { filled_before, filled_by, kept_before, received })
    }

    /// Queues what the model would have computed before the iteration.
    pub(super) fn fill_before(&self, stream: &Stream) -> Result<(), GpuError> {
        self.filled_before.iter().try_for_each(|(from, to)| stream.copy(from, to))
    }

    /// Queues what a compute op computes.
    pub(super) fn fill(&self, op: OpId, stream: &Stream) -> Result<(), GpuError> {
        self.filled_by.get(&op).into_iter().flatten().try_for_each(|(from, to)| stream.copy(from, to))
    }

    /// Queues copies of what an op is about to overwrite.
    pub(super) fn keep_before(&self, op: OpId, stream: &Stream) -> Result<(), GpuError> {
        self.kept_before.get(&op).into_iter().flatten().try_for_each(|(from, to)| stream.copy(from, to))
    }
}
