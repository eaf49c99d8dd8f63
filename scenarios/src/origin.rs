//! Origin of an experiment: text, arguments and files, shared by all experiments from the same text.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use zipwire_schedule::DType;

use crate::parcel::Parcel;
use crate::source::Source;

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
    /// Arguments of `--set`.
    pub(crate) sets: Vec<String>,
    /// Arguments of `--real-set`.
    pub(crate) real_sets: Vec<String>,
    /// The seed in place of the scenario's.
    pub(crate) seed: Option<u64>,
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
