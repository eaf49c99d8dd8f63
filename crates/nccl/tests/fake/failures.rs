//! Ranks that never come, receives that nobody answers, errors that come later: each is seen, and can be ended.

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use zipwire_emulation::{Scene, scene};
use zipwire_kernels::Event;
use zipwire_nccl_binding::{NcclError, State};

use crate::Test;
use crate::ranks::{Member, SOON, deadline, fake, message, together};

pub(crate) const TESTS: &[Test] = &[
    ("failures::a_rank_that_never_comes_leaves_the_others_in_progress", a_rank_that_never_comes),
    ("failures::abort_ends_a_receive_that_nobody_answers", abort_ends_a_receive_that_nobody_answers),
    (
        "failures::abort_ends_a_call_that_never_gets_into_its_stream",
        abort_ends_a_call_that_never_gets_into_its_stream,
    ),
    ("failures::finish_is_late_where_work_never_ends", finish_is_late_where_work_never_ends),
    ("failures::a_group_is_ended_when_its_closure_fails_or_panics", a_group_is_ended_when_its_closure_fails),
    ("failures::an_error_that_comes_later_is_seen_by_state", || play("later", ("FAKENCCL_ASYNC_FAIL", "2"))),
    ("failures::an_error_of_a_call_has_all_texts", || play("call", ("FAKENCCL_FAIL", "ncclSend:1"))),
];

pub(crate) const SCENES: &[Scene] = &[Scene { name: "later", run: later }, Scene { name: "call", run: call }];

/// Runs a scene with a fault planted.
fn play(name: &str, (variable, value): (&str, &str)) {
    let output = scene(name).env(variable, value).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A short while, for what must not happen in it.
const WHILE: Duration = Duration::from_millis(50);

fn a_rank_that_never_comes() {
    let member = Member::begin(&fake().unique_id().unwrap(), 0, 2);
    assert_eq!(member.communicator.state().unwrap(), State::InProgress);
    let region = member.room(8);
    let error = member.communicator.send(&region, 1, &member.stream).unwrap_err();
    assert!(matches!(error, NcclError::InProgress { function: "ncclSend" }), "{error}");
    let error = member.communicator.ready_by(Instant::now() + WHILE).unwrap_err();
    assert_eq!(error.to_string(), "ncclCommInitRankConfig: the communicator was not ready in time");
    let begin = Instant::now();
    member.communicator.abort().unwrap();
    assert!(begin.elapsed() < SOON);
}

/// Two ranks that are ready, the second of which says nothing until the first has done its part, and is aborted then.
fn with_a_silent_peer(part: impl FnOnce(Member)) {
    let id = fake().unique_id().unwrap();
    thread::scope(|scope| {
        let (end, ended) = std::sync::mpsc::channel::<()>();
        scope.spawn(move || {
            let member = Member::begin(&id, 1, 2);
            member.communicator.ready_by(deadline()).unwrap();
            // They are connected from here on.
            let region = member.region(&[7; 64]);
            member.run(|communicator, stream| communicator.send(&region, 0, stream));
            // An error is the end of the other thread.
            _ = ended.recv();
            member.communicator.abort().unwrap();
        });
        let member = Member::begin(&id, 0, 2);
        member.communicator.ready_by(deadline()).unwrap();
        let region = member.room(64);
        member.run(|communicator, stream| communicator.receive(&region, 1, stream));
        part(member);
        drop(end);
    });
}

/// The receive is in the stream, and what is behind it waits.
fn abort_ends_a_receive_that_nobody_answers() {
    with_a_silent_peer(|member| {
        let (region, event) = (member.room(4096), Event::new(&member.device).unwrap());
        member.communicator.receive(&region, 1, &member.stream).unwrap();
        member.communicator.ready_by(deadline()).unwrap();
        member.stream.record(&event).unwrap();
        thread::sleep(WHILE);
        assert!(!event.has_passed().unwrap(), "nobody has sent");
        let begin = Instant::now();
        member.communicator.abort().unwrap();
        // The device may say that what it did was ended.
        _ = member.stream.synchronize();
        drop(region);
        assert!(begin.elapsed() < SOON);
    });
}

/// The first message to a rank connects with it, which that rank must do as well.
fn abort_ends_a_call_that_never_gets_into_its_stream() {
    with_a_silent_peer(|member| {
        let region = member.room(4096);
        member.communicator.send(&region, 1, &member.stream).unwrap();
        let error = member.communicator.ready_by(Instant::now() + WHILE).unwrap_err();
        assert!(matches!(error, NcclError::Late { function: "ncclSend" }), "{error}");
        member.communicator.abort().unwrap();
    });
}

fn finish_is_late_where_work_never_ends() {
    with_a_silent_peer(|member| {
        let region = member.room(4096);
        member.communicator.receive(&region, 1, &member.stream).unwrap();
        let error = member.communicator.finish(Instant::now() + WHILE).unwrap_err();
        assert_eq!(error.to_string(), "ncclCommFinalize: the communicator was not ready in time");
        // It was aborted, so nothing waits for the device.
        drop(region);
    });
}

fn a_group_is_ended_when_its_closure_fails() {
    together(2, |member| {
        let peer = 1 - member.rank;
        let (from, to) = (member.region(&message(member.rank, peer, 64)), member.room(64));
        let exchange = || {
            member.communicator.send(&from, peer, &member.stream)?;
            member.communicator.receive(&to, peer, &member.stream)
        };
        let failed: Result<(), NcclError> = fake().group(|| {
            exchange()?;
            Err(NcclError::NotAdded { name: "own".to_owned() })
        });
        assert!(matches!(failed.unwrap_err(), NcclError::NotAdded { .. }));
        // It has begun what was called until then.
        member.run(|_, _| Ok(()));
        assert!(to.read().unwrap() == message(peer, member.rank, 64));
        member.communicator.ready_by(deadline()).unwrap();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            fake().group(|| -> Result<(), NcclError> {
                exchange().unwrap();
                std::panic::resume_unwind(Box::new(()))
            })
        }));
        assert!(panicked.is_err());
        member.run(|_, _| Ok(()));
        // Nothing is open: a call outside of a group goes by itself.
        to.write(&[0; 64]).unwrap();
        member.run(|communicator, stream| communicator.broadcast(&from, &to, 0, stream));
        assert!(to.read().unwrap() == message(0, 1, 64));
    });
}

/// The second group is the last one before the communicator fails by itself.
fn later() -> ExitCode {
    let member = Member::begin(&fake().unique_id().unwrap(), 0, 1);
    member.communicator.ready_by(deadline()).unwrap();
    let region = member.room(1 << 16);
    let broadcast = || member.communicator.broadcast(&region, &region, 0, &member.stream);
    broadcast().unwrap();
    member.communicator.ready_by(deadline()).unwrap();
    // The call itself may see it, or it shows later.
    let end = deadline();
    let mut seen = broadcast();
    while seen.is_ok() {
        assert!(Instant::now() < end, "the error is seen");
        seen = member.communicator.state().map(drop);
    }
    let seen = seen.unwrap_err();
    assert!(matches!(seen, NcclError::Call { function: "ncclBroadcast", .. }), "{seen}");
    let again = broadcast().unwrap_err();
    assert!(matches!(again, NcclError::Call { .. }), "{again}");
    member.communicator.finish(deadline()).unwrap_err();
    ExitCode::SUCCESS
}

fn call() -> ExitCode {
    let member = Member::begin(&fake().unique_id().unwrap(), 0, 1);
    member.communicator.ready_by(deadline()).unwrap();
    let error = member.communicator.send(&member.room(8), 0, &member.stream).unwrap_err();
    let NcclError::Call { function, code, text, last } = &error else { panic!("{error}") };
    assert_eq!(*function, "ncclSend");
    assert!(code.starts_with("nccl") && !text.is_empty() && !last.is_empty(), "{error:?}");
    assert_eq!(error.to_string(), format!("ncclSend: {code}: {text} ({last})"));
    assert_eq!(fake().last_error().as_ref(), Some(last));
    member.communicator.abort().unwrap();
    ExitCode::SUCCESS
}
