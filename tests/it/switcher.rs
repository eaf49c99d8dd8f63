//! Adaptive variants beside every fixed choice: thirty scenarios that are drawn, and some in which the best choice changes.
//!
//! `cargo test -p zipwire --test it switcher:: -- --include-ignored --nocapture` prints the tables of `docs/switcher.md`.

use std::fmt::Write as _;

use rand::RngExt;
use zipwire::executors::{SIM, THREADS};
use zipwire::payload::stream;
use zipwire::scenarios::{Source, load};
use zipwire::timeline::Timeline;
use zipwire::traces::SwitcherSummary;
use zipwire::{Cancel, Prepared};

const ADAPTIVE: &str = "adaptive";
const LIBRARY: &str = include_str!("../../scenarios/switcher/library-2x2.toml");

struct Scenario {
    about: String,
    text: String,
}

/// Outcome of one scenario.
struct Row {
    about: String,
    switcher: SwitcherSummary,
    /// Regret of the arm that was the best in the first iteration.
    profiled: f64,
    /// The regret, computed from runs of the fixed variants alone.
    regret: f64,
    changes: usize,
    length_s: f64,
}

fn lengths_s(timeline: &Timeline) -> Vec<f64> {
    timeline.iterations.iter().map(|iteration| iteration.length_s).collect()
}

fn run(scenario: &Scenario) -> Row {
    let source = Source::from_text("scenario.toml", &scenario.text, ".");
    let experiment = load(&source, &[], None).unwrap_or_else(|error| panic!("{}", error.render(false)));
    let cancel = Cancel::new();
    let mut prepared = Prepared::new(&experiment, &cancel).unwrap();
    let (mut fixed, mut adaptive) = (Vec::new(), None);
    for (index, variant) in experiment.variants.iter().enumerate() {
        let outcome = prepared.run(index, SIM, &cancel).unwrap();
        let lengths_s = lengths_s(&outcome.timeline);
        match outcome.switcher {
            Some(switcher) => adaptive = Some((switcher, lengths_s)),
            None => fixed.push(lengths_s),
        }
        assert_eq!(variant.is_adaptive(), variant.name == ADAPTIVE);
    }
    let (switcher, lengths_s) = adaptive.unwrap();
    let after = switcher.warm_up_iterations as usize..lengths_s.len();
    let best_s: f64 =
        after.clone().map(|i| fixed.iter().map(|arm| arm[i]).fold(f64::INFINITY, f64::min)).sum();
    let first = (0..fixed.len()).min_by(|&a, &b| fixed[a][0].total_cmp(&fixed[b][0])).unwrap();
    let profiled_s: f64 = fixed[first][after.clone()].iter().sum();
    let changes = switcher.decisions.iter().filter(|decision| decision.reason == "best").count();
    Row {
        about: scenario.about.clone(),
        profiled: profiled_s / best_s - 1.0,
        regret: lengths_s[after].iter().sum::<f64>() / best_s - 1.0,
        changes,
        length_s: lengths_s.iter().sum::<f64>() / lengths_s.len() as f64,
        switcher,
    }
}

fn table(title: &str, rows: &[Row]) -> String {
    let percent = |value: f64| format!("{:.2} %", 100.0 * value);
    let mut text = format!(
        "\n{title}\n\n| scenario | iteration | over native | over the oracle | profile at start over the oracle | probes | statistics | switches |\n\
         |---|---|---|---|---|---|---|---|\n"
    );
    for Row { about, switcher, profiled, changes, length_s, .. } in rows {
        writeln!(
            text,
            "| {about} | {:.3} ms | {} | {} | {} | {} | {} | {} |",
            1e3 * length_s,
            percent(switcher.over_native.unwrap()),
            percent(switcher.regret.unwrap()),
            percent(*profiled),
            percent(switcher.probing_share.unwrap()),
            percent(switcher.statistics_share),
            changes - switcher.classes.len(),
        )
        .unwrap();
    }
    text
}

fn variants(arms: &[&str]) -> String {
    let fixed = arms.iter().fold(String::new(), |text, arm| {
        text + &format!("[[variant]]\nname = \"{arm}\"\nprotocol = \"{arm}\"\n")
    });
    format!("{fixed}[[variant]]\nname = \"{ADAPTIVE}\"\nprotocol = \"adaptive\"\narms = {arms:?}\n")
}

/// A scenario with everything that could matter drawn.
fn drawn(number: u64) -> Scenario {
    let mut rng = stream(7, "switcher scenarios", [number, 0, 0]);
    // Between the limits on a logarithmic scale.
    let mut between = |low: f64, high: f64| low * libm::pow(high / low, rng.random_range(0.0..1.0));
    let nodes = [1, 2, 4, 8][number as usize % 4];
    let is_moe = number % 3 == 2;
    // Iterations of `moe` differ from one another, so each is simulated.
    let gpus = if nodes == 8 || is_moe { 2 } else { 4 };
    let nodes = if is_moe { nodes.min(4) } else { nodes };
    let nic = between(5.0, 50.0);
    let gpu = between(20.0, 200.0).max(nic);
    let bytes = between(65_536.0, 67_108_864.0) as u64 / 4096 * 4096;
    let ratio = between(1.02, 1.6);
    let (encode, decode) = (between(20.0, 900.0), between(20.0, 900.0));
    let (inter, launch) = (between(3.0, 30.0), between(0.5, 5.0));
    let skew = between(1.0, 300.0);
    let iterations = between(60.0, 200.0) as u32;
    // Static sections alone allow no more than 1.45.
    let arms: &[&str] = if ratio < 1.42 {
        &["native", "size-first", "static-first", "overlap-sizes"]
    } else {
        &["native", "size-first", "speculative"]
    };
    let ranks = nodes * gpus;
    let workload = if is_moe {
        let tokens = (bytes / 16_384).max(16);
        format!(
            "kind = \"moe\"\nmodel = {{ experts = {ranks}, top_k = 2, hidden = 2048, tokens_per_rank = {tokens} }}\n\
             routing = {{ dirichlet = 16.0 }}\nskew = {{ base = \"{skew:.3} us\" }}\n"
        )
    } else {
        let start: Vec<String> =
            (0..ranks).map(|_| format!("{:.3} us", between(0.1, skew.max(0.2)))).collect();
        let collective = if number.is_multiple_of(3) { "all-to-all" } else { "all-gather" };
        format!(
            "kind = \"collective\"\ncollective = \"{collective}\"\nbytes_per_rank = \"{bytes} B\"\nstart = {start:?}\n"
        )
    };
    let algorithm = if number % 3 == 1 { "direct" } else { "" };
    let variants = variants(arms);
    let variants = if algorithm.is_empty() {
        variants
    } else {
        variants
            .replace("\nprotocol = \"adaptive\"", "\nprotocol = \"ADAPTIVE\"")
            .replace("\nprotocol = ", &format!("\nalgorithm = \"{algorithm}\"\nprotocol = "))
            .replace(
                &format!("algorithm = \"{algorithm}\"\nprotocol = \"ADAPTIVE\""),
                "protocol = \"adaptive\"",
            )
    };
    let text = format!(
        "name = \"drawn-{number}\"\nseed = {number}\niterations = {iterations}\n[cluster]\nnodes = {nodes}\n\
         gpus_per_node = {gpus}\ngpu_bandwidth = \"{gpu:.3} GB/s\"\nnic_bandwidth = \"{nic:.3} GB/s\"\n\
         latency_intra = \"2 us\"\nlatency_inter = \"{inter:.3} us\"\nlaunch = \"{launch:.3} us\"\n\
         host_sync = \"5 us\"\n[workload]\n{workload}[codec]\nid = \"window7\"\nratio = {ratio:.3}\n\
         speed = {{ encode = \"{encode:.1} GB/s\", decode = \"{decode:.1} GB/s\", launch = \"5 us\" }}\n{variants}"
    );
    let kind = ["all-to-all", "all-gather", "moe"][number as usize % 3];
    let about = format!(
        "{number}: {kind}, {nodes} x {gpus}, NIC {nic:.0} GB/s, {:.2} MiB, ratio {ratio:.2}, codec {encode:.0}/{decode:.0} GB/s, {iterations}",
        bytes as f64 / 1_048_576.0
    );
    Scenario { about, text }
}

/// Scenarios of which each kind of calls is on each number of nodes.
#[test]
fn twelve_scenarios_are_never_much_slower_than_the_best_choice() {
    are_never_much_slower_than_the_best_choice(12);
}

mod whole {
    #[test]
    #[ignore = "some seconds: .ci/run runs it, and the short form is beside it"]
    fn thirty_scenarios_are_never_much_slower_than_the_best_choice() {
        super::are_never_much_slower_than_the_best_choice(30);
    }
}

fn are_never_much_slower_than_the_best_choice(scenarios: u64) {
    let rows: Vec<Row> = (0..scenarios).map(|number| run(&drawn(number))).collect();
    println!("{}", table("Drawn scenarios", &rows));
    for Row { about, switcher, regret, .. } in &rows {
        assert!(switcher.over_native.unwrap() <= 0.01, "{about}: slower than native");
        assert!(switcher.regret.unwrap() <= 0.03, "{about}: {:?} over the oracle", switcher.regret);
        assert!(switcher.probing_share.unwrap() <= 0.005, "{about}: {:?} for probes", switcher.probing_share);
        // The oracle of the run knows more than fixed variants where there are several classes, and never less.
        assert!(switcher.regret.unwrap() >= regret - 1e-9, "{about}");
        if switcher.classes.len() == 1 {
            assert!((switcher.regret.unwrap() - regret).abs() < 1e-9, "{about}: another oracle");
        }
    }
    // The scenarios are not all alike: coding pays in some of them only.
    let gain = |row: &&Row| row.switcher.over_native.unwrap() < -0.05;
    let gains = rows.iter().filter(gain).count();
    assert!(6 * gains >= rows.len() && 6 * gains <= 5 * rows.len(), "{gains}");
}

fn drifting(about: &str, sets: &[(&str, &str)]) -> Scenario {
    let mut text = include_str!("../../scenarios/switcher/drift.toml").to_owned();
    let begin = text.find("[[drift]]").unwrap();
    let end = text.find("[[variant]]").unwrap();
    text.replace_range(begin..end, "DRIFT\n");
    for (from, to) in sets {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    Scenario { about: about.to_owned(), text }
}

#[test]
fn drift_is_followed() {
    let scenarios = [
        drifting("ratio 1.12 to 1.42 at 40", &[("DRIFT", "[[drift]]\nfrom = 40\nratio = 1.42")]),
        drifting(
            "ratio 1.12 to 1.42 from 40 to 120",
            &[("DRIFT", "[[drift]]\nfrom = 40\nto = 120\nratio = 1.42")],
        ),
        drifting(
            "ratio 1.42 to 1.12 at 40",
            &[("ratio = 1.12", "ratio = 1.42"), ("DRIFT", "[[drift]]\nfrom = 40\nratio = 1.12")],
        ),
        drifting(
            "NICs 40 to 15 GB/s at 60, ratio 1.2",
            &[
                ("ratio = 1.12", "ratio = 1.2"),
                ("DRIFT", "[[drift]]\nfrom = 60\nnic_bandwidth = \"15 GB/s\""),
            ],
        ),
        drifting(
            "NICs 15 to 100 GB/s at 60, ratio 1.2",
            &[
                ("ratio = 1.12", "ratio = 1.2"),
                ("nic_bandwidth = \"40 GB/s\"", "nic_bandwidth = \"15 GB/s\""),
                ("DRIFT", "[[drift]]\nfrom = 60\nnic_bandwidth = \"100 GB/s\""),
            ],
        ),
        drifting(
            "one NIC 40 to 12 GB/s from 60 to 80, ratio 1.2",
            &[
                ("ratio = 1.12", "ratio = 1.2"),
                ("DRIFT", "[[drift]]\nfrom = 60\nto = 80\nlinks = { \"nic 0 up\" = \"12 GB/s\" }"),
            ],
        ),
    ];
    let rows: Vec<Row> = scenarios.iter().map(run).collect();
    println!("{}", table("Drift", &rows));
    for Row { about, switcher, regret, profiled, changes, .. } in &rows {
        assert!(*profiled > 0.03, "{about}: the best choice must change, {profiled}");
        assert!(*changes >= 2, "{about}: nothing was switched");
        assert!(switcher.regret.unwrap() <= 0.03, "{about}: {:?} over the oracle", switcher.regret);
        assert!((switcher.regret.unwrap() - regret).abs() < 1e-9, "{about}: another oracle");
        assert!(switcher.probing_share.unwrap() <= 0.005, "{about}: {:?} for probes", switcher.probing_share);
    }
}

#[test]
fn the_same_scenario_is_decided_alike() {
    let scenario = drawn(2);
    let (first, second) = (run(&scenario).switcher, run(&scenario).switcher);
    assert_eq!(first, second);
    assert!(first.classes.len() == 2, "dispatch and combine");
}

/// ZipCCL's choice, native calls of the library or zipped ones: each class of Reduce-Scatters has the one that is shorter for its length,
/// so all together are faster than either.
#[test]
fn calls_of_a_library_are_arms() {
    let scenario = Scenario { about: String::new(), text: LIBRARY.to_owned() };
    let switcher = run(&scenario).switcher;
    let last = |name: &str| {
        let class = switcher.classes.iter().position(|class| class.name == name).unwrap();
        let mut decisions = switcher.decisions.iter();
        decisions.rfind(|decision| decision.class == class && decision.reason == "best").unwrap().arm.clone()
    };
    assert_eq!([last("L0 reduce-scatter"), last("root reduce-scatter")], ["native", "zipped"]);
    let experiment = load(&Source::from_text("library.toml", LIBRARY, "."), &[], None).unwrap();
    let cancel = Cancel::new();
    let mut prepared = Prepared::new(&experiment, &cancel).unwrap();
    // What is sent is a mean of FP32 and BF16, as sums are native in some iterations and calls.
    let raw = [0, 1].map(|arm| prepared.planned(arm).plan.bytes_raw());
    assert!(switcher.bytes_raw < raw[0] && switcher.bytes_raw > raw[1], "{} of {raw:?}", switcher.bytes_raw);
    let last_s: Vec<f64> = (0..experiment.variants.len())
        .map(|index| *lengths_s(&prepared.run(index, SIM, &cancel).unwrap().timeline).last().unwrap())
        .collect();
    assert!(last_s[2] < 0.95 * last_s[0].min(last_s[1]), "{last_s:?}");
}

/// On threads the switcher learns from real times, so it may choose anything; whatever that is arrives as it was sent.
#[test]
fn what_is_chosen_on_threads_is_verified() {
    for text in [include_str!("../../scenarios/switcher/small-2x2.toml"), LIBRARY] {
        verified_on_threads(text);
    }
}

fn verified_on_threads(text: &str) {
    let experiment = load(&Source::from_text("small.toml", text, "."), &[], None).unwrap();
    let index = experiment.variants.iter().position(|variant| variant.name == ADAPTIVE).unwrap();
    let cancel = Cancel::new();
    let mut prepared = Prepared::new(&experiment, &cancel).unwrap();
    let outcome = prepared.run(index, THREADS, &cancel).unwrap();
    assert_eq!(outcome.verified, Some(true));
    assert_eq!(outcome.timeline.iterations.len(), experiment.iterations as usize);
    let switcher = outcome.switcher.unwrap();
    // The warm-up tries every arm in every class of calls.
    for (class, arm) in
        (0..switcher.classes.len()).flat_map(|class| switcher.arms.iter().map(move |arm| (class, arm)))
    {
        let tried = switcher.decisions.iter().any(|decision| decision.class == class && decision.arm == *arm);
        assert!(tried, "{arm} in {class}: {:?}", switcher.decisions);
    }
    assert_eq!((switcher.regret, switcher.probing_share), (None, None), "nothing else was simulated");
}
