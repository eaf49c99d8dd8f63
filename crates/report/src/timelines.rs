//! Sections that timelines are the source of: exposed communication, links, codec, and the timelines themselves.

use crate::html::{Cell, escape, paragraph, table};
use crate::outcome::Outcome;
use crate::page::Section;
use crate::pictures;
use crate::quantity::{factor, percent, seconds, speed};
use crate::run::BreakEvenOutcome;
use crate::sketch::{DRAWN_RANKS, RankTimes, TIMED_RANKS, TimelineSketch};

/// Codec of a variant in numbers of the result.
#[derive(Clone, Debug)]
pub(crate) struct CodecRow {
    pub(crate) executor: String,
    pub(crate) variant: String,
    pub(crate) ratio: Option<f64>,
    pub(crate) codec_s: Option<f64>,
    /// Part of a mean iteration.
    pub(crate) share: Option<f64>,
    pub(crate) break_even: Option<BreakEvenOutcome>,
}

/// All such sections.
pub(crate) fn sections(outcome: &Outcome, codecs: &[CodecRow]) -> Vec<Section> {
    vec![
        Section::new("Exposed communication", exposed(outcome)),
        Section::new("Links", links(outcome)),
        Section::new("Codec cost", codec_cost(outcome, codecs)),
        Section::new("Timelines", pictures_of(outcome)),
    ]
}

/// Sentence where there are no timelines.
fn without(what: &str) -> String {
    paragraph(&format!(
        "There are no timelines (`*.trace.json`) beside the result, of which {what} would follow."
    ))
}

/// Pictures of this many timelines are shown, those of others open at a click.
const SHOWN: usize = 6;

/// A picture of each timeline under its name. Those of real ranks that are not paced, whose times are of this machine, open at a click.
fn each(outcome: &Outcome, picture: impl Fn(&TimelineSketch) -> Option<String>) -> String {
    let mut html = String::new();
    for (index, sketch) in outcome.sketches.iter().enumerate() {
        let Some(picture) = picture(sketch) else { continue };
        let is_open = index < SHOWN && (sketch.executor == "sim" || outcome.is_timed(&sketch.executor));
        let open = if is_open { " open" } else { "" };
        let (variant, executor) = (escape(&sketch.variant), escape(&sketch.executor));
        html += &format!(
            "<details{open}><summary><code>{variant}</code>, {executor}</summary>\n{picture}</details>\n"
        );
    }
    html
}

/// Longest of some times of the timelines of one executor: clocks of others are not comparable.
fn longest<T: PartialOrd>(
    outcome: &Outcome,
    executor: &str,
    of: impl Fn(&TimelineSketch) -> T,
    least: T,
) -> T {
    let own = outcome.sketches.iter().filter(|sketch| shares_clock(&sketch.executor, executor, outcome));
    own.map(of).fold(least, |longest, next| if next > longest { next } else { longest })
}

/// Whether times of two executors are of one clock: those of a validation are, all in seconds of the cluster.
fn shares_clock(a: &str, b: &str, outcome: &Outcome) -> bool {
    a == b || outcome.is_validation()
}

fn exposed(outcome: &Outcome) -> String {
    if outcome.sketches.is_empty() {
        return without("the time of each rank");
    }
    let lead = format!(
        "Time of each rank in a mean iteration, by what it does: each moment counts once, compute before communication, and that \
         before the codec. Exposed is communication that no compute hides. Of more than {TIMED_RANKS} ranks some are shown, evenly spread."
    );
    let bars = each(outcome, |sketch| {
        let of = |sketch: &TimelineSketch| sketch.times.iter().map(RankTimes::sum_s).fold(0.0, f64::max);
        let longest_s = longest(outcome, &sketch.executor, of, f64::MIN_POSITIVE);
        (!sketch.times.is_empty()).then(|| pictures::rank_bars(sketch, longest_s))
    });
    format!("{}{}{bars}", paragraph(&lead), pictures::rank_legend())
}

fn links(outcome: &Outcome) -> String {
    let maps = each(outcome, |sketch| {
        let (drawn, all) = (sketch.links.len(), sketch.link_count);
        let cut = if drawn < all {
            paragraph(&format!("The busiest {drawn} of the {all} links that the timeline has:"))
        } else {
            String::new()
        };
        (drawn > 0).then(|| cut + &pictures::heat_map(sketch))
    });
    if maps.is_empty() {
        return paragraph("No timeline beside the result has links: only those of simulated iterations do.");
    }
    let lead = "How much of each link's capacity is in use over the slowest iteration, in tenths: the stronger the colour, the more. On the right is the mean. \
                A link that is full while others are idle is the bottleneck.";
    paragraph(lead) + &maps
}

fn codec_cost(outcome: &Outcome, codecs: &[CodecRow]) -> String {
    if codecs.is_empty() {
        return paragraph("No variant here spends time in a codec.");
    }
    let header = [
        "variant",
        "executor",
        "codec",
        "ratio",
        "pays from ratio",
        "pays from encode",
        "time per rank",
        "of the iteration",
        "encode",
        "decode",
    ];
    let rows = codecs.iter().map(|codec| {
        let is_own = |sketch: &&TimelineSketch| {
            (&sketch.executor, &sketch.variant) == (&codec.executor, &codec.variant)
        };
        let sketch = outcome.sketches.iter().find(is_own);
        let work = |name: &str| sketch.and_then(|sketch| sketch.codec_work.get(name)).copied();
        let worked = |name: &str| {
            let work = work(name).filter(|work| work.seconds > 0.0);
            Cell::number(work.map(|work| work.bytes as f64 / work.seconds), speed)
        };
        vec![
            Cell::name(&codec.variant),
            Cell::text(&codec.executor),
            Cell::text(sketch.and_then(|sketch| sketch.codec.as_deref()).unwrap_or("-")),
            Cell::number(codec.ratio, factor),
            Cell::number(codec.break_even.and_then(|found| found.ratio), factor),
            Cell::number(codec.break_even.and_then(|found| found.encode_gbps).map(|gbps| 1e9 * gbps), speed),
            Cell::number(codec.codec_s, seconds),
            Cell::number(codec.share, percent),
            worked("encode"),
            worked("decode"),
        ]
    });
    let lead = "Time per rank is that of a mean iteration, whatever else goes on, sums of reductions included. Speeds are raw bytes over seconds in the codec, launches \
                included, of the ranks and iterations that the timelines hold.";
    format!("{}{}", paragraph(lead), table(&header, &rows.collect::<Vec<_>>()))
}

fn pictures_of(outcome: &Outcome) -> String {
    if outcome.sketches.is_empty() {
        return without("pictures");
    }
    let lead = format!(
        "The slowest iteration of each, on up to {DRAWN_RANKS} ranks: of each rank its compute, its codec and its transfers. Pale is a lane that \
         is busy for less than half of a column. `ui.perfetto.dev` shows every operation of a `*.trace.json`; files stay on your machine."
    );
    let pictures = each(outcome, |sketch| {
        let longest_ns = longest(outcome, &sketch.executor, |sketch| sketch.drawn_ns, 1);
        Some(format!(
            "<p class=\"quiet\">{}</p>\n{}",
            escape(&drawn(sketch)),
            pictures::gantt(sketch, longest_ns)
        ))
    });
    let mut html = paragraph(&lead) + &pictures::gantt_legend() + &pictures;
    let all = outcome.all_timelines().len();
    let drawn = outcome.sketches.len();
    if all > drawn {
        html += &paragraph(&format!("Of the {all} timelines of the result {drawn} are drawn."));
    }
    html
}

/// Part of a timeline that its picture shows, in words.
fn drawn(sketch: &TimelineSketch) -> String {
    let mut notes = vec![format!("{} long", seconds(sketch.drawn_ns as f64 / 1e9))];
    notes.extend((sketch.iterations > 1).then(|| format!("the slowest of {} iterations", sketch.iterations)));
    let drawn = sketch.lanes.len();
    notes.extend(
        (drawn < sketch.rank_count as usize).then(|| format!("{drawn} of {} ranks", sketch.rank_count)),
    );
    notes.extend(sketch.sampled.as_ref().map(|drawn| format!("the timeline itself holds {drawn}")));
    notes.join(", ")
}
