//! State of a rank on its device, kept for all iterations: streams, buffers, events, and prepared launches.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use zipwire_codec::{DType, Layout};
use zipwire_kernels::{
    Addition, Apart, Block, Coder, CompactBlock, Decoder, Device, DeviceRegion, Encoder, Event, GpuError,
    HostBuffer, Splitter, Stream, Summer, Sums, Values,
};
use zipwire_payload::Payload;
use zipwire_schedule::plan::{self, Batch, Content, Library, Local, OpKind, Plan, Program, Reduce, Region};
use zipwire_schedule::{Collective, Lane, OpId, SizeId};

use crate::chunks::{Chunk, Chunks, POISON};

const SIZE_BYTES: u64 = 8;

/// The kernels on a device, for all of its ranks.
#[derive(Debug, Default)]
pub(crate) struct Kernels {
    coders: HashMap<DType, Coder>,
    summer: Option<Summer>,
}

/// Lanes that ops occupy: all but those of transfers, which are within an exchange.
const STREAMS: usize = 6;

fn stream_of(lane: Lane) -> usize {
    match lane {
        Lane::Compute => 0,
        Lane::Codec => 1,
        Lane::Exchange => 2,
        Lane::Control => 3,
        Lane::Background => 4,
        Lane::BackgroundControl => 5,
        Lane::Tx | Lane::Rx => unreachable!("no op occupies it"),
    }
}

/// Streams by lane, of those that a program uses: a device has 8 to 32 queues, and what waits in one holds up all streams that share it.
#[derive(Debug, Default)]
struct Streams([Option<Stream>; STREAMS]);

impl Streams {
    fn new(device: &Device, lanes: impl IntoIterator<Item = Lane>) -> Result<Self, GpuError> {
        let mut streams = Self::default();
        for lane in lanes {
            let stream = &mut streams.0[stream_of(lane)];
            if stream.is_none() {
                *stream = Some(Stream::new(device)?);
            }
        }
        Ok(streams)
    }

    fn get(&self, lane: Lane) -> &Stream {
        self.0[stream_of(lane)].as_ref().expect("lanes of all ops have streams")
    }

    fn all(&self) -> impl Iterator<Item = &Stream> {
        self.0.iter().flatten()
    }
}

#[derive(Debug)]
pub(crate) struct DeviceState {
    lanes: Streams,
    /// Carry what the host wants to know, each beside a lane.
    reports: Streams,
    /// Before the first op, behind the barrier.
    pub(crate) began: Event,
    buffers: Vec<DeviceRegion>,
    sizes: DeviceRegion,
    /// The longest dynamic section that each size may be of.
    pub(crate) capacities: Vec<u64>,
    poisoned: Vec<DeviceRegion>,
    pub(crate) samples: Samples,
    pub(crate) ops: Vec<Prepared>,
}

#[derive(Debug)]
pub(crate) struct Prepared {
    /// Before its work, behind what it waits for.
    pub(crate) begin: Event,
    /// Behind its work.
    pub(crate) done: Event,
    pub(crate) launch: Launch,
    /// Sizes or findings that are copied to the host.
    pub(crate) report: Option<CudaReport>,
    /// Before and behind each receive of an exchange.
    pub(crate) receives: Vec<Interval>,
    /// Event that peers wait for before they copy the bytes it sends.
    pub(crate) ready: Arc<Event>,
}

#[derive(Debug)]
pub(crate) enum Launch {
    None,
    Split(Splitter),
    Encode(Encoder),
    Decode(Decoder),
    Add(Sums),
    /// A call of a library, with room for equal parts of all ranks.
    Call(Staging),
}

/// Room in which a call of a library finds and leaves what it moves: equal parts, without gaps.
#[derive(Debug)]
pub(crate) struct Staging {
    /// Values that this rank gives.
    pub(crate) from: DeviceRegion,
    /// Values that it gets.
    pub(crate) to: DeviceRegion,
}

/// Bytes of the two regions of a [`Staging`] at the most.
pub(crate) fn staged(library: &Library) -> [u64; 2] {
    let longest = library.shares().map(|share| {
        let region = share.content.region().map_or(0, |region| region.len);
        region + share.content.brings().map_or(0, |_| SIZE_BYTES)
    });
    let longest = longest.max().unwrap_or(0);
    let all = u64::from(library.group.count) * longest;
    match library.collective {
        Collective::AllGather => [longest, all],
        Collective::Broadcast => [longest; 2],
        Collective::ReduceScatter => [all, longest],
        Collective::AllReduce => [all; 2],
    }
}

/// Bytes that go to the host behind an op.
#[derive(Debug)]
pub(crate) struct CudaReport {
    pub(crate) from: DeviceRegion,
    pub(crate) to: HostBuffer,
    pub(crate) arrived: Event,
    /// The size that is first in them, if they are sizes.
    first: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Interval {
    pub(crate) begin: Arc<Event>,
    pub(crate) end: Arc<Event>,
}

impl Kernels {
    /// Loads what a program takes and is not there yet.
    pub(crate) fn load(&mut self, device: &Device, plan: &Plan, program: &Program) -> Result<(), GpuError> {
        for local in program.ops.iter().filter_map(|op| op.kind.local()) {
            match local {
                Local::Split(Batch { dtype, .. })
                | Local::Encode(Batch { dtype, .. })
                | Local::Decode(Batch { dtype, .. }) => {
                    if let Entry::Vacant(coder) = self.coders.entry(*dtype) {
                        let spec = plan.codec.as_ref().expect("coded plans name their codec");
                        coder.insert(Coder::new(device, spec, *dtype)?);
                    }
                }
                Local::Reduce(_) if self.summer.is_none() => self.summer = Some(Summer::new(device)?),
                Local::Reduce(_) | Local::GatherRows(_) => {}
            }
        }
        Ok(())
    }
}

impl DeviceState {
    /// Loads what a program takes, allocates its buffers, and uploads what its rank contributes.
    pub(crate) fn build(
        device: &Device,
        plan: &Plan,
        program: &Program,
        payload: &Payload,
        kernels: &mut Kernels,
    ) -> Result<Self, GpuError> {
        kernels.load(device, plan, program)?;
        Self::new(device, program, &Chunks::of(program), payload, kernels)
    }

    fn new(
        device: &Device,
        program: &Program,
        chunks: &Chunks,
        payload: &Payload,
        kernels: &Kernels,
    ) -> Result<Self, GpuError> {
        let allocate = |bytes| DeviceRegion::allocate(device, bytes);
        let buffers =
            program.buffers.iter().map(|buffer| allocate(buffer.capacity)).collect::<Result<Vec<_>, _>>()?;
        let sizes = allocate(SIZE_BYTES * u64::from(program.size_count))?;
        let mut capacities = vec![u64::MAX; program.size_count as usize];
        for op in &program.ops {
            if let Some(batch) = op.kind.local().and_then(Local::framed) {
                let blocks = batch.blocks.iter();
                blocks.for_each(|block| capacities[block.size.index()] = block.dynamic_section.len);
            }
            // What moves is in a region, whoever decodes it.
            for transfer in op
                .kind
                .exchange()
                .into_iter()
                .flat_map(|exchange| exchange.sends.iter().chain(&exchange.receives))
            {
                let (size, room) = match transfer.content {
                    Content::Prefix(region, size) => (size, region.len),
                    Content::Overflow { region, slot, size } => (size, slot + region.len),
                    Content::Values(_) | Content::Whole(_) | Content::Size(_) | Content::Announced(..) => {
                        continue;
                    }
                };
                let capacity = &mut capacities[size.index()];
                *capacity = room.min(*capacity);
            }
        }
        let place = |region: &Region| place(&buffers, region);
        let prepare = |op: &plan::Op| prepare(device, &op.kind, &place, &sizes, kernels);
        let ops = program.ops.iter().map(prepare).collect::<Result<Vec<_>, _>>()?;
        let reported = ops.iter().zip(&program.ops).filter(|(prepared, _)| prepared.report.is_some());
        // Contributions are laid out on that of compute.
        let lanes = program.ops.iter().map(|op| op.kind.lane()).chain([Lane::Compute]);
        Ok(Self {
            lanes: Streams::new(device, lanes)?,
            reports: Streams::new(device, reported.map(|(_, op)| op.kind.lane()))?,
            began: Event::new(device)?,
            capacities,
            poisoned: chunks.poisoned.iter().map(place).collect(),
            samples: Samples::new(device, chunks, payload, place)?,
            ops,
            buffers,
            sizes,
        })
    }

    /// Queues what comes before the barrier: fills what the model would have computed before the iteration, and poisons what
    /// peers and codec fill. The event is behind it.
    pub(crate) fn lay_out(&self) -> Result<&Event, GpuError> {
        let compute = self.stream(Lane::Compute);
        self.poisoned.iter().try_for_each(|region| compute.fill(region, POISON))?;
        compute.fill(&self.sizes, POISON)?;
        self.samples.fill_before(compute)?;
        compute.record(&self.began)?;
        Ok(&self.began)
    }

    pub(crate) fn begin(&self) -> Result<(), GpuError> {
        self.stream(Lane::Compute).record(&self.began)?;
        // Compute is behind it already.
        self.lanes.all().try_for_each(|stream| stream.wait(&self.began))
    }

    /// Whether the device has not done all that was queued. One that has failed does nothing more.
    pub(crate) fn is_busy(&self) -> bool {
        self.lanes.all().chain(self.reports.all()).any(|stream| matches!(stream.is_idle(), Ok(false)))
    }

    pub(crate) fn op(&self, op: OpId) -> &Prepared {
        &self.ops[op.index()]
    }

    pub(crate) fn stream(&self, lane: Lane) -> &Stream {
        self.lanes.get(lane)
    }

    /// The stream of what the host wants to know of ops of this lane.
    pub(crate) fn report_stream(&self, lane: Lane) -> &Stream {
        self.reports.get(lane)
    }

    pub(crate) fn place(&self, region: &Region) -> DeviceRegion {
        place(&self.buffers, region)
    }

    pub(crate) fn size(&self, size: SizeId) -> DeviceRegion {
        slot(&self.sizes, size)
    }
}

impl Prepared {
    pub(crate) fn sizes(&self, defined: &[SizeId]) -> Vec<(SizeId, u64)> {
        let Some(CudaReport { to, first, .. }) = &self.report else { return Vec::new() };
        let value = |size: &SizeId| to.read_u64(SIZE_BYTES * u64::from(size.0 - first));
        defined.iter().map(|size| (*size, value(size))).collect()
    }
}

fn additions(reduce: &Reduce, place: &impl Fn(&Region) -> DeviceRegion) -> Vec<Addition> {
    let values = |chunk: &plan::Chunk, region: &Region| Values {
        region: place(region),
        dtype: chunk.sum.expect("sums and their terms say what they are").dtype(),
    };
    let addition = |addition: &plan::Addition| Addition {
        output: values(&addition.chunk, &addition.values),
        terms: addition.terms.iter().map(|term| values(&term.chunk, &term.values)).collect(),
    };
    // Shards may have no values.
    let some = reduce.additions.iter().filter(|addition| addition.values.len > 0);
    some.map(addition).collect()
}

fn place(buffers: &[DeviceRegion], region: &Region) -> DeviceRegion {
    buffers[region.buffer.index()].part(region.offset..region.end())
}

fn slot(sizes: &DeviceRegion, size: SizeId) -> DeviceRegion {
    let offset = SIZE_BYTES * u64::from(size.0);
    sizes.part(offset..offset + SIZE_BYTES)
}

fn launch(
    device: &Device,
    kind: &OpKind,
    place: &impl Fn(&Region) -> DeviceRegion,
    sizes: &DeviceRegion,
    kernels: &Kernels,
) -> Result<Launch, GpuError> {
    let block = |block: &plan::Block| Block {
        values: place(&block.values),
        static_section: place(&block.static_section),
        dynamic_section: place(&block.dynamic_section),
        size: slot(sizes, block.size),
    };
    let split = |batch: &Batch| -> Vec<Block> { batch.blocks.iter().map(block).collect() };
    // Frames whose signs and mantissas travel by themselves: all of a batch, or none.
    let apart = |batch: &Batch| -> Vec<Apart> {
        let apart = |of: &plan::Block| Apart { block: block(of), sign_mantissa: place(&of.sign_mantissa) };
        batch.blocks.iter().map(apart).collect()
    };
    // Frames without a static section.
    let compact = |batch: &Batch| -> Vec<CompactBlock> {
        let block = |block: &plan::Block| CompactBlock {
            values: place(&block.values),
            frame: place(&block.dynamic_section),
            size: slot(sizes, block.size),
        };
        batch.blocks.iter().map(block).collect()
    };
    Ok(match kind {
        OpKind::Local(Local::Split(batch)) => {
            Launch::Split(kernels.coders[&batch.dtype].splitter(&apart(batch))?)
        }
        OpKind::Local(Local::Encode(batch)) => {
            let coder = &kernels.coders[&batch.dtype];
            Launch::Encode(match batch.layout {
                Layout::Split if batch.is_apart() => coder.encoder_apart(apart(batch))?,
                Layout::Split => coder.encoder(split(batch))?,
                Layout::Compact => coder.compact_encoder(compact(batch))?,
            })
        }
        OpKind::Local(Local::Decode(batch)) => {
            let coder = &kernels.coders[&batch.dtype];
            Launch::Decode(match batch.layout {
                Layout::Split if batch.is_apart() => coder.decoder_apart(apart(batch))?,
                Layout::Split => coder.decoder(split(batch))?,
                Layout::Compact => coder.compact_decoder(compact(batch))?,
            })
        }
        OpKind::Local(Local::Reduce(reduce)) => {
            let summer = kernels.summer.as_ref().expect("loaded for programs that add up");
            Launch::Add(summer.sums(additions(reduce, place))?)
        }
        OpKind::Compute(_) | OpKind::Exchange(_) => Launch::None,
        OpKind::Library(library) => {
            let [from, to] = staged(library).map(|len| DeviceRegion::allocate(device, len));
            Launch::Call(Staging { from: from?, to: to? })
        }
        OpKind::Local(Local::GatherRows(_)) => {
            unreachable!("refused by the check")
        }
    })
}

fn prepare(
    device: &Device,
    kind: &OpKind,
    place: &impl Fn(&Region) -> DeviceRegion,
    sizes: &DeviceRegion,
    kernels: &Kernels,
) -> Result<Prepared, GpuError> {
    let launch = launch(device, kind, place, sizes, kernels)?;
    let report = |from: DeviceRegion, first| -> Result<CudaReport, GpuError> {
        Ok(CudaReport { to: HostBuffer::new(device, from.len())?, from, arrived: Event::new(device)?, first })
    };
    let defined = kind.effects().defines;
    let ends = defined.iter().min().zip(defined.iter().max());
    let report = match (&launch, ends) {
        (Launch::Decode(decoder), _) => Some(report(decoder.states().clone(), 0)?),
        // Those in between that others define are not looked at.
        (_, Some((first, last))) => {
            let range = SIZE_BYTES * u64::from(first.0)..SIZE_BYTES * (u64::from(last.0) + 1);
            Some(report(sizes.part(range), first.0)?)
        }
        (_, None) => None,
    };
    let receives = kind.exchange().map_or(0, |exchange| exchange.receives.len());
    let interval = |_| -> Result<Interval, GpuError> {
        Ok(Interval { begin: Arc::new(Event::new(device)?), end: Arc::new(Event::new(device)?) })
    };
    Ok(Prepared {
        begin: Event::new(device)?,
        done: Event::new(device)?,
        launch,
        report,
        receives: (0..receives).map(interval).collect::<Result<_, _>>()?,
        ready: Arc::new(Event::new(device)?),
    })
}

pub(crate) type Copy = (DeviceRegion, DeviceRegion);

/// A received chunk, and where it is at the end of an iteration.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) chunk: Chunk,
    /// First op that overwrites the received bytes.
    pub(crate) consumer: Option<OpId>,
    pub(crate) kept: DeviceRegion,
}

/// Chunks of the payload on one rank's device. Contributions are uploaded once, and received chunks copied aside before an op overwrites
/// them, to go to the host when the iteration is over: neither takes the way to the host while the clock runs.
/// A compute op copies contributions to where the model would compute them.
#[derive(Debug)]
pub(crate) struct Samples {
    filled_before: Vec<Copy>,
    filled_by: HashMap<OpId, Vec<Copy>>,
    kept_before: HashMap<OpId, Vec<Copy>>,
    /// All that is to be checked after an iteration.
    pub(crate) received: Vec<Received>,
}

impl Samples {
    /// Uploads what a rank contributes and makes room for what it receives. Waits for the device.
    pub(crate) fn new(
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
            let Chunk { id, region, .. } = received.chunk;
            (id.segment, region.buffer, region.offset)
        });
        Ok(Self { filled_before, filled_by, kept_before, received })
    }

    /// Queues what the model would have computed before the iteration.
    pub(crate) fn fill_before(&self, stream: &Stream) -> Result<(), GpuError> {
        self.filled_before.iter().try_for_each(|(from, to)| stream.copy(from, to))
    }

    pub(crate) fn fill(&self, op: OpId, stream: &Stream) -> Result<(), GpuError> {
        self.filled_by.get(&op).into_iter().flatten().try_for_each(|(from, to)| stream.copy(from, to))
    }

    /// Queues copies of what an op is about to overwrite.
    pub(crate) fn keep_before(&self, op: OpId, stream: &Stream) -> Result<(), GpuError> {
        self.kept_before.get(&op).into_iter().flatten().try_for_each(|(from, to)| stream.copy(from, to))
    }
}
