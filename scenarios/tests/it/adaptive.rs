//! Adaptive variants and drift: what they resolve to.

use zipwire_scenarios::{Experiment, Source, load};
use zipwire_schedule::Protocol;

fn read() -> Experiment {
    let text = include_str!("../../switcher/drift.toml");
    load(&Source::from_text("drift.toml", text, "."), &[], None).unwrap()
}

#[test]
fn arms_are_whole_variants() {
    let mut experiment = read();
    let arms: Vec<Protocol> = experiment.variants[3].arms.iter().map(|arm| arm.protocol).collect();
    assert_eq!(arms, [Protocol::Native, Protocol::SizeFirst, Protocol::StaticFirst]);
    assert!(experiment.variants[3].is_adaptive() && experiment.variants[3].is_coded());
    experiment.select(&["adaptive".to_owned()]).unwrap();
    assert_eq!(experiment.variants[0].arms.len(), 3, "arms need not run themselves");
    assert!(experiment.payload.is_none(), "a stated ratio has no payload");
}

#[test]
fn conditions_follow_the_drifts() {
    let experiment = read();
    let at = |iteration| {
        let conditions = experiment.conditions(iteration);
        (conditions.ratio.unwrap(), conditions.topology.nic_bandwidth)
    };
    assert_eq!([at(0), at(39), at(40)], [(1.12, 40e9), (1.12, 40e9), (1.42, 40e9)]);
    assert_eq!([at(120), at(130), at(140), at(199)], [40e9, 32.5e9, 25e9, 25e9].map(|nic| (1.42, nic)));
    let phases = experiment.phases();
    assert_eq!(
        (phases[0].clone(), phases[1].clone(), phases.last().unwrap().clone()),
        (0..40, 40..120, 140..200)
    );
    let own = &experiment.variants[1];
    assert_eq!(experiment.largest_ratio(own), Some(1.42));
}
