//! Control packets between processes, and their framing: everything but the bytes of transfers, in frames of a fixed greatest length.

use serde::{Deserialize, Serialize};
use zipwire_schedule::plan::TransferKey;

use super::Member;
use crate::report::RankReport;
use crate::transport::{Message, Shape};

/// Bytes of a frame at the most: short enough for MPI to send it without asking the receiver.
pub(super) const FRAME: usize = 4096;
/// Bytes in front of a frame's part of a packet: those of the packet that are left, this part included.
const HEAD: usize = 8;

/// A control message from one process to another.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Packet {
    /// To rank 0, before all else: identity of this process.
    Present(Member),
    /// From rank 0: ranks on the host of this process, itself included.
    Neighbours(Vec<u32>),
    /// The sender's end of a transfer is on offer, and its bytes follow by themselves.
    Header(Header),
    /// Said by the rank above the transport.
    Told(Message),
    /// To rank 0: the same, for whoever listens there beside the rank.
    Reported(Message),
    /// To rank 0: a rank has come to a barrier, with its word.
    Word(Vec<u8>),
    /// From rank 0: what all said there.
    Words(Vec<Vec<u8>>),
    /// To rank 0: how much has ended here. From rank 0: how much has ended anywhere. Sent every second, whatever happens.
    Alive(u64),
    /// To rank 0: what a rank did in an iteration.
    Report(Box<RankReport>),
    Abort,
    /// From rank 0: the next task, as its caller encodes it.
    Task(Vec<u8>),
    /// From rank 0: align your clock with mine.
    Align,
    /// To rank 0: what does your clock say? It is asked at a time of the asker's clock.
    Ask(f64),
    /// From rank 0: when it was asked, by the asker's clock, and what rank 0's clock said then.
    Answer(f64, f64),
    /// To rank 0: both are aligned, within so many seconds.
    Aligned(f64),
    /// From rank 0: the job is over, and nobody needs to wait.
    End,
}

/// Header that travels ahead of the bytes of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) key: TransferKey,
    pub(super) shape: Shape,
    pub(super) word: Option<u64>,
    pub(super) checksum: u64,
    /// When it was put on offer, by the clock of all.
    pub(super) at_s: f64,
}

pub(super) fn frames(packet: &Packet) -> Vec<Vec<u8>> {
    let bytes = postcard::to_allocvec(packet).expect("packets are plain data");
    let parts = bytes.chunks(FRAME - HEAD).scan(bytes.len(), |left, part| {
        let head = (*left as u64).to_le_bytes();
        *left -= part.len();
        Some([&head[..], part].concat())
    });
    parts.collect()
}

/// Received part of a packet from one process.
#[derive(Debug, Default)]
pub(super) struct Partial(Vec<u8>);

impl Partial {
    /// Takes the next frame; the packet, if that was its last one.
    ///
    /// # Errors
    /// If the frame is no part of a packet.
    pub(super) fn take(&mut self, frame: &[u8]) -> Result<Option<Packet>, String> {
        let (head, part) = frame.split_first_chunk::<HEAD>().ok_or("a frame without a head")?;
        self.0.extend_from_slice(part);
        let left = u64::from_le_bytes(*head);
        match left.cmp(&(part.len() as u64)) {
            std::cmp::Ordering::Greater => Ok(None),
            std::cmp::Ordering::Less => Err("a frame that is longer than its packet".to_owned()),
            std::cmp::Ordering::Equal => {
                let bytes = std::mem::take(&mut self.0);
                postcard::from_bytes(&bytes)
                    .map(Some)
                    .map_err(|error| format!("a packet that is none: {error}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_any_length_come_in_frames() {
        for len in [0, 1, FRAME - HEAD - 1, FRAME - HEAD, FRAME, 3 * FRAME + 5] {
            let word: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let frames = frames(&Packet::Word(word.clone()));
            assert!(frames.iter().all(|frame| frame.len() <= FRAME));
            let mut partial = Partial::default();
            let (last, others) = frames.split_last().unwrap();
            assert!(others.iter().all(|frame| partial.take(frame).unwrap().is_none()));
            let Some(Packet::Word(came)) = partial.take(last).unwrap() else { panic!("{len}: no word") };
            assert_eq!(came, word);
        }
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        let mut partial = Partial::default();
        assert!(partial.take(&[1, 2, 3]).is_err());
        assert!(partial.take(&[1, 0, 0, 0, 0, 0, 0, 0, 9, 9, 9]).is_err());
    }
}
