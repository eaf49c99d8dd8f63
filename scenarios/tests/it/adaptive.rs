//! Adaptive variants, drift, and codecs that are chosen: what they resolve to.

use zipwire_codec::Spec;
use zipwire_scenarios::{Dimension, Experiment, Source, load};
use zipwire_schedule::Protocol;

use crate::common::{Folder, VALID};

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

#[test]
fn a_chosen_codec_takes_a_stated_speed() {
    let text = VALID.replace("window7", "auto:link=25 GB/s");
    assert!(Folder::new().try_load(&text, &[]).is_ok());
}

/// The codec crate reads speeds itself, since it does not depend on this one.
#[test]
fn speeds_in_specs_have_the_units_of_scenarios() {
    let spec = |text: &str| format!("auto:link={text}").parse::<Spec>();
    for unit in Dimension::Bandwidth.units() {
        // Whole bytes in every unit, so that rounding plays no part.
        let text = format!("8 {unit}");
        let bytes_per_s = Dimension::Bandwidth.parse(&text).unwrap();
        assert_eq!(spec(&text).unwrap(), spec(&format!("{bytes_per_s} B/s")).unwrap(), "{text}");
    }
    for unit in ["b/s", "gb/s", "GBps", "Kb/s", "kB/s", "PB/s", "Gib/s"] {
        let text = format!("8 {unit}");
        assert_eq!((Dimension::Bandwidth.parse(&text), spec(&text).is_err()), (None, true), "{text}");
    }
}
