//! The page around the sections: head, navigation, style; nothing in it is fetched from anywhere.

use std::fmt::Write as _;

use crate::board::{accuracy, glossary};
use crate::compare::comparison;
use crate::html::{escape, list, paragraph, verbatim};
use crate::outcome::{Outcome, OutcomeResult};
use crate::{REPORT_MARK, advice, run, sweep, validation};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Words of the glossary that reports use.
const WORDS: [&str; 18] = [
    "break-even",
    "call",
    "coded",
    "critical path",
    "dilation",
    "executor",
    "exposed",
    "iteration",
    "lane",
    "library",
    "native",
    "plan, schedule",
    "protocol",
    "rank",
    "ratio",
    "raw, wire",
    "validation",
    "variant",
];

/// A part of a report with a heading.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    title: &'static str,
    html: String,
    is_verdict: bool,
}

impl Section {
    pub(crate) fn new(title: &'static str, html: String) -> Self {
        Self { title, html, is_verdict: false }
    }

    /// The part that comes first: its sentences, and HTML below them.
    pub(crate) fn verdict(lines: &[String], rest: &str) -> Self {
        let lines: String = lines.iter().map(|line| paragraph(line)).collect();
        Self { title: "Verdict", html: lines + rest, is_verdict: true }
    }

    fn html(&self, id: &str) -> String {
        let Self { title, html, is_verdict } = self;
        let html = if *is_verdict { format!("<div class=\"verdict\">{html}</div>\n") } else { html.clone() };
        format!("<section id=\"{id}\">\n<h3>{title}</h3>\n{html}</section>\n")
    }
}

impl Outcome {
    /// Kind of the result, for people.
    pub(crate) fn kind(&self) -> &'static str {
        match self.result {
            OutcomeResult::Run(_) => "run",
            OutcomeResult::Sweep(_) => "sweep",
            OutcomeResult::Validation(_) => "validation",
            OutcomeResult::Advice(_) => "advice",
        }
    }

    pub(crate) fn is_validation(&self) -> bool {
        matches!(self.result, OutcomeResult::Validation(_))
    }

    /// Whether times of an executor are a measure of the cluster.
    pub(crate) fn is_timed(&self, executor: &str) -> bool {
        match &self.result {
            OutcomeResult::Run(run) => {
                run.executors.results().any(|(name, _, result)| name == executor && result.speedup.is_some())
            }
            OutcomeResult::Sweep(_) | OutcomeResult::Validation(_) | OutcomeResult::Advice(_) => true,
        }
    }

    /// Verdict in sentences, the first one first.
    pub(crate) fn verdict_lines(&self) -> Vec<String> {
        match &self.result {
            OutcomeResult::Run(run) => run::verdict_lines(run),
            OutcomeResult::Sweep(sweep) => sweep::verdict_lines(sweep),
            OutcomeResult::Validation(validation) => validation::verdict_lines(validation),
            OutcomeResult::Advice(advice) => advice::verdict_lines(advice),
        }
    }

    /// Scenario of the result, or the job of the advice.
    pub(crate) fn subject(&self) -> &str {
        match &self.result {
            OutcomeResult::Run(run) => &run.scenario,
            OutcomeResult::Sweep(sweep) => &sweep.scenario,
            OutcomeResult::Validation(validation) => &validation.scenario,
            OutcomeResult::Advice(advice) => &advice.source.path,
        }
    }

    fn sections(&self) -> Vec<Section> {
        let mut sections = match &self.result {
            OutcomeResult::Run(run) => run::sections(self, run),
            OutcomeResult::Sweep(sweep) => sweep::sections(sweep),
            OutcomeResult::Validation(validation) => validation::sections(self, validation),
            OutcomeResult::Advice(advice) => advice::sections(advice),
        };
        sections.push(Section::new("Accuracy on such clusters", accuracy(&self.kinds_of_cluster())));
        sections.push(Section::new("Scenario and environment", self.origin()));
        sections
    }

    /// Names that may say what kind of cluster it is.
    fn kinds_of_cluster(&self) -> Vec<&str> {
        let mut kinds: Vec<&str> = self.record.cluster.preset.as_deref().into_iter().collect();
        if let OutcomeResult::Advice(advice) = &self.result {
            kinds.push(&advice.cluster.name);
            let presets = advice.cluster.file.lines().filter(|line| line.trim_start().starts_with("preset"));
            kinds.extend(presets);
        }
        kinds
    }

    /// Scenario, arguments and machine, or cluster, word for word.
    fn origin(&self) -> String {
        let mut html = String::new();
        if let OutcomeResult::Advice(advice) = &self.result {
            let title = format!("Cluster `{}`, {}", advice.cluster.name, advice.cluster.from);
            return verbatim(&title, &advice.cluster.file);
        }
        let record = &self.record;
        match &record.scenario {
            Some(scenario) => {
                let mut arguments: Vec<String> =
                    scenario.set.iter().map(|set| format!("`--set {set}`")).collect();
                arguments.extend(scenario.real_set.iter().map(|set| format!("`--real-set {set}`")));
                arguments.extend(scenario.seed.map(|seed| format!("`--seed {seed}`")));
                html += &verbatim(&format!("Scenario `{}`", scenario.file), &scenario.text);
                if !arguments.is_empty() {
                    html += &paragraph("With these arguments:");
                    html += &list(&arguments);
                }
            }
            None => {
                html += &paragraph(
                    "The scenario is not recorded: there is no `run.json` of it beside the result.",
                );
            }
        }
        let cluster = record.cluster.nodes.zip(record.cluster.gpus_per_node);
        let mut facts: Vec<String> = cluster
            .map(|(nodes, gpus)| format!("cluster: {nodes} nodes x {gpus} GPUs"))
            .into_iter()
            .collect();
        facts.extend(record.environment.0.iter().map(|(name, value)| {
            format!("{name}: {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        }));
        let written = match &self.result {
            OutcomeResult::Run(run) => Some((run.seed, &run.version)),
            OutcomeResult::Sweep(sweep) => Some((sweep.seed, &sweep.version)),
            OutcomeResult::Validation(_) | OutcomeResult::Advice(_) => None,
        };
        facts.extend(written.map(|(seed, version)| format!("seed {seed}; written by zipwire {version}")));
        html + &paragraph(&facts.join("; "))
    }
}

/// A report of these outcomes, in their order, of which there is at least one: an HTML page that needs no other file and no network.
/// The same outcomes give the same bytes.
pub fn report(outcomes: &[Outcome]) -> String {
    let title = match outcomes {
        [outcome] => format!("{} of {}", outcome.kind(), outcome.subject()),
        several => format!("{} results of zipwire", several.len()),
    };
    let (mut links, mut body) = (String::new(), String::new());
    for (index, outcome) in outcomes.iter().enumerate() {
        let own = index + 1;
        if outcomes.len() > 1 {
            let heading = format!("{} of {}", outcome.kind(), outcome.subject());
            let _ = write!(links, "<a href=\"#r{own}\">{}</a>", escape(&outcome.name));
            let _ = writeln!(body, "<h2 id=\"r{own}\">{}</h2>", escape(&heading));
        }
        let _ = writeln!(body, "<p class=\"quiet\">{}</p>", escape(&outcome.name));
        if !outcome.left_out.is_empty() {
            body += &paragraph(&format!(
                "Left out, since they are beside this result and of another one: `{}`.",
                outcome.left_out.join("`, `")
            ));
        }
        for (section, number) in outcome.sections().iter().zip(1..) {
            let id = format!("r{own}-{number}");
            if outcomes.len() == 1 {
                let _ = write!(links, "<a href=\"#{id}\">{}</a>", section.title);
            }
            body += &section.html(&id);
        }
    }
    let compared = if outcomes.len() > 1 {
        format!("<section id=\"compared\">\n<h3>Side by side</h3>\n{}</section>\n", comparison(outcomes))
    } else {
        String::new()
    };
    let title = escape(&title);
    format!(
        "{REPORT_MARK}\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
         img-src data:\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n<style>\n{STYLE}</style></head>\n<body>\n<h1>{title}</h1>\n\
         <nav>{links}<a href=\"#glossary\">Glossary</a></nav>\n{compared}{body}\
         <section id=\"glossary\">\n<h3>Glossary</h3>\n{}</section>\n<p class=\"quiet\">Made by zipwire {}.</p>\n\
         <script>\n{SCRIPT}</script>\n</body></html>\n",
        glossary(&WORDS),
        env!("CARGO_PKG_VERSION")
    )
}
