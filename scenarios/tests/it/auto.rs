//! `[codec] id = "auto"`: a stated speed, and speeds in specs beside those of the language.

use crate::common::{Folder, VALID};
use zipwire_codec::Spec;
use zipwire_scenarios::Dimension;

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
