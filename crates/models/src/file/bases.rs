//! Files that differences are taken from: each tensor from the file that has it, by its name.

use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::file::FileError;
use crate::file::header::{Header, TensorInfo};
use crate::file::model::Model;

/// Sign between the digests of several files.
const AND: &str = "+";

/// Files with earlier values of tensors, as the shards of a model: a tensor is taken from the file that has one of its name.
#[derive(Clone, Debug, Default)]
pub struct Bases {
    /// The nearest files first. Files of one rank are as near as one another.
    ranks: Vec<Vec<Arc<Model>>>,
    /// Files that are known by their digests only.
    copies: Vec<Arc<Model>>,
}

impl From<Arc<Model>> for Bases {
    fn from(model: Arc<Model>) -> Self {
        Self::new([vec![model]])
    }
}

impl From<Model> for Bases {
    fn from(model: Model) -> Self {
        Arc::new(model).into()
    }
}

impl Bases {
    /// Files in ranks, the first of which that has a tensor counts. A tensor that two files of that rank have is in none of them.
    pub fn new(ranks: impl IntoIterator<Item = Vec<Arc<Model>>>) -> Self {
        Self { ranks: ranks.into_iter().collect(), copies: Vec::new() }
    }

    /// These files and others, which nothing is coded against, and which count for a file that names their digests: before all others, so that a copy which
    /// is not compressed is read in place of one that is.
    #[must_use]
    pub fn with_copies(self, copies: Vec<Arc<Model>>) -> Self {
        Self { copies, ..self }
    }

    fn models(&self) -> impl Iterator<Item = &Arc<Model>> {
        self.ranks.iter().flatten()
    }

    /// All files, copies first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Model>> {
        self.copies.iter().chain(self.models())
    }

    /// The file that has a tensor of this name, and its number there; `None` also where two files have it that are as near as one another.
    pub(crate) fn find(&self, name: &str) -> Option<(&Arc<Model>, usize)> {
        self.find_one(name).ok().flatten()
    }

    /// Whether two files that are as near as one another have a tensor of this name, and no nearer one has.
    pub(crate) fn is_ambiguous(&self, name: &str) -> bool {
        self.find_one(name).is_err()
    }

    fn find_one(&self, name: &str) -> Result<Option<(&Arc<Model>, usize)>, FileError> {
        for rank in &self.ranks {
            let mut found = rank.iter().filter_map(|model| Some((model, model.find(name)?)));
            let first = found.next();
            if let (Some((first, _)), Some((second, _))) = (first, found.next()) {
                let (first, second) = (first.path().to_owned(), second.path().to_owned());
                return Err(FileError::TwoTensors { tensor: name.to_owned(), first, second });
            }
            if first.is_some() {
                return Ok(first);
            }
        }
        Ok(None)
    }

    /// The file that has a tensor of this name.
    ///
    /// # Errors
    /// [`FileError::TwoTensors`].
    pub fn model_with(&self, name: &str) -> Result<Option<&Model>, FileError> {
        Ok(self.find_one(name)?.map(|(model, _)| &**model))
    }

    /// The files that have tensors of these names, in their order.
    pub(crate) fn with<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Self {
        let used: HashSet<_> =
            names.into_iter().filter_map(|name| Some(Arc::as_ptr(self.find(name)?.0))).collect();
        let used = self.models().filter(|model| used.contains(&Arc::as_ptr(model)));
        Self::new(used.map(|model| vec![Arc::clone(model)]))
    }

    /// Digests of all files, as a compressed file names them; `None` if there is no file. Files that are not compressed are read for it, each once.
    ///
    /// # Errors
    /// Errors of [`Model::digest`].
    pub(crate) fn digests(&self) -> Result<Option<String>, FileError> {
        let digests = self.models().map(|model| model.digest()).collect::<Result<Vec<_>, _>>()?;
        Ok((!digests.is_empty()).then(|| digests.join(AND)))
    }

    /// The files that have the digests `needed`, in their order, for a compressed file at `path` that has differences from them.
    ///
    /// # Errors
    /// [`FileError::WrongBase`] and [`FileError::NoSuchBase`]; errors of [`Model::digest`].
    pub(crate) fn named(&self, needed: &str, path: &Path, header: &Header) -> Result<Self, FileError> {
        let is_alike =
            |model: &&Arc<Model>| header.tensors().iter().any(|tensor| model.find(&tensor.name).is_some());
        let (one, several) = (self.all().count() == 1, is_several(needed));
        // Files that share no tensor with it are not read for their digests.
        let alike: Vec<&Arc<Model>> = self.all().filter(|model| one || is_alike(model)).collect();
        let mut ranks = Vec::new();
        for digest in needed.split(AND) {
            let mut found = None;
            for model in &alike {
                if model.digest()? == digest {
                    found = Some(vec![Arc::clone(model)]);
                    break;
                }
            }
            let (path, needed) = (path.to_owned(), digest.to_owned());
            ranks.push(match (found, &alike[..]) {
                (Some(found), _) => found,
                (None, [base]) if one && !several => {
                    let (base, found) = (base.path().to_owned(), base.digest()?.to_owned());
                    return Err(FileError::WrongBase { path, base, needed, found });
                }
                (None, _) => return Err(FileError::NoSuchBase { path, needed }),
            });
        }
        Ok(Self::new(ranks))
    }

    /// Whether all files are as they were when they were opened.
    ///
    /// # Errors
    /// [`FileError::Changed`], or if the system refuses.
    pub(crate) fn unchanged(&self) -> Result<(), FileError> {
        self.models().try_for_each(|model| model.unchanged())
    }

    /// Bytes of successive tensors of another file that these have under the same names, from the first one's beginning on; `None` if they have not all of
    /// them, or with fewer bytes.
    pub(crate) fn before(
        &self,
        tensors: &[TensorInfo],
        range: Range<u64>,
    ) -> Result<Option<Vec<u8>>, FileError> {
        let begin = tensors.first().map_or(0, |first| first.range.start);
        let first = tensors.partition_point(|tensor| tensor.range.end - begin <= range.start);
        let mut values = vec![0; (range.end - range.start) as usize];
        let mut rest = &mut values[..];
        let mut at = range.start;
        for tensor in &tensors[first..] {
            if rest.is_empty() {
                break;
            }
            let start = at - (tensor.range.start - begin);
            let len = (tensor.bytes() - start).min(rest.len() as u64);
            let (out, behind) = rest.split_at_mut(len as usize);
            match self.find(&tensor.name) {
                Some((model, number)) if model.tensors()[number].bytes() >= start + len => {
                    model.read_by(number, start, out, 1)?;
                }
                None if len == 0 => {}
                _ => return Ok(None),
            }
            (rest, at) = (behind, at + len);
        }
        Ok(Some(values))
    }
}

/// Whether these are the digests of several files.
pub(crate) fn is_several(digests: &str) -> bool {
    digests.contains(AND)
}
