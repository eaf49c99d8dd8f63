//! Each process sends bytes to the next one and says what has come: `mpirun -n 3 target/debug/examples/ring [BYTES]`.

use zipwire_mpi::{Bytes, Channel, Endpoint, MpiError, library};

fn main() -> Result<(), MpiError> {
    let count = std::env::args().nth(1).map_or(1 << 20, |text| text.parse().expect("a number of bytes"));
    let mut endpoint = Endpoint::begin(library()?)?;
    let (rank, size) = (endpoint.rank(), endpoint.size());
    let (before, after) = ((rank + size - 1) % size, (rank + 1) % size);
    let room = Bytes::Owned(vec![0; count]);
    endpoint.receive(Channel::Data, room, Some(before), 7)?;
    endpoint.send(Channel::Data, Bytes::Owned(vec![rank as u8; count]), after, 7)?;
    let mut done = Vec::new();
    while endpoint.under_way() > 0 {
        endpoint.test(&mut done)?;
    }
    for message in done {
        let Bytes::Owned(bytes) = &message.bytes else { unreachable!("it owns its bytes") };
        let is_right = bytes.iter().all(|byte| u32::from(*byte) == message.peer || message.peer == after);
        println!(
            "{rank} of {size} on {}: {} bytes with {}: {is_right}",
            endpoint.host()?,
            message.len,
            message.peer
        );
    }
    if rank == 0 {
        println!("{}, tags up to {}", endpoint.version()?, endpoint.largest_tag());
    }
    endpoint.finish()
}
