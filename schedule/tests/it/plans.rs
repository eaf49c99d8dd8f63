//! Plans of the All-to-All protocols: what they hold, what they do not, and how they read.

use std::sync::Arc;

use crate::common::{choice, exchange_of as exchange, flow, layer, native_transfers, uniform};
use ndarray::array;
use zipwire_codec::{DType, FrameShape, Layout};
use zipwire_schedule::plan::{Local, Op, OpKind};
use zipwire_schedule::{Choice, Lane, Order, Pace, Protocol, Rank, Stage, plan};

/// Lane and stage of each op of a program.
fn shape(ops: &[Op]) -> Vec<String> {
    let describe = |op: &Op| match op.kind.exchange() {
        Some(exchange) => format!("exchange {}", exchange.stage.name()),
        None => op.kind.name().to_owned(),
    };
    ops.iter().map(describe).collect()
}

#[test]
fn a_plan_reads_as_written() {
    let bytes = array![[0, 600, 0], [2000, 0, 26], [64, 300, 0]];
    let plan = plan(&layer(bytes), &choice(Protocol::StaticFirst, Some(1)));
    insta::assert_snapshot!(plan.text(Some(Rank(1))));
}

#[test]
fn a_native_plan_reads_as_written() {
    let bytes = array![[0, 600, 0], [2000, 0, 26], [64, 300, 0]];
    let plan = plan(&layer(bytes), &choice(Protocol::Native, None));
    insta::assert_snapshot!(plan.text(None));
}

#[test]
fn protocols_hold_exactly_these_ops() {
    let job = layer(uniform(4, 2048));
    let ops = |protocol| shape(&plan(&job, &choice(protocol, None)).programs[2].ops);
    assert_eq!(ops(Protocol::Native), ["exchange raw", "expert", "exchange raw"]);
    let size_first = ["encode", "exchange sizes", "exchange dynamic", "decode"];
    assert_eq!(ops(Protocol::SizeFirst), [&size_first[..], &["expert"], &size_first].concat());
    let static_first = ["encode", "exchange static", "exchange sizes", "exchange dynamic", "decode"];
    assert_eq!(ops(Protocol::StaticFirst), [&static_first[..], &["expert"], &static_first].concat());
    let split = Choice { layout: Some(Layout::Split), ..choice(Protocol::SizeFirst, None) };
    let ops = shape(&plan(&job, &split).programs[2].ops);
    let size_first = ["encode", "exchange sizes", "exchange static", "exchange dynamic", "decode"];
    assert_eq!(ops, [&size_first[..], &["expert"], &size_first].concat());
}

/// Signs and mantissas move while the rest is coded: the exchange waits for the split and for nothing else.
#[test]
fn split_send_sends_signs_and_mantissas_before_anything_is_coded() {
    let choice = Choice { parts: 2, ..choice(Protocol::SplitSend, None) };
    let plan = plan(&layer(uniform(3, 40_000)), &choice);
    plan.validate().unwrap();
    let call = &plan.programs[1].ops[..12];
    let part = ["exchange sign-mantissa", "exchange static", "exchange dynamic", "decode"];
    assert_eq!(shape(call), [&["split", "encode", "split", "encode"], &part[..], &part].concat());
    assert_eq!(call[4].deps, [call[0].id]);
    assert_eq!(call[5].deps, [call[1].id], "it is opened beside signs and mantissas");
    let OpKind::Local(Local::Encode(batch)) = &call[1].kind else { panic!("it encodes") };
    let whole = batch.blocks[0].values.len / 2;
    assert_eq!(batch.blocks[0].sign_mantissa.len, whole, "a byte for each value");
    let codec = plan.codec.as_ref().unwrap().codec();
    let static_len = codec.static_len(FrameShape::new(Layout::Split, DType::Bf16, whole as usize)) as u64;
    assert_eq!(batch.blocks[0].known_len(), static_len, "together they are as long as a whole frame's");
}

#[test]
fn split_send_of_what_has_no_signs_is_in_band() {
    let raw = || Choice { codec: Some("raw".parse().unwrap()), ..choice(Protocol::SplitSend, None) };
    let ops = |choice| shape(&plan(&layer(uniform(3, 2048)), &choice).programs[1].ops);
    assert_eq!(ops(raw()), ops(Choice { protocol: Protocol::InBand, ..raw() }));
}

/// ZipCCL sec. 3: codecs read peer chunks and write frames in place; nothing is split or combined by a copy.
#[test]
fn codecs_work_on_the_chunks_themselves() {
    for protocol in [Protocol::SizeFirst, Protocol::StaticFirst] {
        let plan = plan(&layer(uniform(4, 2048)), &choice(protocol, None));
        for program in &plan.programs {
            let slot = |name| program.buffers.iter().position(|buffer| buffer.name == name).unwrap();
            for op in &program.ops {
                let (OpKind::Local(Local::Encode(batch)) | OpKind::Local(Local::Decode(batch))) = &op.kind
                else {
                    continue;
                };
                let (model, frames) = match (op.kind.name(), op.segment.0) {
                    ("encode", 0) => ("tokens", "frames-out-0"),
                    ("encode", _) => ("expert", "frames-out-1"),
                    ("decode", 0) => ("expert", "frames-in-0"),
                    _ => ("combined", "frames-in-1"),
                };
                for block in &batch.blocks {
                    assert_eq!(block.values.buffer.index(), slot(model));
                    assert_eq!(block.dynamic_section.buffer.index(), slot(frames));
                    assert_eq!(block.static_section.buffer.index(), slot(frames));
                    for region in [block.values, block.static_section, block.dynamic_section] {
                        assert_eq!(region.offset % 128, 0, "chunks start at 128-byte boundaries");
                    }
                }
            }
        }
    }
}

#[test]
fn every_plan_is_valid() {
    let matrices = [
        uniform(1, 4096),
        uniform(2, 0),
        uniform(5, 4096),
        array![[0, 2, 0, 4], [0, 0, 0, 0], [6, 40_000, 0, 0], [0, 2, 2, 0]],
    ];
    for bytes in matrices {
        for protocol in Protocol::ALL {
            for window in [None, Some(1), Some(2)] {
                let plan = plan(&layer(bytes.clone()), &choice(protocol, window));
                plan.validate().unwrap_or_else(|error| panic!("{}: {error}", plan.text(None)));
            }
        }
    }
}

#[test]
fn raw_bytes_exclude_self_chunks() {
    let job = layer(array![[100, 2], [4, 1000]]);
    for protocol in Protocol::ALL {
        assert_eq!(plan(&job, &choice(protocol, None)).bytes_raw(), 12, "6 each way");
    }
}

#[test]
fn the_digest_tells_plans_apart() {
    let digest = |bytes, protocol, window| plan(&layer(bytes), &choice(protocol, window)).digest();
    let base = digest(uniform(4, 2048), Protocol::StaticFirst, None);
    assert_eq!(
        base,
        digest(uniform(4, 2048), Protocol::StaticFirst, Some(3)),
        "all peers at once is 3 of them"
    );
    let others = [
        digest(uniform(4, 2050), Protocol::StaticFirst, None),
        digest(uniform(4, 2048), Protocol::SizeFirst, None),
        digest(uniform(4, 2048), Protocol::Native, None),
        digest(uniform(4, 2048), Protocol::StaticFirst, Some(2)),
        digest(uniform(5, 2048), Protocol::StaticFirst, None),
    ];
    for other in others {
        assert_ne!(base, other);
    }
    // Equal chunks are listed alike under every order.
    let ordered = |order| Choice { order, ..choice(Protocol::StaticFirst, Some(1)) };
    let digests = Order::ALL.map(|order| plan(&layer(uniform(4, 2048)), &ordered(order)).digest());
    assert_eq!(std::collections::BTreeSet::from(digests).len(), Order::ALL.len());
}

#[test]
fn explicit_flows_keep_their_order_and_start() {
    let flows = [flow(0, 1, 10, 2e-6), flow(0, 1, 20, 0.0), flow(1, 0, 30, 0.0), flow(0, 2, 0, 0.0)];
    let burst = native_transfers(3, &flows, Pace::Burst);
    insta::assert_snapshot!(burst.text(Some(Rank(0))));
    let chain = native_transfers(3, &flows, Pace::Chain);
    let OpKind::Exchange(exchange) = &chain.programs[0].ops[0].kind else { panic!("one exchange") };
    assert_eq!((exchange.window.sends, exchange.sends[0].number, exchange.sends[1].number), (1, 0, 1));
    let steps = native_transfers(3, &flows, Pace::SendReceive);
    assert_eq!(shape(&steps.programs[0].ops), ["exchange raw", "exchange raw"]);
    assert_eq!(steps.programs[2].ops.len(), 0, "empty flows are left out");
    for plan in [burst, chain, steps] {
        plan.validate().unwrap();
    }
}

#[test]
fn ranks_that_wait_in_a_circle_are_found() {
    let ring = [flow(0, 1, 8, 0.0), flow(1, 2, 8, 0.0), flow(2, 0, 8, 0.0)];
    native_transfers(3, &ring, Pace::SendReceive).validate().unwrap();
    // Rank 0 cannot start its second send before it has received from rank 1, which sends to rank 0 only in
    // its third step, and cannot end its second step before it has received that second send.
    let circle =
        [flow(0, 1, 8, 0.0), flow(0, 1, 8, 0.0), flow(1, 2, 8, 0.0), flow(1, 2, 8, 0.0), flow(1, 0, 8, 0.0)];
    native_transfers(3, &circle, Pace::Burst).validate().unwrap();
    let error = native_transfers(3, &circle, Pace::SendReceive).validate().unwrap_err().to_string();
    assert!(error.contains("wait for one another"), "{error}");
}

/// Verdict of `validate` on a plan in which an op of rank 1 was changed behind the planner's back.
fn tampered(protocol: Protocol, window: Option<u32>, op: usize, change: impl FnOnce(&mut Op)) -> String {
    let mut plan = plan(&layer(uniform(3, 512)), &choice(protocol, window));
    change(&mut Arc::make_mut(&mut plan.programs[1]).ops[op]);
    plan.validate().expect_err("the plan is wrong").to_string()
}

#[test]
fn every_planted_fault_is_found() {
    let native = |op, change: fn(&mut Op)| tampered(Protocol::Native, None, op, change);
    insta::assert_snapshot!(
        native(2, |op| { exchange(op).receives.remove(0); }),
        @"transfer 1 from rank 0 to rank 1, raw of segment 2: 1 sends and 0 receives, expected one each"
    );
    insta::assert_snapshot!(
        native(2, |op| op.deps.clear()),
        @"op `%2` of rank 1 has the dependencies [], its hazards demand [OpId(0), OpId(1)]"
    );
    insta::assert_snapshot!(
        native(0, |op| exchange(op).sends[0].peer = Rank(1)),
        @"op `%0` of rank 1 names peer 1, which is not another rank of the plan"
    );
    insta::assert_snapshot!(
        native(0, |op| exchange(op).window.sends = 0),
        @"exchange `%0` of rank 1 has a window of zero"
    );
    insta::assert_snapshot!(
        native(0, |op| exchange(op).receives[0].content = exchange(op).receives[1].content),
        @"op `%0` of rank 1 writes `b1[512..1024]` twice"
    );
    let coded = |op, change: fn(&mut Op)| tampered(Protocol::SizeFirst, None, op, change);
    insta::assert_snapshot!(
        coded(0, |op| match &mut op.kind {
            OpKind::Local(Local::Encode(batch)) => batch.blocks[0].dynamic_section.len += 1 << 20,
            other => panic!("{other:?} is no encode"),
        }),
        @"op `%0` of rank 1 uses `b3[0..1049126]` beyond the end of its buffer"
    );
    insta::assert_snapshot!(
        coded(0, |op| match &mut op.kind {
            OpKind::Local(Local::Encode(batch)) => batch.blocks[0].size = batch.blocks[1].size,
            other => panic!("{other:?} is no encode"),
        }),
        @"op `%1` of rank 1 reads size `s0` before its definition"
    );
}

/// Every rank sends to the next one first and receives from the next one first: with a window of one nothing moves.
#[test]
fn windows_that_admit_nothing_are_found() {
    let reversed = |window| {
        let mut plan = plan(&layer(uniform(3, 512)), &choice(Protocol::Native, window));
        for program in &mut plan.programs {
            exchange(&mut Arc::make_mut(program).ops[0]).receives.reverse();
        }
        plan.validate()
    };
    reversed(None).expect("all transfers are open at once");
    let error = reversed(Some(1)).expect_err("each rank waits for the next");
    insta::assert_snapshot!(error, @"ranks wait for one another for ever: no window admits both ends of a transfer; rank 0 is in `%0`");
}

#[test]
fn lanes_and_stages_have_distinct_names() {
    let lanes: Vec<_> = Lane::ALL.iter().map(|lane| lane.name()).collect();
    let stages = [Stage::Raw, Stage::Sizes, Stage::Static, Stage::Dynamic].map(Stage::name);
    for names in [&lanes[..], &stages] {
        let unique: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(unique.len(), names.len());
    }
}
