//! Client of the store of PyTorch's launchers (`TCPStore`, protocol of PyTorch 2.3 and later): text by keys, in a process that `torchrun` keeps.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Kinds of questions, numbered as the store numbers them.
const VALIDATE: u8 = 0;
const SET: u8 = 1;
const GET: u8 = 3;
const CHECK: u8 = 5;
/// Number by which the store knows a client.
const MAGIC: u32 = 0x3c85_f7ce;
/// Answer to `CHECK` when all keys are there.
const READY: u8 = 0;
/// Longest value that is read.
const LONGEST: u64 = 1 << 16;
/// How long the store may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// A connection with the store. Numbers go in the order of bytes that hosts have, which all of a job share.
pub(super) struct Store {
    stream: TcpStream,
}

impl Store {
    pub(super) fn connect(address: SocketAddr, within: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, within)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        stream.set_write_timeout(Some(ANSWER_WITHIN))?;
        let mut store = Self { stream };
        store.ask(VALIDATE, &[&MAGIC.to_ne_bytes()])?;
        Ok(store)
    }

    /// Address of this process on the interface that reaches the store.
    pub(super) fn local_address(&self) -> io::Result<SocketAddr> {
        self.stream.local_addr()
    }

    pub(super) fn set(&mut self, key: &str, value: &[u8]) -> io::Result<()> {
        self.ask(SET, &[&len(key.as_bytes()), key.as_bytes(), &len(value), value])
    }

    /// The value of a key, if it has one.
    pub(super) fn get(&mut self, key: &str) -> io::Result<Option<Vec<u8>>> {
        let key = [&len(key.as_bytes()), key.as_bytes()].concat();
        self.ask(CHECK, &[&1_u64.to_ne_bytes(), &key])?;
        let mut answer = [0];
        self.stream.read_exact(&mut answer)?;
        if answer != [READY] {
            return Ok(None);
        }
        self.ask(GET, &[&key])?;
        let mut length = [0; 8];
        self.stream.read_exact(&mut length)?;
        let length = u64::from_ne_bytes(length);
        if length > LONGEST {
            return Err(io::Error::other(format!("it has answered with {length} bytes")));
        }
        let mut value = vec![0; length as usize];
        self.stream.read_exact(&mut value)?;
        Ok(Some(value))
    }

    fn ask(&mut self, question: u8, parts: &[&[u8]]) -> io::Result<()> {
        let mut message = vec![question];
        parts.iter().for_each(|part| message.extend_from_slice(part));
        self.stream.write_all(&message)
    }
}

fn len(bytes: &[u8]) -> [u8; 8] {
    (bytes.len() as u64).to_ne_bytes()
}
