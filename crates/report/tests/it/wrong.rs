//! Files that are no results: errors name the place and a remedy.

use zipwire_report::Outcome;

use crate::samples::{advice, run, sweep, validation};

#[track_caller]
fn refused(text: &str, says: &str) {
    let error = Outcome::read("x.json", text).unwrap_err().to_string();
    assert!(error.starts_with("`x.json`") && error.contains(says), "{error}");
    let (_, last) = error.rsplit_once('\n').unwrap();
    assert!(last.starts_with("help: "), "{error}");
}

#[test]
fn errors_name_the_place_and_a_remedy() {
    refused("", "ends too early, at line 1 column 0");
    refused("hello", "line 1 column 1 is not JSON: expected value");
    refused("{\n  \"a\": 1,\n  b\n}", "line 3 column 3 is not JSON: key must be a string");
    refused("[1, 2]", "is not as zipwire");
    refused("{}", "has none of `executors`, `rows`, `variants` and `zipwire_advice`");
    refused(
        r#"{"executors": {"sim": {"native": {"comm_s": "fast"}}}, "scenario": "s", "seed": 1}"#,
        "invalid type: string \"fast\"",
    );
    refused(r#"{"executors": {}}"#, "missing field `scenario`");
}

/// Wherever a file ends, it is refused, and nothing panics.
#[test]
fn truncated_results_are_refused() {
    for text in [run("v"), sweep("v"), validation("v"), advice("v")] {
        for end in 0..text.len() {
            let error = Outcome::read("x.json", &text[..end]).unwrap_err().to_string();
            assert!(error.contains("help: "), "{error}");
        }
    }
}

/// Advice of an older or newer program may lack anything but its mark.
#[test]
fn advice_may_lack_all_that_is_optional() {
    let outcome =
        Outcome::read("advice.json", r#"{"zipwire_advice": 1, "verdict": {"compress": false}}"#).unwrap();
    assert!(zipwire_report::report(&[outcome]).contains("do not compress"));
}

#[test]
fn a_record_of_something_else_is_refused() {
    let mut outcome = Outcome::read("out", &run("v")).unwrap();
    let error = outcome.add_record("run.json", "[]").unwrap_err().to_string();
    assert!(error.contains("run.json") && error.contains("help: "), "{error}");
}
