//! `[codec] id = "auto"`: the help where it has no speed, and speeds in specs beside those of the language.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use crate::common;

use common::{VALID, error, valid_with};
use insta::assert_snapshot;
use zipwire_codec::Spec;
use zipwire_scenarios::Dimension;

#[test]
fn a_chosen_codec_needs_a_stated_speed() {
    let stated = "speed = { encode = \"180 GB/s\", decode = \"260 GB/s\" }\n";
    let without = |id: &str| {
        let text = valid_with(stated, "").replace("id = \"window7\"", &format!("id = \"{id}\""));
        error(&text, &[])
    };
    assert_snapshot!(without("auto"), @r#"
    error: how fast is codec `auto`? neither the scenario nor its cluster says so
      --> test.toml:17:1
       |
    17 | [codec]
       | ^^^^^^^
       |
       = help: `auto` makes frames of several codecs, of different speeds: state `speed = { encode = "... GB/s", decode = "... GB/s" }`, which then is that of every chunk, or name the codec
    "#);
    for id in ["auto:goal=size", "auto:link=25 GB/s", "dedup:row=16+auto"] {
        let text = without(id);
        assert!(text.contains(&format!("how fast is codec `{id}`?")), "{text}");
        assert!(text.contains("`auto` makes frames of several codecs"), "{text}");
    }
    assert!(!without("window7").contains("`auto`"));
    let text = VALID.replace("window7", "auto:link=25 GB/s");
    assert!(common::Folder::new().try_load(&text, &[]).is_ok(), "with a speed");
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
