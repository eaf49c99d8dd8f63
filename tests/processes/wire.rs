//! Messages in the pipes: a packet, and the bytes of a transfer behind it, if it brings any.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};
use zipwire::engine::RankReport;
use zipwire::engine::transport::{Message, Shape};
use zipwire::schedule::Rank;
use zipwire::schedule::plan::TransferKey;

/// Packet from a rank to another one, or to the hub.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Packet {
    /// The sender's end of a transfer is on offer.
    Offer { key: TransferKey, shape: Shape, word: Option<u64>, checksum: u64 },
    /// The receiver's end is on offer, too.
    Go(TransferKey),
    /// The bytes of a transfer, which follow.
    Bytes(TransferKey),
    /// Said by the rank above the transport.
    Told(Message),
    /// Something has ended somewhere.
    Progress,
    /// A rank has come to a barrier, with its word.
    Word(Vec<u8>),
    /// The words of all ranks at the barrier.
    Words(Vec<Vec<u8>>),
    /// Report of a rank on an iteration.
    Report(Box<RankReport>),
    /// Reports of all ranks that have sent one, for rank 0.
    Reports(Vec<RankReport>),
    /// A rank has failed.
    Abort,
    /// A rank is gone.
    Lost(Rank),
}

/// A packet on its way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Envelope {
    pub(crate) from: Rank,
    /// `None` is the hub.
    pub(crate) to: Option<Rank>,
    pub(crate) packet: Packet,
    /// Bytes that follow.
    pub(crate) len: u64,
}

/// A packet and the bytes behind it.
pub(crate) type Parcel = (Envelope, Vec<u8>);

pub(crate) fn write(out: &mut impl Write, (envelope, bytes): &Parcel) -> io::Result<()> {
    let head = postcard::to_allocvec(envelope).map_err(io::Error::other)?;
    out.write_all(&(head.len() as u64).to_le_bytes())?;
    out.write_all(&head)?;
    out.write_all(bytes)?;
    out.flush()
}

pub(crate) fn read(input: &mut impl Read) -> io::Result<Parcel> {
    let mut len = [0; 8];
    input.read_exact(&mut len)?;
    let head = read_bytes(input, u64::from_le_bytes(len))?;
    let envelope: Envelope = postcard::from_bytes(&head).map_err(io::Error::other)?;
    let bytes = read_bytes(input, envelope.len)?;
    Ok((envelope, bytes))
}

fn read_bytes(input: &mut impl Read, len: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(len).map_err(io::Error::other)?];
    input.read_exact(&mut bytes)?;
    Ok(bytes)
}
