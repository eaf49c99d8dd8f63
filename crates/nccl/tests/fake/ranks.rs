//! Ranks of a communicator as threads.

use std::thread;
use std::time::{Duration, Instant};

use zipwire_emulation::Controls;
use zipwire_kernels::{Device, DeviceRegion, Stream};
use zipwire_nccl_binding::{Communicator, Config, Library, NcclError, UniqueId, library};

/// Most ranks of a test.
const DEVICES: u32 = 4;

/// Time limit for what takes milliseconds.
pub(crate) const SOON: Duration = Duration::from_secs(20);

pub(crate) fn deadline() -> Instant {
    Instant::now() + SOON
}

/// The fake library, on enough devices.
pub(crate) fn fake() -> &'static Library {
    Controls::find().expect("tests run below the fake driver").set_devices(DEVICES);
    library().unwrap()
}

/// A rank that is ready for calls.
pub(crate) struct Member {
    pub(crate) communicator: Communicator,
    pub(crate) device: Device,
    pub(crate) stream: Stream,
    pub(crate) rank: u32,
}

impl Member {
    /// A rank that has begun, and may still be at it.
    pub(crate) fn begin(id: &UniqueId, rank: u32, ranks: u32) -> Self {
        let device = Device::open(rank as usize).unwrap();
        let stream = Stream::new(&device).unwrap();
        let config = Config { max_ctas: Some(4), name: format!("rank {rank}") };
        let communicator = Communicator::begin(fake(), &device, id, rank, ranks, &config).unwrap();
        Self { communicator, device, stream, rank }
    }

    /// A region with this content.
    pub(crate) fn region(&self, bytes: &[u8]) -> DeviceRegion {
        let region = DeviceRegion::allocate(&self.device, bytes.len() as u64).unwrap();
        region.write(bytes).unwrap();
        region
    }

    /// A region that waits for content.
    pub(crate) fn room(&self, len: usize) -> DeviceRegion {
        self.region(&vec![0xee; len])
    }

    /// Makes a call, and waits until its work is done.
    pub(crate) fn run(&self, call: impl FnOnce(&Communicator, &Stream) -> Result<(), NcclError>) {
        call(&self.communicator, &self.stream).unwrap();
        self.communicator.ready_by(deadline()).unwrap();
        self.stream.synchronize().unwrap();
    }
}

/// Runs all ranks; returns what each has come to. Every communicator is finished.
pub(crate) fn together<T: Send>(ranks: u32, part: impl Fn(&Member) -> T + Sync) -> Vec<T> {
    let id = fake().unique_id().unwrap();
    thread::scope(|scope| {
        let part = &part;
        let threads: Vec<_> = (0..ranks)
            .map(|rank| {
                scope.spawn(move || {
                    let member = Member::begin(&id, rank, ranks);
                    member.communicator.ready_by(deadline()).unwrap();
                    let result = part(&member);
                    member.communicator.finish(deadline()).unwrap();
                    result
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Bytes that differ between pairs of ranks.
pub(crate) fn message(from: u32, to: u32, len: usize) -> Vec<u8> {
    (0..len).map(|place| (place as u32 * 31 + from * 101 + to * 53 + 7) as u8).collect()
}
