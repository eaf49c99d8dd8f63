//! A plan as readable text, and its digest: the hash of that text.

use std::fmt::{self, Display, Write};

use xxhash_rust::xxh3::Xxh3;

use crate::Rank;
use crate::plan::{Batch, Content, Exchange, Op, OpKind, Plan, Program, Region, Transfer};

impl Plan {
    /// 128-bit hash of everything that the plan says, in hexadecimal. Ranks that run the same digest run
    /// the same plan.
    pub fn digest(&self) -> String {
        let mut hash = HashWriter(Xxh3::new());
        write!(hash, "{}", Header(self)).expect("hashing accepts every text");
        for program in &self.programs {
            write!(hash, "{program}").expect("hashing accepts every text");
        }
        format!("{:032x}", hash.0.digest128())
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

struct HashWriter(Xxh3);

impl Write for HashWriter {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}

struct Header<'a>(&'a Plan);

impl Display for Header<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { job, protocol, codec, segments, programs } = self.0;
        write!(f, "plan {job}, {}, {} ranks", protocol.name(), programs.len())?;
        if let Some(codec) = codec {
            write!(f, ", codec {codec}")?;
        }
        writeln!(f)?;
        for (index, name) in segments.iter().enumerate() {
            writeln!(f, "segment {index} {name}")?;
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
        self.ops.iter().try_for_each(|op| write!(f, "{op}"))
    }
}

impl Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  {} [{}] {}", self.id, self.segment.0, self.kind.name())?;
        match &self.kind {
            OpKind::Exchange(Exchange { stage, order, window, .. }) => {
                write!(f, " {}, {} window {}/{}", stage.name(), order.name(), window.sends, window.receives)?;
            }
            OpKind::Encode(batch) | OpKind::Decode(batch) => {
                write!(f, " {} {}", batch.layout.name(), batch.dtype.name())?;
            }
            OpKind::Compute(_) => {}
        }
        for (index, dep) in self.deps.iter().enumerate() {
            write!(f, "{}{dep}", if index == 0 { ", after " } else { " " })?;
        }
        writeln!(f)?;
        match &self.kind {
            OpKind::Compute(compute) => {
                compute.reads.iter().try_for_each(|region| writeln!(f, "    reads {region}"))?;
                compute.writes.iter().try_for_each(|region| writeln!(f, "    writes {region}"))
            }
            OpKind::Encode(batch) => write_batch(f, batch, "to"),
            OpKind::Decode(batch) => write_batch(f, batch, "from"),
            OpKind::Exchange(exchange) => {
                exchange.sends.iter().try_for_each(|t| write_transfer(f, "to", t))?;
                exchange.receives.iter().try_for_each(|t| write_transfer(f, "from", t))
            }
        }
    }
}

fn write_batch(f: &mut fmt::Formatter<'_>, batch: &Batch, direction: &str) -> fmt::Result {
    for block in &batch.blocks {
        write!(f, "    {direction} {}: values {}", block.peer, block.values)?;
        if block.static_section.len > 0 {
            write!(f, " static {}", block.static_section)?;
        }
        writeln!(f, " dynamic {} {}", block.dynamic_section, block.size)?;
    }
    Ok(())
}

fn write_transfer(f: &mut fmt::Formatter<'_>, direction: &str, transfer: &Transfer) -> fmt::Result {
    write!(f, "    {direction} {}: ", transfer.peer)?;
    match transfer.content {
        Content::Whole(region) => write!(f, "{region}")?,
        Content::Prefix(region, size) => write!(f, "{size} bytes of {region}")?,
        Content::Size(size) => write!(f, "size {size}")?,
    }
    if transfer.tag > 0 {
        write!(f, " tag {}", transfer.tag)?;
    }
    if transfer.not_before_s > 0.0 {
        write!(f, " not before {:?} s", transfer.not_before_s)?;
    }
    writeln!(f)
}

impl Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}..{}]", self.buffer, self.offset, self.end())
    }
}
