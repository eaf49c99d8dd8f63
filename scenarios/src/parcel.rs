//! Parcels from one host to others, so that they resolve the same experiment: the text, the values set in it, and the files that it
//! names. Resolving is deterministic, so that its result need not travel.
//!
//! It sends nothing: that is for the program that runs ranks on several hosts.

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;
use zipwire_payload::Rows;
use zipwire_schedule::DType;
use zipwire_traces::{read_input, read_rows};

use crate::error::Result;
use crate::experiment::{Experiment, load_from};
use crate::files::Files;
use crate::origin::{Arguments, Loaded, Origin, OriginKind, Source, TensorName};
use crate::problem::{ParcelProblem, Problem};
use crate::sweep::load_unchecked;

/// Most bytes of the scenario and the files that it names: less than a call of MPI takes at once.
const LIMIT: u64 = 1 << 30;

/// All that another host needs to resolve the same experiment, but the tensors of payloads: of these, which may be gigabytes, there
/// is only where they must lie, and the hash of their rows.
///
/// ```
/// use zipwire_scenarios::{Parcel, Source, load};
///
/// let text = r#"
/// name = "first"
/// cluster = { nodes = 1, gpus_per_node = 4, gpu_bandwidth = "25 GB/s", latency_intra = "5 us" }
/// workload = { kind = "collective", collective = "all-to-all", bytes_per_rank = "1 MiB" }
/// "#;
/// let experiment = load(&Source::from_text("first.toml", text, "."), &[], Some(7))?;
/// let sent = serde_json::to_string(&experiment.parcel()?).expect("it is plain data");
/// let received: Parcel = serde_json::from_str(&sent).expect("it is the same data");
/// assert_eq!(received.unpack()?.job(), experiment.job());
/// # Ok::<(), zipwire_scenarios::ScenarioError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parcel {
    /// How errors call the scenario.
    name: String,
    text: String,
    /// Where the files lay, for errors.
    folder: String,
    sets: Vec<String>,
    real_sets: Vec<String>,
    /// The seed in place of the scenario's.
    seed: Option<u64>,
    /// The point of the scenario's sweep, from 0; `None` if it is the scenario without it.
    point: Option<usize>,
    points_left_out: usize,
    variants: Vec<String>,
    /// Contents by the names that the scenario gives the files.
    files: BTreeMap<String, Vec<u8>>,
    tensors: Vec<CarriedTensor>,
}

impl Experiment {
    /// Packs all that another host needs to resolve this experiment as it was loaded, with the variants that are [selected](Self::select).
    /// Whatever else has been changed in it since is not sent.
    ///
    /// The files that the scenario names are read once more; tensors are not, because they can be large: whether theirs are the same
    /// is for [`Parcel::unpack`] to find out, on every host.
    ///
    /// # Errors
    /// If a file cannot be read any more or has changed since the experiment was loaded, if the files have more than 1 GiB together
    /// with the scenario, or if the path of a tensor's file is not UTF-8.
    pub fn parcel(&self) -> Result<Parcel> {
        let parcel = match &self.origin.0 {
            OriginKind::Loaded(loaded) => pack(loaded)?,
            OriginKind::Parcel(parcel) => Parcel::clone(parcel),
        };
        let variants = self.variants.iter().map(|variant| variant.name.clone()).collect();
        Ok(Parcel { points_left_out: self.points_left_out, variants, ..parcel })
    }
}

impl Parcel {
    /// The experiment that was sent. Files that came along stay in memory, and no other file of this host is read but those of
    /// tensors, from the same absolute path as where they were sent from.
    ///
    /// # Errors
    /// If a tensor cannot be read on this host or has other rows, or if the parcel does not fit together, as that of another version
    /// may not.
    pub fn unpack(&self) -> Result<Experiment> {
        let rows = self.tensors.iter().map(CarriedTensor::read).collect::<Result<_>>()?;
        let parcel = Arc::new(self.clone());
        let source = Source::from_text(&self.name, &self.text, &self.folder);
        let files = Files::carried(&source.base, Carried::new(Arc::clone(&parcel), rows));
        let arguments = Arguments::new(&source, &self.sets, &self.real_sets, self.seed);
        let mut experiment = match self.point {
            None => load_from(&arguments, &files)?,
            Some(point) => {
                let sweep = load_unchecked(&arguments, files)?;
                let sweep = sweep.filter(|sweep| point < sweep.point_count());
                sweep.ok_or_else(|| ParcelProblem::NoPoint { point }.nowhere())?.point(point)?
            }
        };
        experiment.select(&self.variants)?;
        experiment.points_left_out = self.points_left_out;
        experiment.origin = Origin(OriginKind::Parcel(parcel));
        Ok(experiment)
    }
}

fn pack(loaded: &Loaded) -> Result<Parcel> {
    let Loaded { arguments, point, used } = loaded;
    let Arguments { source, sets, real_sets, seed } = &**arguments;
    let mut left = LIMIT.saturating_sub(source.text.len() as u64);
    let mut files = BTreeMap::new();
    for (name, digest) in &used.files {
        let content = read_again(&loaded.path(name), *digest, left)?;
        left -= content.len() as u64;
        files.insert(name.clone(), content);
    }
    let tensors = used.tensors.iter();
    let tensors = tensors.map(|(name, digest)| CarriedTensor::new(name, &loaded.path(&name.file), *digest));
    Ok(Parcel {
        name: source.name.clone(),
        text: source.text.clone(),
        folder: source.base.display().to_string(),
        sets: sets.clone(),
        real_sets: real_sets.clone(),
        seed: *seed,
        point: *point,
        points_left_out: 0,
        variants: Vec::new(),
        files,
        tensors: tensors.collect::<Result<_>>()?,
    })
}

/// A file that had this hash when it was read first, of at most `limit` bytes.
fn read_again(path: &Path, digest: u128, limit: u64) -> Result<Vec<u8>> {
    let content = read_input(path, limit).map_err(|source| match source.kind() {
        io::ErrorKind::FileTooLarge => {
            ParcelProblem::TooLarge { path: path.to_owned(), limit: LIMIT }.nowhere()
        }
        _ => Problem::Unreadable { path: path.to_owned(), source }.nowhere(),
    })?;
    if xxh3_128(&content) != digest {
        return Err(ParcelProblem::Changed { path: path.to_owned() }.nowhere());
    }
    Ok(content)
}

/// Files and tensors, by the names that the scenario gives them.
#[derive(Debug)]
pub(crate) struct Carried {
    parcel: Arc<Parcel>,
    rows: BTreeMap<TensorName, Arc<Rows>>,
}

/// A tensor that every host has in a file of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct CarriedTensor {
    /// The file as the scenario calls it.
    file: String,
    /// Where it lies, on every host.
    path: String,
    tensor: String,
    dtype: String,
    /// Hash of the rows, in hexadecimal: not every format has integers of 128 bits.
    digest: String,
}

impl Carried {
    fn new(parcel: Arc<Parcel>, rows: BTreeMap<TensorName, Arc<Rows>>) -> Self {
        Self { parcel, rows }
    }

    pub(crate) fn file(&self, name: &str) -> io::Result<&[u8]> {
        self.parcel.files.get(name).map(Vec::as_slice).ok_or_else(not_carried)
    }

    pub(crate) fn rows(&self, name: &TensorName) -> io::Result<Arc<Rows>> {
        self.rows.get(name).cloned().ok_or_else(not_carried)
    }
}

/// Error for a file that the parcel lacks: requests follow from the text, so the sending host has understood it differently.
fn not_carried() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "the host that sent the scenario did not send it along")
}

impl CarriedTensor {
    /// The tensor of the file at `path`, whose rows had this hash when they were read.
    fn new(name: &TensorName, path: &Path, digest: u128) -> Result<Self> {
        let TensorName { file, tensor, dtype } = name.clone();
        let path = straight(path)
            .map_err(|source| Problem::Unreadable { path: path.to_owned(), source }.nowhere())?;
        let path = path.into_os_string().into_string();
        let path = path.map_err(|path| ParcelProblem::NotText { path: path.into() }.nowhere())?;
        Ok(Self { file, path, tensor, dtype: dtype.name().to_owned(), digest: hexadecimal(digest) })
    }

    /// Its rows, from this host's file.
    fn read(&self) -> Result<(TensorName, Arc<Rows>)> {
        let Self { file, path, tensor, dtype, digest } = self;
        let path = PathBuf::from(path);
        let Some(dtype) = DType::from_name(dtype) else {
            return Err(ParcelProblem::UnknownType { dtype: dtype.clone() }.nowhere());
        };
        let rows =
            read_rows(&path, tensor, dtype).map_err(|error| ParcelProblem::Tensor { error }.nowhere())?;
        if hexadecimal(rows.digest()) != *digest {
            return Err(ParcelProblem::OtherRows { path, tensor: tensor.clone() }.nowhere());
        }
        let name = TensorName { file: file.clone(), tensor: tensor.clone(), dtype };
        Ok((name, Arc::new(rows)))
    }
}

/// The absolute path without `..`, if that is the same file: other hosts may not have the folders that it leads back from. Links
/// stay what they are, since they may lead elsewhere there.
fn straight(path: &Path) -> io::Result<PathBuf> {
    let absolute = std::path::absolute(path)?;
    let mut straight = PathBuf::new();
    for part in absolute.components() {
        match part {
            Component::ParentDir => {
                straight.pop();
            }
            _ => straight.push(part),
        }
    }
    let is_same =
        straight.canonicalize().is_ok_and(|file| absolute.canonicalize().is_ok_and(|other| file == other));
    Ok(if is_same { straight } else { absolute })
}

fn hexadecimal(digest: u128) -> String {
    format!("{digest:032x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_large_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        std::fs::write(&path, "0,1\n").unwrap();
        let digest = xxh3_128(b"0,1\n");
        assert_eq!(read_again(&path, digest, 4).unwrap(), b"0,1\n");
        let error = read_again(&path, digest, 3).unwrap_err();
        let expected = format!(
            "with `{}` the scenario and the files that it names have more than 1073741824 bytes",
            path.display()
        );
        assert_eq!(error.to_string(), expected);
    }
}
