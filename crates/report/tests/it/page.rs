//! Pages: sections, safety, size.

use zipwire_report::{Outcome, REPORT_MARK, report};

use crate::samples::{HOSTILE, outcomes, record, run, sweep, timeline, validation};

/// Bytes of a report at the most, with the little data of the samples.
const MOST_BYTES: usize = 400 << 10;

const POLICY: &str = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
                      script-src 'unsafe-inline'; img-src data:\">";

/// Elements without an end tag.
const VOID: [&str; 3] = ["meta", "link", "br"];

/// Tags of a page in their order, without those of the script and the style: names, and texts in brackets.
fn tags(page: &str) -> Vec<&str> {
    let mut tags = Vec::new();
    let mut rest = page;
    while let Some((_, behind)) = rest.split_once('<') {
        let (tag, after) = behind.split_once('>').expect("a tag has an end");
        tags.push(tag);
        rest = after;
        for raw in ["script", "style"] {
            if tag == raw {
                rest = &after[after.find(&format!("</{raw}>")).expect("it has an end")..];
            }
        }
    }
    tags
}

/// Elements are closed in the order in which they were opened.
#[track_caller]
fn is_balanced(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    for tag in tags(page) {
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap_or_default();
        if tag.starts_with('!') || tag.ends_with('/') || VOID.contains(&name) {
            continue;
        }
        match tag.strip_prefix('/') {
            Some(closed) => assert_eq!(open.pop(), Some(closed), "in {open:?}"),
            None => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?} have no end");
}

#[track_caller]
fn is_sound(page: &str) {
    assert!(page.starts_with(REPORT_MARK) && page.ends_with("</html>\n"));
    assert!(page.contains(POLICY));
    assert!(page.len() <= MOST_BYTES, "{} bytes", page.len());
    let named = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "").replace("http-equiv", "");
    assert!(
        !named.contains("http") && !named.contains("src=\"") && !named.contains("url("),
        "it asks for something"
    );
    is_balanced(page);
}

fn headings(page: &str) -> Vec<&str> {
    page.split("<h3>").skip(1).map(|rest| rest.split("</h3>").next().unwrap()).collect()
}

#[test]
fn every_kind_has_its_sections() {
    let of_timelines = ["Exposed communication", "Links", "Codec cost", "Timelines"];
    let measured = "Predicted against measured";
    let around = ["Accuracy on such clusters", "Scenario and environment", "Glossary"];
    let own: [Vec<&str>; 4] = [
        [&["Verdict", "Variants", measured][..], &of_timelines].concat(),
        vec!["Verdict", "Where it pays", "All points"],
        [&["Verdict", measured][..], &of_timelines].concat(),
        vec!["Verdict", "The step", "Kinds of calls", measured, "Notes"],
    ];
    for (outcome, own) in outcomes("sample").into_iter().zip(own) {
        let page = report(&[outcome]);
        is_sound(&page);
        assert_eq!(headings(&page), [&own[..], &around].concat());
        assert!(page.contains("clusters with H100:"), "the board is that of the cluster");
    }
}

#[test]
fn numbers_of_the_result_are_there() {
    let pages: Vec<String> = outcomes("sample").into_iter().map(|outcome| report(&[outcome])).collect();
    let has = |page: &str, texts: &[&str]| {
        let missing: Vec<_> = texts.iter().filter(|text| !page.contains(**text)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    };
    let timeline = ["1.500 us exposed", "exposed, 48.4 %", "25 GB/s", "32.3 %", "window7", "3.100 us long"];
    has(
        &pages[0],
        &[
            "<code>sample</code> is 1.20 times as fast",
            "5.000 ms",
            "1.200",
            "links 80.0 %",
            "1.130",
            "a ratio is stated",
        ],
    );
    has(
        &pages[0],
        [&["name = &quot;sample&quot;", "--seed 7", "os: linux"][..], &timeline].concat().as_slice(),
    );
    has(&pages[1], &["pays at 1 of 2 points", "1 of 3 points failed", "50 GB/s"]);
    has(&pages[2], &["is -8.0 % off, more than 5 %", "-8.0 %", "+1.0 %", "predicted, ms"]);
    has(&pages[3], &["+2.5 %", "+1.0 % to +4.0 %", "steps +2.5 %", "h100-8x"]);
}

#[test]
fn names_are_shown_and_not_obeyed() {
    let page = report(&outcomes(HOSTILE));
    is_sound(&page);
    assert!(!page.contains("<img") && !page.contains('\u{1b}'), "a name became a tag");
    assert_eq!(page.matches("<script>").count(), 1);
    assert!(page.contains("&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;&quot;&#39;&amp;"));
}

#[test]
fn the_same_results_give_the_same_bytes() {
    assert!(report(&outcomes("sample")) == report(&outcomes("sample")));
}

#[test]
fn timelines_and_records_of_other_results_are_left_out() {
    let of = |name: &str, add: &dyn Fn(&mut Outcome)| {
        let mut outcome = Outcome::read("out", &run(name)).unwrap();
        add(&mut outcome);
        report(&[outcome])
    };
    let own = of("coded", &|outcome| {
        outcome.add_record("run.json", &record("coded")).unwrap();
        outcome.add_timeline(timeline("sim", "coded", "coded"));
    });
    assert!(!own.contains("Left out") && own.contains(" exposed, ") && own.contains("quick.toml"));
    let others = of("coded", &|outcome| {
        outcome.add_record("run.json", &record("another")).unwrap();
        outcome.add_timeline(timeline("sim", "coded", "another"));
        outcome.add_timeline(timeline("sim", "unknown", "coded"));
    });
    is_sound(&others);
    let said = "Left out, since they are beside this result and of another one: <code>run.json</code>, \
                <code>sim-coded.trace.json</code>, <code>sim-unknown.trace.json</code>.";
    assert!(others.contains(said), "{others}");
    assert!(!others.contains(" exposed, ") && !others.contains("quick.toml"));
    // Another seed, or another plan.
    let reseeded = run("coded").replace("\"seed\":7", "\"seed\":8");
    let replanned = run("coded").replace("\"plan_digest\":\"0\"", "\"plan_digest\":\"1\"");
    for text in [reseeded, replanned] {
        assert_ne!(text, run("coded"));
        let mut outcome = Outcome::read("out", &text).unwrap();
        outcome.add_timeline(timeline("sim", "coded", "coded"));
        assert!(report(&[outcome]).contains("Left out"));
    }
}

#[test]
fn clocks_are_not_mixed_side_by_side() {
    // Threads without a speedup tell times of this machine.
    let read = |name: &str, text: &str| Outcome::read(name, text).unwrap();
    let with_threads = |text: String| {
        let mut result: serde_json::Value = serde_json::from_str(&text).unwrap();
        let mut threads = result["executors"]["sim"].clone();
        for (_, variant) in threads.as_object_mut().unwrap() {
            variant["speedup"] = serde_json::Value::Null;
        }
        result["executors"]["threads"] = threads;
        result.to_string()
    };
    let page = report(&[read("run", &with_threads(run("coded"))), read("validation", &validation("coded"))]);
    let (compared, _) = page.split_once("</section>").unwrap();
    assert!(compared.contains("<td>sim</td>") && !compared.contains("<td>threads</td>"), "{compared}");
    // Times to the first token are no iterations.
    let served = run("coded").replace("\"comm_s\"", "\"requests\":{\"ttft_s\":{\"mean\":0.1}},\"comm_s\"");
    let page = report(&[read("run", &run("coded")), read("served", &served)]);
    let (compared, _) = page.split_once("</section>").unwrap();
    assert!(!compared.contains("against the first result"), "{compared}");
}

#[test]
fn a_grid_of_speedups_has_dashes_and_leaves_the_first_variant_out() {
    let mut result: serde_json::Value = serde_json::from_str(&sweep("coded")).unwrap();
    result["rows"][1]["executors"]["sim"].as_object_mut().unwrap().remove("native");
    result["rows"][1]["executors"]["sim"]["coded"]["speedup"] = serde_json::Value::Null;
    let page = report(&[Outcome::read("sweep", &result.to_string()).unwrap()]);
    let (_, grids) = page.split_once("<h3>Where it pays</h3>").unwrap();
    let (grids, _) = grids.split_once("</section>").unwrap();
    assert!(
        grids.contains("<h4><code>coded</code>, sim</h4>") && !grids.contains("<code>native</code>"),
        "{grids}"
    );
    assert!(grids.contains(">1.200</td>") && grids.contains(">-</td>") && !grids.contains(" ms"), "{grids}");
}

#[test]
fn several_results_are_held_against_the_first() {
    let read = |name: &str, text: &str| Outcome::read(name, text).unwrap();
    let after = run("coded").replace("0.005,", "0.004,");
    let page = report(&[read("before", &run("coded")), read("after", &after)]);
    is_sound(&page);
    assert_eq!(headings(&page)[0], "Side by side");
    assert!(page.contains("against the first result") && page.contains("-20.0 %"), "{page}");
}

#[test]
fn a_bare_result_says_what_is_missing() {
    let page = report(&[Outcome::read("summary.json", &run("coded")).unwrap()]);
    is_sound(&page);
    for said in ["There are no timelines", "The scenario is not recorded", "no logs of this kind of cluster"]
    {
        assert!(page.contains(said), "{said}");
    }
}
