//! Codecs and decoders of a rank's chunks. Usually there is one pair; a codec of differences has one for each chunk, whose base both ends of
//! the transfer hold.
//!
//! Bases and their ids are made before the first iteration and are in no span: a rank has the values that it is about to replace,
//! and keeps their ids beside them.

use std::collections::{HashMap, HashSet};

use zipwire_codec::{Base, Codec, DType, Decoder, Layout};
use zipwire_payload::{ChunkId, Payload};
use zipwire_schedule::plan::{Local, OpKind, Plan};
use zipwire_schedule::{Rank, SegmentId};

/// The codecs and decoders of one rank.
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
    /// What to say if the system refuses memory for a base.
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

    /// Decoder of that chunk's frame.
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
