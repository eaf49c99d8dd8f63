//! Who is blamed, in runs that stood still at a given point: machines are played up to there by hand.

use std::collections::HashMap;
use std::sync::Arc;

use crate::common::{THREADS, choice, layer, uniform};
use zipwire_schedule::machine::{Direction, Input, Step, TransferId};
use zipwire_schedule::plan::{Content, OpKind, Plan, TransferKey};
use zipwire_schedule::{
    Deadlines, Failure, FailureKind, Machine, OpId, Protocol, Rank, RankEnd, RootCause, RunFailure,
    SegmentId, Slack, Stage, TransferSite, plan,
};

#[derive(Default)]
struct Stuck {
    ops: Vec<(Rank, OpId)>,
    transfers: Vec<TransferKey>,
    silent: Vec<Rank>,
    /// Ranks that do not hear of the end of a transfer.
    unheard: Vec<(Rank, TransferKey)>,
}

/// Plays a plan as far as it gets and has `reporter` report a timeout in `op`.
fn blamed(plan: &Plan, stuck: &Stuck, reporter: u32, op: u32, deadlines: Option<&Deadlines>) -> RootCause {
    let machine = |program: &Arc<_>| Machine::new(Arc::clone(program), THREADS, 0.0);
    let mut machines: Vec<Machine> = plan.programs.iter().map(machine).collect();
    let mut offers: HashMap<TransferKey, (usize, TransferId)> = HashMap::new();
    let mut pending: Vec<usize> = (0..machines.len()).collect();
    while let Some(rank) = pending.pop() {
        if stuck.silent.contains(&Rank(u32::try_from(rank).unwrap())) {
            continue;
        }
        loop {
            match machines[rank].poll(0.0) {
                Step::Issue(op) => {
                    let machine = &machines[rank];
                    let kind = &machine.op(op).kind;
                    let ends = !stuck.ops.contains(&(machine.program().rank, op));
                    if ends && !matches!(kind, OpKind::Exchange(_)) {
                        let sizes = kind.effects().defines.into_iter().map(|size| (size, 100)).collect();
                        machines[rank].handle(Input::Completed { op, sizes });
                    }
                }
                Step::Transfer(id) => {
                    let key = machines[rank].key(id);
                    let Some(other) = offers.remove(&key) else {
                        offers.insert(key, (rank, id));
                        continue;
                    };
                    if stuck.transfers.contains(&key) {
                        continue;
                    }
                    for (rank, id) in [(rank, id), other] {
                        if stuck.unheard.contains(&(machines[rank].program().rank, key)) {
                            continue;
                        }
                        let is_size = matches!(machines[rank].transfer(id).0.content, Content::Size(_));
                        let size = (is_size && id.direction == Direction::Receive).then_some(100);
                        machines[rank].handle(Input::Transferred { transfer: id, size });
                        pending.push(rank);
                    }
                }
                Step::Close(op) => machines[rank].handle(Input::Completed { op, sizes: Vec::new() }),
                Step::Wait { .. } | Step::Done => break,
                other => panic!("unexpected {other:?}"),
            }
        }
    }
    let first = Failure::new(Rank(reporter), Some(OpId(op)), FailureKind::Timeout, "");
    let ends = machines.iter().map(|machine| {
        let rank = machine.program().rank;
        let failure = Failure { rank, ..first.clone() };
        RankEnd { failure, status: (!stuck.silent.contains(&rank)).then(|| machine.status()) }
    });
    RunFailure::new(plan, deadlines, 0, 1.0, first.clone(), ends.collect()).root_cause
}

/// The first transfer of the stage from one rank to another.
fn key(plan: &Plan, segment: u32, stage: Stage, src: u32, dst: u32) -> TransferKey {
    let segment = Some(SegmentId(segment));
    TransferSite { src: Rank(src), dst: Rank(dst), segment, stage: Some(stage) }.find(plan).unwrap()
}

#[test]
fn whoever_others_wait_for_is_to_blame() {
    let plan = plan(&layer(uniform(4, 2048)), &choice(Protocol::SizeFirst, None));
    // Rank 2 never encodes; rank 0 notices in its exchange of sizes.
    let stuck = Stuck { ops: vec![(Rank(2), OpId(0))], ..Stuck::default() };
    let root_cause = blamed(&plan, &stuck, 0, 1, None);
    assert_eq!((root_cause.rank, root_cause.op), (Rank(2), Some(OpId(0))));
    assert_eq!(
        root_cause.to_string(),
        "rank 2 is to blame, in op `%0` (encode of dispatch): it did not end in time"
    );
}

#[test]
fn the_sender_is_to_blame_for_what_has_not_arrived() {
    let plan = plan(&layer(uniform(4, 2048)), &choice(Protocol::SizeFirst, None));
    let stuck = Stuck { transfers: vec![key(&plan, 2, Stage::Sizes, 3, 1)], ..Stuck::default() };
    // Whoever notices: the receiver, the sender, or a rank that is held up two exchanges later.
    for (reporter, op) in [(1, 6), (3, 6), (0, 7)] {
        let root_cause = blamed(&plan, &stuck, reporter, op, None);
        assert_eq!(
            (root_cause.rank, root_cause.what.as_str()),
            (Rank(3), "sizes exchange of combine"),
            "{reporter}"
        );
    }
}

/// Ranks 0 to 3 wait for one another in a circle. What rank 2 has on offer has ended for its receiver, so rank 2 has not heard of it.
#[test]
fn whoever_has_not_heard_of_an_end_is_to_blame() {
    let plan = plan(&layer(uniform(4, 2048)), &choice(Protocol::SizeFirst, Some(1)));
    let key = key(&plan, 0, Stage::Sizes, 2, 3);
    let stuck = Stuck { unheard: vec![(Rank(2), key)], ..Stuck::default() };
    for reporter in 0..4 {
        let root_cause = blamed(&plan, &stuck, reporter, 1, None);
        assert_eq!((root_cause.rank, root_cause.op), (Rank(2), Some(OpId(1))), "{reporter}: {root_cause}");
    }
}

/// With a window of one, rank 0 waits for rank 1 alone; rank 3 waits for rank 0 and is not to blame, nor is rank 0.
#[test]
fn a_full_window_passes_the_blame_on() {
    let plan = plan(&layer(uniform(4, 2048)), &choice(Protocol::SizeFirst, Some(1)));
    let stuck = Stuck { ops: vec![(Rank(1), OpId(0))], ..Stuck::default() };
    for reporter in [0, 2, 3] {
        assert_eq!(blamed(&plan, &stuck, reporter, 1, None).rank, Rank(1), "{reporter}");
    }
}

/// A rank that says nothing had done what its peers have seen of it, and no more.
#[test]
fn the_silent_are_taken_at_their_peers_word() {
    let plan = plan(&layer(uniform(4, 2048)), &choice(Protocol::Native, None));
    let silent = Stuck { silent: vec![Rank(2)], ..Stuck::default() };
    let root_cause = blamed(&plan, &silent, 0, 0, None);
    assert_eq!((root_cause.rank, root_cause.op), (Rank(2), Some(OpId(0))));
    assert!(root_cause.to_string().ends_with("it has said nothing more"), "{root_cause}");
}

/// Silent ranks do not vouch for one another.
#[test]
fn what_only_the_silent_could_know_is_not_known() {
    let plan = plan(&layer(uniform(4, 2048)), &choice(Protocol::Native, None));
    for silent in [vec![Rank(1), Rank(2)], (0..4).map(Rank).collect()] {
        let stuck = Stuck { silent: silent.clone(), ..Stuck::default() };
        let root_cause = blamed(&plan, &stuck, 1, 0, None);
        assert!(silent.contains(&root_cause.rank));
        assert_eq!(root_cause.op, Some(OpId(0)), "{root_cause}");
    }
}

/// Two ranks stand still, each for itself: the one that was due first began it.
#[test]
fn of_two_culprits_the_one_that_was_due_first_is_to_blame() {
    let plan = plan(&layer(uniform(4, 2048)), &choice(Protocol::SizeFirst, None));
    let ops = vec![(Rank(1), OpId(0)), (Rank(3), OpId(0))];
    let stuck = Stuck { ops, ..Stuck::default() };
    let slack = Slack { factor: 2.0, floor_s: 0.0 };
    for (early, late) in [(1, 3), (3, 1)] {
        let expected = [(0, Rank(early), OpId(0), 1e-3), (0, Rank(late), OpId(0), 2e-3)];
        let deadlines = Deadlines::new(&plan, 1, slack, expected);
        assert_eq!(blamed(&plan, &stuck, 0, 1, Some(&deadlines)).rank, Rank(early));
    }
}

#[test]
fn an_overdue_op_fails_by_itself() {
    let plan = plan(&layer(uniform(4, 2048)), &choice(Protocol::SizeFirst, None));
    let slack = Slack { factor: 2.0, floor_s: 0.5 };
    let deadlines = Deadlines::new(&plan, 1, slack, [(0, Rank(0), OpId(0), 1.0)]);
    let machine = Machine::new(Arc::clone(&plan.programs[0]), THREADS, 10.0);
    let mut machine = machine.with_deadlines(deadlines.of(0, Rank(0)));
    assert_eq!(machine.poll(10.0), Step::Issue(OpId(0)));
    let Step::Wait { until_s: Some(due_s) } = machine.poll(12.4) else { panic!("nothing is due yet") };
    assert!((due_s - 12.5).abs() < 1e-6, "{due_s}");
    let Step::Abort(failure) = machine.poll(due_s) else { panic!("2 x 1 s + 0.5 s are over") };
    assert_eq!((failure.kind, failure.op), (FailureKind::Timeout, Some(OpId(0))));
}

/// A call of a library waits for the last rank, and for nobody else.
#[test]
fn whoever_has_not_issued_a_call_is_to_blame() {
    use zipwire_schedule::{Algorithm, CallKind, DType, Job, Segment, Slot, Work};
    let phase = Work::Compute { phase: "phase", reads: vec![], writes: vec![Slot(0), Slot(1)] };
    let (input, output) = (Slot(0), Slot(1));
    let gather = Work::of_call(DType::Bf16, [input, output], CallKind::AllGather { bytes: vec![64; 4] });
    let segments = vec![Segment::new("phase", phase), Segment::new("gather", gather)];
    let job = Job { name: "case", rank_count: 4, slots: vec!["input", "output"], segments };
    let native = choice(Protocol::Native, None);
    let plan = plan(&job, &zipwire_schedule::Choice { algorithm: Some(Algorithm::Library), ..native });
    // Rank 2 never ends its phase; the others are in the call. `blamed` itself ends no call that all have issued, which stays so.
    let all = |op| (0..4).map(|rank| (Rank(rank), OpId(op))).collect::<Vec<_>>();
    let late = Stuck { ops: [all(1), vec![(Rank(2), OpId(0))]].concat(), ..Stuck::default() };
    let root_cause = blamed(&plan, &late, 0, 1, None);
    assert_eq!(root_cause.to_string(), "rank 2 is to blame, in op `%0` (phase): it did not end in time");
    let silent = Stuck { ops: all(1), silent: vec![Rank(3)], ..Stuck::default() };
    assert_eq!(blamed(&plan, &silent, 0, 1, None).rank, Rank(3));
    // All have issued it: nobody waits for another rank.
    let slow = Stuck { ops: all(1), ..Stuck::default() };
    let root_cause = blamed(&plan, &slow, 1, 1, None);
    assert_eq!((root_cause.rank, root_cause.what.as_str()), (Rank(1), "raw all-gather of gather"));
}
