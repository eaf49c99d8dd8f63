//! A store as PyTorch's launchers keep it, as far as a meeting asks it.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

type Values = Arc<Mutex<HashMap<Vec<u8>, Vec<u8>>>>;

/// Starts a store, which ends with the process; its port, and what is in it.
pub(crate) fn start() -> (u16, Values) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let values = Values::default();
    let shared = Arc::clone(&values);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, values) = (stream.unwrap(), Arc::clone(&shared));
            // A client that leaves ends it.
            std::thread::spawn(move || while answer(&mut stream, &values).is_ok() {});
        }
    });
    (port, values)
}

fn number(stream: &mut TcpStream) -> io::Result<u64> {
    let mut bytes = [0; 8];
    stream.read_exact(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

fn text(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; number(stream)? as usize];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn answer(stream: &mut TcpStream, values: &Values) -> io::Result<()> {
    let mut question = [0];
    stream.read_exact(&mut question)?;
    match question[0] {
        // Validation: a client that does not know the number is none.
        0 => {
            let mut magic = [0; 4];
            stream.read_exact(&mut magic)?;
            assert_eq!(u32::from_ne_bytes(magic), 0x3c85_f7ce);
        }
        // Setting a value is not answered.
        1 => {
            let (key, value) = (text(stream)?, text(stream)?);
            values.lock().unwrap().insert(key, value);
        }
        // A value that must be there.
        3 => {
            let value = values.lock().unwrap()[&text(stream)?].clone();
            stream.write_all(&(value.len() as u64).to_ne_bytes())?;
            stream.write_all(&value)?;
        }
        // Whether some are there.
        5 => {
            assert_eq!(number(stream)?, 1);
            let is_there = values.lock().unwrap().contains_key(&text(stream)?);
            stream.write_all(&[u8::from(!is_there)])?;
        }
        other => panic!("nobody asks the store {other}"),
    }
    Ok(())
}
