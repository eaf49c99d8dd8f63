//! `zipwire bench collective` on the command line: rows and their units, and what it says to those who ask for what there is not.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use crate::common::process;

use process::{output, text_of};

const ALL: &str = "all_reduce,all_gather,reduce_scatter,alltoall,sendrecv,broadcast";

fn bench(args: &[&str]) -> std::process::Output {
    output(&[&["bench", "collective"], args].concat())
}

/// The rows of JSON.
fn rows(args: &[&str]) -> Vec<Value> {
    let output = bench(&[args, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["notes"].is_array());
    report["rows"].as_array().unwrap().clone()
}

fn number(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap_or_else(|| panic!("`{key}` of {row} is no number"))
}

fn near(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < 1e-9
}

/// Factors of nccl-tests for 16 ranks, by hand (its `doc/PERFORMANCE.md`).
#[test]
fn bandwidths_are_those_of_nccl_tests() {
    let args = ["--cluster", "h100-8x", "--nodes", "2", "--op", ALL, "--begin", "64MiB", "--end", "64MiB"];
    let rows = rows(&[&args[..], &["--variants", "native,size-first", "--ratio", "1.4"]].concat());
    let factors = [
        ("all_reduce", 30.0 / 16.0),
        ("all_gather", 15.0 / 16.0),
        ("reduce_scatter", 15.0 / 16.0),
        ("alltoall", 15.0 / 16.0),
        ("sendrecv", 1.0),
        ("broadcast", 1.0),
    ];
    assert_eq!(rows.len(), 2 * factors.len());
    for (pair, (op, factor)) in rows.chunks(2).zip(factors) {
        for row in pair {
            assert_eq!(row["op"], op);
            assert_eq!(row["bytes"], 64 << 20);
            let algbw = f64::from(64 << 20) / number(row, "time_s") / 1e9;
            assert!(near(number(row, "algbw"), algbw), "{row}");
            assert!(near(number(row, "effective_busbw"), algbw * factor), "{row}");
            assert!(near(number(row, "busbw"), algbw * factor / number(row, "ratio")), "{row}");
        }
        let (native, coded) = (&pair[0], &pair[1]);
        assert_eq!((&native["by"], &coded["by"]), (&"library".into(), &"simulation".into()));
        assert_eq!((number(native, "ratio"), number(native, "codec_s")), (1.0, 0.0));
        // Sizes travel, too.
        assert!((1.35..=1.4).contains(&number(coded, "ratio")), "{coded}");
        let codec_s = number(coded, "codec_s");
        assert!(codec_s > 30e-6 && codec_s < number(coded, "time_s"), "{coded}");
    }
}

#[test]
fn rows_have_the_keys_that_were_agreed_on() {
    let rows =
        rows(&["--cluster", "a6000-8x8", "--op", "alltoall,sendrecv", "--begin", "1MiB", "--end", "5MiB"]);
    let keys: Vec<&String> = rows[0].as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        [
            "op",
            "variant",
            "algorithm",
            "nodes",
            "gpus_per_node",
            "bytes",
            "time_s",
            "algbw",
            "busbw",
            "effective_busbw",
            "ratio",
            "codec_s",
            "uncompressed_s",
            "speedup",
            "split",
            "by"
        ]
    );
    let said: Vec<(&str, u64, &str)> = rows
        .iter()
        .map(|row| (row["op"].as_str().unwrap(), row["bytes"].as_u64().unwrap(), row["by"].as_str().unwrap()))
        .collect();
    let sizes = [1 << 20, 2 << 20, 4 << 20];
    let expected: Vec<(&str, u64, &str)> = ["alltoall", "sendrecv"]
        .into_iter()
        .flat_map(|op| sizes.map(|bytes| (op, bytes, "simulation")))
        .collect();
    assert_eq!(said, expected, "its library has neither");
    assert!(rows.iter().all(|row| row["variant"] == "native" && row["algorithm"] == "direct"));
    assert!(rows.iter().all(|row| row["nodes"] == 8 && row["gpus_per_node"] == 8));
    // Every rank sends 4 MiB to the next one, and the NIC of a node, 6.25 GB/s or what the preset has, carries one of them.
    assert!(number(&rows[5], "busbw") > 4.0 * number(&rows[2], "busbw") / 2.0, "{rows:?}");
}

#[test]
fn more_bytes_take_more_time() {
    longer_with_more_bytes("16", 3);
}

mod whole {
    #[test]
    #[ignore = "some seconds: .ci/run runs it, and the short form is beside it"]
    fn more_bytes_take_more_time() {
        super::longer_with_more_bytes("4", 7);
    }
}

/// Sizes that grow by a factor, so many steps.
fn longer_with_more_bytes(factor: &str, steps: usize) {
    for cluster in ["h100-8x", "a6000-8x8"] {
        let args = ["--cluster", cluster, "--nodes", "2", "--gpus-per-node", "4", "--op", ALL];
        let sizes = ["--begin", "64KiB", "--end", "1GiB", "--factor", factor];
        let more = ["--variants", "native,size-first,static-first", "--ratio", "1.3"];
        let rows = rows(&[&args[..], &sizes, &more].concat());
        let mut compared = 0;
        for (index, row) in rows.iter().enumerate() {
            let is_next = |other: &&Value| {
                ["op", "variant"].iter().all(|key| other[key] == row[key])
                    && number(other, "bytes") > number(row, "bytes")
            };
            if let Some(next) = rows[index + 1..].iter().find(is_next) {
                compared += 1;
                assert!(number(next, "time_s") > number(row, "time_s"), "{row} {next}");
            }
        }
        assert_eq!(compared, 6 * 3 * steps);
    }
}

/// 130 nodes of eight: no plan is made, and what the library does is known by its model.
#[test]
fn large_clusters_are_rows_in_closed_form() {
    let args = ["--cluster", "h100-8x", "--nodes", "130", "--op", ALL, "--begin", "1GiB", "--end", "1GiB"];
    let rows = rows(&[&args[..], &["--variants", "native,size-first", "--ratio", "1.4"]].concat());
    for pair in rows.chunks(2) {
        assert_eq!((&pair[0]["by"], &pair[1]["by"]), (&"library".into(), &"closed-form".into()));
        assert!(
            number(&pair[1], "codec_s") > 0.0 && number(&pair[1], "codec_s") < number(&pair[1], "time_s")
        );
        assert_eq!(number(&pair[1], "ratio"), 1.4);
    }
    let bytes: Vec<u64> = rows.iter().step_by(2).map(|row| row["bytes"].as_u64().unwrap()).collect();
    let parts = (1 << 30) / (1040 * 16) * 1040 * 16;
    assert_eq!(bytes, [1 << 30, parts, parts, parts, 1 << 30, 1 << 30]);
}

/// Without a gain in bytes and with a codec that costs next to nothing, coding is no faster than the library's sends.
#[test]
fn coding_gains_nothing_but_bytes() {
    for nodes in ["1", "2", "8", "64"] {
        let args = ["--cluster", "h100-8x", "--nodes", nodes, "--op", "alltoall,sendrecv"];
        let coded =
            ["--variants", "native,size-first", "--ratio", "1", "--codec-speed", "1000 TB/s,1000 TB/s"];
        let sizes = ["--begin", "64MiB", "--end", "4GiB", "--factor", "8"];
        for pair in rows(&[&args[..], &coded, &sizes].concat()).chunks(2) {
            let ratio = number(&pair[1], "time_s") / number(&pair[0], "time_s");
            assert!(ratio > 0.95, "{} {}", pair[0], pair[1]);
        }
    }
}

/// A coded row says what of its speedup is compression: all of it in the time that coding takes and saves, none in its algorithm.
#[test]
fn a_speedup_is_split() {
    let args =
        ["--cluster", "h100-8x", "--variants", "static-first,native", "--begin", "64M", "--end", "64M"];
    for nodes in ["2", "64"] {
        let rows_at = |more: &[&str]| rows(&[&args[..], &["--op", ALL, "--nodes", nodes], more].concat());
        let free = rows_at(&["--ratio", "1", "--codec-speed", "1e6 TB/s,1e6 TB/s"]);
        for (pair, free) in rows_at(&["--ratio", "1.4"]).chunks(2).zip(free.chunks(2)) {
            let [coded, native] = pair else { panic!("two variants") };
            assert_eq!((number(native, "speedup"), &native["split"]), (1.0, &Value::Null));
            let speedup = number(native, "time_s") / number(coded, "time_s");
            assert!((number(coded, "speedup") / speedup - 1.0).abs() < 1e-12, "{coded}");
            let (compression, algorithm) =
                (number(&coded["split"], "compression"), number(&coded["split"], "algorithm"));
            assert!((compression * algorithm / speedup - 1.0).abs() < 1e-12, "{coded}");
            // What neither codes nor saves anything gains by its algorithm alone.
            let none = number(&free[0]["split"], "compression");
            assert!((none - 1.0).abs() < 1e-3, "{}", free[0]);
        }
    }
}

#[test]
fn a_calibrated_file_is_a_cluster_of_any_size() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("cluster.toml");
    let logs = ["007-h100-sxm-1x8-all_gather", "012-h100-sxm-10x1-all_gather"]
        .map(|log| format!("traces/samples/nccl-tests/{log}.txt"));
    let calibrated = output(&["calibrate", "nccl-tests", &logs[0], &logs[1], "-o", file.to_str().unwrap()]);
    assert!(calibrated.status.success(), "{}", text_of(&calibrated.stderr));
    let of = |nodes: &str| {
        let args = ["--cluster", file.to_str().unwrap(), "--nodes", nodes, "--gpus-per-node", "8"];
        let sizes = ["--op", "all_gather", "--begin", "1GiB", "--end", "1GiB"];
        let rows = rows(&[&args[..], &sizes].concat());
        assert_eq!(rows[0]["nodes"].to_string(), nodes);
        number(&rows[0], "busbw")
    };
    // The log has 325.38 GB/s in one node, and links to one NIC carry less than those of NVLink.
    assert!((of("1") / 325.0 - 1.0).abs() < 0.1, "{}", of("1"));
    assert!(of("4") > of("100"));
    assert!(fs::read_to_string(&file).unwrap().contains("nodes = 10"));
}

#[test]
fn real_ranks_move_real_bytes() {
    let args = ["--cluster", "h100-8x", "--gpus-per-node", "2", "--op", ALL, "--on", "threads"];
    let sizes = ["--begin", "64KiB", "--end", "64KiB", "--variants", "native,size-first"];
    for pair in rows(&[&args[..], &sizes].concat()).chunks(2) {
        assert_eq!((&pair[0]["by"], &pair[1]["by"]), (&"execution".into(), &"execution".into()));
        assert_eq!(number(&pair[0], "ratio"), 1.0);
        assert!((1.3..1.5).contains(&number(&pair[1], "ratio")), "{}", pair[1]);
    }
}

#[test]
fn tables_have_the_columns_of_nccl_tests() {
    let output =
        bench(&["--cluster", "h100-8x", "--op", "reduce_scatter", "--begin", "32M", "--end", "67108864"]);
    let text = text_of(&output.stdout);
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(text.lines().next(), Some("reduce_scatter, 1 x 8 ranks, on sim; bandwidths in GB/s"));
    assert_eq!(lines[1][..6], ["size", "(B)", "count", "type", "redop", "variant"]);
    assert_eq!(lines[2][..5], ["33554432", "2097152", "bfloat16", "sum", "native"]);
    assert_eq!(lines[3][..2], ["67108864", "4194304"]);
    assert_eq!(lines.len(), 4);
}

/// Ends with 2, prints no row and says all of this.
#[track_caller]
fn is_refused(args: &[&str], expected: &[&str]) {
    let output = bench(args);
    let text = text_of(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {text}");
    assert!(output.stdout.is_empty());
    for part in expected {
        assert!(text.contains(part), "{args:?}: {text}");
    }
}

#[test]
fn mistakes_are_named_with_a_remedy() {
    let presets = "help: presets are a6000-8x8, a100-8x, h800-2x8, h100-8x, h200-8x, b200-8x, gb200-nvl72; \
                   `zipwire calibrate nccl-tests LOGS... -o FILE` writes files of one's own clusters";
    is_refused(
        &["--op", "all_gather"],
        &["error: `--cluster` names a preset or a file, and is missing", presets],
    );
    is_refused(
        &["--op", "all_gather", "--cluster", "h100"],
        &["error: `--cluster h100` is neither a preset nor a file; did you mean `h100-8x`?", presets],
    );
    is_refused(
        &["--cluster", "h100-8x", "--op", "all_reduce,allgather"],
        &[
            "invalid value 'allgather' for '--op <OP,...>': did you mean `all_gather`? expected one of all_reduce,",
        ],
    );
}

#[test]
fn options_that_do_not_fit_are_named_with_a_remedy() {
    let cases: [(&[&str], &[&str]); 11] = [
        (&["--variants", "sizefirst"], &["did you mean `size-first`? expected one of native, size-first,"]),
        (
            &["--variants", "native,size-first"],
            &["error: variant `size-first` needs the ratio of raw to coded bytes", "help: state `--ratio`"],
        ),
        (
            &["--begin", "2GiB"],
            &["error: `--begin` of 2147483648 B is above `--end` of 1073741824 B\nhelp: sizes go"],
        ),
        (
            &["--begin", "8B", "--end", "64B"],
            &["error: the smallest all_gather among 8 ranks has 128 bytes\nhelp: choose a larger `--end`"],
        ),
        (
            &["--nodes", "270", "--variants", "in-band", "--ratio", "1.4"],
            &[
                "error: the plan of all_gather in variant `in-band` among 2160 ranks is too large to be simulated,",
                "help: use fewer ranks (`--nodes`), or variants `native`, `size-first` or `static-first`",
            ],
        ),
        (&["--begin", "32Q"], &["expected a size, for instance `32M` as in nccl-tests, or `32 MiB`"]),
        (&["--codec-speed", "900"], &["expected bandwidths of encoding and decoding"]),
        (&["--ratio", "0"], &["expected a number from 0.01 to 10000"]),
        (
            &["--variants", "size-first", "--ratio", "1.3", "--codec", "windw7"],
            &["unknown codec `windw7`", "did you mean `window7`?"],
        ),
        (
            &["--on", "threads", "--ratio", "1.3"],
            &["error: `--ratio` has no effect on `threads`, which encodes real values\nhelp: leave"],
        ),
        (
            &["--on", "threads", "--memory", "1 MiB"],
            &[
                "error: all_gather of 1073741824 bytes in variant `native` needs",
                "help: choose a smaller `--end`",
            ],
        ),
    ];
    for (options, expected) in cases {
        is_refused(&[&["--cluster", "h100-8x", "--op", "all_gather"], options].concat(), expected);
    }
}
