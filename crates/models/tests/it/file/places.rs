//! Places of outputs: what is replaced, what never is, the rights of results, and what killed processes have left.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zipwire_models::file::{
    Below, Compression, FileError, Model, Output, OutputFolder, STAGED, Watch, compress, compress_into,
    files_below, refuse_twice, restore, verify,
};
use zipwire_models::store::Store;

use super::common::{Folder, compressed, safetensors, weights};

fn model(path: &Path, seed: u64) {
    fs::write(path, safetensors(&[("w", "BF16", vec![4096], weights(4096, seed))], None)).unwrap();
}

fn delta(force: bool) -> Compression {
    Compression { spec: "delta+rans".parse().unwrap(), force, keep_trailing: false }
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Contents of all files below a folder, by their paths in it.
fn contents(folder: &Path) -> BTreeMap<String, String> {
    let files = files_below(folder).unwrap();
    let content = |file: PathBuf| {
        let name = file.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
        (name, fs::read_to_string(file).unwrap())
    };
    files.into_iter().map(content).collect()
}

fn put(output: &OutputFolder, name: &str, text: &str) {
    let path = output.root().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn only_files_of_the_same_names_are_replaced_in_a_folder() {
    let folder = Folder::new();
    let out = folder.path("out");
    let first = OutputFolder::begin(&out, false).unwrap();
    put(&first, "a", "1");
    put(&first, "sub/b", "1");
    assert!(!out.exists(), "it appears as a whole");
    first.finish().unwrap();
    for theirs in ["thesis.txt", "sub/letter", "other/x"] {
        fs::create_dir_all(out.join(theirs).parent().unwrap()).unwrap();
        fs::write(out.join(theirs), "mine").unwrap();
    }
    assert!(matches!(OutputFolder::begin(&out, false), Err(FileError::FolderExists { .. })));
    let second = OutputFolder::begin(&out, true).unwrap();
    put(&second, "sub/b", "2");
    put(&second, "new/c", "2");
    drop(second);
    assert_eq!(contents(&out)["sub/b"], "1", "it was given up");
    let second = OutputFolder::begin(&out, true).unwrap();
    put(&second, "sub/b", "2");
    put(&second, "new/c", "2");
    second.finish().unwrap();
    let expected = [
        ("a", "1"),
        ("new/c", "2"),
        ("other/x", "mine"),
        ("sub/b", "2"),
        ("sub/letter", "mine"),
        ("thesis.txt", "mine"),
    ];
    let found = contents(&out);
    let found: Vec<(&str, &str)> = found.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    assert_eq!(found, expected);
    assert_eq!(fs::read_dir(&out).unwrap().count(), 5, "nothing staged is left");
    assert_eq!(folder.names(), ["out"]);
}

#[test]
fn a_folder_that_appears_meanwhile_is_not_replaced() {
    let folder = Folder::new();
    let out = folder.path("out");
    let staged = OutputFolder::begin(&out, false).unwrap();
    put(&staged, "a", "1");
    fs::create_dir(&out).unwrap();
    assert!(matches!(staged.finish(), Err(FileError::FolderExists { .. })));
    assert_eq!(fs::read_dir(&out).unwrap().count(), 0);
}

#[test]
fn nothing_but_a_file_is_replaced_by_a_file_and_no_folder_goes_where_something_else_is() {
    let folder = Folder::new();
    let (file, other) = (folder.path("file"), folder.path("folder"));
    fs::write(&file, "mine").unwrap();
    fs::create_dir(&other).unwrap();
    symlink(&file, folder.path("link")).unwrap();
    symlink("nowhere", folder.path("broken")).unwrap();
    let _socket = UnixListener::bind(folder.path("socket")).unwrap();
    for name in ["folder", "link", "broken", "socket"] {
        for force in [false, true] {
            let refused = Output::begin(&folder.path(name), force);
            assert!(matches!(refused, Err(FileError::Kind { wanted: "file", .. })), "{name}: {refused:?}");
        }
    }
    assert!(matches!(Output::begin(Path::new("/dev/null"), true), Err(FileError::Kind { .. })));
    assert!(matches!(Output::begin(Path::new("-"), true), Err(FileError::Dash)));
    for name in ["file", "link", "broken", "socket"] {
        let refused = OutputFolder::begin(&folder.path(name), true);
        assert!(matches!(refused, Err(FileError::Kind { wanted: "folder", .. })), "{name}: {refused:?}");
    }
    // By the time that it is complete, too.
    let late = Output::begin(&folder.path("late"), true).unwrap();
    symlink(&file, folder.path("late")).unwrap();
    assert!(matches!(late.finish(), Err(FileError::Kind { .. })));
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    assert_eq!(folder.names(), ["broken", "file", "folder", "late", "link", "socket"]);
}

/// In a folder that is there, a result has no way through links, and no file where a folder is, or the reverse: known before any file is replaced.
#[test]
fn what_is_in_the_way_is_found_before_anything_is_replaced() {
    let folder = Folder::new();
    let (out, others) = (folder.path("out"), folder.path("others"));
    fs::create_dir_all(out.join("is-folder")).unwrap();
    fs::create_dir(&others).unwrap();
    fs::write(out.join("is-file"), "mine").unwrap();
    fs::write(out.join("a"), "mine").unwrap();
    fs::write(others.join("x"), "mine").unwrap();
    symlink(&others, out.join("link")).unwrap();
    for name in ["link/x", "link", "is-file/x", "is-folder"] {
        let staged = OutputFolder::begin(&out, true).unwrap();
        put(&staged, "a", "2");
        put(&staged, name, "2");
        let error = staged.finish().unwrap_err();
        assert!(matches!(error, FileError::Kind { .. }), "{name}: {error}");
        let names = [PathBuf::from(name)];
        assert!(matches!(OutputFolder::refuse_names(&out, &names), Err(FileError::Kind { .. })), "{name}");
        assert_eq!(fs::read_to_string(out.join("a")).unwrap(), "mine", "{name}");
    }
    assert_eq!(fs::read_to_string(others.join("x")).unwrap(), "mine");
}

#[test]
fn inputs_and_bases_are_no_outputs_whatever_leads_to_them() {
    let folder = Folder::new();
    let (input, base, packed) =
        (folder.path("n.safetensors"), folder.path("b.safetensors"), folder.path("packed"));
    model(&input, 1);
    model(&base, 2);
    fs::hard_link(&base, folder.path("hard")).unwrap();
    symlink(&base, folder.path("soft")).unwrap();
    let opened = Arc::new(Model::open(&base).unwrap());
    let before = [&input, &base].map(|file| fs::read(file).unwrap());
    for name in ["n.safetensors", "b.safetensors", "hard", "soft"] {
        for force in [false, true] {
            let error = compress(
                &input,
                &folder.path(name),
                &delta(force),
                Some(&opened.clone().into()),
                &Watch::default(),
            )
            .unwrap_err();
            assert!(matches!(error, FileError::Same { .. }), "{name}: {error}");
        }
    }
    compress(&input, &packed, &delta(false), Some(&opened.clone().into()), &Watch::default()).unwrap();
    let model = Model::open_with(&packed, Some(opened.into())).unwrap();
    for name in ["packed", "b.safetensors", "hard", "soft"] {
        let error = restore(&model, &folder.path(name), true, &Watch::default()).unwrap_err();
        assert!(matches!(error, FileError::Same { .. }), "{name}: {error}");
    }
    assert!([&input, &base].map(|file| fs::read(file).unwrap()) == before);
}

#[test]
fn stores_and_what_is_in_them_are_no_outputs() {
    let folder = Folder::new();
    let store = folder.path("store");
    Store::init(&store).unwrap();
    symlink(&store, folder.path("link")).unwrap();
    let names = ["store/x", "store/objects/x", "store/staged/../x", "link/objects/x", "store/new/deep/x"];
    for name in names {
        for force in [false, true] {
            let file = Output::begin(&folder.path(name), force);
            assert!(matches!(file, Err(FileError::InStore { .. })), "{name}: {file:?}");
            let folder = OutputFolder::begin(&folder.path(name), force);
            assert!(matches!(folder, Err(FileError::InStore { .. })), "{name}: {folder:?}");
        }
    }
    assert!(matches!(OutputFolder::begin(&store, true), Err(FileError::InStore { .. })));
    let outer = OutputFolder::begin(&folder.0.path().join("."), true).unwrap();
    put(&outer, "store/objects/x", "1");
    assert!(matches!(outer.finish(), Err(FileError::InStore { .. })));
    assert!(Store::init(&store.join("objects/inner")).is_err(), "a store in a store");
}

#[test]
fn two_outputs_of_one_name_are_refused() {
    let folder = Folder::new();
    fs::create_dir(folder.path("real")).unwrap();
    symlink(folder.path("real"), folder.path("link")).unwrap();
    let pairs = |outputs: [&str; 2]| {
        ["a", "b"]
            .map(PathBuf::from)
            .into_iter()
            .zip(outputs.map(|name| folder.path(name)))
            .collect::<Vec<_>>()
    };
    for twice in [["x", "x"], ["real/x", "link/x"], ["x", "./x"], ["x", "x/y"], ["x/y/z", "x"]] {
        let refused = refuse_twice(&pairs(twice));
        assert!(matches!(refused, Err(FileError::OneOutput { .. })), "{twice:?}");
    }
    for fine in [["x", "y"], ["x", "real/x"], ["x/y", "x/z"], ["x", "xy/z"]] {
        refuse_twice(&pairs(fine)).unwrap();
    }
}

#[test]
fn results_have_the_rights_of_their_inputs_and_never_more() {
    let folder = Folder::new();
    let (plain, packed, back) =
        (folder.path("m.safetensors"), folder.path("m.zw.safetensors"), folder.path("back"));
    model(&plain, 1);
    for rights in [0o600, 0o640, 0o444, 0o666] {
        set_mode(&plain, rights);
        let staged = Output::like(&packed, true, &plain).unwrap();
        let within = fs::read_dir(folder.0.path()).unwrap().map(|entry| entry.unwrap().path());
        for path in within.filter(|path| path.to_str().unwrap().contains("staged")) {
            assert_eq!(
                mode(&path) & !rights & 0o077,
                0,
                "{rights:o}: others may open it while it is written"
            );
        }
        compress_into(&plain, &staged, &delta(true), None, &Watch::default()).unwrap_err();
        let how = Compression { spec: "rans".parse().unwrap(), force: true, keep_trailing: false };
        compress_into(&plain, &staged, &how, None, &Watch::default()).unwrap();
        staged.finish().unwrap();
        assert_eq!(mode(&packed), rights);
        restore(&Model::open(&packed).unwrap(), &back, true, &Watch::default()).unwrap();
        assert_eq!(mode(&back), rights);
    }
}

#[test]
fn folders_have_the_rights_of_those_that_they_are_made_of() {
    let folder = Folder::new();
    let (from, out) = (folder.path("from"), folder.path("out"));
    fs::create_dir_all(from.join("sub")).unwrap();
    fs::write(from.join("sub/x"), "1").unwrap();
    set_mode(&from.join("sub/x"), 0o400);
    set_mode(&from.join("sub"), 0o550);
    set_mode(&from, 0o700);
    let make = |force| {
        let made = OutputFolder::like(&out, force, &from).unwrap();
        made.copy(Path::new("sub/x"), &from.join("sub/x"), &|| false).unwrap();
        made.finish().unwrap();
        [mode(&out), mode(&out.join("sub")), mode(&out.join("sub/x"))]
    };
    assert_eq!(make(false), [0o700, 0o550, 0o400]);
    // In a folder that is there, only what is new has them.
    set_mode(&out, 0o711);
    fs::rename(out.join("sub"), folder.path("sub")).unwrap();
    assert_eq!(make(true), [0o711, 0o550, 0o400]);
    // Else nobody but root removes them.
    set_mode(&folder.path("sub"), 0o700);
    set_mode(&out.join("sub"), 0o700);
    set_mode(&from.join("sub"), 0o700);
}

/// A process that is gone holds no lock; of all others, and of all that is not staged by this program, nothing is removed.
#[test]
fn only_what_a_process_left_that_is_gone_is_removed() {
    let folder = Folder::new();
    fs::write(folder.path("letter"), "mine").unwrap();
    fs::create_dir(folder.path("others")).unwrap();
    fs::write(folder.path("others/x"), "mine").unwrap();
    fs::write(folder.path(".zipwire-staged-gone00"), "half").unwrap();
    fs::create_dir_all(folder.path(".zipwire-staged-gone01/folder/sub")).unwrap();
    fs::write(folder.path(".zipwire-staged-gone01/folder/sub/x"), "half").unwrap();
    fs::create_dir_all(folder.path(".zipwire-staged-mine00")).unwrap();
    fs::write(folder.path(".zipwire-staged-mine00/before"), "mine").unwrap();
    fs::write(folder.path(".zipwire-staged-name-of-others"), "mine").unwrap();
    symlink(folder.path("others"), folder.path(".zipwire-staged-link00")).unwrap();
    symlink(folder.path("letter"), folder.path(".zipwire-staged-link01")).unwrap();
    fs::write(folder.path(".zipwire-staged-works0"), "half").unwrap();
    let works = File::open(folder.path(".zipwire-staged-works0")).unwrap();
    works.lock().unwrap();
    fs::create_dir_all(folder.path(".zipwire-staged-works1/folder")).unwrap();
    let works = [works, File::open(folder.path(".zipwire-staged-works1")).unwrap()];
    works[1].lock().unwrap();
    let mut expected = folder.names();
    expected.retain(|name| !name.contains("gone"));
    drop(Output::begin(&folder.path("x"), false).unwrap());
    assert_eq!(folder.names(), expected);
    assert_eq!(contents(&folder.path("others"))["x"], "mine");
}

/// A process does not remove what itself, or another thread, is writing.
#[test]
fn what_is_being_written_is_locked() {
    let folder = Folder::new();
    let file = Output::begin(&folder.path("x"), false).unwrap();
    let made = OutputFolder::begin(&folder.path("y"), false).unwrap();
    for name in folder.names() {
        assert!(File::open(folder.path(&name)).unwrap().try_lock().is_err(), "{name}");
    }
    file.file().write_all(b"1").unwrap();
    file.finish().unwrap();
    made.finish().unwrap();
    assert_eq!(folder.names(), ["x", "y"]);
}

#[test]
fn a_staged_file_is_verified_before_it_has_its_name() {
    let folder = Folder::new();
    let (plain, packed) = (folder.path("m.safetensors"), folder.path("m.zw.safetensors"));
    model(&plain, 1);
    compressed("rans", &plain, &packed).unwrap();
    let sound = fs::read(&packed).unwrap();
    let how = Compression { spec: "rans".parse().unwrap(), force: true, keep_trailing: false };
    let staged = Output::like(&packed, true, &plain).unwrap();
    compress_into(&plain, &staged, &how, None, &Watch::default()).unwrap();
    let look = || Model::of_file(staged.file().try_clone().unwrap(), &packed, None);
    verify(&look().unwrap(), &Watch::default()).unwrap();
    zipwire_models::file::at::write_all(staged.file(), &[1, 2, 3], sound.len() as u64 / 2).unwrap();
    let error = verify(&look().unwrap(), &Watch::default()).unwrap_err();
    assert!(
        error.to_string().contains("m.zw.safetensors") && !error.to_string().contains("staged"),
        "{error}"
    );
    drop(staged);
    assert!(fs::read(&packed).unwrap() == sound);
}

#[test]
fn links_within_a_folder_are_known_from_those_that_leave_it() {
    let folder = Folder::new();
    let root = folder.path("tree");
    fs::create_dir_all(root.join("blobs")).unwrap();
    fs::create_dir_all(root.join("snapshots/1")).unwrap();
    fs::create_dir(folder.path("elsewhere")).unwrap();
    fs::create_dir_all(root.join("empty/inner")).unwrap();
    fs::create_dir(root.join(format!("{STAGED}abcdef"))).unwrap();
    fs::write(root.join("blobs/a"), "a").unwrap();
    fs::write(folder.path("elsewhere/b"), "b").unwrap();
    let link = |target: &str, name: &str| symlink(target, root.join(name)).unwrap();
    link("../../blobs/a", "snapshots/1/kept");
    link("kept", "snapshots/1/link-to-a-link");
    link("1/link-to-a-link", "snapshots/chain");
    link("empty/inner", "to-an-empty-folder");
    link("empty/inner/../../blobs/a", "through-an-empty-folder");
    // Through what no copy has.
    link(&format!("{STAGED}abcdef/../blobs/a"), "through-a-staged-folder");
    link("./1", "snapshots/folder");
    // By a folder's own name, through a link, from outside, by an absolute path.
    link("../../../tree/blobs/a", "snapshots/1/around");
    link("folder/kept", "snapshots/through");
    link("../../elsewhere", "snapshots/outside");
    symlink("../tree/blobs/a", folder.path("elsewhere/inside")).unwrap();
    symlink(root.join("blobs/a"), root.join("absolute")).unwrap();
    let below = Below::of(&root).unwrap();
    let name = |path: &Path| path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
    let links: Vec<_> =
        below.links.iter().map(|link| (name(&link.path), link.names.to_str().unwrap())).collect();
    let kept = [
        ("snapshots/1/kept", "blobs/a"),
        ("snapshots/1/link-to-a-link", "snapshots/1/kept"),
        ("snapshots/chain", "snapshots/1/link-to-a-link"),
        ("snapshots/folder", "snapshots/1"),
        ("through-an-empty-folder", "blobs/a"),
        ("to-an-empty-folder", "empty/inner"),
    ];
    assert_eq!(links, kept.map(|(name, to)| (name.to_owned(), to)));
    let ends: Vec<&str> = below.links.iter().map(|link| link.end.to_str().unwrap()).collect();
    assert_eq!(ends, ["blobs/a", "blobs/a", "blobs/a", "snapshots/1", "blobs/a", "empty/inner"]);
    assert_eq!(below.folders, [root.join("empty/inner")]);
    let to_a = below.links_to(&root).remove(&root.join("blobs/a")).unwrap();
    let to_a: Vec<String> = to_a.iter().map(|link| name(link)).collect();
    let all_to_a =
        ["snapshots/1/kept", "snapshots/1/link-to-a-link", "snapshots/chain", "through-an-empty-folder"];
    assert_eq!(to_a, all_to_a);
    let files: Vec<String> = below.files.iter().map(|file| name(file)).collect();
    let followed = [
        "absolute",
        "blobs/a",
        "snapshots/1/around",
        "snapshots/outside/b",
        "snapshots/outside/inside",
        "snapshots/through",
        "through-a-staged-folder",
    ];
    assert_eq!(files, followed);
    let once: Vec<String> = below.once(&root).iter().map(|file| name(file)).collect();
    assert!(once.contains(&"snapshots/1/kept".to_owned()) && !once.contains(&"blobs/a".to_owned()));
}
