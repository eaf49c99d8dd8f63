//! Adaptive variants and drift: what they resolve to, and what is wrong with them.

use zipwire_scenarios::{Experiment, ScenarioError, Source, load};
use zipwire_schedule::Protocol;

fn read(sets: &[&str]) -> Result<Experiment, ScenarioError> {
    let text = include_str!("../../switcher/drift.toml");
    let sets: Vec<String> = sets.iter().map(|&set| set.to_owned()).collect();
    load(&Source::from_text("drift.toml", text, "."), &sets, None)
}

fn error(sets: &[&str]) -> String {
    read(sets).unwrap_err().problem().to_string()
}

#[test]
fn arms_are_whole_variants() {
    let mut experiment = read(&[]).unwrap();
    let arms: Vec<Protocol> = experiment.variants[3].arms.iter().map(|arm| arm.protocol).collect();
    assert_eq!(arms, [Protocol::Native, Protocol::SizeFirst, Protocol::StaticFirst]);
    assert!(experiment.variants[3].is_adaptive() && experiment.variants[3].is_coded());
    experiment.select(&["adaptive".to_owned()]).unwrap();
    assert_eq!(experiment.variants[0].arms.len(), 3, "arms need not run themselves");
    assert!(experiment.payload.is_none(), "a stated ratio has no payload");
}

#[test]
fn conditions_follow_the_drifts() {
    let experiment = read(&[]).unwrap();
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

#[test]
fn what_adaptive_variants_cannot_be() {
    let cases = [
        ("variant.adaptive.arms=[\"native\", \"statc-first\"]", "unknown fixed variant `statc-first`"),
        ("variant.adaptive.arms=[\"native\", \"adaptive\"]", "unknown fixed variant `adaptive`"),
        ("variant.adaptive.arms=[\"native\", \"native\"]", "two variants are called `native`"),
        ("variant.adaptive.arms=[\"native\"]", "out of range"),
        ("variant.adaptive.parts=2", "does what its arms do"),
        ("variant.native.arms=[\"native\"]", "only `adaptive` variants have arms"),
        (
            "variant.size-first.codec={ id = \"tiered\", ratio = 1.2, speed = { encode = \"1 GB/s\", decode = \"1 GB/s\" } }",
            "the arms of variant `adaptive` have different codecs",
        ),
    ];
    for (set, expected) in cases {
        let found = error(&[set]);
        assert!(found.contains(expected), "{set}: {found}");
    }
}

#[test]
fn what_drifts_cannot_be() {
    let cases = [
        ("drift=[{ from = 3 }]", "missing key `ratio`"),
        ("drift=[{ from = 200, ratio = 1.2 }]", "`drift.0.from` is out of range"),
        ("drift=[{ from = 9, to = 3, ratio = 1.2 }]", "`drift.0.to` is out of range"),
        ("drift=[{ from = 9, ratio = 1.2 }, { from = 3, ratio = 1.3 }]", "`drift.1.from` is out of range"),
        ("drift=[{ from = 3, links = { x = \"1 GB/s\" } }]", "the cluster has no link `x`"),
        ("fault=[{ kind = \"dead-rank\", rank = 1 }]", "`drift` has no effect"),
        ("cluster.topology=flat", "`drift.1.nic_bandwidth` has no effect"),
    ];
    for (set, expected) in cases {
        let found = error(&[set]);
        assert!(found.contains(expected), "{set}: {found}");
    }
}
