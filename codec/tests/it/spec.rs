//! Specs: what parses to what, and what is said about the rest.

use zipwire_codec::{Spec, SpecError};

/// Message and help of a spec's error, joined as printers of errors do.
fn message(text: &str) -> String {
    let error = text.parse::<Spec>().expect_err("it is no spec");
    error.help().map_or(error.to_string(), |help| format!("{error}\nhelp: {help}"))
}

#[test]
fn canonical_text_leaves_defaults_out() {
    zipwire_paper_codecs::register();
    for (text, canonical) in [
        ("raw", "raw"),
        ("window7", "window7"),
        ("window7:scale=exact", "window7"),
        ("window7:scale=std", "window7:scale=std"),
        ("window7:scale=mean-abs", "window7:scale=mean-abs"),
        ("auto:goal=link", "auto"),
        ("auto:link=1 GB/s", "auto"),
        ("auto:goal=size", "auto:goal=size"),
        ("auto:link=25GB/s", "auto:link=25 GB/s"),
        ("auto:link=100 Gb/s,row=64", "auto:link=12.5 GB/s,row=64"),
        ("dedup+raw", "dedup+raw"),
        ("dedup:row=0+raw", "dedup+raw"),
        ("dedup:row=0256+tiered", "dedup:row=256+tiered"),
        ("dedup:row=7+window7:scale=exact", "dedup:row=7+window7"),
    ] {
        let spec: Spec = text.parse().unwrap();
        assert_eq!(spec.to_string(), canonical);
        assert_eq!(spec, canonical.parse().unwrap());
        assert_eq!(spec.codec().id(), text.split([':', '+']).next().unwrap());
    }
    assert_ne!("window7".parse::<Spec>(), "window7:scale=std".parse());
}

#[test]
fn options_reach_the_codec() {
    zipwire_paper_codecs::register();
    let debug = |text: &str| format!("{:?}", text.parse::<Spec>().unwrap().codec());
    assert!(debug("window7:scale=std").contains("Std"));
    assert!(debug("window7:scale=mean-abs").contains("MeanAbs"));
    assert!(debug("window7").contains("Exact"));
}

#[test]
fn rows_are_told_where_the_spec_leaves_them_open() {
    let told = |text: &str, values| text.parse::<Spec>().unwrap().for_rows(values).to_string();
    assert_eq!(told("dedup+raw", 256), "dedup:row=256+raw");
    assert_eq!(told("dedup:row=64+raw", 256), "dedup:row=64+raw");
    assert_eq!(told("dedup:row=64+tiered", 256), "dedup:row=64+tiered:row=256");
    assert_eq!(told("dedup+raw", usize::MAX), "dedup+raw");
    let complete = |text: &str| text.parse::<Spec>().unwrap().complete().map(|spec| spec.to_string());
    assert_eq!(complete("dedup:row=64+tiered"), Ok("dedup:row=64+tiered".to_owned()));
    assert_eq!(complete("tiered"), Ok("tiered".to_owned()));
    let error = complete("dedup+tiered").unwrap_err();
    assert_eq!(error.to_string(), "`dedup+tiered` does not say how long a row is");
    let help = "write `dedup:row=N+...` with the number of values in a row";
    assert_eq!(error.help().as_deref(), Some(help));
}

#[test]
fn ids_are_those_that_parse() {
    assert!(Spec::ids().all(|id| id.parse::<Spec>().unwrap().to_string() == id));
    assert!(Spec::prefixes().all(|id| format!("{id}+tiered").parse::<Spec>().unwrap().codec().id() == id));
}

#[test]
fn errors_say_what_would_do() {
    zipwire_paper_codecs::register();
    let ids: Vec<String> = Spec::ids().map(|id| format!("`{id}`")).collect();
    for text in ["windw7", "", "dedup", "raw+tiered", "dedup+dedup+raw"] {
        let codec = text.strip_prefix("dedup+").unwrap_or(text);
        let expected = format!("unknown codec `{codec}`\nhelp: the codecs are {}", ids.join(", "));
        assert_eq!(message(text), expected);
    }
    assert_eq!(message("raw:scale=std"), "codec `raw` has no option `scale`\nhelp: it has none");
    assert_eq!(
        message("window7:size=1"),
        "codec `window7` has no option `size`\nhelp: its options are `scale`"
    );
    assert_eq!(
        message("window7:scale=median"),
        "option `scale` of codec `window7` cannot be `median`\nhelp: its values are `exact`, `std`, `mean-abs`"
    );
    for options in ["goal=size,link=1 GB/s", "link=25 GB/s,row=2,goal=link"] {
        assert_eq!(
            message(&format!("auto:{options}")),
            "codec `auto` takes either `goal` or `link`\nhelp: leave `goal` out, or the other one"
        );
    }
    assert_eq!(
        message("auto:link=25"),
        "option `link` of codec `auto` cannot be `25`\nhelp: its values are speeds with their unit, like `25 GB/s` or `400 Gb/s`"
    );
    assert_eq!(message("window7:scale=std,scale=std"), "option `scale` of codec `window7` is given twice");
    assert_eq!(
        message("dleta+tiered"),
        "unknown prefix `dleta`\nhelp: in front of a codec there can be `dedup`, `delta`"
    );
    assert_eq!(
        message("dedup:rows=2+raw"),
        "codec `dedup` has no option `rows`\nhelp: its options are `row`"
    );
    for value in ["", "-1", "65537", "x"] {
        assert_eq!(
            message(&format!("dedup:row={value}+raw")),
            format!(
                "option `row` of codec `dedup` cannot be `{value}`\n\
                 help: its values are whole numbers from `0` to `65536`"
            )
        );
    }
    assert_eq!(message("dedup:row=1,row=1+raw"), "option `row` of codec `dedup` is given twice");
    assert_eq!(message("dedup:row+raw"), "`row` is not an option\nhelp: write `name:key=value,key=value`");
    assert_eq!(message("window7:"), "`` is not an option\nhelp: write `name:key=value,key=value`");
    let malformed = SpecError::Malformed { text: "scale".to_owned() };
    assert_eq!("window7:scale".parse::<Spec>(), Err(malformed));
}

#[test]
fn numbers_are_whole_and_rows_are_set_where_they_are_not_given() {
    zipwire_paper_codecs::register();
    let spec = |text: &str| text.parse::<Spec>().unwrap();
    assert_eq!(spec("tiered:row=0"), spec("tiered"));
    assert_eq!(spec("tiered:row=0512").to_string(), "tiered:row=512");
    assert!(format!("{:?}", spec("tiered:row=512").codec()).contains("512"));
    for value in ["-1", "+1", "1.5", "", "16777217", "99999999999", "many"] {
        let found = message(&format!("tiered:row={value}"));
        let help = "help: its values are whole numbers from `0` to `16777216`";
        assert_eq!(found, format!("option `row` of codec `tiered` cannot be `{value}`\n{help}"));
    }
    assert_eq!(spec("tiered").for_rows(768), spec("tiered:row=768"));
    assert_eq!(spec("tiered:row=512").for_rows(768), spec("tiered:row=512"));
    assert_eq!(spec("tiered").for_rows(usize::MAX), spec("tiered"));
    assert_eq!(spec("window7:scale=std").for_rows(768), spec("window7:scale=std"));
}
