//! A plan as readable text, and its digest: the hash of that text.

use std::fmt::{self, Display, Write};

use xxhash_rust::xxh3::Xxh3;

use crate::plan::{
    Batch, Chunk, Content, Exchange, Gather, Leg, Library, Local, Maximum, Op, OpKind, Plan, Program, Reduce,
    Region, Share, Transfer,
};
use crate::{Channel, Protocol, Rank};

impl Plan {
    /// 128-bit hash of everything that the plan says, in hexadecimal. Ranks that run the same digest run
    /// the same plan.
    pub fn digest(&self) -> String {
        let mut hash = Xxh3::new();
        let mut text = Header(self).to_string();
        hash.update(text.as_bytes());
        for program in &self.programs {
            text.clear();
            write!(text, "{program}").expect("strings accept every text");
            hash.update(text.as_bytes());
        }
        format!("{:032x}", hash.digest128())
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

struct Header<'a>(&'a Plan);

impl Display for Header<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { job, protocols, codec, segments, programs } = self.0;
        let shared = self.0.protocol();
        write!(f, "plan {job}, {}, {} ranks", shared.map_or("mixed", Protocol::name), programs.len())?;
        if let Some(codec) = codec {
            write!(f, ", codec {codec}")?;
        }
        writeln!(f)?;
        for (index, name) in segments.iter().enumerate() {
            write!(f, "segment {index} {name}")?;
            if let (None, Some(protocol)) = (shared, protocols[index]) {
                write!(f, ", {}", protocol.name())?;
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
        OpKind::Exchange(Exchange { channel, joins_previous, fused, stage, order, window, .. }) => {
            write!(f, " {}, {} window {}/{}", stage.name(), order.name(), window.sends, window.receives)?;
            if *channel != Channel::Main {
                write!(f, ", {}", channel.lane().name())?;
            }
            if *joins_previous {
                write!(f, ", joins")?;
            }
            if *fused {
                write!(f, ", fused")?;
            }
        }
        OpKind::Local(Local::Split(batch) | Local::Encode(batch) | Local::Decode(batch)) => {
            write!(f, " {} {}", batch.layout.name(), batch.dtype.name())?;
        }
        OpKind::Library(Library { collective, channel, stage, part, .. }) => {
            write!(f, " {}, {}", collective.name(), stage.name())?;
            if *channel != Channel::Main {
                write!(f, ", {}", channel.lane().name())?;
            }
            if *part > 0 {
                write!(f, ", part {part}")?;
            }
        }
        OpKind::Local(Local::Reduce(reduce)) => write!(f, "{}", if reduce.fused { ", fused" } else { "" })?,
        OpKind::Local(Local::GatherRows(_)) => {}
        OpKind::Compute(compute) => write!(f, "{}", if compute.is_exclusive { ", exclusive" } else { "" })?,
    }
    for (index, dep) in op.deps.iter().enumerate() {
        write!(f, "{}{dep}", if index == 0 { ", after " } else { " " })?;
    }
    writeln!(f)?;
    match &op.kind {
        OpKind::Compute(compute) => {
            compute.reads.iter().try_for_each(|region| writeln!(f, "    reads {region}"))?;
            compute.writes.iter().try_for_each(|region| writeln!(f, "    writes {region}"))
        }
        OpKind::Local(local) => write_local(f, local),
        OpKind::Library(library) => {
            library.inputs.iter().try_for_each(|share| write_share(f, rank, "gives", share))?;
            library.outputs.iter().try_for_each(|share| write_share(f, rank, "gets", share))
        }
        OpKind::Exchange(exchange) => {
            let sends = exchange.sends.iter().map(|t| ("to", t, Chunk::between(rank, t.peer)));
            let receives = exchange.receives.iter().map(|t| ("from", t, Chunk::between(t.peer, rank)));
            sends.chain(receives).try_for_each(|(word, t, direct)| write_transfer(f, word, t, direct))
        }
    }
}

fn write_local(f: &mut fmt::Formatter<'_>, local: &Local) -> fmt::Result {
    match local {
        Local::Split(batch) => batch.blocks.iter().try_for_each(|block| {
            write!(
                f,
                "    {}: values {} sign-mantissa {}",
                receiver(&block.chunk),
                block.values,
                block.sign_mantissa
            )?;
            write_part(f, &block.chunk)?;
            writeln!(f)
        }),
        Local::Encode(batch) => write_batch(f, batch, receiver),
        Local::Decode(batch) => write_batch(f, batch, |chunk| format!("from {}", chunk.origin)),
        Local::Reduce(reduce) => write_reduce(f, reduce),
        Local::GatherRows(rows) => rows.gathers.iter().try_for_each(|gather| write_gather(f, gather)),
    }
}

fn receiver(chunk: &Chunk) -> String {
    chunk.destination.map_or_else(|| "to all".to_owned(), |destination| format!("to {destination}"))
}

fn write_batch(f: &mut fmt::Formatter<'_>, batch: &Batch, chunk: impl Fn(&Chunk) -> String) -> fmt::Result {
    for block in &batch.blocks {
        write!(f, "    {}: values {}{}", chunk(&block.chunk), block.values, leg(&block.chunk))?;
        write_part(f, &block.chunk)?;
        if block.sign_mantissa.len > 0 {
            write!(f, " sign-mantissa {}", block.sign_mantissa)?;
        }
        if block.static_section.len > 0 {
            write!(f, " static {}", block.static_section)?;
        }
        write!(f, " dynamic {} {}", block.dynamic_section, block.size)?;
        write_sum(f, &block.chunk)?;
        writeln!(f)?;
    }
    Ok(())
}

fn write_reduce(f: &mut fmt::Formatter<'_>, reduce: &Reduce) -> fmt::Result {
    for addition in &reduce.additions {
        write!(f, "    {}", addition.values)?;
        for (index, term) in addition.terms.iter().enumerate() {
            write!(f, " {} {}", if index == 0 { '=' } else { '+' }, term.values)?;
        }
        write_part(f, &addition.chunk)?;
        write_sum(f, &addition.chunk)?;
        writeln!(f)?;
    }
    Ok(())
}

/// Which part of what two ranks have for each other a chunk is, if that is cut into parts.
fn write_part(f: &mut fmt::Formatter<'_>, chunk: &Chunk) -> fmt::Result {
    if chunk.part == 0 { Ok(()) } else { write!(f, " part {} at {}", chunk.part, chunk.offset) }
}

/// What is added up in a chunk, if anything is.
fn write_sum(f: &mut fmt::Formatter<'_>, chunk: &Chunk) -> fmt::Result {
    chunk.sum.map_or(Ok(()), |sum| write!(f, ", shard {}, {sum}", chunk.shard()))
}

/// Rows as runs of consecutive ones.
fn write_gather(f: &mut fmt::Formatter<'_>, gather: &Gather) -> fmt::Result {
    let Gather { chunk, from, to, rows, row_bytes } = gather;
    let destination = chunk.destination.map_or_else(|| "all".to_owned(), |rank| rank.to_string());
    write!(f, "    of {} for {destination} to {to}: rows of {row_bytes} bytes of {from}", chunk.origin)?;
    let mut left = &rows[..];
    while let Some(&first) = left.first() {
        let run = (0..).zip(left).take_while(|&(step, &row)| row == first + step).count();
        left = &left[run..];
        match run {
            1 => write!(f, " {first}")?,
            _ => write!(f, " {first}+{run}")?,
        }
    }
    write_part(f, chunk)?;
    writeln!(f)
}

/// What kind of rows a chunk holds, if they are not simply those for its destination.
fn leg(chunk: &Chunk) -> &'static str {
    match chunk.leg {
        Leg::Direct | Leg::FromGateway => "",
        Leg::ToGateway { .. } => ", each row once",
    }
}

/// `direct` is what the sender has for the receiver: the chunk is named where it is another one.
fn write_transfer(f: &mut fmt::Formatter<'_>, word: &str, transfer: &Transfer, direct: Chunk) -> fmt::Result {
    let Transfer { peer, chunk, content, .. } = transfer;
    write!(f, "    {word} {peer}: ")?;
    write_content(f, content)?;
    write!(f, "{}", leg(chunk))?;
    if (chunk.origin, chunk.destination) != (direct.origin, direct.destination) {
        write!(f, " of rank {}", chunk.origin)?;
        if let Some(destination) = chunk.destination {
            write!(f, " for rank {destination}")?;
        }
    }
    write_part(f, chunk)?;
    write_sum(f, chunk)?;
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

/// What a rank gives to a call of a library, or gets from it.
fn write_share(f: &mut fmt::Formatter<'_>, rank: Rank, word: &str, share: &Share) -> fmt::Result {
    let Share { chunk, content } = share;
    write!(f, "    {word} ")?;
    write_content(f, content)?;
    if chunk.sum.is_none() && chunk.origin != rank {
        write!(f, " of rank {}", chunk.origin)?;
    }
    if chunk.part > 0 {
        write!(f, " part {} at {}", chunk.part, chunk.offset)?;
    }
    write_sum(f, chunk)?;
    writeln!(f)
}

impl Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}..{}]", self.buffer, self.offset, self.end())
    }
}
