//! Models that change as training changes them, and stores that are looked at.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use tempfile::TempDir;
use zipwire_models::file::Watch;
use zipwire_models::store::{
    Added, Addition, DEFAULT_CHAIN, Parent, Store, StoreError, Writer, add, restore,
};

pub(crate) type Tensors = BTreeMap<String, (Dtype, Vec<u8>)>;

/// A store with what was added to it.
pub(crate) struct World {
    pub(crate) folder: TempDir,
    pub(crate) store: Store,
    pub(crate) rng: ChaCha8Rng,
    pub(crate) added: BTreeMap<String, BTreeMap<String, Vec<u8>>>,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let folder = TempDir::new().unwrap();
        let store = Store::init(&folder.path().join("store")).unwrap();
        Self { folder, store, rng: ChaCha8Rng::seed_from_u64(seed), added: BTreeMap::new() }
    }

    pub(crate) fn add(&mut self, id: &str, files: BTreeMap<String, Vec<u8>>) -> Added {
        self.try_add(id, files, Parent::Auto, DEFAULT_CHAIN, "rans").unwrap()
    }

    pub(crate) fn try_add(
        &mut self,
        id: &str,
        files: BTreeMap<String, Vec<u8>>,
        parent: Parent,
        chain: usize,
        spec: &str,
    ) -> Result<Added, StoreError> {
        let source = self.folder.path().join("source");
        write_files(&source, &files);
        let writer = Writer::begin(&self.store)?;
        let addition = Addition {
            id: id.to_owned(),
            parent,
            spec: spec.parse().unwrap(),
            chain,
            allow_missing: false,
            keep_trailing: false,
        };
        let added = add(&writer, &[source], &addition, &Watch::default());
        if added.is_ok() {
            self.added.insert(id.to_owned(), files);
        }
        added
    }

    /// The files of a checkpoint, as they come back.
    pub(crate) fn restored(&self, id: &str) -> Result<BTreeMap<String, Vec<u8>>, StoreError> {
        let out = self.folder.path().join(format!("out-{id}"));
        restore(&self.store, id, &out, false, &Watch::default())?;
        let files = read_files(&out);
        fs::remove_dir_all(&out).unwrap();
        Ok(files)
    }

    #[track_caller]
    pub(crate) fn check(&self, id: &str) {
        assert!(self.restored(id).unwrap() == self.added[id], "`{id}` comes back with other bytes");
    }

    pub(crate) fn objects(&self) -> Vec<PathBuf> {
        zipwire_models::file::files_below(&self.store.path().join("objects")).unwrap()
    }
}

pub(crate) fn write_files(folder: &Path, files: &BTreeMap<String, Vec<u8>>) {
    let _ = fs::remove_dir_all(folder);
    for (name, bytes) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

pub(crate) fn read_files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let name = |path: &PathBuf| path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
    zipwire_models::file::files_below(folder)
        .unwrap()
        .iter()
        .map(|path| (name(path), fs::read(path).unwrap()))
        .collect()
}

/// Values like weights: of a few exponents.
pub(crate) fn weights(rng: &mut ChaCha8Rng, count: usize) -> Vec<u8> {
    (0..count).flat_map(|_| (0x3c00 | (rng.next_u32() & 0x83ff) as u16).to_le_bytes()).collect()
}

/// Some of the values move by a little.
pub(crate) fn step(rng: &mut ChaCha8Rng, values: &mut [u8]) {
    for value in values.chunks_exact_mut(2) {
        if rng.random_range(0..4) == 0 {
            let bits = u16::from_le_bytes([value[0], value[1]]);
            value.copy_from_slice(&bits.wrapping_add(rng.random_range(0..3)).to_le_bytes());
        }
    }
}

pub(crate) fn safetensors<'a>(
    tensors: impl IntoIterator<Item = (&'a String, &'a (Dtype, Vec<u8>))>,
) -> Vec<u8> {
    let views = tensors.into_iter().map(|(name, (dtype, bytes))| {
        let shape = vec![bytes.len() * 8 / dtype.bitsize()];
        (name.clone(), TensorView::new(*dtype, shape, bytes).unwrap())
    });
    safetensors::serialize(views.collect::<Vec<_>>(), None).unwrap()
}

/// A model in one file, with a file beside it.
pub(crate) fn files_of(tensors: &Tensors, config: &str) -> BTreeMap<String, Vec<u8>> {
    BTreeMap::from([
        ("model.safetensors".to_owned(), safetensors(tensors)),
        ("tokenizer/config.json".to_owned(), config.as_bytes().to_vec()),
    ])
}

/// Two matrices, of which one has more than one chunk, and a vector.
pub(crate) fn model(rng: &mut ChaCha8Rng) -> Tensors {
    BTreeMap::from([
        ("a".to_owned(), (Dtype::BF16, weights(rng, 150_000))),
        ("b".to_owned(), (Dtype::BF16, weights(rng, 9_000))),
        ("norm".to_owned(), (Dtype::F32, weights(rng, 128))),
    ])
}

/// All BF16 values take a step.
pub(crate) fn train(rng: &mut ChaCha8Rng, tensors: &mut Tensors) {
    for (dtype, values) in tensors.values_mut() {
        if *dtype == Dtype::BF16 {
            step(rng, values);
        }
    }
}
