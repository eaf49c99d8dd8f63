//! Collectives, from region to region and in place.

use zipwire_nccl_binding::Element;

use crate::Test;
use crate::ranks::{message, together};

pub(crate) const TESTS: &[Test] = &[
    ("collectives::broadcast_from_each_rank", broadcast_from_each_rank),
    ("collectives::all_gather_also_in_place", all_gather_also_in_place),
    ("collectives::all_to_all_moves_equal_parts", all_to_all_moves_equal_parts),
    ("collectives::all_reduce_adds_up_values_of_all_types", all_reduce_adds_up_values_of_all_types),
    ("collectives::reduce_scatter_gives_each_rank_its_part", reduce_scatter_gives_each_rank_its_part),
    ("collectives::of_nothing_do_nothing", collectives_of_nothing),
];

/// Bytes of a part.
const PART: usize = 3000;

pub(crate) fn broadcast_from_each_rank() {
    together(3, |member| {
        for root in 0..3 {
            let (from, to) = (member.region(&message(member.rank, root, PART)), member.room(PART));
            member.run(|communicator, stream| communicator.broadcast(&from, &to, root, stream));
            assert!(to.read().unwrap() == message(root, root, PART));
            member.run(|communicator, stream| communicator.broadcast(&from, &from, root, stream));
            assert!(from.read().unwrap() == message(root, root, PART));
        }
    });
}

pub(crate) fn all_gather_also_in_place() {
    for ranks in 1..=4 {
        together(ranks, |member| {
            let whole: Vec<u8> = (0..ranks).flat_map(|rank| message(rank, rank, PART)).collect();
            let own = message(member.rank, member.rank, PART);
            let (from, to) = (member.region(&own), member.room(whole.len()));
            member.run(|communicator, stream| communicator.all_gather(&from, &to, stream));
            assert!(to.read().unwrap() == whole);
            let to = member.room(whole.len());
            let begin = (member.rank as usize * PART) as u64;
            let part = to.part(begin..begin + PART as u64);
            part.write(&own).unwrap();
            member.run(|communicator, stream| communicator.all_gather(&part, &to, stream));
            assert!(to.read().unwrap() == whole);
        });
    }
}

pub(crate) fn all_to_all_moves_equal_parts() {
    for ranks in 1..=4 {
        together(ranks, |member| {
            let own = member.rank;
            let sent: Vec<u8> = (0..ranks).flat_map(|to| message(own, to, PART)).collect();
            let expected: Vec<u8> = (0..ranks).flat_map(|from| message(from, own, PART)).collect();
            let (from, to) = (member.region(&sent), member.room(sent.len()));
            member.run(|communicator, stream| communicator.all_to_all(&from, &to, stream));
            assert!(to.read().unwrap() == expected);
        });
    }
}

/// Bytes of a small power of two, as each type has it.
fn value(element: Element, exponent: u32) -> Vec<u8> {
    let number = 1_u32 << exponent;
    match element {
        Element::I8 | Element::U8 => vec![number as u8],
        Element::I32 | Element::U32 => number.to_le_bytes().to_vec(),
        Element::I64 | Element::U64 => u64::from(number).to_le_bytes().to_vec(),
        Element::F16 => (((15 + exponent) << 10) as u16).to_le_bytes().to_vec(),
        Element::F32 => (number as f32).to_le_bytes().to_vec(),
        Element::F64 => f64::from(number).to_le_bytes().to_vec(),
        Element::Bf16 => ((number as f32).to_bits().to_be_bytes()[..2]).iter().rev().copied().collect(),
    }
}

pub(crate) fn all_reduce_adds_up_values_of_all_types() {
    for (ranks, more) in [(2, 1), (4, 2)] {
        together(ranks, |member| {
            for element in Element::ALL {
                let own = [value(element, 0), value(element, 3)].concat().repeat(500);
                let sums = [value(element, more), value(element, 3 + more)].concat().repeat(500);
                let (from, to) = (member.region(&own), member.room(own.len()));
                member.run(|communicator, stream| communicator.all_reduce(&from, &to, element, stream));
                assert!(to.read().unwrap() == sums, "{element}");
                member.run(|communicator, stream| communicator.all_reduce(&from, &from, element, stream));
                assert!(from.read().unwrap() == sums, "{element} in place");
            }
        });
    }
}

pub(crate) fn reduce_scatter_gives_each_rank_its_part() {
    together(4, |member| {
        let element = Element::Bf16;
        // The part of rank r is of the values 2^r.
        let own: Vec<u8> = (0..4).flat_map(|rank| value(element, rank).repeat(100)).collect();
        let (from, to) = (member.region(&own), member.room(own.len() / 4));
        member.run(|communicator, stream| communicator.reduce_scatter(&from, &to, element, stream));
        let sums = value(element, member.rank + 2).repeat(100);
        assert!(to.read().unwrap() == sums);
        let part = from.part(u64::from(member.rank) * 200..(u64::from(member.rank) + 1) * 200);
        member.run(|communicator, stream| communicator.reduce_scatter(&from, &part, element, stream));
        assert!(part.read().unwrap() == sums);
    });
}

fn collectives_of_nothing() {
    together(2, |member| {
        let (from, to) = (member.room(0), member.room(0));
        member.run(|communicator, stream| communicator.all_gather(&from, &to, stream));
        member.run(|communicator, stream| communicator.all_to_all(&from, &to, stream));
        member.run(|communicator, stream| communicator.all_reduce(&from, &to, Element::F32, stream));
        member.run(|communicator, stream| communicator.broadcast(&from, &to, 1, stream));
    });
}
