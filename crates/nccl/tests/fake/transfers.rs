//! Sends and receives, alone and in groups.

use zipwire_kernels::Stream;
use zipwire_nccl_binding::NcclError;

use crate::Test;
use crate::ranks::{deadline, fake, message, together};

pub(crate) const TESTS: &[Test] = &[
    ("transfers::one_message_goes_without_a_group", one_message_goes_without_a_group),
    ("transfers::all_pairs_in_a_group_and_of_any_length", all_pairs_in_a_group_and_of_any_length),
    ("transfers::a_rank_sends_to_itself", a_rank_sends_to_itself),
    ("transfers::messages_of_a_stream_keep_their_order", messages_of_a_stream_keep_their_order),
    ("transfers::regions_may_be_dropped_as_soon_as_a_call_is_made", regions_may_be_dropped),
    ("transfers::groups_within_a_group_end_with_it", groups_within_a_group_end_with_it),
];

fn one_message_goes_without_a_group() {
    let expected = message(0, 1, 5000);
    let received = together(2, |member| {
        let region = if member.rank == 0 { member.region(&expected) } else { member.room(5000) };
        member.run(|communicator, stream| match member.rank {
            0 => communicator.send(&region, 1, stream),
            _ => communicator.receive(&region, 0, stream),
        });
        region.read().unwrap()
    });
    assert_eq!(received[1], expected);
}

/// Bytes from one rank to another: none for some, and for none the same as the other way.
fn length(from: u32, to: u32) -> usize {
    if (from + 2 * to) % 3 == 1 { 0 } else { (1000 * from + 70_001 * to + 13) as usize }
}

/// Sends and receives of all pairs, those with oneself and those of no bytes among them.
pub(crate) fn all_pairs_in_a_group_and_of_any_length() {
    for ranks in 1..=4 {
        together(ranks, |member| {
            let own = member.rank;
            let sent: Vec<_> =
                (0..ranks).map(|to| member.region(&message(own, to, length(own, to)))).collect();
            let received: Vec<_> = (0..ranks).map(|from| member.room(length(from, own))).collect();
            member.run(|communicator, stream| {
                communicator.library().group(|| {
                    (0..ranks).zip(sent.iter().zip(&received)).try_for_each(|(peer, (from, to))| {
                        communicator.send(from, peer, stream)?;
                        communicator.receive(to, peer, stream)
                    })
                })
            });
            for (from, region) in (0..).zip(&received) {
                assert!(region.read().unwrap() == message(from, own, length(from, own)), "{from} to {own}");
            }
        });
    }
}

fn a_rank_sends_to_itself() {
    together(1, |member| {
        let (from, to) = (member.region(b"to myself"), member.room(9));
        member.run(|communicator, stream| {
            fake().group(|| {
                communicator.receive(&to, 0, stream)?;
                communicator.send(&from, 0, stream)
            })
        });
        assert_eq!(to.read().unwrap(), b"to myself");
    });
}

fn messages_of_a_stream_keep_their_order() {
    together(2, |member| {
        let texts = [b"first", b"later"];
        let regions = texts.map(|text| if member.rank == 0 { member.region(text) } else { member.room(5) });
        for region in &regions {
            member.run(|communicator, stream| match member.rank {
                0 => communicator.send(region, 1, stream),
                _ => communicator.receive(region, 0, stream),
            });
        }
        assert_eq!(regions.map(|region| region.read().unwrap()), texts.map(|text| text.to_vec()));
    });
}

/// A sender's stream as well: both are held until the work is in the stream, and dropping memory then waits.
fn regions_may_be_dropped() {
    together(2, |member| {
        let expected = message(0, 1, 5000);
        if member.rank == 0 {
            let stream = Stream::new(&member.device).unwrap();
            member.communicator.send(&member.region(&expected), 1, &stream).unwrap();
            drop(stream);
            member.communicator.ready_by(deadline()).unwrap();
            return;
        }
        let kept = member.room(expected.len());
        member.run(|communicator, stream| communicator.receive(&kept, 0, stream));
        assert!(kept.read().unwrap() == expected);
    });
}

fn groups_within_a_group_end_with_it() {
    together(2, |member| {
        let peer = 1 - member.rank;
        let (from, to) = (member.region(&[member.rank as u8; 4]), member.room(4));
        member.run(|communicator, stream| {
            fake().group(|| {
                // Alone, the send would wait for a receive that comes later.
                fake().group(|| communicator.send(&from, peer, stream))?;
                fake().group(|| communicator.receive(&to, peer, stream))?;
                Ok::<(), NcclError>(())
            })
        });
        assert!(to.read().unwrap() == [peer as u8; 4]);
    });
}
