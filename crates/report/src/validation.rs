//! Report of a validation: predicted beside measured.

use serde::Deserialize;

use crate::agreement::{BAND, ErrorSign, Pair, picture, shown};
use crate::html::{Cell, paragraph, table};
use crate::outcome::{Named, Outcome};
use crate::page::Section;
use crate::quantity::{percent, seconds, signed_percent};
use crate::timelines;

/// `validation.json`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ValidationOutcome {
    #[serde(default)]
    pub(crate) scenario: String,
    pub(crate) executor: String,
    #[serde(default)]
    pub(crate) constants: Option<String>,
    #[serde(default)]
    pub(crate) real_set: Vec<String>,
    #[serde(default)]
    pub(crate) dilation: Option<f64>,
    pub(crate) variants: Named<PredictionOutcome>,
    #[serde(default)]
    pub(crate) ranking_agrees: Option<bool>,
    #[serde(default)]
    pub(crate) compared: Option<String>,
    #[serde(default)]
    pub(crate) not_tested: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PredictionOutcome {
    pub(crate) predicted_s: Option<f64>,
    pub(crate) measured_s: Option<f64>,
    pub(crate) on_links: Option<f64>,
    pub(crate) declared: Vec<String>,
    pub(crate) codec_share: Option<f64>,
    pub(crate) core_wait_s: Option<f64>,
}

/// Direction in which errors of a validation are counted.
const SIGN: ErrorSign = ErrorSign::OfMeasured;

impl PredictionOutcome {
    fn pair(&self, name: &str) -> Option<Pair> {
        shown(name, self.predicted_s, self.measured_s)
    }
}

/// Sections of a validation.
pub(crate) fn sections(outcome: &Outcome, validation: &ValidationOutcome) -> Vec<Section> {
    let compared = [("Compared", &validation.compared), ("Not tested", &validation.not_tested)];
    let compared =
        compared.into_iter().filter_map(|(title, text)| Some(format!("{title}: {}.", text.as_ref()?)));
    let mut sections = vec![
        Section::verdict(
            &verdict_lines(validation),
            &compared.map(|line| paragraph(&line)).collect::<String>(),
        ),
        Section::new("Predicted against measured", picture(&pairs(validation)) + &variants(validation)),
    ];
    sections.extend(timelines::sections(outcome, &codec_rows(outcome, validation)));
    sections
}

/// Times of the variants that have both.
pub(crate) fn pairs(validation: &ValidationOutcome) -> Vec<Pair> {
    validation.variants.0.iter().filter_map(|(name, times)| times.pair(name)).collect()
}

/// Verdict in sentences, the first one first.
pub(crate) fn verdict_lines(validation: &ValidationOutcome) -> Vec<String> {
    let errors = pairs(validation).into_iter().map(|pair| (SIGN.of(&pair), pair.name));
    let worst = errors.max_by(|a, b| a.0.abs().total_cmp(&b.0.abs()));
    let mut lines = Vec::new();
    lines.push(match &worst {
        Some((error, name)) if error.abs() <= BAND => {
            let off = signed_percent(100.0 * error);
            format!("all predictions are within 5 %; the worst is {off} off, of `{name}`")
        }
        Some((error, name)) => {
            format!("the prediction of `{name}` is {} off, more than 5 %", signed_percent(100.0 * error))
        }
        None => "nothing was measured".to_owned(),
    });
    lines.extend(validation.ranking_agrees.map(|agrees| {
        let agrees = if agrees { "agree" } else { "do NOT agree" };
        format!("prediction and measurement {agrees} on which variant is faster, of those predicted to differ by more than 5 %")
    }));
    let differs = &validation.real_set;
    lines.extend(
        (!differs.is_empty())
            .then(|| format!("the real run differs from the scenario: `{}`", differs.join("`, `"))),
    );
    let speed = validation.dilation.map(|dilation| format!(" at 1/{dilation} of the speed"));
    lines.push(format!("measured on `{}`{}", validation.executor, speed.unwrap_or_default()));
    lines.extend(
        validation.constants.as_ref().map(|constants| format!("constants of the hosts: {constants}")),
    );
    lines
}

fn variants(validation: &ValidationOutcome) -> String {
    let error = format!("error: {}", SIGN.formula());
    let header = [
        "variant",
        "predicted",
        "measured",
        &error,
        "on links",
        "declared on both sides",
        "codec share",
        "wait for a core",
    ];
    let rows = validation.variants.0.iter().map(|(name, times)| {
        vec![
            Cell::name(name),
            Cell::number(times.predicted_s, seconds),
            Cell::number(times.measured_s, seconds),
            SIGN.cell(times.pair(name).as_ref()),
            Cell::number(times.on_links, percent),
            Cell::text(&if times.declared.is_empty() { "-".to_owned() } else { times.declared.join(", ") }),
            Cell::number(times.codec_share, percent),
            Cell::number(times.core_wait_s, seconds),
        ]
    });
    let lead = "Times are means over iterations, in seconds of the cluster. On links is the part of the predicted critical path that errors can be \
                about; parts that are declared take the same time on both sides.";
    format!("{}{}", paragraph(lead), table(&header, &rows.collect::<Vec<_>>()))
}

fn codec_rows(outcome: &Outcome, validation: &ValidationOutcome) -> Vec<timelines::CodecRow> {
    let coded = outcome.sketches.iter().filter(|sketch| !sketch.codec_work.is_empty());
    coded
        .map(|sketch| {
            let codec_s = sketch.codec_s;
            let times = validation
                .variants
                .0
                .iter()
                .find(|(name, _)| *name == sketch.variant)
                .map(|(_, times)| times);
            let mean_s =
                times.and_then(
                    |times| if sketch.executor == "sim" { times.predicted_s } else { times.measured_s },
                );
            let work = |name: &str| sketch.codec_work.get(name).filter(|work| work.bytes_coded > 0);
            timelines::CodecRow {
                executor: sketch.executor.clone(),
                variant: sketch.variant.clone(),
                ratio: work("encode").map(|work| work.bytes as f64 / work.bytes_coded as f64),
                codec_s,
                share: codec_s
                    .zip(mean_s.filter(|mean_s| *mean_s > 0.0))
                    .map(|(codec_s, mean_s)| codec_s / mean_s),
                break_even: None,
            }
        })
        .collect()
}
