//! Origin of an experiment: text, arguments and files, shared by all experiments from the same text; and where a scenario is read from.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zipwire_schedule::DType;

use crate::error::Result;
use crate::files::read_scenario;
use crate::parcel::Parcel;
use crate::problem::Problem;

/// Origin of an experiment, which [`Experiment::parcel`](crate::Experiment::parcel) sends on.
///
/// It is no part of what the experiment is: `Debug` says nothing of it, so that equal experiments look equal.
#[derive(Clone)]
pub struct Origin(pub(crate) OriginKind);

#[derive(Clone)]
pub(crate) enum OriginKind {
    /// From files of this host.
    Loaded(Loaded),
    /// From those of another one.
    Parcel(Arc<Parcel>),
}

/// A text and what is to be made of it.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) source: Source,
    pub(crate) sets: Vec<String>,
    pub(crate) real_sets: Vec<String>,
    /// The seed in place of the scenario's.
    pub(crate) seed: Option<u64>,
}

/// A scenario as it was given: its text, and the arguments that change it.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct ScenarioText<'a> {
    /// Path as the user gave it.
    pub file: &'a str,
    /// The TOML text.
    pub text: &'a str,
    /// Arguments of `--set`.
    pub set: &'a [String],
    /// Arguments of `--real-set`.
    pub real_set: &'a [String],
    /// The seed in place of the scenario's.
    pub seed: Option<u64>,
}

/// Origin of an experiment that was loaded on this host.
#[derive(Clone)]
pub(crate) struct Loaded {
    pub(crate) arguments: Arc<Arguments>,
    /// The point of the scenario's sweep, from 0; `None` if it is the scenario without it.
    pub(crate) point: Option<usize>,
    pub(crate) used: Arc<Used>,
}

/// The files that one experiment was made of, by the names that the scenario gives them, with their hashes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Used {
    pub(crate) files: BTreeMap<String, u128>,
    /// Hashes of rows: files of tensors are not read as a whole.
    pub(crate) tensors: BTreeMap<TensorName, u128>,
}

/// A tensor of a file, by the names that the scenario gives them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TensorName {
    pub(crate) file: String,
    pub(crate) tensor: String,
    pub(crate) dtype: DType,
}

impl Arguments {
    pub(crate) fn new(
        source: &Source,
        sets: &[String],
        real_sets: &[String],
        seed: Option<u64>,
    ) -> Arc<Self> {
        let (sets, real_sets) = (sets.to_vec(), real_sets.to_vec());
        Arc::new(Self { source: source.clone(), sets, real_sets, seed })
    }
}

impl Loaded {
    /// Where a file lies that the scenario names.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.arguments.source.base.join(name)
    }
}

impl Origin {
    /// Scenario of an experiment from files of this host; `None` of one that another host has sent.
    pub fn scenario(&self) -> Option<ScenarioText<'_>> {
        let OriginKind::Loaded(Loaded { arguments, .. }) = &self.0 else { return None };
        let Arguments { source, sets, real_sets, seed } = &**arguments;
        Some(ScenarioText {
            file: &source.name,
            text: &source.text,
            set: sets,
            real_set: real_sets,
            seed: *seed,
        })
    }

    pub(crate) fn loaded(arguments: &Arc<Arguments>, point: Option<usize>, used: Used) -> Self {
        let (arguments, used) = (Arc::clone(arguments), Arc::new(used));
        Self(OriginKind::Loaded(Loaded { arguments, point, used }))
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Origin").finish_non_exhaustive()
    }
}

/// The text of a scenario, before it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// How errors call it: the path as the user gave it.
    pub name: String,
    /// The TOML text.
    pub text: String,
    /// The folder that relative paths in the text start from.
    pub base: PathBuf,
}

impl Source {
    /// Reads a scenario file.
    ///
    /// # Errors
    /// When the file cannot be read or is not UTF-8.
    pub fn read(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let text = read_scenario(path)
            .map_err(|source| Problem::Unreadable { path: path.to_owned(), source }.nowhere())?;
        let base = path.parent().unwrap_or(Path::new("")).to_owned();
        Ok(Self { name, text, base })
    }

    /// A scenario from memory.
    pub fn from_text(name: impl Into<String>, text: impl Into<String>, base: impl Into<PathBuf>) -> Self {
        Self { name: name.into(), text: text.into(), base: base.into() }
    }

    /// First line of the comment that opens the text; lines for editors, which begin with `#:`, are none of it.
    pub fn description(&self) -> Option<String> {
        let is_text = |line: &&str| !line.trim().is_empty() && !line.starts_with("#:");
        let line = self.text.lines().find(is_text)?;
        let text = line.trim().strip_prefix('#')?.trim_start_matches('#').trim();
        (!text.is_empty()).then(|| text.to_owned())
    }
}
