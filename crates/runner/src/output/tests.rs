//! Contents of an output folder, whatever call fails and wherever the process or the power ends.

use std::collections::BTreeMap;
use std::fs;

use super::*;
use crate::storage::simulated::{Failure, Simulated};

/// Power failures that are drawn for each place; where two processes are interrupted, for each pair of places.
const SEEDS: u64 = 6;
const SEEDS_OF_PAIRS: u64 = 2;

/// The result of a run: names and contents.
type Result = BTreeMap<&'static str, &'static str>;

fn old() -> Result {
    [("a.json", "old a"), ("b.json", "old b"), ("same.json", "same"), (RESULT, "old")].into()
}

fn new() -> Result {
    [("a.json", "new a, longer"), ("c.json", "new c"), ("same.json", "same"), (RESULT, "new")].into()
}

/// A run that writes a result.
fn run(storage: &Simulated, result: &Result) -> std::result::Result<(), OutputError> {
    let mut output = Output::create_in(Arc::new(storage.clone()), Path::new("out/run"), false)?;
    for (name, content) in result {
        output.write(name, |out| out.write_all(content.as_bytes()))?;
    }
    output.commit()
}

/// Visible files of the folder and their contents, without the manifest.
fn seen(storage: &Simulated) -> BTreeMap<String, String> {
    let file = |(path, content): (String, Vec<u8>)| {
        let name = path.strip_prefix("out/run/")?.to_owned();
        let is_hidden = name.starts_with(".zipwire");
        (!is_hidden).then(|| (name, String::from_utf8(content).expect("contents are text")))
    };
    storage.files().into_iter().filter_map(file).collect()
}

fn with_notes(result: &Result) -> BTreeMap<String, String> {
    let notes = ("notes.txt", "by hand");
    let all = result.iter().map(|(&name, &content)| (name, content)).chain([notes]);
    all.map(|(name, content)| (name.to_owned(), content.to_owned())).collect()
}

/// A folder with an old result and a file that somebody else has put there.
fn before() -> Simulated {
    let storage = Simulated::new();
    run(&storage, &old()).unwrap();
    storage.put("out/run/notes.txt", b"by hand");
    storage
}

/// The old result, the new one, or visibly none; and the next run is as if nothing had been.
fn check(storage: &Simulated, place: &str) -> std::result::Result<&'static str, String> {
    let found = seen(storage);
    let state = if found == with_notes(&old()) {
        "old"
    } else if found == with_notes(&new()) {
        "new"
    } else if !found.contains_key(RESULT) {
        "none"
    } else {
        return Err(format!("{place}: a mixed result: {found:?}"));
    };
    if found.get("notes.txt").is_none_or(|notes| notes != "by hand") {
        return Err(format!("{place}: the file of somebody else is gone"));
    }
    let next: Result = [("d.json", "next"), (RESULT, "next")].into();
    for result in [next, new()] {
        run(storage, &result).map_err(|error| format!("{place}: the next run fails: {error}"))?;
        if seen(storage) != with_notes(&result) {
            return Err(format!("{place}: after the next run: {:?}", seen(storage)));
        }
        if storage.folders() != ["out", "out/run"] {
            return Err(format!("{place}: left behind: {:?}", storage.folders()));
        }
    }
    Ok(state)
}

/// Lets every change of a run fail in turn, and gives how many there are and which states were seen.
fn every_failure(
    before: &Simulated,
    failure: fn(u64) -> Failure,
    seeds: u64,
    run: impl Fn(&Simulated),
) -> std::result::Result<(u64, Vec<&'static str>), String> {
    let mut states = Vec::new();
    for at in 1.. {
        let storage = before.copy(failure(at));
        run(&storage);
        let Some(what) = storage.failed_at() else { return Ok((at - 1, states)) };
        let place = format!("{:?} ({what})", failure(at));
        let mut note = |state| {
            if !states.contains(&state) {
                states.push(state);
            }
        };
        note(check(&storage.killed(), &place)?);
        for seed in 0..seeds {
            note(check(&storage.without_power(seed), &format!("{place}, power failure {seed}"))?);
        }
    }
    unreachable!("a run has an end")
}

fn new_run(storage: &Simulated) {
    // Whether it fails is looked at from outside.
    let _ = run(storage, &new());
}

#[test]
fn a_process_that_ends_anywhere_leaves_no_mixture() {
    let (places, states) = every_failure(&before(), Failure::End, SEEDS, new_run).unwrap();
    assert!(places > 30, "{places}");
    assert_eq!(states, ["old", "none", "new"]);
}

#[test]
fn a_call_that_fails_anywhere_leaves_no_mixture() {
    let (places, states) = every_failure(&before(), Failure::Error, SEEDS, new_run).unwrap();
    assert!(places > 30, "{places}");
    assert_eq!(states, ["old", "none", "new"]);
}

#[test]
fn so_does_the_first_run_in_a_folder() {
    let storage = Simulated::new();
    storage.create_folder(Path::new("out")).unwrap();
    storage.create_folder(Path::new("out/run")).unwrap();
    storage.sync_folder(Path::new("out")).unwrap();
    storage.sync_folder(Path::new("")).unwrap();
    storage.put("out/run/notes.txt", b"by hand");
    for failure in [Failure::End, Failure::Error] {
        let (_, states) = every_failure(&storage, failure, SEEDS, new_run).unwrap();
        assert_eq!(states, ["none", "new"]);
    }
}

/// The process that goes on with an interrupted commit is itself interrupted.
#[test]
fn healing_can_be_interrupted_anywhere() {
    for at in 1.. {
        let storage = before().copy(Failure::End(at));
        new_run(&storage);
        if storage.failed_at().is_none() {
            break;
        }
        for left in [storage.killed(), storage.without_power(at)] {
            every_failure(&left, Failure::End, SEEDS_OF_PAIRS, |storage| {
                let _ = Output::create_in(Arc::new(storage.clone()), Path::new("out/run"), false);
            })
            .unwrap();
        }
    }
}

/// A process that goes on after a failure leaves the hidden folder only if it cannot remove it, or if the new result is ready.
#[test]
fn a_failed_run_leaves_no_staging() {
    for at in 1.. {
        let storage = before().copy(Failure::Error(at));
        let result = run(&storage, &new());
        let Some(what) = storage.failed_at() else { break };
        let could_clean = !(what.starts_with("Remove") && what.contains(".zipwire"));
        let is_ready = matches!(result, Err(OutputError::Replace { .. }));
        if could_clean && !is_ready {
            assert_eq!(storage.folders(), ["out", "out/run"], "{what}");
            if result.is_err() {
                assert_eq!(seen(&storage), with_notes(&old()), "{what}: {result:?}");
            }
        }
        if is_ready {
            // The next process puts it into place, before it does anything of its own.
            let next = storage.killed();
            drop(Output::create_in(Arc::new(next.clone()), Path::new("out/run"), false).unwrap());
            assert_eq!(seen(&next), with_notes(&new()), "{what}");
        }
    }
}

/// Files that several commands put into one folder stay, and an interrupted command is completed by the next one.
#[test]
fn files_beside_a_result_leave_it_alone() {
    let pictures = |storage: &Simulated| {
        let mut output = Output::create_in(Arc::new(storage.clone()), Path::new("out/run"), true)?;
        output.write("a.svg", |out| out.write_all(b"picture"))?;
        output.commit()
    };
    for at in 1.. {
        let storage = before().copy(Failure::End(at));
        let _ = pictures(&storage);
        let has_ended = storage.failed_at().is_none();
        for left in [storage.killed(), storage.without_power(at)] {
            pictures(&left).unwrap();
            let mut expected = with_notes(&old());
            expected.insert("a.svg".to_owned(), "picture".to_owned());
            assert_eq!(seen(&left), expected);
            assert_eq!(left.folders(), ["out", "out/run"]);
            let kept = left.files();
            let manifest = String::from_utf8_lossy(&kept["out/run/.zipwire.json"]);
            assert!(manifest.contains("b.json") && !manifest.contains("a.svg"), "{manifest}");
        }
        if has_ended {
            break;
        }
    }
}

/// The protocol of old: files are moved one after the other, and nothing is written down before.
fn careless(storage: &Simulated) {
    let careless = || -> io::Result<()> {
        let folder = Path::new("out/run");
        let staged = folder.join(".zipwire/new");
        storage.create_folder(&folder.join(".zipwire"))?;
        storage.create_folder(&staged)?;
        for (name, content) in new() {
            storage.open(&staged.join(name), Open::Create)?.write_all(content.as_bytes())?;
        }
        for (name, _) in new() {
            storage.rename(&staged.join(name), &folder.join(name))?;
        }
        storage.remove_folder(&staged)?;
        storage.remove_folder(&folder.join(".zipwire"))
    };
    let _ = careless();
}

#[test]
fn these_tests_can_fail() {
    let mixed = every_failure(&before(), Failure::End, SEEDS, careless).unwrap_err();
    assert!(mixed.contains("a mixed result"), "{mixed}");
    // A device that says it has written what it has not breaks the best of protocols.
    let liar = before();
    liar.lie();
    let broken = every_failure(&liar, Failure::End, SEEDS, new_run).unwrap_err();
    assert!(broken.contains("power failure"), "{broken}");
}

#[test]
fn a_second_process_is_kept_out() {
    let storage = before();
    let first = Output::create_in(Arc::new(storage.clone()), Path::new("out/run"), false).unwrap();
    let error = run(&storage, &new()).unwrap_err();
    assert!(matches!(error, OutputError::Busy(_)) && error.is_refused(), "{error}");
    assert_eq!(seen(&storage), with_notes(&old()));
    drop(first);
    run(&storage, &new()).unwrap();
}

#[test]
fn a_stale_file_that_somebody_changed_stays() {
    let storage = before();
    storage.put("out/run/b.json", b"edited");
    run(&storage, &new()).unwrap();
    let mut expected = with_notes(&new());
    expected.insert("b.json".to_owned(), "edited".to_owned());
    assert_eq!(seen(&storage), expected);
}

#[test]
fn a_manifest_that_cannot_be_read_is_an_error_that_names_it() {
    for place in ["out/run/.zipwire/ready/.zipwire.json", "out/run/.zipwire.json"] {
        let storage = before();
        for folder in ["out/run/.zipwire", "out/run/.zipwire/ready"] {
            storage.create_folder(Path::new(folder)).unwrap();
        }
        storage.put(place, b"{");
        let error = run(&storage, &new()).unwrap_err();
        assert!(
            matches!(error, OutputError::Unreadable { .. }) && error.to_string().contains(place),
            "{error}"
        );
        assert_eq!(seen(&storage), with_notes(&old()));
    }
}

/// The user edits a file while the run that replaces it is at work, or after that was killed in the moment of replacing.
#[test]
fn a_file_that_is_changed_meanwhile_is_not_replaced() {
    let storage = before();
    let mut output = Output::create_in(Arc::new(storage.clone()), Path::new("out/run"), false).unwrap();
    for (name, content) in new() {
        output.write(name, |out| out.write_all(content.as_bytes())).unwrap();
    }
    storage.put("out/run/a.json", b"edited");
    let error = output.commit().unwrap_err();
    assert!(matches!(&error, OutputError::Foreign(path) if path.ends_with("a.json")), "{error}");
    let mut expected = with_notes(&old());
    expected.insert("a.json".to_owned(), "edited".to_owned());
    assert_eq!(seen(&storage), expected);
    assert_eq!(storage.folders(), ["out", "out/run"]);

    for at in 1.. {
        let storage = before().copy(Failure::End(at));
        new_run(&storage);
        if storage.failed_at().is_none() {
            break;
        }
        let left = storage.killed();
        for name in ["a.json", "c.json"] {
            left.put(&format!("out/run/{name}"), b"edited");
        }
        // Refused or not, what was edited is there.
        new_run(&left);
        let found = seen(&left);
        assert_eq!((&*found["a.json"], &*found["c.json"]), ("edited", "edited"), "{:?}", storage.failed_at());
    }
}

fn text(text: &'static str) -> impl FnOnce(&mut dyn Write) -> io::Result<()> {
    move |out| out.write_all(text.as_bytes())
}

fn names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn committed_files_stand_alone() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("a/b");
    let mut output = Output::create(&folder).unwrap();
    output.write("x", text("1")).unwrap();
    assert_eq!(names(&folder), [".zipwire"], "nothing before the commit");
    output.commit().unwrap();
    assert_eq!(names(&folder), [".zipwire.json", "x"]);
}

#[test]
fn a_dropped_output_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    let mut output = Output::create(&root.path().join("a/b")).unwrap();
    output.write("x", text("1")).unwrap();
    drop(output);
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

#[test]
fn a_dropped_output_keeps_older_files() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("older"), "2").unwrap();
    let mut output = Output::create_beside(root.path()).unwrap();
    output.write("older", text("1")).unwrap();
    drop(output);
    assert_eq!(fs::read_to_string(root.path().join("older")).unwrap(), "2");
    assert_eq!(names(root.path()), ["older"]);
}

/// Files of an older result that somebody has changed since are foreign, too.
#[test]
fn a_foreign_file_where_one_of_the_result_belongs_is_refused() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join(RESULT), "{}").unwrap();
    let error = Output::create(root.path()).unwrap_err();
    assert!(matches!(error, OutputError::Foreign(_)) && error.is_refused(), "{error}");
    assert_eq!(names(root.path()), [RESULT]);
    assert_eq!(fs::read_to_string(root.path().join(RESULT)).unwrap(), "{}");

    for edited in ["a.json", RESULT] {
        let storage = before();
        storage.put(&format!("out/run/{edited}"), b"edited");
        let error = run(&storage, &new()).unwrap_err();
        assert!(matches!(&error, OutputError::Foreign(path) if path.ends_with(edited)), "{error}");
        let mut expected = with_notes(&old());
        expected.insert(edited.to_owned(), "edited".to_owned());
        assert_eq!(seen(&storage), expected);
    }
}

#[test]
fn a_folder_where_a_file_belongs_is_refused() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join(RESULT)).unwrap();
    let error = Output::create(root.path()).unwrap_err();
    assert!(matches!(error, OutputError::Occupied(_)) && error.is_refused(), "{error}");
    assert_eq!(names(root.path()), [RESULT]);
}

#[test]
fn a_folder_beneath_a_file_is_refused() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("file"), "").unwrap();
    let error = Output::create(&root.path().join("file/out")).unwrap_err();
    assert!(error.to_string().contains("--out"), "{error}");
}

/// A hidden folder that is a link is not gone into: nothing behind it is emptied or locked.
#[cfg(unix)]
#[test]
fn links_in_place_of_hidden_folders_are_refused() {
    use std::os::unix::fs::symlink;

    let others = tempfile::tempdir().unwrap();
    fs::write(others.path().join("lock"), "9").unwrap();
    fs::write(others.path().join("letter"), "mine").unwrap();
    for hidden in [".zipwire", ".zipwire/new", ".zipwire/ready"] {
        let root = tempfile::tempdir().unwrap();
        let link = root.path().join(hidden);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(others.path(), &link).unwrap();
        let error = Output::create(root.path()).unwrap_err();
        assert!(matches!(&error, OutputError::NotOwn(path) if *path == link), "{hidden}: {error}");
        assert!(error.is_refused());
        assert_eq!(names(others.path()), ["letter", "lock"], "{hidden}");
    }
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join(".zipwire")).unwrap();
    symlink(others.path().join("letter"), root.path().join(".zipwire/lock")).unwrap();
    assert!(Output::create(root.path()).is_err());
    assert_eq!(fs::read_to_string(others.path().join("letter")).unwrap(), "mine");
}

/// Files beside others are replaced by name; links are no files.
#[cfg(unix)]
#[test]
fn a_link_beside_is_not_replaced() {
    let root = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("elsewhere", root.path().join("x.svg")).unwrap();
    let mut output = Output::create_beside(root.path()).unwrap();
    let error = output.write("x.svg", text("1")).unwrap_err();
    assert!(matches!(&error, OutputError::Foreign(_)), "{error}");
    drop(output);
    assert_eq!(names(root.path()), ["x.svg"]);
}
