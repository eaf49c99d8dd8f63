//! Failures: requests that are cancelled, instances that die, bytes that are damaged, runs that are stopped.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use zipwire_engine::serving::{Damage, Fault, Instance, ServeError, ServingSetup, run as serve};
use zipwire_schedule::{FailureKind, Rank};
use zipwire_serving::{
    ComputeTime, DecodeTime, FailReason, Loss, Move, Outcome, PrefillTime, RequestId, Trouble,
};

use crate::serving::scenes::{Scene, assert_tidy, coding, requests, run};

/// A millisecond for each token of a prompt, and ten for each step.
fn slowly(setup: &mut ServingSetup<'_>) {
    setup.time_scale = 1.0;
    setup.compute = ComputeTime {
        prefill: PrefillTime { token_s: 2e-4, ..PrefillTime::default() },
        decode: DecodeTime { step_s: 0.02, ..DecodeTime::default() },
    };
}

fn trouble(at_s: f64, what: Loss) -> Trouble {
    Trouble { at_s, what }
}

#[test]
fn who_is_cancelled_holds_nothing_any_more() {
    for moves in Move::ALL {
        let mut scene = Scene::grouped([2, 1]);
        scene.config.moves = moves;
        scene.requests = requests(&[600; 12], 0.01);
        for codec in [None, Some("tiered")] {
            let mut setup = scene.setup(codec);
            slowly(&mut setup);
            let leaves =
                |request| trouble(0.02 + 0.035 * f64::from(request), Loss::Request(RequestId(request)));
            let troubles: Vec<Trouble> = (0..12).map(leaves).collect();
            setup.troubles = &troubles;
            let served = run(&setup).unwrap();
            assert_tidy(&served);
            let is_cancelled = |outcome: &Outcome| *outcome == Outcome::Failed(FailReason::Cancelled);
            let outcomes = served.recorder.records().iter().map(|record| record.outcome);
            assert!(outcomes.filter(is_cancelled).count() > 0, "{:?}", served.census);
        }
    }
}

#[track_caller]
fn loses(instance: Instance, codec: Option<&str>) {
    let mut scene = Scene::grouped([2, 1]);
    scene.requests = requests(&[600; 16], 0.02);
    let mut setup = scene.setup(codec);
    slowly(&mut setup);
    setup.lost_after = Duration::from_millis(700);
    let what = match instance {
        Instance::Prefill(index) => Loss::Prefill(index),
        Instance::Decode(index) => Loss::Decode(index),
    };
    let troubles = [trouble(0.15, what)];
    setup.troubles = &troubles;
    let served = run(&setup).unwrap();
    assert_tidy(&served);
    assert_eq!(served.lost.iter().map(|lost| lost.instance).collect::<Vec<_>>(), [instance]);
    assert!(served.lost[0].noticed_s > 0.15 + 0.6, "{:?}", served.lost);
    let records = served.recorder.records();
    let lost = records.iter().filter(|record| record.outcome == Outcome::Failed(FailReason::InstanceLost));
    assert!(lost.count() > 0, "{:?}", served.census);
    // The other instance serves all that come after it.
    assert!(served.census.finished > 0, "{:?}", served.census);
}

#[test]
fn a_prefill_instance_that_dies_takes_its_caches_with_it() {
    loses(Instance::Prefill(1), None);
    loses(Instance::Prefill(0), Some("tiered"));
}

#[test]
fn a_decode_instance_that_dies_takes_its_caches_with_it() {
    loses(Instance::Decode(0), None);
    loses(Instance::Decode(1), Some("tiered"));
}

#[test]
fn damaged_bytes_are_noticed_and_named() {
    for (codec, verifies) in [(None, true), (Some("tiered"), true), (Some("tiered"), false)] {
        for byte in [0, 60, 1000] {
            let scene = Scene::grouped([1, 1]);
            let mut setup = scene.setup(codec);
            let faults = [Fault { request: RequestId(3), layer: 2, damage: Damage::Flip(byte) }];
            (setup.faults, setup.verifies) = (&faults, verifies);
            let error = run(&setup).unwrap_err();
            let ServeError::Failed { rank, request, kind, detail } = &error else { panic!("{error}") };
            assert_eq!((*request, *kind), (Some(RequestId(3)), FailureKind::Corrupt), "{detail}");
            assert!(*rank >= Rank(2), "it is one that decodes: {error}");
            assert!(error.to_string().contains("request 3"), "{error}");
        }
    }
}

#[test]
fn a_standstill_ends_and_says_who_is_waited_for() {
    let scene = Scene::grouped([1, 1]);
    let mut setup = scene.setup(Some("tiered"));
    let faults = [Fault { request: RequestId(0), layer: 0, damage: Damage::Drop }];
    setup.faults = &faults;
    setup.stuck_after = Duration::from_millis(400);
    let error = run(&setup).unwrap_err();
    let ServeError::Failed { request, kind, .. } = &error else { panic!("{error}") };
    assert_eq!((*request, *kind), (Some(RequestId(0)), FailureKind::Timeout), "{error}");
    assert!(error.to_string().contains("nothing has ended"), "{error}");
}

#[test]
fn a_run_that_is_stopped_ends_within_a_second() {
    let scene = Scene::grouped([2, 1]);
    let mut setup = scene.setup(Some("tiered"));
    slowly(&mut setup);
    setup.time_scale = 100.0;
    let cancel = AtomicBool::new(false);
    let took = std::thread::scope(|scope| {
        let run = scope.spawn(|| (serve(&setup, &cancel), Instant::now()));
        std::thread::sleep(Duration::from_millis(300));
        cancel.store(true, Ordering::Relaxed);
        let begin = Instant::now();
        let (served, end) = run.join().unwrap();
        assert_eq!(served.unwrap_err(), ServeError::Stopped);
        end - begin
    });
    assert!(took < Duration::from_secs(1), "{took:?}");
}

/// All that arrives ends, whatever happens meanwhile.
#[test]
fn nothing_is_lost_in_the_midst_of_everything() {
    let mut scene = Scene::grouped([2, 2]);
    scene.requests = requests(&[600, 30, 900, 256, 1], 0.01);
    let mut list: Vec<_> = scene.requests.list().iter().cycle().take(30).cloned().collect();
    (0_u32..).zip(&mut list).for_each(|(index, request)| request.arrival_s = 0.01 * f64::from(index));
    scene.requests = zipwire_serving::Requests::new(list, 16);
    let mut setup = scene.setup(None);
    setup.coding = Some(coding("tiered"));
    slowly(&mut setup);
    setup.lost_after = Duration::from_millis(700);
    let mut troubles = vec![trouble(0.1, Loss::Prefill(0)), trouble(0.2, Loss::Decode(1))];
    let leaves = |index: u32| trouble(0.03 * f64::from(index), Loss::Request(RequestId(3 * index)));
    troubles.extend((0..10).map(leaves));
    setup.troubles = &troubles;
    let served = run(&setup).unwrap();
    assert_tidy(&served);
    assert_eq!(served.census.arrived, 30);
}

#[test]
fn a_run_that_has_a_time_ends_then() {
    let mut scene = Scene::grouped([2, 1]);
    scene.requests = requests(&[600; 40], 0.02);
    let mut setup = scene.setup(Some("tiered"));
    slowly(&mut setup);
    setup.until_s = Some(0.3);
    let served = run(&setup).unwrap();
    assert!(served.census.in_flight > 0 && served.census.arrived < 40, "{:?}", served.census);
    assert_eq!(served.totals.buffers_in_use, 0, "{:?}", served.totals);
    assert!((served.end_s - 0.3).abs() < 0.1, "{}", served.end_s);
}
