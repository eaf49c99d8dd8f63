//! Results as commands write them: read back, with what is beside them.

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::error::Category;
use serde_json::{Map, Value};

use crate::ReportError;
use crate::advice::AdviceOutcome;
use crate::run::RunOutcome;
use crate::sketch::TimelineSketch;
use crate::sweep::SweepOutcome;
use crate::validation::ValidationOutcome;

/// Timelines of an outcome that a report draws.
const MOST_TIMELINES: usize = 12;

/// A result: of a run, a sweep, a validation or an advice, with the timelines and the record beside it.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub(crate) name: String,
    pub(crate) result: OutcomeResult,
    pub(crate) record: Record,
    pub(crate) sketches: Vec<TimelineSketch>,
    /// Files beside the result that are of another one.
    pub(crate) left_out: Vec<String>,
}

#[derive(Clone, Debug)]
pub(crate) enum OutcomeResult {
    Run(Box<RunOutcome>),
    Sweep(SweepOutcome),
    Validation(ValidationOutcome),
    Advice(Box<AdviceOutcome>),
}

impl Outcome {
    /// Reads the text of `summary.json`, `validation.json` or of an advice; `name` is what people call it: a folder, or a file.
    ///
    /// # Errors
    /// If it is no such text.
    pub fn read(name: &str, text: &str) -> Result<Self, ReportError> {
        let keys: Map<String, Value> = parsed(name, text)?;
        let has = |key: &str| keys.contains_key(key);
        let result = if has("zipwire_advice") {
            OutcomeResult::Advice(parsed(name, text)?)
        } else if has("executors") {
            OutcomeResult::Run(parsed(name, text)?)
        } else if has("rows") {
            OutcomeResult::Sweep(parsed(name, text)?)
        } else if has("variants") && has("executor") {
            OutcomeResult::Validation(parsed(name, text)?)
        } else {
            return Err(ReportError::Foreign { name: name.to_owned() });
        };
        Ok(Self {
            name: name.to_owned(),
            result,
            record: Record::default(),
            sketches: Vec::new(),
            left_out: Vec::new(),
        })
    }

    /// Executor and variant of each timeline that the report would draw.
    pub fn timelines(&self) -> Vec<(String, String)> {
        let mut all = self.all_timelines();
        all.truncate(MOST_TIMELINES);
        all
    }

    /// The same without a limit.
    pub(crate) fn all_timelines(&self) -> Vec<(String, String)> {
        match &self.result {
            OutcomeResult::Run(run) => run
                .executors
                .results()
                .map(|(executor, variant, _)| (executor.to_owned(), variant.to_owned()))
                .collect(),
            OutcomeResult::Validation(validation) => {
                let both = |variant: &String| {
                    ["sim", &validation.executor].map(|on| (on.to_owned(), variant.clone()))
                };
                validation.variants.0.iter().flat_map(|(variant, _)| both(variant)).collect()
            }
            OutcomeResult::Sweep(_) | OutcomeResult::Advice(_) => Vec::new(),
        }
    }

    /// Whether a record of scenario and environment may be beside it.
    pub fn has_record(&self) -> bool {
        !matches!(self.result, OutcomeResult::Advice(_))
    }

    /// Adds a timeline. One of another result, as far as scenario, seed and plan tell, is left out, and the report says so.
    pub fn add_timeline(&mut self, sketch: TimelineSketch) {
        if self.is_own(&sketch) {
            self.sketches.push(sketch);
        } else {
            self.left_out.push(format!("{}-{}.trace.json", sketch.executor, sketch.variant));
        }
    }

    fn is_own(&self, sketch: &TimelineSketch) -> bool {
        let is_of_scenario = self.subject().is_empty() || self.subject() == sketch.scenario;
        let is_of_run = |run: &RunOutcome| {
            let mut own = run.executors.results();
            let own = own.find(|(executor, variant, _)| {
                (*executor, *variant) == (sketch.executor.as_str(), sketch.variant.as_str())
            });
            own.is_some_and(|(.., result)| {
                result.plan_digest.as_ref().is_none_or(|digest| *digest == sketch.plan_digest)
            })
        };
        is_of_scenario
            && self.seed().is_none_or(|seed| seed == sketch.seed)
            && match &self.result {
                OutcomeResult::Run(run) => is_of_run(run),
                OutcomeResult::Validation(validation) => {
                    validation.variants.0.iter().any(|(variant, _)| *variant == sketch.variant)
                }
                OutcomeResult::Sweep(_) | OutcomeResult::Advice(_) => true,
            }
    }

    /// Seed of the run, where the result has it.
    fn seed(&self) -> Option<u64> {
        match &self.result {
            OutcomeResult::Run(run) => Some(run.seed),
            OutcomeResult::Sweep(sweep) => Some(sweep.seed),
            OutcomeResult::Validation(_) | OutcomeResult::Advice(_) => None,
        }
    }

    /// Adds the scenario and the environment: the text of `run.json`, which is called `name`. That of another result, as far as
    /// scenario and seed tell, is left out, and the report says so.
    ///
    /// # Errors
    /// If it is no such text.
    pub fn add_record(&mut self, name: &str, text: &str) -> Result<(), ReportError> {
        let _: Map<String, Value> = parsed(name, text)?;
        let record: Record = parsed(name, text)?;
        if record.scenario.as_ref().is_none_or(|scenario| scenario.may_be_of(self.subject(), self.seed())) {
            self.record = record;
        } else {
            self.left_out.push(name.to_owned());
        }
        Ok(())
    }
}

fn parsed<T: for<'de> Deserialize<'de>>(name: &str, text: &str) -> Result<T, ReportError> {
    serde_json::from_str(text).map_err(|error| {
        let (name, line, column) = (name.to_owned(), error.line(), error.column());
        match error.classify() {
            Category::Eof => ReportError::Truncated { name, line, column },
            Category::Syntax | Category::Io => {
                let reason = error.to_string();
                let reason = reason.split(" at line ").next().unwrap_or_default().to_owned();
                ReportError::NotJson { name, line, column, reason }
            }
            Category::Data => {
                ReportError::Unlike { name, version: env!("CARGO_PKG_VERSION"), reason: error.to_string() }
            }
        }
    })
}

/// An object whose keys are names, in their order.
#[derive(Clone, Debug)]
pub(crate) struct Named<T>(pub(crate) Vec<(String, T)>);

impl<T> Default for Named<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Collect<T> {
            type Value = Named<T>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Named(entries))
            }
        }
        deserializer.deserialize_map(Collect(std::marker::PhantomData))
    }
}

/// Scenario and environment of a result: `run.json`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Record {
    pub(crate) scenario: Option<ScenarioRecord>,
    pub(crate) cluster: ClusterRecord,
    pub(crate) environment: Named<Value>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ScenarioRecord {
    pub(crate) file: String,
    pub(crate) text: String,
    pub(crate) set: Vec<String>,
    pub(crate) real_set: Vec<String>,
    pub(crate) seed: Option<u64>,
}

impl ScenarioRecord {
    /// Whether nothing here speaks against a scenario of this name that ran with this seed.
    fn may_be_of(&self, name: &str, seed: Option<u64>) -> bool {
        let is_renamed = self.set.iter().chain(&self.real_set).any(|set| set.starts_with("name"));
        let named =
            |line: &&str| line.strip_prefix("name").is_some_and(|value| value.trim_start().starts_with('='));
        // Escapes of TOML are not undone.
        let line = self.text.lines().map(str::trim).find(named).filter(|line| !line.contains('\\'));
        let is_named = is_renamed || line.is_none_or(|line| line.contains(name));
        is_named && self.seed.zip(seed).is_none_or(|(own, others)| own == others)
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ClusterRecord {
    pub(crate) preset: Option<String>,
    pub(crate) nodes: Option<u32>,
    pub(crate) gpus_per_node: Option<u32>,
}
