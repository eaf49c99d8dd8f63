//! Report of an advice: whether to compress, which calls, and how far to believe it.

use serde::Deserialize;

use crate::agreement::{ErrorSign, agreement, shown};
use crate::html::{BarScale, Cell, escape, list, paragraph, table};
use crate::page::Section;
use crate::quantity::{bytes, factor, seconds, signed_percent, speed};

/// Advice, as `zipwire advise -o` writes it; all that it may lack is optional.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct AdviceOutcome {
    pub(crate) source: AdviceSourceOutcome,
    pub(crate) cluster: AdvisedClusterOutcome,
    pub(crate) calibration: Option<JudgementOutcome>,
    pub(crate) step: StepOutcome,
    pub(crate) classes: Vec<ClassOutcome>,
    pub(crate) verdict: AdviceVerdictOutcome,
    pub(crate) first: Vec<String>,
    pub(crate) would_change: Vec<String>,
    pub(crate) notes: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct AdviceSourceOutcome {
    pub(crate) kind: String,
    pub(crate) path: String,
    pub(crate) format: Option<String>,
    pub(crate) world_size: Option<u32>,
    pub(crate) ranks_here: Option<u32>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct AdvisedClusterOutcome {
    pub(crate) name: String,
    pub(crate) from: String,
    pub(crate) nodes: Option<u32>,
    pub(crate) gpus_per_node: Option<u32>,
    pub(crate) file: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct JudgementOutcome {
    pub(crate) steps_fitted: Vec<u64>,
    pub(crate) judged: Vec<JudgedStepOutcome>,
    pub(crate) step_error_pct: Option<f64>,
    pub(crate) collectives_error_pct: Option<f64>,
    pub(crate) is_believed: bool,
    pub(crate) why: String,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct JudgedStepOutcome {
    pub(crate) step: u64,
    pub(crate) measured_s: Option<f64>,
    pub(crate) predicted_s: Option<f64>,
    pub(crate) collectives_measured_s: Option<f64>,
    pub(crate) collectives_predicted_s: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct StepOutcome {
    pub(crate) measured_s: Option<f64>,
    pub(crate) predicted_s: Option<f64>,
    pub(crate) communication_s: Option<f64>,
    pub(crate) exposed_s: Option<f64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ClassOutcome {
    pub(crate) name: String,
    pub(crate) ranks: Option<f64>,
    pub(crate) calls: Option<f64>,
    pub(crate) bytes: Option<f64>,
    pub(crate) total_s: Option<f64>,
    pub(crate) exposed_s: Option<f64>,
    pub(crate) best: String,
    #[serde(flatten)]
    pub(crate) gain: GainOutcome,
    pub(crate) break_even: Option<ClassBreakEvenOutcome>,
    pub(crate) options: Vec<OptionOutcome>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct GainOutcome {
    pub(crate) gain_pct: Option<f64>,
    pub(crate) low_pct: Option<f64>,
    pub(crate) high_pct: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ClassBreakEvenOutcome {
    pub(crate) ratio: Option<f64>,
    pub(crate) codec_bytes_per_s: Option<f64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct OptionOutcome {
    pub(crate) variant: String,
    pub(crate) step_s: Option<f64>,
    #[serde(flatten)]
    pub(crate) gain: GainOutcome,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct AdviceVerdictOutcome {
    pub(crate) compress: bool,
    pub(crate) text: String,
}

/// Sections of an advice.
pub(crate) fn sections(advice: &AdviceOutcome) -> Vec<Section> {
    let mut sections = vec![
        Section::verdict(&verdict_lines(advice), &reasons(advice)),
        Section::new("The step", step(advice)),
        Section::new("Kinds of calls", classes(advice)),
        Section::new("Predicted against measured", judged(advice)),
    ];
    if !advice.notes.is_empty() {
        sections.push(Section::new("Notes", list(&advice.notes)));
    }
    sections
}

/// Verdict in sentences.
pub(crate) fn verdict_lines(advice: &AdviceOutcome) -> Vec<String> {
    let verdict = &advice.verdict;
    let answer = if verdict.compress { "compress" } else { "do not compress" };
    vec![if verdict.text.is_empty() { answer.to_owned() } else { verdict.text.clone() }]
}

/// First steps, and facts that would change the verdict.
fn reasons(advice: &AdviceOutcome) -> String {
    let mut html = String::new();
    for (title, lines) in [("First", &advice.first), ("Would change it", &advice.would_change)] {
        if !lines.is_empty() {
            html += &format!("<p><b>{title}</b></p>\n{}", list(lines));
        }
    }
    html
}

fn step(advice: &AdviceOutcome) -> String {
    let AdviceOutcome { source, cluster, step, .. } = advice;
    let ranks = match (source.world_size, source.ranks_here) {
        (Some(all), Some(here)) if here < all => format!("{all} ranks, {here} of them in the file"),
        (Some(all), _) => format!("{all} ranks"),
        _ => "ranks: not said".to_owned(),
    };
    let format = source.format.as_ref().map_or(String::new(), |format| format!(", from {format}"));
    let size = cluster.nodes.zip(cluster.gpus_per_node);
    let size = size.map_or(String::new(), |(nodes, gpus)| format!(", {nodes} x {gpus} GPUs"));
    let head =
        format!("{} `{}`{format}; {ranks}. Cluster: `{}`{size}.", source.kind, source.path, cluster.name);
    let all = [
        ("measured", step.measured_s),
        ("simulated without compression", step.predicted_s),
        ("communication in it", step.communication_s),
        ("compute waits", step.exposed_s),
    ];
    let scale = BarScale::of(0.0, all.iter().filter_map(|(_, time_s)| *time_s));
    let rows = all.iter().filter(|(_, time_s)| time_s.is_some()).map(|(name, time_s)| {
        vec![
            Cell::text(name),
            Cell::number(*time_s, seconds).with_bar(time_s.map(|time_s| scale.bar_to(time_s))),
        ]
    });
    format!("{}{}", paragraph(&head), table(&["part", "time of a step"], &rows.collect::<Vec<_>>()))
}

/// Scale of gains, in percent.
fn scale(advice: &AdviceOutcome) -> BarScale {
    let gains = advice.classes.iter().flat_map(|class| {
        let options = class.options.iter().map(|option| option.gain);
        options.chain([class.gain]).flat_map(|gain| [gain.gain_pct, gain.low_pct, gain.high_pct]).flatten()
    });
    BarScale::of(0.0, gains)
}

/// Gain with its interval as a bar, and the interval in words.
fn gain_cells(gain: GainOutcome, scale: BarScale) -> [Cell; 2] {
    // Without compression nothing changes.
    let is_none = [gain.gain_pct, gain.low_pct, gain.high_pct].iter().all(|pct| *pct == Some(0.0));
    let gain = if is_none { GainOutcome::default() } else { gain };
    let interval = gain.low_pct.zip(gain.high_pct);
    let is_good = match interval {
        Some((low, _)) if low > 0.0 => Some(true),
        Some((_, high)) if high < 0.0 => Some(false),
        _ => None,
    };
    let bar = interval.map(|(low, high)| [scale.at(low), scale.at(high)]);
    let words = |low: f64| {
        let high = gain.high_pct.unwrap_or(low);
        format!("{} to {}", signed_percent(low), signed_percent(high))
    };
    [
        Cell::number(gain.gain_pct, signed_percent).coloured(is_good),
        Cell::number(gain.low_pct, words).with_bar(bar),
    ]
}

fn classes(advice: &AdviceOutcome) -> String {
    if advice.classes.is_empty() {
        return paragraph("The job has no calls that several ranks make together.");
    }
    let scale = scale(advice);
    let header = [
        "calls",
        "ranks",
        "a step",
        "bytes",
        "time",
        "compute waits",
        "best",
        "gain of the step",
        "between",
        "pays from ratio",
        "pays from codec",
    ];
    let whole = |value: f64| format!("{value:.0}");
    let rows = advice.classes.iter().map(|class| {
        let [gain, interval] = gain_cells(class.gain, scale);
        let found = class.break_even.unwrap_or_default();
        vec![
            Cell::name(&class.name),
            Cell::number(class.ranks, whole),
            Cell::number(class.calls, whole),
            Cell::number(class.bytes, bytes),
            Cell::number(class.total_s, seconds),
            Cell::number(class.exposed_s, seconds),
            Cell::name(&class.best),
            gain,
            interval,
            Cell::number(found.ratio, factor),
            Cell::number(found.codec_bytes_per_s, speed),
        ]
    });
    let lead = "Gains are percent of the step's time, each kind of calls compressed alone. Between is the interval in which a gain lies for all that \
                is known: green if all of it is a gain, red if none is.";
    let mut html = paragraph(lead) + &table(&header, &rows.collect::<Vec<_>>());
    for class in advice.classes.iter().filter(|class| !class.options.is_empty()) {
        let rows = class.options.iter().map(|option| {
            let [gain, interval] = gain_cells(option.gain, scale);
            vec![Cell::name(&option.variant), Cell::number(option.step_s, seconds), gain, interval]
        });
        let rows = table(&["variant", "step", "gain of the step", "between"], &rows.collect::<Vec<_>>());
        html += &format!(
            "<details><summary>All options of <code>{}</code></summary>{rows}</details>\n",
            escape(&class.name)
        );
    }
    html
}

/// Names of steps: `step 1`, `steps 1, 2`.
fn steps(numbers: impl Iterator<Item = u64>) -> Option<String> {
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    let word = if numbers.len() > 1 { "steps" } else { "step" };
    (!numbers.is_empty()).then(|| format!("{word} {}", numbers.join(", ")))
}

/// Direction in which errors of an advice are counted, in its lead and in its rows.
const SIGN: ErrorSign = ErrorSign::OfPredicted;

/// Sentences about where constants are from, whether the simulation is believed, and how far it is off in all.
fn judgement_text(judgement: &JudgementOutcome) -> String {
    let from = steps(judgement.steps_fitted.iter().copied())
        .unwrap_or_else(|| "the cluster that was given".to_owned());
    let judged = steps(judgement.judged.iter().map(|step| step.step));
    let judged = judged.map_or(String::new(), |judged| format!("is judged on {judged} and "));
    let believed = if judgement.is_believed { "believed" } else { "not believed" };
    let why = judgement.why.trim_end_matches('.');
    let why = if why.is_empty() { String::new() } else { format!(": {why}") };
    let mut text = format!("Constants are of {from}. The simulation {judged}is {believed}{why}.");
    let errors = [("steps", judgement.step_error_pct), ("their calls", judgement.collectives_error_pct)];
    let errors: Vec<String> = errors
        .into_iter()
        .filter_map(|(name, error)| Some(format!("{name} {}", signed_percent(error?))))
        .collect();
    if !errors.is_empty() {
        text += &format!(" Off in all, {}: {}.", SIGN.formula(), errors.join(", "));
    }
    text
}

fn judged(advice: &AdviceOutcome) -> String {
    let Some(judgement) = &advice.calibration else {
        return paragraph("Nothing was measured that the simulation could be held against.");
    };
    let steps = judgement
        .judged
        .iter()
        .filter_map(|step| shown(&format!("step {}", step.step), step.predicted_s, step.measured_s));
    let calls = judgement.judged.iter().filter_map(|step| {
        let name = format!("calls of step {}", step.step);
        shown(&name, step.collectives_predicted_s, step.collectives_measured_s)
    });
    let pairs: Vec<_> = steps.chain(calls).collect();
    paragraph(&judgement_text(judgement)) + &agreement(&pairs, SIGN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judgement(fitted: &[u64], judged: &[u64]) -> JudgementOutcome {
        let step = |&step: &u64| JudgedStepOutcome {
            step,
            measured_s: Some(0.4),
            predicted_s: Some(0.41),
            ..JudgedStepOutcome::default()
        };
        JudgementOutcome {
            steps_fitted: fitted.to_vec(),
            judged: judged.iter().map(step).collect(),
            step_error_pct: Some(2.5),
            is_believed: true,
            why: "it is near.".to_owned(),
            ..JudgementOutcome::default()
        }
    }

    #[test]
    fn lead_and_rows_count_errors_alike() {
        let advice = AdviceOutcome { calibration: Some(judgement(&[0], &[1])), ..AdviceOutcome::default() };
        let html = judged(&advice);
        assert!(html.contains("Off in all, predicted / measured - 1: steps +2.5 %."), "{html}");
        assert!(html.contains("error: predicted / measured - 1</th>"), "{html}");
        assert!(html.contains(">+2.5 %</td>") && !html.contains("-2.4 %"), "{html}");
    }

    #[test]
    fn steps_are_named_that_were_fitted_and_judged() {
        let text = judgement_text(&judgement(&[0, 1], &[2, 3]));
        assert!(text.starts_with(
            "Constants are of steps 0, 1. The simulation is judged on steps 2, 3 and is believed: it is near."
        ));
        let given = JudgementOutcome { step_error_pct: None, ..judgement(&[], &[4]) };
        assert_eq!(
            judgement_text(&given),
            "Constants are of the cluster that was given. The simulation is judged on step 4 and is believed: it is near."
        );
        let nothing = JudgementOutcome::default();
        assert_eq!(
            judgement_text(&nothing),
            "Constants are of the cluster that was given. The simulation is not believed."
        );
    }
}
