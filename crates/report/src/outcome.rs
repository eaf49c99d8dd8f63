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
        Ok(Self { name: name.to_owned(), result, record: Record::default(), sketches: Vec::new() })
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

    /// Adds a timeline.
    pub fn add_timeline(&mut self, sketch: TimelineSketch) {
        self.sketches.push(sketch);
    }

    /// Adds the scenario and the environment: the text of `run.json`, which is called `name`.
    ///
    /// # Errors
    /// If it is no such text.
    pub fn add_record(&mut self, name: &str, text: &str) -> Result<(), ReportError> {
        let _: Map<String, Value> = parsed(name, text)?;
        self.record = parsed(name, text)?;
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

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ClusterRecord {
    pub(crate) preset: Option<String>,
    pub(crate) nodes: Option<u32>,
    pub(crate) gpus_per_node: Option<u32>,
}
