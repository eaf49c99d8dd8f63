//! Meeting of processes: all come to rank 0, which says where each one listens, and each connects with those of lower ranks.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

use super::Sockets;
use super::door::{Door, Hello, Reply, hear, say};
use super::place::{MEET_VARIABLE, Place, SECRET_VARIABLE, TcpMeeting};
use super::proof::{Introduction, Key, random};
use super::store::Store;
use crate::mpi::watch::host;

/// Pause between two looks or tries.
const PAUSE: Duration = Duration::from_millis(5);
const RETRY: Duration = Duration::from_millis(100);
/// Longest pause between two tries to come to rank 0, which doubles: the place may be another job's for long.
const LONGEST_RETRY: Duration = Duration::from_millis(500);
/// How long one try to connect may take.
const TRY: Duration = Duration::from_secs(5);
/// How much longer other ranks wait than rank 0, which knows who is missing and says so.
const GRACE: Duration = Duration::from_secs(3);
/// How long processes that have all come may take to connect with one another at least.
const CONNECT_WITHIN: Duration = Duration::from_secs(20);
/// Most ranks that a message names.
const NAMED: usize = 8;

/// Why processes have not met.
#[allow(missing_docs, reason = "fields are named by the messages")]
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeetError {
    /// A variable is not set.
    #[error(
        "`{name}` is not set, which the launcher of this process should do\nhelp: `{MEET_VARIABLE}=HOST:PORT` says where rank 0 is to listen"
    )]
    NoVariable { name: &'static str },
    /// A variable has a value that it cannot have.
    #[error("`{name}` is `{value}`, and should be {}", if *name == MEET_VARIABLE { "`HOST:PORT`" } else { "a number" })]
    Variable { name: &'static str, value: String },
    /// Nothing says which rank this is.
    #[error(
        "`{MEET_VARIABLE}` is set, and neither `RANK` and `WORLD_SIZE` nor variables of SLURM say which rank this process is"
    )]
    NoRank,
    /// A rank that the job does not have.
    #[error("this process is rank {rank} of {size} by its environment, where ranks are counted from 0")]
    Rank { rank: u32, size: u32 },
    /// Rank 0 cannot listen.
    #[error(
        "rank 0 cannot listen on port {port}: {why}\nhelp: `{MEET_VARIABLE}=HOST:PORT`, the same on all ranks, names another one of rank 0's host"
    )]
    Port { port: u16, why: io::Error },
    /// The store of the launcher does not answer.
    #[error("the store of `torchrun` at {at} cannot be used: {why}")]
    Store { at: String, why: String },
    /// Rank 0 has not come.
    #[error("rank {rank} has not met rank 0 within {} s: {why}", within.as_secs_f64())]
    NoRank0 { rank: u32, within: Duration, why: String },
    /// Ranks have not come.
    #[error("{} {} not come within {} s{turned_away}", names(ranks), if ranks.len() == 1 { "has" } else { "have" }, within.as_secs_f64())]
    Missing { ranks: Vec<u32>, within: Duration, turned_away: String },
    /// Another process has another version of this program, or another number of ranks.
    #[error("rank {rank} on host `{host}` does not fit: {why}")]
    Misfit { rank: u32, host: String, why: String },
    /// Rank 0 has not let this process in.
    #[error("rank 0 has not let rank {rank} in: {why}")]
    Refused { rank: u32, why: String },
    /// Two processes that have come cannot connect with one another.
    #[error("rank {rank} cannot connect with rank {peer} at {at}: {why}")]
    Peer { rank: u32, peer: u32, at: String, why: String },
    /// The user has stopped it.
    #[error("stopped by the user")]
    Stopped,
    /// Sockets cannot be had.
    #[error("sockets cannot be had: {0}")]
    Sockets(#[from] io::Error),
}

fn names(ranks: &[u32]) -> String {
    let named: Vec<String> = ranks.iter().take(NAMED).map(|rank| format!("rank {rank}")).collect();
    let more =
        if ranks.len() > NAMED { format!(" and {} others", ranks.len() - NAMED) } else { String::new() };
    named.join(", ") + &more
}

/// One process at a meeting.
pub(super) struct Guest<'a> {
    meeting: &'a TcpMeeting,
    door: Door,
    within: Duration,
    begin: Instant,
    cancel: &'a AtomicBool,
}

impl TcpMeeting {
    /// Meets all others, who must have come `within` some time.
    pub(in crate::mpi) fn meet(&self, within: Duration, cancel: &AtomicBool) -> Result<Sockets, MeetError> {
        let port = match &self.place {
            Place::Rank0 { port, .. } if self.rank == 0 => *port,
            _ => 0,
        };
        let door = Door::open(port).map_err(|why| MeetError::Port { port, why })?;
        let mut guest = Guest { meeting: self, door, within, begin: Instant::now(), cancel };
        let streams = if self.rank == 0 { guest.receive_all()? } else { guest.come()? };
        Ok(Sockets::new(self.rank, streams)?)
    }

    fn size(&self) -> usize {
        self.size as usize
    }

    /// Key of the launcher's store at which rank 0 says where it is.
    fn entry(&self) -> String {
        format!("/zipwire/{}/meet", self.run)
    }
}

impl Guest<'_> {
    fn check_time(&self, limit: Duration) -> Result<bool, MeetError> {
        if self.cancel.load(Ordering::Relaxed) {
            Err(MeetError::Stopped)
        } else {
            Ok(self.begin.elapsed() < limit)
        }
    }

    fn hello(&self, address: IpAddr) -> io::Result<Hello> {
        Ok(Hello {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            rank: self.meeting.rank,
            size: self.meeting.size,
            host: host(),
            process: std::process::id(),
            address,
            port: self.door.port()?,
        })
    }

    /// Rank 0's part: waits for all others, and tells each where the others are.
    fn receive_all(&mut self) -> Result<Vec<Option<TcpStream>>, MeetError> {
        let number = random();
        let store = self.publish(number)?;
        // The others know the number if they have found it in the store.
        let key = self.meeting.key(if store.is_some() { number } else { 0 });
        let own = self.hello(IpAddr::from([0; 4]))?;
        let mut guests: Vec<Option<(TcpStream, Hello)>> = (0..self.meeting.size).map(|_| None).collect();
        while guests.iter().skip(1).any(Option::is_none) {
            if !self.check_time(self.within)? {
                return Err(self.say_who_is_missing(&mut guests));
            }
            for (stream, hello) in self.door.come_in(&key) {
                if let Some((stream, hello)) = self.check_guest(stream, hello, &own, &guests)? {
                    let place = hello.rank as usize;
                    guests[place] = Some((stream, hello));
                }
            }
            std::thread::sleep(PAUSE);
        }
        let door = |guest: &Option<(TcpStream, Hello)>| {
            let Some((_, Hello { address, port, .. })) = guest else { return (None, 0) };
            (Some(address.to_canonical()).filter(|address| !address.is_loopback()), *port)
        };
        let welcome = Reply::Welcome { number, doors: guests.iter().map(door).collect() };
        let mut streams = Vec::new();
        for (rank, guest) in (0..).zip(guests) {
            let Some((mut stream, _)) = guest else {
                streams.push(None);
                continue;
            };
            let at = || stream.peer_addr().map_or_else(|_| "its address".to_owned(), |at| at.to_string());
            let (peer, at) = (rank, at());
            say(&mut stream, &welcome).map_err(|why| MeetError::Peer {
                rank: 0,
                peer,
                at,
                why: why.to_string(),
            })?;
            streams.push(Some(stream));
        }
        Ok(streams)
    }

    /// Rank 0's part: says in the launcher's store where it listens, and the meeting's number; if that is how the others find it.
    fn publish(&self, number: u64) -> Result<Option<Store>, MeetError> {
        let Place::Store { host, port } = &self.meeting.place else { return Ok(None) };
        let at = format!("{host}:{port}");
        let failed = |why: &dyn std::fmt::Display| MeetError::Store { at: at.clone(), why: why.to_string() };
        let mut store = loop {
            let connected = addresses(host, *port)
                .and_then(|addresses| first_of(&addresses, |address| Store::connect(address, TRY)));
            match connected {
                Ok(store) => break store,
                Err(error) if !self.check_time(self.within)? => return Err(failed(&error)),
                Err(_) => std::thread::sleep(RETRY),
            }
        };
        let own = store.local_address().map_err(|error| failed(&error))?.ip().to_canonical();
        // Rank 0 is on the host of the store then, and others know that by its name.
        let own = if own.is_loopback() { host.clone() } else { own.to_string() };
        let value = format!("{} {number:016x} {own}", self.door.port()?);
        store.set(&self.meeting.entry(), value.as_bytes()).map_err(|error| failed(&error))?;
        Ok(Some(store))
    }

    /// Rank 0's part: lets a process of the job in, or refuses it. One that does not fit ends the meeting.
    fn check_guest(
        &mut self,
        stream: TcpStream,
        hello: Hello,
        own: &Hello,
        guests: &[Option<(TcpStream, Hello)>],
    ) -> Result<Option<(TcpStream, Hello)>, MeetError> {
        let misfit = if hello.version != own.version {
            Some(format!(
                "it is version {} of zipwire, and rank 0 is {}; one version is needed on all hosts",
                hello.version, own.version
            ))
        } else if hello.size != own.size || hello.rank >= own.size {
            Some(format!("it is rank {} of {}, and rank 0 is one of {}", hello.rank, hello.size, own.size))
        } else {
            None
        };
        if let Some(why) = misfit {
            self.door.refuse(stream, &hello, &why);
            return Err(MeetError::Misfit { rank: hello.rank, host: hello.host, why });
        }
        let earlier = match guests[hello.rank as usize].as_ref() {
            _ if hello.rank == 0 => Some((own.process, &own.host)),
            Some((earlier, _)) if has_ended(earlier) => None,
            earlier => earlier.map(|(_, earlier)| (earlier.process, &earlier.host)),
        };
        if let Some((process, host)) = earlier {
            let why = format!("process {process} on `{host}` has come as this rank before");
            self.door.refuse(stream, &hello, &why);
            return Ok(None);
        }
        Ok(Some((stream, hello)))
    }

    /// Rank 0's part when the time is over: tells those who have come.
    fn say_who_is_missing(&self, guests: &mut [Option<(TcpStream, Hello)>]) -> MeetError {
        let is_missing =
            |guest: &Option<(TcpStream, Hello)>| guest.as_ref().is_none_or(|(stream, _)| has_ended(stream));
        let ranks = (0..).zip(guests.iter()).skip(1).filter(|(_, guest)| is_missing(guest));
        let ranks: Vec<u32> = ranks.map(|(rank, _)| rank).collect();
        let turned_away = match self.door.turned_away() {
            [] => String::new(),
            others => format!("; not let in: {}", others.join("; ")),
        };
        let error = MeetError::Missing { ranks, within: self.within, turned_away };
        for (stream, _) in guests.iter_mut().flatten() {
            if self.begin.elapsed() > self.within + GRACE {
                break;
            }
            // It gives up by itself if it does not hear it.
            let _ = say(stream, &Reply::Refused(error.to_string()));
        }
        error
    }

    /// Any other rank's part: comes to rank 0, and connects with all others.
    fn come(&mut self) -> Result<Vec<Option<TcpStream>>, MeetError> {
        let limit = self.within + GRACE;
        let mut why = String::new();
        let rank = self.meeting.rank;
        let mut pause = RETRY;
        let (stream, number, doors) = loop {
            if !self.check_time(limit)? {
                return Err(MeetError::NoRank0 { rank, within: self.within, why });
            }
            match self.come_once(limit) {
                Ok((stream, Reply::Welcome { number, doors })) if doors.len() == self.meeting.size() => {
                    break (stream, number, doors);
                }
                Ok((_, Reply::Refused(why))) => return Err(MeetError::Refused { rank, why }),
                Ok(_) => "rank 0 has welcomed another number of ranks".clone_into(&mut why),
                Err(error) => why = error,
            }
            std::thread::sleep(pause);
            pause = LONGEST_RETRY.min(2 * pause);
        };
        let key = self.meeting.key(number);
        let rank_0 = stream.peer_addr()?.ip();
        let first = stream.try_clone()?;
        let mut streams: Vec<Option<TcpStream>> = (0..self.meeting.size).map(|_| None).collect();
        streams[0] = Some(stream);
        let limit = limit.max(self.begin.elapsed() + CONNECT_WITHIN);
        for (peer, (address, port)) in (0..).zip(doors).take(rank as usize).skip(1) {
            let at = SocketAddr::new(address.unwrap_or(rank_0), port);
            let stream = self.connect_with(peer, at, (number, &key), limit, &first)?;
            streams[peer as usize] = Some(stream);
        }
        while let Some(peer) = streams.iter().skip(rank as usize + 1).position(Option::is_none) {
            let peer = rank + 1 + u32::try_from(peer).expect("ranks are counted in 32 bits");
            self.check_first(&first)?;
            if !self.check_time(limit)? {
                return Err(MeetError::Missing {
                    ranks: vec![peer],
                    within: limit,
                    turned_away: String::new(),
                });
            }
            for (mut stream, hello) in self.door.come_in(&key) {
                let place = hello.rank as usize;
                if hello.rank <= rank || place >= streams.len() {
                    self.door.refuse(stream, &hello, "ranks connect with lower ones only");
                } else if say(&mut stream, &Reply::Welcome { number, doors: Vec::new() }).is_ok() {
                    streams[place] = Some(stream);
                }
            }
            std::thread::sleep(PAUSE);
        }
        Ok(streams)
    }

    /// Whether rank 0 is still there, to which all others come.
    fn check_first(&self, first: &TcpStream) -> Result<(), MeetError> {
        if !has_ended(first) {
            return Ok(());
        }
        let at = first.peer_addr().map_or_else(|_| "its address".to_owned(), |at| at.to_string());
        let why = "it has ended while others connected".to_owned();
        Err(MeetError::Peer { rank: self.meeting.rank, peer: 0, at, why })
    }

    /// One try to come to rank 0, and the wait for its answer.
    fn come_once(&self, limit: Duration) -> Result<(TcpStream, Reply), String> {
        let (host, port, number) = match &self.meeting.place {
            Place::Rank0 { host, port } => (host.clone(), *port, 0),
            Place::Store { host, port } => self.look_up(host, *port)?,
        };
        let failed = |why: &io::Error| match why.kind() {
            io::ErrorKind::UnexpectedEof => format!("{host}:{port}: it has hung up without an answer"),
            _ => format!("{host}:{port}: {why}"),
        };
        let key = self.meeting.key(number);
        let came = addresses(&host, port).and_then(|addresses| {
            first_of(&addresses, |address| match self.introduce(address, &key, TRY, limit)? {
                (_, Reply::Unknown) => Err(io::Error::other(format!(
                    "rank 0 there is of another run, or has another `{SECRET_VARIABLE}`"
                ))),
                answered => Ok(answered),
            })
        });
        came.map_err(|error| failed(&error))
    }

    /// One try to connect with a process that greets `within` some time, and the wait for its answer until `limit`.
    fn introduce(
        &self,
        at: SocketAddr,
        key: &Key,
        within: Duration,
        limit: Duration,
    ) -> io::Result<(TcpStream, Reply)> {
        let left = || limit.saturating_sub(self.begin.elapsed()).max(PAUSE);
        let mut stream = TcpStream::connect_timeout(&at, TRY.min(left()))?;
        let nonce = self.wait_for(&mut stream, within.min(left()))?;
        let hello = self.hello(stream.local_addr()?.ip())?;
        say(&mut stream, &Introduction::new(hello, key, nonce))?;
        let reply = self.wait_for(&mut stream, left())?;
        Ok((stream, reply))
    }

    /// Waits for an answer, also to the user's wish to end.
    fn wait_for<T: DeserializeOwned>(&self, stream: &mut TcpStream, limit: Duration) -> io::Result<T> {
        stream.set_read_timeout(Some(RETRY))?;
        let begin = Instant::now();
        let mut byte = [0];
        // It is looked at, so nothing is lost.
        while let Err(error) = stream.peek(&mut byte) {
            let is_quiet = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
            if !is_quiet {
                return Err(error);
            }
            if begin.elapsed() > limit || self.cancel.load(Ordering::Relaxed) {
                let why = format!("it has said nothing for {:.1} s", begin.elapsed().as_secs_f64());
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
        }
        stream.set_read_timeout(Some(TRY))?;
        let reply = hear(stream)?;
        stream.set_read_timeout(None)?;
        Ok(reply)
    }

    /// Where rank 0 is, as the launcher's store says, and the number of the meeting.
    fn look_up(&self, host: &str, port: u16) -> Result<(String, u16, u64), String> {
        let failed = |why: &dyn std::fmt::Display| format!("the store of `torchrun` at {host}:{port}: {why}");
        let value = addresses(host, port).and_then(|addresses| {
            first_of(&addresses, |address| Store::connect(address, TRY)?.get(&self.meeting.entry()))
        });
        let value = value.map_err(|error| failed(&error))?;
        let value = value.ok_or_else(|| failed(&"rank 0 has not said there where it is"))?;
        let text = String::from_utf8_lossy(&value);
        let parts = || {
            let mut parts = text.splitn(3, ' ');
            let (port, number) = (parts.next()?.parse().ok()?, parts.next()?);
            Some((parts.next()?.to_owned(), port, u64::from_str_radix(number, 16).ok()?))
        };
        parts().ok_or_else(|| failed(&format!("it says `{text}`")))
    }

    /// Connects with a process that has come as well.
    fn connect_with(
        &self,
        peer: u32,
        at: SocketAddr,
        (number, key): (u64, &Key),
        limit: Duration,
        first: &TcpStream,
    ) -> Result<TcpStream, MeetError> {
        let failed = |why: String| MeetError::Peer { rank: self.meeting.rank, peer, at: at.to_string(), why };
        loop {
            self.check_first(first)?;
            let error = match self.introduce(at, key, limit, limit) {
                Ok((stream, Reply::Welcome { number: theirs, .. })) if theirs == number => return Ok(stream),
                Ok((_, Reply::Refused(why))) => return Err(failed(why)),
                Ok(_) => "it is of another run".to_owned(),
                Err(error) => error.to_string(),
            };
            if !self.check_time(limit)? {
                return Err(failed(error));
            }
            std::thread::sleep(RETRY);
        }
    }
}

fn addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    Ok((host, port).to_socket_addrs()?.collect())
}

/// Tries the addresses of a name in turn, of which some may lead nowhere, until one does; the error names all.
fn first_of<T>(
    addresses: &[SocketAddr],
    mut attempt: impl FnMut(SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let mut failures = Vec::new();
    for &address in addresses {
        match attempt(address) {
            Ok(found) => return Ok(found),
            Err(error) => failures.push((address.ip(), error)),
        }
    }
    match failures.len() {
        0 => Err(io::Error::other("the name has no address")),
        1 => Err(failures.remove(0).1),
        _ => {
            let failures: Vec<String> =
                failures.iter().map(|(address, error)| format!("{address}: {error}")).collect();
            Err(io::Error::other(failures.join("; ")))
        }
    }
}

/// Whether the process at the other end is gone.
fn has_ended(stream: &TcpStream) -> bool {
    let look = || {
        stream.set_nonblocking(true)?;
        let seen = stream.peek(&mut [0]);
        stream.set_nonblocking(false)?;
        seen
    };
    match look() {
        Ok(bytes) => bytes == 0,
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Comes to rank 0 of two with another introduction; what both are told.
    fn introduced(change: impl FnOnce(&mut Hello) + Send) -> (String, String) {
        let cancel = AtomicBool::new(false);
        let (port, free) = (Door::open(0).unwrap().port().unwrap(), Duration::from_secs(20));
        let meeting = |rank| TcpMeeting::at("127.0.0.1", port, rank, 2, "a-run");
        std::thread::scope(|scope| {
            let first = scope.spawn(|| meeting(0).meet(free, &cancel).map(drop).unwrap_err().to_string());
            let meeting = meeting(1);
            let door = Door::open(0).unwrap();
            let guest =
                Guest { meeting: &meeting, door, within: free, begin: Instant::now(), cancel: &cancel };
            let mut hello = guest.hello(IpAddr::from([127, 0, 0, 1])).unwrap();
            change(&mut hello);
            let mut stream = loop {
                match TcpStream::connect(("127.0.0.1", port)) {
                    Ok(stream) => break stream,
                    Err(_) => std::thread::sleep(PAUSE),
                }
            };
            let nonce = guest.wait_for(&mut stream, free).unwrap();
            say(&mut stream, &Introduction::new(hello, &meeting.key(0), nonce)).unwrap();
            let Reply::Refused(why) = guest.wait_for(&mut stream, free).unwrap() else {
                panic!("it does not fit")
            };
            (first.join().unwrap(), why)
        })
    }

    #[test]
    fn another_version_ends_the_meeting_at_both_ends() {
        let (first, second) = introduced(|hello| hello.version = "0.0.9".to_owned());
        assert!(second.starts_with("it is version 0.0.9 of zipwire, and rank 0 is "), "{second}");
        assert!(first.starts_with("rank 1 on host `") && first.ends_with(&second), "{first}");
    }

    #[test]
    fn another_number_of_ranks_ends_it_as_well() {
        let (first, second) = introduced(|hello| hello.size = 3);
        assert_eq!(second, "it is rank 1 of 3, and rank 0 is one of 2");
        assert!(first.ends_with(&second), "{first}");
    }

    #[test]
    fn rank_0_that_ends_when_all_have_come_is_missed_at_once() {
        let (mut door, cancel) = (Door::open(0).unwrap(), AtomicBool::new(false));
        let meeting = TcpMeeting::at("127.0.0.1", door.port().unwrap(), 1, 3, "a-run");
        std::thread::scope(|scope| {
            let begin = Instant::now();
            let other = scope.spawn(|| meeting.meet(Duration::from_secs(60), &cancel).map(drop));
            let mut stream = loop {
                match door.come_in(&meeting.key(0)).pop() {
                    Some((stream, _)) => break stream,
                    None => std::thread::sleep(PAUSE),
                }
            };
            // Rank 1 waits for rank 2 to connect with it.
            say(&mut stream, &Reply::Welcome { number: 1, doors: vec![(None, 0); 3] }).unwrap();
            drop(stream);
            let error = other.join().unwrap().unwrap_err().to_string();
            assert!(error.starts_with("rank 1 cannot connect with rank 0 at 127.0.0.1:"), "{error}");
            assert!(error.ends_with(": it has ended while others connected"), "{error}");
            assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
        });
    }

    #[test]
    fn all_addresses_of_a_name_are_tried() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let works = listener.local_addr().unwrap();
        // Nobody listens at the first one, and no system has the second one.
        let closed = SocketAddr::from(([127, 0, 0, 2], works.port()));
        let absent = SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], works.port()));
        let connect = |address: SocketAddr| TcpStream::connect_timeout(&address, Duration::from_millis(100));
        let stream = first_of(&[closed, absent, works], connect).unwrap();
        assert_eq!(stream.peer_addr().unwrap(), works);
        let error = first_of(&[closed, absent], connect).unwrap_err().to_string();
        assert!(error.starts_with("127.0.0.2: ") && error.contains("; 2001:db8::1: "), "{error}");
        assert_eq!(first_of(&[], connect).unwrap_err().to_string(), "the name has no address");
    }

    #[test]
    fn messages_name_some_ranks() {
        assert_eq!(names(&[3]), "rank 3");
        let ranks: Vec<u32> = (1..20).collect();
        assert!(names(&ranks).ends_with("rank 7, rank 8 and 11 others"), "{}", names(&ranks));
    }
}
