//! Transfers between the memories of ranks, without programs.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use shuttle::thread;
use zipwire_codec::DType;
use zipwire_schedule::plan::{Plan, Region, TransferKey};
use zipwire_schedule::{
    BufferId, CallKind, Choice, Job, Protocol, Rank, Segment, SegmentId, Slot, Stage, Work, plan,
};

use super::check;
use crate::control::Control;
use crate::host;
use crate::memory::Memory;
use crate::transport::local::{Local, Process};
use crate::transport::{Ended, Event, Incoming, Outgoing, Transport};

/// Bytes of a transfer.
const BYTES: u64 = 8;
/// Transfers from each of two ranks to the other one.
const TRANSFERS: u32 = 2;

/// A plan with room for all transfers in the buffers of both ranks.
fn roomy() -> Plan {
    let bytes = ndarray::Array2::from_elem((2, 2), BYTES * u64::from(TRANSFERS));
    let work = Work::of_call(DType::F32, [Slot(0), Slot(1)], CallKind::AllToAll { bytes, tokens: None });
    let segments = vec![Segment::new("call", work)];
    let job = Job { name: "job", rank_count: 2, slots: vec!["in", "out"], segments };
    plan(&job, &Choice::of(Protocol::Native, None))
}

fn key(src: Rank, number: u32) -> TransferKey {
    TransferKey { segment: SegmentId(0), stage: Stage::Raw, src, dst: Rank(1 - src.0), number }
}

fn region(buffer: u32, number: u32) -> Region {
    Region { buffer: BufferId(buffer), offset: u64::from(number) * BYTES, len: BYTES }
}

fn fill(memory: &Memory, region: &Region, byte: u8) {
    memory.write(region).fill(byte);
}

/// Two ranks over one [`Control`], each on a thread.
fn two(work: impl Fn(&mut Local<'_>) + Sync) {
    let plan = roomy();
    let memories: Vec<Arc<Memory>> = (0..2).map(|rank| host::memory(&plan, Rank(rank)).unwrap()).collect();
    let cancel = AtomicBool::new(false);
    let (control, inboxes) = Control::new(2, Instant::now(), &cancel);
    let process = Process { control: &control, memories: &memories };
    thread::scope(|scope| {
        for (rank, inbox) in (0..).map(Rank).zip(inboxes) {
            let work = &work;
            scope.spawn(move || work(&mut Local::new(process, rank, inbox)));
        }
    });
}

/// Both ranks send to one another at the same time. What arrives is what was sent, once, and the sender may overwrite it as soon as it
/// hears that it has been taken.
#[test]
fn transfers_bring_their_bytes_once() {
    check(|| {
        two(|local| {
            let rank = local.rank();
            let memory = Arc::clone(local.memory());
            let byte = |src: Rank, number: u32| (16 * (src.0 + 1) + number) as u8;
            for number in 0..TRANSFERS {
                let bytes = region(0, number);
                fill(&memory, &bytes, byte(rank, number));
                let word = Some(u64::from(number));
                let key = key(rank, number);
                local.send(Outgoing { key, bytes: Some(bytes), word, checksum: 0 }).unwrap();
                let incoming = Incoming {
                    key: super::transfers::key(Rank(1 - rank.0), number),
                    bytes: Some(region(1, number)),
                    has_word: true,
                };
                local.receive(incoming).unwrap();
            }
            let (mut sent, mut received) = (Vec::new(), Vec::new());
            while sent.len() + received.len() < 2 * TRANSFERS as usize {
                match local.poll(Duration::from_secs(1)).unwrap().expect("waits have no end") {
                    Event::Begun { bytes, .. } => assert_eq!(bytes, BYTES + 8),
                    Event::Sent { key, .. } => {
                        sent.push(key.number);
                        fill(&memory, &region(0, key.number), 0xee);
                    }
                    Event::Received(arrived) => {
                        let number = arrived.transfer.key.number;
                        received.push(number);
                        assert_eq!(arrived.word, Some(u64::from(number)));
                        let region = region(1, number);
                        let expected = byte(Rank(1 - rank.0), number);
                        assert!(memory.read(&region).iter().all(|&b| b == expected));
                    }
                    event => panic!("{event:?}"),
                }
            }
            sent.sort_unstable();
            received.sort_unstable();
            let all: Vec<u32> = (0..TRANSFERS).collect();
            assert_eq!((sent, received), (all.clone(), all));
            // Nobody goes before all have arrived, and nothing is left.
            assert_eq!(local.barrier(&[]).unwrap().len(), 2);
        });
    });
}

/// One rank waits for what never comes; the other one fails.
#[test]
fn an_abort_ends_whoever_waits_for_a_transfer() {
    check(|| {
        two(|local| {
            if local.rank() == Rank(0) {
                let failure = zipwire_schedule::Failure::died(Rank(0));
                local.abort(&failure);
                return;
            }
            let incoming = Incoming { key: key(Rank(0), 0), bytes: Some(region(1, 0)), has_word: false };
            local.receive(incoming).unwrap();
            assert_eq!(local.poll(Duration::from_secs(1)).unwrap_err(), Ended::Aborted);
        });
    });
}
