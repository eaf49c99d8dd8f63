//! Pictures of each kind of result: whole, harmless whatever names are, as wide as was said, and the same twice.

use zipwire_report::{Outcome, PLOT_MARK, Plot, ReportError};

use crate::samples::{HOSTILE, advice, run, sweep, trace, validation};

fn plots(name: &str) -> Vec<Plot> {
    let of =
        |text: &str, picture| Plot::of(&Outcome::read("result", text).unwrap(), Some(picture), None).unwrap();
    vec![
        of(&run(name), "variants"),
        of(&run(name), "times"),
        of(&sweep(name), "time"),
        of(&sweep(name), "speedup"),
        of(&validation(name), "agreement"),
        Plot::of_timeline("timeline", &trace("sim", name, name), None, None).unwrap(),
    ]
}

#[test]
fn names_are_shown_and_not_obeyed() {
    for (plot, again) in plots(HOSTILE).iter().zip(plots(HOSTILE)) {
        let svg = plot.svg();
        assert!(svg.starts_with(PLOT_MARK) && svg.trim_end().ends_with("</svg>"), "{svg}");
        assert!(!svg.contains("<img") && !svg.contains("</script") && !svg.contains('\u{1b}'), "{svg}");
        assert_eq!(svg, again.svg());
        for columns in [1, 40, 80, 100_000] {
            let text = plot.text(columns, false);
            assert!(!text.contains('\u{1b}'), "{text}");
            let longest = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(longest <= columns.clamp(40, 400), "{longest} of {columns}: {text}");
        }
        assert!(plot.text(80, true).contains("\u{1b}[38;5;"));
    }
}

#[test]
fn bars_add_up_and_have_their_speedups() {
    let [variants, times, ..] = &plots("coded")[..] else { unreachable!() };
    let text = variants.text(60, false);
    let row = |name: &str| text.lines().find(|line| line.trim_start().starts_with(name)).unwrap().to_owned();
    let (native, coded) = (row("native │"), row("coded │"));
    assert!(native.ends_with("6.000 ms, 1.000 x") && coded.ends_with("5.000 ms, 1.200 x"), "{text}");
    // Four fifths are links, the first paint; the longest bar takes all room but a cell.
    let cells = |row: &str, paint: char| row.chars().filter(|letter| *letter == paint).count();
    let all = cells(&native, '█') + cells(&native, '░');
    assert!(
        cells(&native, '█').abs_diff(4 * all / 5) <= 1 && cells(&coded, '█') < cells(&native, '█'),
        "{text}"
    );
    let text = times.text(60, false);
    assert!(text.contains("communication") && text.contains("which overlap"), "{text}");
}

#[test]
fn speedups_are_bars_from_1_in_both_directions() {
    let rows = |speedup: f64, kind: &str| {
        serde_json::json!({ "set": { "kind": kind }, "executors": { "sim": {
            "native": { "speedup": 1.0 }, "coded": { "speedup": speedup } } } })
    };
    let sweep =
        serde_json::json!({ "scenario": "s", "seed": 7, "rows": [rows(1.5, "ring"), rows(0.5, "tree")] });
    let plot = Plot::of(&Outcome::read("out", &sweep.to_string()).unwrap(), None, None).unwrap();
    let text = plot.text(60, false);
    let bars: Vec<&str> = text.lines().filter(|line| line.contains("coded │")).collect();
    let cells = |row: &str| row.chars().filter(|letter| *letter == '░').count();
    assert!(bars[0].ends_with("1.500 x") && bars[1].ends_with("0.500 x"), "{text}");
    assert!(cells(bars[0]) > 10 && cells(bars[0]).abs_diff(cells(bars[1])) <= 1, "{text}");
    assert!(bars[0].contains("│  ") && bars[1].contains("│░"), "{text}");
}

#[test]
fn numbers_that_nothing_has_are_drawn_somewhere() {
    let numbers = ["1.7e308", "-1.7e308", "0", "-1", "1e-320"];
    // Beside another number, and all alike.
    for (number, other) in numbers.into_iter().flat_map(|number| [(number, "2.0"), (number, number)]) {
        let variant = format!(
            r#"{{ "iteration_s": {{ "mean": {number} }}, "comm_s": {number}, "speedup": {number}, "critical_path_s": {{ "links": {number} }} }}"#
        );
        let executors =
            format!(r#"{{ "sim": {{ "native": {variant}, "coded": {{ "speedup": {other} }} }} }}"#);
        let run = format!(r#"{{ "scenario": "s", "seed": 7, "executors": {executors} }}"#);
        let row = |value: &str| format!(r#"{{ "set": {{ "x": {value} }}, "executors": {executors} }}"#);
        let rows = [row(number), row("1"), row("3"), row("\"1e999 s\"")];
        let [curves, names] = [&rows[..3], &rows].map(|rows| rows.join(", "));
        let sweeps =
            [curves, names].map(|rows| format!(r#"{{ "scenario": "s", "seed": 7, "rows": [{rows}] }}"#));
        for text in [&run, &sweeps[0], &sweeps[1]] {
            let plot = Plot::of(&Outcome::read("out", text).unwrap(), None, None).unwrap();
            let svg = plot.svg();
            assert!(plot.text(80, false).len() < 10_000 && svg.len() < 100_000, "{text}");
            assert!(!svg.contains("NaN") && !svg.contains("\"inf"), "{text}: {svg}");
        }
    }
}

#[test]
fn a_validation_has_its_errors_and_a_timeline_its_states() {
    let [.., agreement, lanes] = &plots("coded")[..] else { unreachable!() };
    let text = agreement.text(80, false);
    assert!(text.contains("native: 6.000 ms predicted, 6.060 ms measured, +1.0 %"), "{text}");
    assert!(text.contains("coded: 5.000 ms predicted, 4.600 ms measured, -8.0 %"), "{text}");
    let text = lanes.text(80, false);
    let of_rank = |lane: &str| text.lines().find(|line| line.contains(lane) && line.contains('│')).unwrap();
    // 62 columns but one are 3 us: a third computes, a sixth encodes, and a third sends.
    for (lane, letter, cells) in
        [("compute", '█', 20), ("codec", 'E', 10), ("links", '━', 20), ("links", '·', 10)]
    {
        let found = of_rank(lane).chars().filter(|found| *found == letter).count();
        assert!(found.abs_diff(cells) <= 1, "{lane}: {found} of {cells}\n{text}");
    }
}

#[test]
fn what_has_no_such_picture_says_which_it_has() {
    let failed = |text: &str, picture, x| {
        let outcome = Outcome::read("out", text).unwrap();
        Plot::of(&outcome, picture, x).unwrap_err().to_string()
    };
    let said = failed(&run("coded"), Some("speedup"), None);
    assert_eq!(
        said,
        "`--picture speedup`: a run such as `out` has no such picture\nhelp: it has `variants`, `times`"
    );
    let said = failed(&sweep("coded"), None, Some("seed"));
    assert!(
        said.ends_with("does not sweep that\nhelp: it sweeps `cluster.nic_bandwidth`, `codec.ratio`"),
        "{said}"
    );
    assert!(failed(&run("coded"), None, Some("seed")).ends_with("help: only sweeps have `--x`"));
    assert!(failed(&advice("coded"), None, None).contains("it is an advice"));
    let empty = r#"{ "scenario": "s", "seed": 7, "rows": [] }"#;
    assert!(failed(empty, None, None).contains("the sweep has no points"));
    let nothing = r#"{ "executor": "threads", "variants": { "native": {} } }"#;
    assert!(failed(nothing, None, None).contains("no variant has a predicted and a measured time"));
    let bare = r#"{ "scenario": "s", "seed": 7, "executors": { "sim": { "native": {} } } }"#;
    assert!(failed(bare, None, None).contains("no variant has times"));
    let mut idle = trace("sim", "native", "s");
    idle.spans.clear();
    let error = Plot::of_timeline("timeline", &idle, None, None).unwrap_err();
    assert!(matches!(error, ReportError::NothingToDraw { .. }), "{error}");
}

#[test]
#[cfg(feature = "png")]
fn a_png_is_marked_and_as_wide_as_was_said() {
    use zipwire_report::{PNG_MARK, PNG_MARK_AT};

    let png = match plots("coded")[0].png(320) {
        Ok(png) => png,
        Err(error) => return assert!(error.to_string().contains("has no fonts"), "{error}"),
    };
    let at = PNG_MARK_AT as usize;
    assert_eq!(png[at..][..PNG_MARK.len()], *PNG_MARK);
    assert_eq!(png[16..20], 320_u32.to_be_bytes());
}

#[test]
#[cfg(not(feature = "png"))]
fn without_the_feature_the_error_says_how_to_get_it() {
    let error = plots("coded")[0].png(320).unwrap_err().to_string();
    assert!(error.contains("--features png") && error.contains("write an `.svg`"), "{error}");
}
