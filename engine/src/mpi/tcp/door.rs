//! Listening for the processes of a job, among whoever else connects: what is said first, and who is let in.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::proof::{Introduction, Key, random};

/// First bytes of everything that is said at a door; the last one is the version of how it is said.
const MAGIC: [u8; 8] = *b"zipwire\x02";
/// Bytes of the length behind that.
const LENGTH: usize = 4;
/// Longest thing that is said: addresses of as many processes as there can be.
const LONGEST: usize = 1 << 22;
/// Longest introduction.
const LONGEST_HELLO: usize = 1 << 12;
/// How long somebody who has connected may take to say who it is.
const HELLO_WITHIN: Duration = Duration::from_secs(5);
/// How long somebody may take to take in what is said to it.
const HEARD_WITHIN: Duration = Duration::from_secs(5);
/// Most connections that have not said yet who they are.
const STRANGERS: usize = 256;
/// Pause between two tries to say something.
const PAUSE: Duration = Duration::from_millis(1);
/// Most refusals that are kept for messages.
const KEPT: usize = 8;

/// Introduction of a process, to rank 0 and to ranks below its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) version: String,
    pub(super) rank: u32,
    pub(super) size: u32,
    pub(super) host: String,
    pub(super) process: u32,
    /// Address of this process on the interface that reaches rank 0, and the port of its door.
    pub(super) address: IpAddr,
    pub(super) port: u16,
}

/// Answer to it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    /// Rank 0's, when all have come: the number of the meeting, and the doors, by rank. A door without an address is on rank 0's host.
    Welcome { number: u64, doors: Vec<(Option<IpAddr>, u16)> },
    /// Why the process, which is one of the job, is not let in. It need not come again.
    Refused(String),
    /// The process has not proven that it is one of the job. The place may have been another job's only for now.
    Unknown,
}

/// Says something, to somebody who need not listen: an error if it has not been taken in after [`HEARD_WITHIN`].
pub(super) fn say<T: Serialize>(stream: &mut TcpStream, what: &T) -> io::Result<()> {
    let bytes = postcard::to_allocvec(what).expect("it is plain data");
    let len = u32::try_from(bytes.len()).expect("it is short");
    let message = [&MAGIC[..], &len.to_le_bytes(), &bytes].concat();
    let (begin, mut said) = (Instant::now(), 0);
    while said < message.len() {
        let left = HEARD_WITHIN.saturating_sub(begin.elapsed());
        if left.is_zero() {
            let why = format!("it has not read {} bytes within {} s", message.len(), HEARD_WITHIN.as_secs());
            return Err(io::Error::new(ErrorKind::TimedOut, why));
        }
        stream.set_write_timeout(Some(left))?;
        match stream.write(&message[said..]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => said += count,
            // The time is over, which is looked at first.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                std::thread::sleep(PAUSE);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Waits for something that is said.
pub(super) fn hear<T: DeserializeOwned>(stream: &mut TcpStream) -> io::Result<T> {
    let mut head = [0; MAGIC.len() + LENGTH];
    stream.read_exact(&mut head)?;
    let mut bytes = vec![0; length(&head, LONGEST).map_err(io::Error::other)?];
    stream.read_exact(&mut bytes)?;
    postcard::from_bytes(&bytes).map_err(io::Error::other)
}

/// Length of what follows this head.
fn length(head: &[u8], longest: usize) -> Result<usize, String> {
    let (magic, length) = head.split_at(MAGIC.len());
    let ours = MAGIC.split_last().expect("it is not empty").1;
    if !magic.starts_with(ours) {
        return Err("is no process of zipwire".to_owned());
    }
    if magic != MAGIC {
        return Err("is a process of another version of zipwire".to_owned());
    }
    let length = u32::from_le_bytes(length.try_into().expect("the head is as long as that")) as usize;
    if length > longest { Err(format!("announces {length} bytes")) } else { Ok(length) }
}

/// A listening socket, and those who have connected and not said yet who they are.
pub(super) struct Door {
    listener: TcpListener,
    strangers: VecDeque<Stranger>,
    /// Who was not let in, and why.
    turned_away: Vec<String>,
}

struct Stranger {
    stream: TcpStream,
    from: SocketAddr,
    /// Number that it was greeted with, and answers.
    nonce: u64,
    said: Vec<u8>,
    since: Instant,
}

impl Door {
    /// Listens on all interfaces; port 0 is any that is free.
    pub(super) fn open(port: u16) -> io::Result<Self> {
        let both = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port));
        let listener = match both {
            // Without IPv6; a port that is taken is so for both.
            Err(error) if error.kind() != ErrorKind::AddrInUse => {
                TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))?
            }
            both => both?,
        };
        listener.set_nonblocking(true)?;
        Ok(Self { listener, strangers: VecDeque::new(), turned_away: Vec::new() })
    }

    pub(super) fn port(&self) -> io::Result<u16> {
        Ok(self.listener.local_addr()?.port())
    }

    /// Processes that have said who they are since the last time, and proven that they know the key. Their sockets block again.
    pub(super) fn come_in(&mut self, key: &Key) -> Vec<(TcpStream, Hello)> {
        while let Ok((mut stream, from)) = self.listener.accept() {
            let nonce = random();
            // It is short, and goes out at once.
            if stream.set_nonblocking(true).and_then(|()| say(&mut stream, &nonce)).is_ok() {
                let (said, since) = (Vec::new(), Instant::now());
                self.strangers.push_back(Stranger { stream, from, nonce, said, since });
            }
            if self.strangers.len() > STRANGERS {
                self.strangers.pop_front();
            }
        }
        let mut known = Vec::new();
        for mut stranger in std::mem::take(&mut self.strangers) {
            match stranger.listen() {
                Ok(Some(introduction)) if stranger.stream.set_nonblocking(false).is_ok() => {
                    match introduction.check(key, stranger.nonce) {
                        (hello, true) => known.push((stranger.stream, hello)),
                        (hello, false) => {
                            self.answer(stranger.stream, &hello, &Reply::Unknown, "it is of another run");
                        }
                    }
                }
                Ok(None) if stranger.since.elapsed() < HELLO_WITHIN => self.strangers.push_back(stranger),
                Ok(_) => self.turn_away(format!("{} said nothing", stranger.from)),
                Err(why) => self.turn_away(format!("{} {why}", stranger.from)),
            }
        }
        known
    }

    /// Tells a process why it is not let in, and keeps that.
    pub(super) fn refuse(&mut self, stream: TcpStream, hello: &Hello, why: &str) {
        self.answer(stream, hello, &Reply::Refused(why.to_owned()), why);
    }

    fn answer(&mut self, mut stream: TcpStream, hello: &Hello, reply: &Reply, why: &str) {
        // Whether it still listens does not matter.
        let _ = say(&mut stream, reply);
        let Hello { rank, host, process, .. } = hello;
        self.turn_away(format!("rank {rank} (process {process} on `{host}`): {why}"));
    }

    fn turn_away(&mut self, who: String) {
        // Some come again and again.
        if self.turned_away.len() < KEPT && !self.turned_away.contains(&who) {
            self.turned_away.push(who);
        }
    }

    /// Who was not let in.
    pub(super) fn turned_away(&self) -> &[String] {
        &self.turned_away
    }
}

impl Stranger {
    /// Who it is, if it has said all of it; an error if it is none of ours.
    fn listen(&mut self) -> Result<Option<Introduction>, String> {
        loop {
            let head = MAGIC.len() + LENGTH;
            let wanted =
                if self.said.len() < head { head } else { head + length(&self.said[..head], LONGEST_HELLO)? };
            if self.said.len() == wanted {
                let introduction = postcard::from_bytes(&self.said[head..]);
                return introduction
                    .map(Some)
                    .map_err(|_| "is a process of another version of zipwire".to_owned());
            }
            let mut bytes = vec![0; (wanted - self.said.len()).min(1 << 12)];
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err("has left again".to_owned()),
                Ok(count) => self.said.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("has left again: {error}")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::super::place::TcpMeeting;
    use super::*;

    #[test]
    fn nobody_waits_for_somebody_who_does_not_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let silent = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        let (sender, said) = mpsc::channel();
        // More than systems keep for a reader.
        let reply = Reply::Refused("x".repeat(1 << 26));
        std::thread::spawn(move || sender.send(say(&mut stream, &reply)));
        let error = said.recv_timeout(4 * HEARD_WITHIN).expect("it ends").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
        drop(silent);
    }

    #[test]
    fn introductions_are_short() {
        let mut door = Door::open(0).unwrap();
        let key = TcpMeeting::at("127.0.0.1", 1, 0, 2, "a-run").key(0);
        let mut stranger = TcpStream::connect(("127.0.0.1", door.port().unwrap())).unwrap();
        stranger.write_all(&[&MAGIC[..], &(1_u32 << 20).to_le_bytes()].concat()).unwrap();
        let begin = Instant::now();
        while door.turned_away().is_empty() {
            assert!(begin.elapsed() < 2 * HELLO_WITHIN, "somebody is waited for");
            assert!(door.come_in(&key).is_empty());
            std::thread::sleep(PAUSE);
        }
        let said = &door.turned_away()[0];
        assert!(said.ends_with(" announces 1048576 bytes"), "{said}");
    }
}
