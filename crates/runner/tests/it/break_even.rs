//! Where a variant breaks even, a run with that ratio has a speedup of 1.

use zipwire_runner::break_even::break_evens;
use zipwire_runner::{Cancel, ExecuteError, Prepared, RunResult, compare, executors::SIM};
use zipwire_scenarios::{Source, load};
use zipwire_traces::{BreakEven, Executors};

/// Eight ranks, of which one comes late.
const SCENARIO: &str = r#"
name = "late"
[cluster]
preset = "h100-8x"
nodes = 2
[workload]
kind = "collective"
collective = "all-to-all"
bytes_per_rank = "64 MiB"
start = ["0 us", "0 us", "0 us", "0 us", "0 us", "0 us", "0 us", "0 us", "0 us", "0 us", "0 us", "0 us", "0 us", "0 us", "0 us", "2 ms"]
[codec]
id = "window7"
ratio = 1.4
[[variant]]
name = "native"
[[variant]]
name = "coded"
protocol = "speculative"
"#;

fn run(text: &str, sets: &[String]) -> (Executors, BreakEven) {
    let experiment = load(&Source::from_text("late.toml", text, "."), sets, None).unwrap();
    let cancel = Cancel::default();
    let mut prepared = Prepared::new(&experiment, &cancel).unwrap();
    let keep = |_: &RunResult<'_>| Ok::<_, ExecuteError>(());
    let compared = compare(&mut prepared, &[SIM], "native", false, &cancel, |_, _| (), keep).unwrap();
    let found = break_evens(&compared.executors, &mut prepared, &cancel).unwrap();
    (compared.executors, found[0].1)
}

/// Slots follow the ratio.
#[test]
fn what_is_speculative_breaks_even_where_a_run_does() {
    let (_, found) = run(SCENARIO, &[]);
    let ratio = found.ratio.expect("it does");
    for (factor, gains) in [(0.99, false), (1.0, true), (1.01, true)] {
        let (executors, again) = run(SCENARIO, &[format!("codec.ratio={}", ratio * factor)]);
        let speedup = executors.get(SIM.name(), "coded").unwrap().speedup.unwrap();
        assert_eq!(speedup > 1.0 - 5e-4, gains, "{speedup} at {factor} x {ratio}");
        assert!((again.ratio.unwrap() / ratio - 1.0).abs() < 2e-3, "{again:?}, not {ratio}");
    }
}

/// A codec that takes longer than the whole call pays at no ratio that there is.
#[test]
fn no_ratio_above_what_codecs_reach_is_found() {
    let slow = "codec.speed={ encode = \"30 GB/s\", decode = \"30 GB/s\" }".to_owned();
    assert_eq!(run(SCENARIO, &[slow]).1.ratio, None);
}

/// Lengths of frames are whole bytes, so 1.45 is not to be had to the last digit.
#[test]
fn ratios_in_three_digits_are_those_of_static_sections() {
    let text = SCENARIO.replace("speculative", "static-first");
    run(&text, &["codec.ratio=1.45".to_owned()]);
    let experiment =
        load(&Source::from_text("late.toml", &text, "."), &["codec.ratio=1.46".to_owned()], None).unwrap();
    let prepared = Prepared::new(&experiment, &Cancel::default()).unwrap();
    let error = prepared.check(SIM).unwrap_err().to_string();
    assert!(error.contains("alone make 1.44985\nhelp: state at most 1.449, or leave"), "{error}");
}
