//! A plan as readable text, and its digest: the hash of that text.

use std::fmt::{self, Display, Write};

use xxhash_rust::xxh3::Xxh3;

use crate::plan::{
    Chunk, Content, Exchange, Library, Maximum, Op, OpKind, Plan, Program, Region, Share, Shares, Transfer,
};
use crate::{Channel, FlowChannel, Protocol, Rank};

impl Plan {
    /// 128-bit hash of everything that the plan says, in hexadecimal. Ranks that run the same digest run
    /// the same plan.
    pub fn digest(&self) -> String {
        let mut text = Hashed { hash: Xxh3::new(), buffer: String::with_capacity(2 * HASHED_BYTES) };
        let all = write!(text, "{}", Header(self));
        self.programs
            .iter()
            .fold(all, |all, program| all.and_then(|()| write!(text, "{program}")))
            .expect("hashes accept every text");
        text.hash.update(text.buffer.as_bytes());
        format!("{:032x}", text.hash.digest128())
    }

    /// The text of the whole plan, or of one rank of it.
    pub fn text(&self, rank: Option<Rank>) -> String {
        let mut text = format!("{}digest {}\n", Header(self), self.digest());
        let shown = self.programs.iter().filter(|program| rank.is_none_or(|rank| program.rank == rank));
        for program in shown {
            write!(text, "\n{program}").expect("strings accept every text");
        }
        text
    }
}

/// Bytes of text that are hashed together.
const HASHED_BYTES: usize = 1 << 16;

/// A hash of text that is written.
struct Hashed {
    hash: Xxh3,
    buffer: String,
}

impl Write for Hashed {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.buffer.push_str(text);
        if self.buffer.len() >= HASHED_BYTES {
            self.hash.update(self.buffer.as_bytes());
            self.buffer.clear();
        }
        Ok(())
    }
}

struct Header<'a>(&'a Plan);

impl Display for Header<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { job, protocols, codec, segments, among, symmetry, programs: _, merged: _ } = self.0;
        let shared = self.0.protocol();
        write!(f, "plan {job}, {}, {} ranks", shared.map_or("mixed", Protocol::name), symmetry.ranks())?;
        if symmetry.alike() > 1 {
            write!(f, ", of which {} stand for all", symmetry.members())?;
        }
        if let Some(codec) = codec {
            write!(f, ", codec {codec}")?;
        }
        writeln!(f)?;
        for (index, name) in segments.iter().enumerate() {
            write!(f, "segment {index} {name}")?;
            if let (None, Some(protocol)) = (shared, protocols[index]) {
                write!(f, ", {}", protocol.name())?;
            }
            if let Some(groups) = among[index] {
                write!(f, ", among {groups}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

impl Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "rank {}", self.rank)?;
        for (index, buffer) in self.buffers.iter().enumerate() {
            writeln!(f, "  b{index} {} {} bytes", buffer.name, buffer.capacity)?;
        }
        for Maximum { size, of } in &self.maxima {
            write!(f, "  {size} is the largest of")?;
            of.iter().try_for_each(|size| write!(f, " {size}"))?;
            writeln!(f)?;
        }
        self.ops.iter().try_for_each(|op| write_op(f, self.rank, op))
    }
}

fn write_op(f: &mut fmt::Formatter<'_>, rank: Rank, op: &Op) -> fmt::Result {
    write!(f, "  {} [{}] {}", op.id, op.segment.0, op.kind.name())?;
    match &op.kind {
        OpKind::Exchange(Exchange {
            channel, joins_previous, fused, grouped, stage, order, window, ..
        }) => {
            write!(f, " {}, {} window {}/{}", stage.name(), order.name(), window.sends, window.receives)?;
            if *channel != Channel::Main {
                write!(f, ", {}", channel.lane().name())?;
            }
            if let Some(FlowChannel { number, step }) = channel.flow() {
                write!(f, " of flow {number}")?;
                step.map_or(Ok(()), |step| write!(f, " step {step}"))?;
            }
            if *joins_previous {
                write!(f, ", joins")?;
            }
            if *fused {
                write!(f, ", fused")?;
            }
            if grouped.is_some() {
                write!(f, ", grouped")?;
            }
        }
        OpKind::Local(local) => local.write_head(f)?,
        OpKind::Library(Library { collective, channel, stage, part, .. }) => {
            write!(f, " {}, {}", collective.name(), stage.name())?;
            if *channel != Channel::Main {
                write!(f, ", {}", channel.lane().name())?;
            }
            if *part > 0 {
                write!(f, ", part {part}")?;
            }
        }
        OpKind::Compute(compute) => write!(f, "{}", if compute.is_exclusive { ", exclusive" } else { "" })?,
    }
    for (index, dep) in op.deps.iter().enumerate() {
        write!(f, "{}{dep}", if index == 0 { ", after " } else { " " })?;
    }
    if op.not_before_s > 0.0 {
        write!(f, ", not before {:?} s", op.not_before_s)?;
    }
    writeln!(f)?;
    match &op.kind {
        OpKind::Compute(compute) => {
            compute.reads.iter().try_for_each(|region| writeln!(f, "    reads {region}"))?;
            compute.writes.iter().try_for_each(|region| writeln!(f, "    writes {region}"))
        }
        OpKind::Local(local) => local.write_body(f),
        OpKind::Library(library) => {
            write_shares(f, rank, "gives", &library.inputs)?;
            write_shares(f, rank, "gets", &library.outputs)
        }
        OpKind::Exchange(exchange) => {
            let sends = exchange.sends.iter().map(|t| ("to", t, Chunk::between(rank, t.peer)));
            let receives = exchange.receives.iter().map(|t| ("from", t, Chunk::between(t.peer, rank)));
            sends.chain(receives).try_for_each(|(word, t, direct)| write_transfer(f, word, t, direct))
        }
    }
}

/// `direct` is what the sender has for the receiver: the chunk is named where it is another one.
fn write_transfer(f: &mut fmt::Formatter<'_>, word: &str, transfer: &Transfer, direct: Chunk) -> fmt::Result {
    let Transfer { peer, chunk, content, times, .. } = transfer;
    write!(f, "    {word} {peer}: ")?;
    if *times > 1 {
        write!(f, "{times} x ")?;
    }
    write_content(f, content)?;
    write!(f, "{}", chunk.leg_text())?;
    if (chunk.origin, chunk.destination) != (direct.origin, direct.destination) {
        write!(f, " of rank {}", chunk.origin)?;
        if let Some(destination) = chunk.destination {
            write!(f, " for rank {destination}")?;
        }
    }
    chunk.write_part(f)?;
    chunk.write_sum(f)?;
    if chunk.flow > 0 {
        write!(f, " flow {}", chunk.flow)?;
    }
    if transfer.not_before_s > 0.0 {
        write!(f, " not before {:?} s", transfer.not_before_s)?;
    }
    writeln!(f)
}

fn write_content(f: &mut fmt::Formatter<'_>, content: &Content) -> fmt::Result {
    match content {
        Content::Values(region) | Content::Whole(region) => write!(f, "{region}"),
        Content::Prefix(region, size) => write!(f, "{size} bytes of {region}"),
        Content::Size(size) => write!(f, "size {size}"),
        Content::Announced(region, size) => write!(f, "{region} with size {size}"),
        Content::Overflow { region, slot, size } => write!(f, "{size} - {slot} bytes of {region}"),
    }
}

fn write_shares(f: &mut fmt::Formatter<'_>, rank: Rank, word: &str, shares: &Shares) -> fmt::Result {
    match shares {
        Shares::Listed(shares) => shares.iter().try_for_each(|share| write_share(f, rank, word, share)),
        Shares::Row(row) => row.write_line(f, word),
    }
}

fn write_share(f: &mut fmt::Formatter<'_>, rank: Rank, word: &str, share: &Share) -> fmt::Result {
    let Share { chunk, content } = share;
    write!(f, "    {word} ")?;
    write_content(f, content)?;
    if chunk.sum.is_none() && chunk.origin != rank {
        write!(f, " of rank {}", chunk.origin)?;
    }
    chunk.write_part(f)?;
    chunk.write_sum(f)?;
    writeln!(f)
}

impl Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}..{}]", self.buffer, self.offset, self.end())
    }
}
