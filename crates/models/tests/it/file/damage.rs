//! Damage is found by tensor, wherever it is, and what is not damaged comes back.

use std::fs;
use std::ops::Range;

use super::common::{Folder, Tensor, compressed, noise, safetensors, weights};
use zipwire_codec::DType;
use zipwire_models::file::{
    Compression, Damage, FileError, Model, Values, Watch, compress_values, damage, restore, salvage, verify,
};

const MIB: usize = 1 << 20;

/// Coded tensors, small ones that share a chunk, and some that are kept as they are, of more than a piece and less.
fn tensors() -> Vec<Tensor> {
    vec![
        ("w", "BF16", vec![1000, 1100], weights(1_100_000, 1)),
        ("norm.0", "BF16", vec![3000], weights(3000, 2)),
        ("norm.1", "BF16", vec![3000], weights(3000, 3)),
        ("noise", "F16", vec![1500, 1000], noise(3_000_000, 4)),
        ("ids", "I32", vec![20], noise(80, 5)),
        ("scalar", "F32", vec![], noise(4, 6)),
        ("v", "BF16", vec![200_000], weights(200_000, 7)),
    ]
}

/// A file, what it is compressed to, and where the values of tensors that are kept as they are lie in that.
struct Case {
    folder: Folder,
    file: Vec<u8>,
    packed: Vec<u8>,
}

impl Case {
    fn new() -> Self {
        let folder = Folder::new();
        let file = safetensors(&tensors(), Some("{\"format\":\"pt\"}"));
        fs::write(folder.path("m"), &file).unwrap();
        compressed("rans", &folder.path("m"), &folder.path("m.zw")).unwrap();
        let packed = fs::read(folder.path("m.zw")).unwrap();
        Self { folder, file, packed }
    }

    /// Where these bytes are in the compressed file.
    fn find(&self, bytes: &[u8]) -> usize {
        self.packed.windows(bytes.len()).position(|window| window == bytes).unwrap()
    }

    /// Where the container of a tensor begins in the compressed file.
    fn container(&self, tensor: &str) -> usize {
        let model = Model::open(&self.folder.path("m.zw")).unwrap();
        let mut front = [0; 64];
        model.read_kept(tensor, 0, &mut front).unwrap();
        self.find(&front)
    }

    /// The compressed file, altered.
    fn altered(&self, alter: impl FnOnce(&mut Vec<u8>)) -> std::path::PathBuf {
        let mut bytes = self.packed.clone();
        alter(&mut bytes);
        let path = self.folder.path("altered");
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Damage that is said of the compressed file, altered: all other bytes that come back have to be those of the original.
    fn salvaged(&self, alter: impl FnOnce(&mut Vec<u8>)) -> Vec<Damage> {
        let model = Model::open_cut(&self.altered(alter), None).unwrap();
        let back = self.folder.path("back");
        let lost = salvage(&model, &back, true, &Watch::default()).unwrap();
        assert_eq!(lost, damage(&model, &Watch::default()).unwrap());
        let mut expected = self.file.clone();
        let header = self.file.len() - tensors().iter().map(|tensor| tensor.3.len()).sum::<usize>();
        for Damage { tensor, ranges, .. } in &lost {
            let start = header + model.tensor(tensor.as_ref().unwrap()).unwrap().range.start as usize;
            for range in ranges {
                expected[start + range.start as usize..start + range.end as usize].fill(0);
            }
        }
        assert!(fs::read(&back).unwrap() == expected, "{lost:?}");
        lost
    }
}

fn names(lost: &[Damage]) -> Vec<&str> {
    lost.iter().map(|damage| damage.tensor.as_deref().unwrap()).collect()
}

fn bytes(range: Range<usize>) -> Range<u64> {
    range.start as u64..range.end as u64
}

#[test]
fn reading_a_damaged_tensor_is_an_error_and_others_are_read() {
    let case = Case::new();
    for (name, _, _, values) in tensors() {
        // A bit in the middle of it: of its own bytes if it is kept as it is, else of its frames.
        let kept = case
            .packed
            .windows(4)
            .position(|window| window == &values[..4])
            .filter(|at| case.packed[*at..].starts_with(&values));
        let at = match (kept, name) {
            (Some(at), _) => at + values.len() / 2,
            (None, "w" | "v") => case.container(name) + values.len() / 3,
            (None, _) => {
                case.container("w") + {
                    let model = Model::open(&case.folder.path("m.zw")).unwrap();
                    model.bytes_kept("w").unwrap() as usize + 2000
                }
            }
        };
        let path = case.altered(|file| file[at] ^= 4);
        let model = Model::open(&path).unwrap();
        let error = model.read(name).unwrap_err().to_string();
        let with_it = if name.starts_with("norm") { "norm" } else { name };
        assert!(error.contains(with_it) && error.contains("damaged"), "{error}");
        let rows = tensors().iter().find(|tensor| tensor.0 == name).unwrap().2.first().copied().unwrap_or(1);
        let around = (rows as u64 / 2 - rows as u64 / 4)..(rows as u64 / 2 + 1).min(rows as u64);
        if kept.is_some() {
            assert!(model.read_rows(name, around).is_err(), "{name}");
        }
        let lost = damage(&model, &Watch::default()).unwrap();
        assert!(!lost.is_empty() && names(&lost).iter().all(|lost| lost.starts_with(with_it)), "{lost:?}");
        assert!(verify(&model, &Watch::default()).is_err());
        assert!(restore(&model, &case.folder.path("x"), true, &Watch::default()).is_err());
        for (other, _, _, values) in tensors().iter().filter(|other| !other.0.starts_with(with_it)) {
            assert!(model.read(other).unwrap() == *values, "{other} beside {name}");
        }
    }
}

/// Any range of rows of a tensor that is kept as it is comes from pieces that were compared.
#[test]
fn ranges_of_what_is_kept_as_it_is_are_checked() {
    let case = Case::new();
    let values = &tensors()[3].3;
    let at = case.find(&values[..64]);
    let path = case.altered(|file| file[at + MIB + 5] ^= 1);
    let model = Model::open(&path).unwrap();
    for (range, is_sound) in [
        (0..MIB, true),
        (0..MIB + 1, false),
        (MIB - 1..MIB, true),
        (7..9, true),
        (MIB..MIB, true),
        (2 * MIB - 1..2 * MIB + 1, false),
        (2 * MIB..3_000_000, true),
        (2 * MIB + 3..3_000_000 - 3, true),
        (MIB + 100..MIB + 101, false),
        (0..3_000_000, false),
        (3_000_000..3_000_000, true),
    ] {
        let read = model.read_bytes("noise", bytes(range.clone()));
        assert_eq!(read.is_ok(), is_sound, "{range:?}");
        assert!(read.map_or(true, |read| read == values[range.clone()]), "{range:?}");
    }
    let error = model.read_bytes("noise", 0..3_000_000).unwrap_err();
    assert!(
        matches!(&error, FileError::Digest { tensor, range, .. } if tensor == "noise" && *range == bytes(MIB..2 * MIB))
    );
}

#[test]
fn all_damaged_tensors_are_named_and_the_rest_comes_back() {
    let case = Case::new();
    assert!(case.salvaged(|_| ()).is_empty());
    let (w, v, noise) = (case.container("w"), case.container("v"), case.find(&tensors()[3].3[..64]));
    let lost = case.salvaged(|file| {
        file[w + 300_000] ^= 1;
        file[v + 1000] ^= 8;
        file[noise + 2_500_000] ^= 1;
    });
    assert_eq!(names(&lost), ["w", "noise", "v"]);
    // A chunk of frames, a piece of what is kept as it is.
    assert_eq!((lost[0].ranges.len(), lost[0].ranges[0].end - lost[0].ranges[0].start), (1, 262_144));
    assert_eq!(lost[1].ranges, [bytes(2 * MIB..3_000_000)]);
    assert_eq!(lost[2].ranges, [bytes(0..262_144)]);
    // Index and header of a container are needed for nothing that its frames say.
    let end = case.packed.len();
    let len = Model::open(&case.folder.path("m.zw")).unwrap().bytes_kept("w").unwrap() as usize;
    for (at, tensor) in [(w + len - 3, "w"), (w + len - 40, "w"), (w + 2, "w"), (w + 9, "w"), (end - 1, "v")]
    {
        let lost = case.salvaged(|file| file[at] ^= 1);
        assert_eq!((names(&lost), lost[0].ranges.len()), (vec![tensor], 0), "{at}: {lost:?}");
    }
    // The tensor is named once.
    let lost = case.salvaged(|file| file[w + len - 3] ^= 1);
    assert!(!lost[0].reason.contains('`'), "{}", lost[0]);
    // Neighbours in one chunk go together.
    let lost = case.salvaged(|file| file[w + len + 3000] ^= 1);
    assert_eq!((names(&lost), lost[1].ranges.clone()), (vec!["norm.0", "norm.1"], vec![bytes(0..6000)]));
}

#[test]
fn of_a_cut_file_all_comes_back_that_is_there() {
    let case = Case::new();
    let (w, noise, v) = (case.container("w"), case.find(&tensors()[3].3[..64]), case.container("v"));
    for (len, expected) in [
        (case.packed.len() - 1, &["v"][..]),
        (v + 200_000, &["v"]),
        (noise + MIB + 5, &["noise", "ids", "scalar", "v"]),
        (w + 700_000, &["w", "norm.0", "norm.1", "noise", "ids", "scalar", "v"]),
    ] {
        let lost = case.salvaged(|file| file.truncate(len));
        assert_eq!(names(&lost), expected, "{len}: {lost:?}");
        if len == noise + MIB + 5 {
            // Five bytes of the piece are there, and nothing that they could be compared with.
            assert_eq!(lost[0].ranges[0].start, MIB as u64);
        }
        if len == w + 700_000 {
            assert_eq!(lost[0].ranges.len(), 1);
            assert!((MIB as u64 * 3 / 4..MIB as u64 * 5 / 4).contains(&lost[0].ranges[0].start), "{lost:?}");
        }
        assert!(matches!(Model::open(&case.folder.path("altered")), Err(FileError::Header { .. })));
    }
    // Without what the file says of its tensors there is nothing.
    let path = case.altered(|file| file.truncate(w - 10));
    assert!(Model::open_cut(&path, None).is_err());
}

#[test]
fn of_values_without_a_header_all_comes_back_that_is_there() {
    let folder = Folder::new();
    let (plain, packed, back) = (folder.path("kv"), folder.path("kv.zw"), folder.path("back"));
    let values = [weights(500_000, 1), vec![7]].concat();
    fs::write(&plain, &values).unwrap();
    let compression = Compression { spec: "rans".parse().unwrap(), force: false, keep_trailing: false };
    compress_values(&plain, &packed, DType::Bf16, &compression, &Watch::default()).unwrap();
    let sound = fs::read(&packed).unwrap();
    let mut file = sound.clone();
    file[300_000] ^= 1;
    fs::write(&packed, &file).unwrap();
    let opened = Values::open_cut(&packed).unwrap().unwrap();
    let lost = opened.damage(&Watch::default()).unwrap();
    assert_eq!((lost.len(), lost[0].ranges.clone()), (1, vec![bytes(262_144..524_288)]));
    assert_eq!(opened.salvage(&back, false, &Watch::default()).unwrap(), lost);
    let mut expected = values.clone();
    expected[262_144..524_288].fill(0);
    assert!(fs::read(&back).unwrap() == expected);

    fs::write(&packed, &sound[..400_000]).unwrap();
    assert!(Values::open(&packed).is_err());
    let lost = Values::open_cut(&packed).unwrap().unwrap().salvage(&back, true, &Watch::default()).unwrap();
    assert!(lost.len() == 1 && lost[0].reason.contains("its end"), "{lost:?}");
    assert!(fs::read(&back).unwrap() == values[..524_288]);
}
