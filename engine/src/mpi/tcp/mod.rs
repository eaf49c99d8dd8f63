//! Processes that have met without MPI: a socket between every two of them, for packets. Bytes of transfers do not go this way.

mod door;
mod meet;
mod place;
mod proof;
mod store;

pub use meet::MeetError;
pub use place::{MEET_VARIABLE, TcpMeeting};

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use zipwire_mpi::{Bytes, Channel, Done, Ticket};
use zipwire_schedule::Rank;

use super::WorldError;
use super::connection::Connection;
use super::packet::FRAME;
use super::watch::host;
use crate::transport::Ended;

/// Bytes of the length ahead of each message.
const HEAD: usize = 4;
/// Length that stands for a process's last message: what follows is the end of the stream, and no failure.
const FAREWELL: u32 = u32::MAX;
/// How long processes wait at the end until all have said farewell.
const FAREWELLS_WITHIN: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(1);

/// A process's sockets, one to each other process.
pub(super) struct Sockets {
    rank: u32,
    /// By rank; this process's own, which has no socket, carries what it sends to itself.
    peers: Vec<Peer>,
    /// Receives, in the order in which they are filled, by messages of any process.
    posted: VecDeque<(Ticket, Vec<u8>)>,
    /// Messages that were sent and have not been told of.
    done: Vec<Done>,
    next: u64,
    /// Counts turns, so that every peer is the first that is heard in some.
    turn: usize,
}

#[derive(Default)]
struct Peer {
    /// None of this process itself, and when nothing more can come.
    stream: Option<TcpStream>,
    /// Bytes that have come and are no whole message yet, or have no receive.
    input: VecDeque<u8>,
    /// Messages to send, with their lengths ahead, and how much of the first one has left.
    output: VecDeque<(Ticket, Vec<u8>)>,
    sent: usize,
    has_said_farewell: bool,
    is_lost: bool,
}

impl Sockets {
    /// Takes over connected sockets, by rank; that of this process is `None`.
    fn new(rank: u32, streams: Vec<Option<TcpStream>>) -> io::Result<Self> {
        for stream in streams.iter().flatten() {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
        }
        let peers = streams.into_iter().map(|stream| Peer { stream, ..Peer::default() }).collect();
        Ok(Self { rank, peers, posted: VecDeque::new(), done: Vec::new(), next: 0, turn: 0 })
    }

    fn ticket(&mut self) -> Ticket {
        self.next += 1;
        Ticket::new(self.next)
    }

    /// Writes what can be written to a peer.
    fn flush(&mut self, rank: u32) {
        let peer = &mut self.peers[rank as usize];
        while let Some((ticket, message)) = peer.output.front() {
            let written = match &mut peer.stream {
                Some(stream) => stream.write(&message[peer.sent..]),
                // Nobody is there to miss it: why is said by the end of what came from there.
                None => Ok(message.len() - peer.sent),
            };
            match written {
                Ok(count) => peer.sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => peer.sent = message.len(),
            }
            if peer.sent == message.len() {
                let (bytes, len) = (Bytes::Owned(Vec::new()), message.len() - HEAD);
                self.done.push(Done { ticket: *ticket, bytes, len, peer: rank, error: None });
                peer.output.pop_front();
                peer.sent = 0;
            }
        }
    }

    /// Reads what has come from a peer, as long as there are receives for it.
    fn hear(&mut self, rank: u32, done: &mut Vec<Done>) -> Result<(), Ended> {
        let mut bytes = [0; 1 << 14];
        loop {
            self.open(rank, done)?;
            let peer = &mut self.peers[rank as usize];
            let Some(stream) = peer.stream.as_mut().filter(|_| !self.posted.is_empty()) else { break };
            match stream.read(&mut bytes) {
                Ok(count) if count > 0 => peer.input.extend(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The end of the stream, or its breakdown.
                Ok(_) | Err(_) => peer.stream = None,
            }
        }
        let peer = &mut self.peers[rank as usize];
        let is_over = peer.stream.is_none() && rank != self.rank && !self.posted.is_empty();
        if is_over && !peer.has_said_farewell && !peer.is_lost {
            peer.is_lost = true;
            return Err(Ended::Lost(Rank(rank)));
        }
        Ok(())
    }

    /// Fills receives with whole messages of a peer.
    fn open(&mut self, rank: u32, done: &mut Vec<Done>) -> Result<(), Ended> {
        let peer = &mut self.peers[rank as usize];
        while !self.posted.is_empty() && peer.input.len() >= HEAD {
            let head: Vec<u8> = peer.input.iter().take(HEAD).copied().collect();
            let head = u32::from_le_bytes(head.try_into().expect("as many were taken"));
            if head == FAREWELL {
                peer.has_said_farewell = true;
                peer.input.clear();
                break;
            }
            let len = head as usize;
            if len > FRAME {
                let why = format!("rank {rank} has sent a frame of {len} bytes, where {FRAME} are the most");
                return Err(Ended::Broken(why));
            }
            if peer.input.len() < HEAD + len {
                break;
            }
            let (ticket, mut bytes) = self.posted.pop_front().expect("it was looked at");
            peer.input.drain(..HEAD);
            bytes.clear();
            bytes.extend(peer.input.drain(..len));
            done.push(Done { ticket, bytes: Bytes::Owned(bytes), len, peer: rank, error: None });
        }
        Ok(())
    }

    /// Peers that something can be read from, and those that have sent more than there were receives for.
    fn audible(&mut self) -> Vec<u32> {
        let ranks = (0..).zip(&self.peers);
        let streams: Vec<(u32, &TcpStream)> =
            ranks.clone().filter_map(|(rank, peer)| Some((rank, peer.stream.as_ref()?))).collect();
        let mut audible = readable(&streams);
        audible.extend(ranks.filter(|(_, peer)| !peer.input.is_empty()).map(|(rank, _)| rank));
        audible.sort_unstable();
        audible.dedup();
        if !audible.is_empty() {
            let first = self.turn % audible.len();
            audible.rotate_left(first);
            self.turn = self.turn.wrapping_add(1);
        }
        audible
    }
}

/// Which of these streams have something to read, or have ended.
#[cfg(unix)]
fn readable(streams: &[(u32, &TcpStream)]) -> Vec<u32> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let mut polled: Vec<PollFd<'_>> =
        streams.iter().map(|(_, stream)| PollFd::new(stream, PollFlags::IN)).collect();
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    match poll(&mut polled, Some(&at_once)) {
        Ok(0) => Vec::new(),
        Ok(_) => {
            let has_come = polled.iter().map(|polled| !polled.revents().is_empty());
            streams
                .iter()
                .zip(has_come)
                .filter(|(_, has_come)| *has_come)
                .map(|((rank, _), _)| *rank)
                .collect()
        }
        // Reading shows it.
        Err(_) => streams.iter().map(|(rank, _)| *rank).collect(),
    }
}

#[cfg(not(unix))]
fn readable(streams: &[(u32, &TcpStream)]) -> Vec<u32> {
    streams.iter().map(|(rank, _)| *rank).collect()
}

/// Refusal of the bytes of a transfer.
fn no_bytes() -> Ended {
    Ended::Broken(
        "processes that have met without MPI exchange packets only, and no bytes of transfers".to_owned(),
    )
}

impl Connection for Sockets {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        u32::try_from(self.peers.len()).expect("ranks are counted in 32 bits")
    }

    fn largest_tag(&self) -> u32 {
        u32::MAX
    }

    fn names(&mut self) -> Result<(String, String), WorldError> {
        Ok(("TCP without MPI".to_owned(), host()))
    }

    fn set_near(&mut self, _: &[u32]) {}

    fn send(&mut self, channel: Channel, bytes: Bytes, to: u32, _: u32) -> Result<Ticket, Ended> {
        let (Channel::Control, Bytes::Owned(bytes)) = (channel, bytes) else { return Err(no_bytes()) };
        assert!(bytes.len() <= FRAME, "packets are cut into frames");
        let head = u32::try_from(bytes.len()).expect("frames are short").to_le_bytes();
        let ticket = self.ticket();
        if to == self.rank {
            self.peers[to as usize].input.extend(head.iter().chain(&bytes));
            let len = bytes.len();
            self.done.push(Done { ticket, bytes: Bytes::Owned(bytes), len, peer: to, error: None });
        } else {
            self.peers[to as usize].output.push_back((ticket, [&head[..], &bytes].concat()));
            self.flush(to);
        }
        Ok(ticket)
    }

    fn receive(
        &mut self,
        channel: Channel,
        bytes: Bytes,
        from: Option<u32>,
        _: u32,
    ) -> Result<Ticket, Ended> {
        let (Channel::Control, Bytes::Owned(bytes), None) = (channel, bytes, from) else {
            return Err(no_bytes());
        };
        let ticket = self.ticket();
        self.posted.push_back((ticket, bytes));
        Ok(ticket)
    }

    fn under_way(&self) -> usize {
        let sent: usize = self.peers.iter().map(|peer| peer.output.len()).sum();
        sent + self.posted.len() + self.done.len()
    }

    fn test(&mut self, done: &mut Vec<Done>) -> Result<(), Ended> {
        for rank in 0..self.size() {
            self.flush(rank);
        }
        done.append(&mut self.done);
        // Who comes behind one that is gone is heard in the next turn.
        self.audible().into_iter().try_for_each(|rank| self.hear(rank, done))
    }

    /// Says farewell to all, and waits until all have, or are gone: data that a closed socket has not read would take back what it has sent.
    fn finish(mut self: Box<Self>) -> Result<(), WorldError> {
        let begin = Instant::now();
        let own = self.rank as usize;
        for peer in &mut self.peers {
            peer.output.push_back((Ticket::new(0), FAREWELL.to_le_bytes().to_vec()));
        }
        while begin.elapsed() < FAREWELLS_WITHIN {
            for rank in 0..self.size() {
                self.flush(rank);
                let peer = &self.peers[rank as usize];
                if let Some(stream) = peer.stream.as_ref().filter(|_| peer.output.is_empty()) {
                    // A peer that is gone needs no end.
                    let _ = stream.shutdown(Shutdown::Write);
                }
                // There is a receive for whatever still comes, and nobody who reads it.
                if self.posted.is_empty() {
                    self.posted.push_back((Ticket::new(0), Vec::new()));
                }
                let _ = self.hear(rank, &mut Vec::new());
            }
            let is_there = |(rank, peer): (usize, &Peer)| rank != own && peer.stream.is_some();
            if !self.peers.iter().enumerate().any(is_there) {
                break;
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }
}
