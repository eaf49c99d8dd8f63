//! Local ops of a rank in host memory: it codes, adds up and copies, writes what the model would have
//! computed, and compares what has come with what was sent.

use std::collections::{HashMap, HashSet};

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};
use zipwire_codec::{Base, Codec, DType, Decoder, Layout};
use zipwire_payload::{ChunkId, Payload};
use zipwire_schedule::machine::Machine;
use zipwire_schedule::plan::{
    self, Addition, Batch, Block, Gather, GatherRows, Local, Op, OpKind, Plan, Reduce, Region,
};
use zipwire_schedule::{Failure, FailureKind, OpId, Rank, SegmentId, SizeId, sum};

use crate::chunks::{Chunk, Chunks};
use crate::memory::Memory;
use crate::report::FailureReport;
use crate::run_program::failure;

pub(super) struct Worker<'a> {
    pub(super) memory: &'a Memory,
    pub(super) coders: &'a Coders,
    pub(super) payload: &'a Payload,
    pub(super) chunks: &'a Chunks,
    pub(super) failure_report: FailureReport<'a>,
    pub(super) verifies: bool,
    pub(super) bytes_verified: u64,
}

impl Worker<'_> {
    /// Fills what the model would have computed before the iteration, and poisons what peers and codec fill.
    pub(super) fn prepare(&self) {
        let _span = tracing::info_span!("prepare").entered();
        self.chunks.poisoned.iter().for_each(|region| self.memory.poison(region));
        self.chunks.filled_before.iter().for_each(|chunk| self.fill(chunk));
    }

    /// Compares what an op is about to overwrite with what was sent.
    pub(super) fn check_before(&mut self, machine: &Machine, op: OpId) -> Result<(), Failure> {
        let Some(chunks) = self.chunks.checked_before.get(&op).filter(|_| self.verifies) else {
            return Ok(());
        };
        let _span = tracing::info_span!("check").entered();
        chunks.iter().try_for_each(|chunk| self.check(machine, Some(op), chunk))
    }

    /// Compares what no later op has overwritten.
    pub(super) fn finish(&mut self, machine: &Machine) -> Result<(), Failure> {
        if !self.verifies {
            return Ok(());
        }
        let _span = tracing::info_span!("check").entered();
        self.chunks.checked_at_end.iter().try_for_each(|chunk| self.check(machine, None, chunk))
    }

    /// Carries out a local op and returns the sizes that it defines. `progress` is called now and then.
    pub(super) fn carry_out(
        &self,
        machine: &Machine,
        op: &Op,
        progress: &mut dyn FnMut(),
    ) -> Result<Vec<(SizeId, u64)>, Failure> {
        match &op.kind {
            OpKind::Compute(_) => {
                let _span = tracing::info_span!("fill").entered();
                self.chunks.filled_by.get(&op.id).into_iter().flatten().for_each(|chunk| self.fill(chunk));
            }
            OpKind::Local(Local::Split(batch)) => self.split(batch, progress),
            OpKind::Local(Local::Encode(batch)) => return self.encode(machine, op.id, batch, progress),
            OpKind::Local(Local::Decode(batch)) => self.decode(machine, op.id, batch, progress)?,
            OpKind::Local(Local::Reduce(reduce)) => self.reduce(machine, op.id, reduce)?,
            OpKind::Local(Local::GatherRows(rows)) => self.gather_rows(rows, progress),
            OpKind::Exchange(_) | OpKind::Library(_) => unreachable!("they concern peers"),
        }
        Ok(Vec::new())
    }

    /// Checksum of a region and of a word behind it, of those that there are; 0 where nothing is compared.
    pub(super) fn checksum(&self, region: Option<Region>, word: Option<u64>) -> u64 {
        if !self.verifies {
            return 0;
        }
        let bytes = region.map_or(0, |region| xxh3_64(&self.memory.read(&region)));
        word.map_or(bytes, |word| xxh3_64_with_seed(&word.to_le_bytes(), bytes))
    }

    fn split(&self, batch: &Batch, progress: &mut dyn FnMut()) {
        let _span = tracing::info_span!("split", bytes = batch.bytes_raw()).entered();
        for Block { values, sign_mantissa, .. } in &batch.blocks {
            let (source, mut target) = self.memory.lock([*values], [*sign_mantissa]);
            zipwire_codec::write_sign_mantissa(&source, &mut target);
            progress();
        }
    }

    fn encode(
        &self,
        machine: &Machine,
        op: OpId,
        batch: &Batch,
        progress: &mut dyn FnMut(),
    ) -> Result<Vec<(SizeId, u64)>, Failure> {
        let _span = tracing::info_span!("encode", bytes = batch.bytes_raw()).entered();
        let segment = machine.op(op).segment;
        let encode = |block: &Block| {
            let codec = self.coders.codec(ChunkId { segment, chunk: block.chunk }, block.values.len);
            // Both sections lie in one buffer.
            let sections = [block.static_section, block.dynamic_section];
            let (values, mut frames) = self.memory.lock([block.values], sections);
            let [fixed, dynamic] = frames.slices();
            let len = if block.sign_mantissa.len == 0 {
                codec.encode(batch.layout, batch.dtype, &values, fixed, dynamic)
            } else {
                zipwire_codec::encode_exponents(codec, batch.dtype, &values, fixed, dynamic)
            };
            progress();
            len.map(|len| (block.size, len as u64)).map_err(|error| {
                let destination = block.chunk.destination;
                let receiver = destination.map_or("all ranks".to_owned(), |rank| format!("rank {rank}"));
                let detail = format!("the chunk for {receiver}: {error}");
                failure(machine, Some(op), FailureKind::Device, detail)
            })
        };
        batch.blocks.iter().map(encode).collect()
    }

    fn decode(
        &self,
        machine: &Machine,
        op: OpId,
        batch: &Batch,
        progress: &mut dyn FnMut(),
    ) -> Result<(), Failure> {
        let _span = tracing::info_span!("decode", bytes = batch.bytes_raw()).entered();
        let segment = machine.op(op).segment;
        batch.blocks.iter().try_for_each(|block| {
            let decoder = self.coders.decoder(ChunkId { segment, chunk: block.chunk }, block.values.len);
            let size = machine.size(block.size).expect("sizes are known before frames are decoded");
            let live = Region { len: size, ..block.dynamic_section };
            let sections = [block.sign_mantissa, block.static_section, live];
            let (frames, mut values) = self.memory.lock(sections, [block.values]);
            let [sign_mantissa, fixed, dynamic] = frames.slices();
            let decoded = if block.sign_mantissa.len == 0 {
                decoder.decode(batch.layout, batch.dtype, fixed, dynamic, &mut values)
            } else {
                decoder.decode_exponents(batch.dtype, sign_mantissa, fixed, dynamic, &mut values)
            };
            progress();
            decoded.map_err(|error| {
                let detail = format!("the frame from rank {}: {error}", block.chunk.origin);
                failure(machine, Some(op), FailureKind::Corrupt, detail)
            })
        })
    }

    /// Terms are in several buffers, of which one may be that of the sum: each is read before the sum is written.
    fn reduce(&self, machine: &Machine, op: OpId, reduce: &Reduce) -> Result<(), Failure> {
        let _span = tracing::info_span!("reduce", bytes = reduce.bytes_read()).entered();
        for Addition { terms, chunk, values } in &reduce.additions {
            let dtype =
                |chunk: &plan::Chunk| chunk.sum.expect("sums and their terms say what they are").dtype();
            let mut sums = zeros(machine, op, values.len / dtype(chunk).width() as u64)?;
            for (index, term) in terms.iter().enumerate() {
                let combine = if index == 0 { sum::begin } else { sum::add };
                combine(&mut sums, dtype(&term.chunk), &self.memory.read(&term.values));
            }
            sum::store(&sums, dtype(chunk), &mut self.memory.write(values));
        }
        Ok(())
    }

    fn gather_rows(&self, rows: &GatherRows, progress: &mut dyn FnMut()) {
        let _span = tracing::info_span!("gather rows", bytes = rows.bytes()).entered();
        for Gather { from, to, rows, row_bytes, .. } in &rows.gathers {
            let (source, mut target) = self.memory.lock([*from], [*to]);
            let row_bytes = usize::try_from(*row_bytes).expect("rows fit into memory");
            for (row, out) in rows.iter().zip(target.chunks_exact_mut(row_bytes)) {
                out.copy_from_slice(&source[*row as usize * row_bytes..][..row_bytes]);
            }
            progress();
        }
    }

    fn fill(&self, chunk: &Chunk) {
        self.payload.fill(chunk.id, &mut self.memory.write(&chunk.region));
    }

    fn check(&mut self, machine: &Machine, op: Option<OpId>, chunk: &Chunk) -> Result<(), Failure> {
        match self.payload.mismatch(chunk.id, &self.memory.read(&chunk.region)) {
            None => {
                self.bytes_verified += chunk.region.len;
                Ok(())
            }
            Some(offset) => Err(self.failure_report.altered(machine, op, chunk, offset)),
        }
    }
}

/// Room for sums.
///
/// # Errors
/// If the system refuses the memory.
pub(super) fn zeros(machine: &Machine, op: OpId, count: u64) -> Result<Vec<f32>, Failure> {
    let count = usize::try_from(count).expect("sums fit into memory");
    let mut sums = Vec::new();
    sums.try_reserve_exact(count).map_err(|error| {
        let detail = format!("no memory for {count} sums: {error}");
        failure(machine, Some(op), FailureKind::Device, detail)
    })?;
    sums.resize(count, 0.0);
    Ok(sums)
}

/// The codecs and decoders of one rank: usually one pair; a codec of differences has one for each chunk, whose base both ends of the
/// transfer hold. Bases and their ids are made before the first iteration and are in no span: a rank has the values that it is about to
/// replace, and keeps their ids beside them.
#[derive(Debug)]
pub(super) struct Coders {
    /// `None` in plans without a codec.
    plain: Option<Box<dyn Codec>>,
    /// Reads frames that name no base; with the table of the codec, if that has one.
    decoder: Decoder,
    /// Coders of differences, by chunk and its length in bytes.
    of_chunks: HashMap<(ChunkId, u64), Coder>,
}

#[derive(Debug)]
struct Coder {
    codec: Box<dyn Codec>,
    decoder: Decoder,
}

/// A chunk that a rank encodes or decodes in the layout that has differences.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Differing {
    id: ChunkId,
    dtype: DType,
    bytes: u64,
}

impl Coders {
    /// Coders of one rank. Chunks without a base in the payload are coded without.
    ///
    /// # Errors
    /// A text, if the system refuses memory for a base.
    pub(super) fn of(plan: &Plan, rank: Rank, payload: &Payload) -> Result<Self, String> {
        let plain = plan.codec.as_ref().map(zipwire_codec::Spec::codec);
        let plain_decoder = plan.codec.as_ref().map_or_else(Decoder::new, zipwire_codec::Spec::decoder);
        let mut of_chunks = HashMap::new();
        let has_base = |segment: SegmentId| payload.base(segment).is_some();
        for Differing { id, dtype, bytes } in differing(plan, rank).filter(|chunk| has_base(chunk.id.segment))
        {
            let mut values = Vec::new();
            let len = usize::try_from(bytes).expect("planned chunks fit into memory");
            let reserved = values.try_reserve_exact(len);
            reserved.map_err(|error| format!("the system refuses {bytes} bytes for a base: {error}"))?;
            values.resize(len, 0);
            if !payload.fill_base(id, &mut values) {
                continue;
            }
            let base = Base::new(dtype, values);
            let spec = plan.codec.clone().expect("plans with differences have a codec").against(base);
            of_chunks.insert((id, bytes), Coder { codec: spec.codec(), decoder: spec.decoder() });
        }
        Ok(Self { plain, decoder: plain_decoder, of_chunks })
    }

    /// Codec that encodes a chunk of so many bytes.
    pub(super) fn codec(&self, id: ChunkId, bytes: u64) -> &dyn Codec {
        let plain = || self.plain.as_deref().expect("coded plans name their codec");
        self.of_chunks.get(&(id, bytes)).map_or_else(plain, |coder| &*coder.codec)
    }

    pub(super) fn decoder(&self, id: ChunkId, bytes: u64) -> &Decoder {
        self.of_chunks.get(&(id, bytes)).map_or(&self.decoder, |coder| &coder.decoder)
    }
}

/// Bytes of the bases that a rank holds, if the payload has one for each chunk that the rank codes. 0 where nothing takes differences.
pub fn base_bytes(plan: &Plan, rank: Rank) -> u64 {
    differing(plan, rank).map(|chunk| chunk.bytes).sum()
}

/// Chunks that a rank encodes or decodes as differences, each once: no sums, and none in the split layout.
fn differing(plan: &Plan, rank: Rank) -> impl Iterator<Item = Differing> {
    let takes_base = plan.codec.as_ref().is_some_and(zipwire_codec::Spec::takes_base);
    let ops = plan.programs[rank.index()].ops.iter().filter(move |_| takes_base);
    let batches = ops.filter_map(|op| match &op.kind {
        OpKind::Local(Local::Encode(batch) | Local::Decode(batch)) => Some((op.segment, batch)),
        OpKind::Local(_) | OpKind::Exchange(_) | OpKind::Library(_) | OpKind::Compute(_) => None,
    });
    let compact = batches.filter(|(_, batch)| batch.layout == Layout::Compact);
    let chunks = compact.flat_map(|(segment, batch)| {
        let blocks = batch.blocks.iter().filter(|block| block.chunk.sum.is_none());
        blocks.map(move |block| Differing {
            id: ChunkId { segment, chunk: block.chunk },
            dtype: batch.dtype,
            bytes: block.values.len,
        })
    });
    let mut known = HashSet::new();
    chunks.filter(move |chunk| known.insert(*chunk))
}
