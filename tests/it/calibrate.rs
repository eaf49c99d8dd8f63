//! `zipwire calibrate`: tables, JSON, a cluster file that scenarios take, and errors that say where and what to do.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn log(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("traces/samples/nccl-tests").join(name)
}

fn zipwire(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_zipwire")).args(args).output().unwrap()
}

fn calibrate(args: &[&str], logs: &[&str]) -> Output {
    let logs: Vec<String> = logs.iter().map(|name| log(name).display().to_string()).collect();
    let logs = logs.iter().map(String::as_str);
    let args: Vec<&str> =
        ["calibrate", "nccl-tests"].into_iter().chain(args.iter().copied()).chain(logs).collect();
    zipwire(&args)
}

const ONE_NODE: &str = "006-h100-sxm-1x8-all_reduce.txt";
const GATHER: &str = "007-h100-sxm-1x8-all_gather.txt";
const TEN_NODES: &str = "012-h100-sxm-10x1-all_gather.txt";

#[test]
fn the_json_has_lines_what_was_held_out_and_notes() {
    let output = calibrate(&["--json"], &[ONE_NODE, TEN_NODES]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let fits = json["fits"].as_array().unwrap();
    let ops: Vec<&str> = fits.iter().map(|fit| fit["op"].as_str().unwrap()).collect();
    assert!(ops.contains(&"all_reduce") && ops.contains(&"all_gather"), "{ops:?}");
    for fit in fits {
        let number = |key: &str| fit[key].as_f64().unwrap_or_else(|| panic!("{key}: {fit}"));
        assert!(number("alpha_s") >= 0.0 && number("bytes_per_s") > 1e9 && number("r2") > 0.99, "{fit}");
        assert!(number("from_bytes") < number("to_bytes") && number("residual_pct") < 10.0, "{fit}");
        assert!(
            matches!((number("nodes") as u32, number("gpus_per_node") as u32), (1, 8) | (10, 1)),
            "{fit}"
        );
    }
    assert!(json["held_out"]["mean_abs_error_pct"].as_f64().unwrap() < 4.0, "{}", json["held_out"]);
    assert_eq!(json["held_out"]["rows"], 8);
    assert!(!json["notes"].as_array().unwrap().is_empty());
}

#[test]
fn the_cluster_file_is_hardware_of_any_number_of_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cluster.toml");
    let output = calibrate(&["-o", file.to_str().unwrap()], &[ONE_NODE, GATHER, TEN_NODES]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("One model for all") && table.contains("10 x 1"), "{table}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing but the file is left");
    let scenario = folder.path().join("gather.toml");
    let text = "name = \"gather\"\n[cluster]\nfile = \"cluster.toml\"\n[workload]\nkind = \"collective\"\ncollective = \"all-gather\"\n\
                bytes_per_rank = \"1 GiB\"\n[[variant]]\nname = \"library\"\nalgorithm = \"library\"\n";
    fs::write(&scenario, text).unwrap();
    let bus = |sets: &[&str]| {
        let out = folder.path().join("out");
        let mut args = vec!["run", scenario.to_str().unwrap(), "--json", "--out", out.to_str().unwrap()];
        sets.iter().for_each(|set| args.extend(["--set", set]));
        let output = zipwire(&args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        let seconds = json["executors"]["sim"]["library"]["iteration_s"]["mean"].as_f64().unwrap();
        move |ranks: f64| (ranks - 1.0) * f64::from(1 << 30) / seconds / 1e9
    };
    // As in the logs: 8 GPUs of a node reach 361 GB/s, ten of as many nodes 47.8 GB/s.
    let one = bus(&["cluster.nodes=1"])(8.0);
    assert!((one / 359.1 - 1.0).abs() < 0.03, "{one}");
    let ten = bus(&["cluster.nodes=10", "cluster.gpus_per_node=1"])(10.0);
    assert!((ten / 47.8 - 1.0).abs() < 0.03, "{ten}");
    let twenty = bus(&["cluster.nodes=10", "cluster.gpus_per_node=2"])(20.0);
    assert!((80.0..105.0).contains(&twenty), "{twenty}");
}

#[test]
fn errors_name_the_file_the_line_and_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |name: &str, text: &[u8], args: &[&str]| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        let mut all = vec!["calibrate", "nccl-tests", path.to_str().unwrap()];
        all.extend(args);
        let output = zipwire(&all);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(output.stdout.is_empty());
        String::from_utf8(output.stderr).unwrap()
    };
    let rows = "1048576 262144 float sum -1 28.56 36.71 64.25 0 28.70 36.54 63.94 0\n";
    let message = refused("letter.txt", b"Dear all,\n\nthe cluster is fast.\n", &[]);
    assert!(message.contains("letter.txt:1: this is no row of nccl-tests: `Dear all,`"), "{message}");
    assert!(message.contains("help: pass the output"), "{message}");
    let message = refused("bytes.txt", b"1\n\xff\xfe\n", &[]);
    assert!(message.contains("bytes.txt:2: this is no text"), "{message}");
    let message = refused("rows.txt", rows.as_bytes(), &[]);
    assert!(
        message.contains("rows.txt:1: the log does not say which operation") && message.contains("--op"),
        "{message}"
    );
    let message = refused("rows.txt", rows.as_bytes(), &["--op", "all_reduce"]);
    assert!(message.contains("on how many nodes") && message.contains("--nodes 1"), "{message}");
    let message =
        refused("rows.txt", rows.as_bytes(), &["--op", "all_reduce", "--nodes", "1", "--gpus-per-node", "8"]);
    assert!(
        message.contains("rows.txt): 1 sizes") && message.contains("a fit takes at least 4 sizes"),
        "{message}"
    );
    let missing = zipwire(&["calibrate", "nccl-tests", folder.path().join("none.txt").to_str().unwrap()]);
    assert_eq!(missing.status.code(), Some(2));
}

#[test]
fn flags_say_what_a_log_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(log(ONE_NODE)).unwrap();
    let bare: String =
        text.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect();
    let path = folder.path().join("h100.txt");
    fs::write(&path, bare).unwrap();
    let path = path.to_str().unwrap();
    let args = ["--op", "all_reduce", "--nodes", "1", "--gpus-per-node", "8", "--json"];
    let output = zipwire(&[&["calibrate", "nccl-tests", path][..], &args[..]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["series"][0]["gpus_per_node"], 8);
    assert!(json["series"][0]["busbw_error_pct"].as_f64().unwrap() < 4.0, "{}", json["series"][0]);
    let unwritable =
        zipwire(&[&["calibrate", "nccl-tests", path, "-o", "h100.txt/below.toml"][..], &args[..6]].concat());
    assert_eq!(unwritable.status.code(), Some(2), "{unwritable:?}");
}

#[test]
fn times_that_do_not_grow_have_no_bandwidth() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("all_reduce.txt");
    let row = |shift: u32, us: &str| {
        let bytes = 1_u64 << shift;
        format!("{bytes} {} float sum -1 {us} 0.00 0.00 0 {us} 0.00 0.00 0\n", bytes / 4)
    };
    let rows: String =
        (4..12).map(|shift| row(shift, if shift % 2 == 0 { "250.1" } else { "249.9" })).collect();
    fs::write(&path, rows).unwrap();
    let args = ["calibrate", "nccl-tests", path.to_str().unwrap(), "--nodes", "1", "--gpus-per-node", "8"];
    let output = zipwire(&args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let table = String::from_utf8(output.stdout).unwrap();
    let line = table.lines().find(|line| line.starts_with("all_reduce  1 x 8")).unwrap();
    assert!(line.contains(" us  ") && line.contains("   -  "), "{table}");
    let is_long = |word: &str| word.len() > 12 && word.parse::<f64>().is_ok();
    assert!(!table.split_whitespace().any(is_long) && !table.contains("-0.0"), "{table}");
    let notes = String::from_utf8(output.stderr).unwrap();
    assert!(notes.contains("the operation is all_reduce, by the name of the file"), "{notes}");
}

#[test]
fn the_cluster_file_replaces_nothing_but_its_like() {
    let folder = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(log(ONE_NODE)).unwrap();
    let mine = folder.path().join("all_reduce.txt");
    fs::write(&mine, &text).unwrap();
    let refused = calibrate(&["-o", mine.to_str().unwrap()], &[ONE_NODE]);
    assert_eq!(refused.status.code(), Some(2));
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(
        message.contains("it exists, and no calibration wrote it\nhelp: choose another file"),
        "{message}"
    );
    assert_eq!(fs::read_to_string(&mine).unwrap(), text);

    let file = folder.path().join("cluster.toml");
    for _ in 0..2 {
        assert!(calibrate(&["-o", file.to_str().unwrap()], &[ONE_NODE]).status.success());
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        assert_eq!(
            fs::metadata(&file).unwrap().mode(),
            fs::metadata(&mine).unwrap().mode(),
            "as other files"
        );
    }
}

/// A file of a GPU that has a preset takes what logs do not tell from it, so that coded variants run at once.
#[test]
fn the_cluster_file_goes_on_from_a_preset() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cluster.toml");
    let file = file.to_str().unwrap();
    let bench = |more: &[&str]| {
        let args = ["bench", "collective", "--cluster", file, "--nodes", "2", "--op", "all_reduce", "--json"];
        let sizes = ["--begin", "64M", "--end", "64M", "--variants", "native,size-first", "--ratio", "1.4"];
        zipwire(&[&args[..], &sizes[..], more].concat())
    };
    assert!(calibrate(&["-o", file], &[ONE_NODE, TEN_NODES]).status.success());
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains("\npreset = \"h100-8x\"\n") && text.contains("\nfitted_domains = 10 "), "{text}");
    let output = bench(&[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["rows"].as_array().unwrap().len(), 2);

    // No preset is of a GH200.
    let output = calibrate(&["--nics", "1x200G", "-o", file], &["111-gh200-2x1-all_reduce.txt"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains("\n# preset = \"h100-8x\"\n") && !text.contains("\npreset"), "{text}");
    let output = bench(&["--gpus-per-node", "1"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("zipwire bench gpu"), "{said}");
    let output = bench(&["--gpus-per-node", "1", "--preset", "h100-8x"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = bench(&["--preset", "h100-9x"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("did you mean `h100-8x`?"));
}

/// A file that scenarios refuse is not written.
#[test]
fn values_that_no_cluster_has_are_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let (logs, file) = (folder.path().join("log.txt"), folder.path().join("cluster.toml"));
    let [logs, file] = [&logs, &file].map(|path| path.to_str().unwrap());
    let text = fs::read_to_string(log(TEN_NODES)).unwrap();
    let odd = text.replace("1x400G", "1x9223372036854775808G");
    assert_ne!(odd, text);
    fs::write(logs, &odd).unwrap();
    let output = zipwire(&["calibrate", "nccl-tests", logs, "-o", file]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("log.txt:3: no NICs are such") && said.contains("help: state those"), "{said}");
    assert!(!Path::new(file).exists());
    // Times that no network has.
    let rows = (20..26).map(|shift| format!("{} 1 float none -1 0.000001 0 0 0\n", 1_u64 << shift));
    fs::write(logs, rows.collect::<String>()).unwrap();
    let given = ["--op", "all_gather", "--nodes", "2", "--gpus-per-node", "2", "-o", file];
    let output = zipwire(&[&["calibrate", "nccl-tests", logs][..], &given].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("is not written, since scenarios would refuse it"), "{said}");
    assert!(!Path::new(file).exists());
    let stated = zipwire(&["calibrate", "nccl-tests", logs, "--nics", "8"]);
    assert!(String::from_utf8_lossy(&stated.stderr).contains("for instance `8x200G`"));
}

#[test]
fn probes_that_cannot_be_are_refused_before_anything_starts() {
    for (args, says) in [
        (vec!["--gpus-per-node", "1"], "one rank has nobody to send to"),
        (
            vec!["--gpus-per-node", "2", "--nics-per-node", "3"],
            "`--nics-per-node 3` is above `--gpus-per-node 2`",
        ),
        (vec!["--gpus-per-node", "2", "--on", "threads"], "only `mpi` or `nccl` have links to be measured"),
        (
            vec!["--gpus-per-node", "2", "--codec", "dedup:row=512+window7"],
            "speeds are those of a codec without options",
        ),
    ] {
        let all: Vec<&str> = ["calibrate", "probe"].into_iter().chain(args).collect();
        let output = zipwire(&all);
        assert_eq!(output.status.code(), Some(2), "{all:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(says), "{said}");
    }
}
