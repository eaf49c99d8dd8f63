//! Public logs: all are read, what is wrong with them is seen, and a few of a cluster say what others of it show.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]
#![allow(clippy::disallowed_methods, reason = "the logs are files")]

use std::fs;
use std::path::Path;

use zipwire_calibrate::{
    CalibrateError, Calibration, Given, Series, calibrate, cluster_file, parse_log, score, site_of,
};
use zipwire_cluster::library::{Constant, LibraryModel, Operation};

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/samples/nccl-tests")
}

/// Series of the logs whose names begin with these numbers.
fn logs(numbers: &[&str]) -> Vec<Series> {
    let mut names: Vec<String> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".txt") && numbers.iter().any(|number| name.starts_with(number)))
        .collect();
    names.sort();
    assert!(names.len() >= numbers.len(), "{numbers:?} are there: {names:?}");
    let read =
        |name: &String| parse_log(name, &fs::read_to_string(folder().join(name)).unwrap(), Given::default());
    names
        .iter()
        .flat_map(|name| read(name).unwrap().series)
        .filter(|series| !series.dtype.contains("int"))
        .collect()
}

fn model(calibration: &Calibration, series: &Series) -> LibraryModel {
    let hardware = calibration.site.hardware(series.nodes, series.gpus_per_node);
    LibraryModel { hardware, constants: calibration.fit.constants }
}

/// How far bus bandwidths of large sizes are off, in the mean over a log's sizes.
fn off(calibration: &Calibration, series: &Series) -> f64 {
    score(series, &model(calibration, series)).large.unwrap()
}

#[test]
fn every_log_is_read_with_its_gpu_and_shape() {
    let all = logs(&[""]);
    assert_eq!(all.len(), 86);
    for series in &all {
        let shape = format!("{}x{}", series.nodes, series.gpus_per_node);
        assert!(series.file.contains("multi") || series.file.contains(&shape), "{}: {shape}", series.file);
        assert!(series.points.windows(2).all(|pair| pair[0].bytes < pair[1].bytes), "{}", series.file);
        assert!(site_of(series).is_ok(), "{}", series.file);
    }
}

/// The bandwidths that nccl-tests prints are those of its sizes and times, so the bus factors are right.
#[test]
fn bus_bandwidths_are_those_that_the_programs_print() {
    for (number, printed) in [("006", 482.27), ("012", 48.15), ("014", 44.66), ("010", 367.3)] {
        let series = &logs(&[number])[0];
        let last = series.points.last().unwrap();
        let bus = series.bus(last.bytes, last.seconds) / 1e9;
        assert!((bus / printed - 1.0).abs() < 2e-3, "{number}: {bus}, {printed} printed");
    }
}

#[test]
fn presets_meet_healthy_logs_of_their_hardware() {
    let off = |series: &Series| {
        let site = site_of(series).unwrap();
        let hardware = site.hardware(series.nodes, series.gpus_per_node);
        score(series, &LibraryModel { hardware, constants: site.constants() }).large.unwrap()
    };
    let hopper =
        logs(&["00", "011", "012", "013", "014", "016", "017", "018", "019", "026", "029", "101", "130"]);
    let rest = logs(&["010", "129", "132", "134", "137"]);
    for all in [hopper, rest] {
        let errors: Vec<f64> = all.iter().map(off).collect();
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        assert!(mean < 0.06, "{mean}");
        for (series, error) in all.iter().zip(&errors) {
            assert!(*error < 0.25, "{} ({}): {error}", series.name(), series.file);
        }
    }
}

#[test]
fn logs_of_few_gpus_say_what_more_of_them_take() {
    let calibration = calibrate(&logs(&[
        "001", "002", "003", "004", "006", "007", "008", "009", "011", "012", "013", "014",
    ]));
    let calibration = calibration.unwrap();
    for series in logs(&["016", "017", "018", "019", "026", "029"]) {
        let error = off(&calibration, &series);
        assert!(error < 0.12, "{}: {error}", series.name());
    }
    assert!(calibration.held.mean_abs_error < 0.04, "{:?}", calibration.held);
}

#[test]
fn one_operation_says_what_the_other_of_its_ring_takes() {
    let calibration = calibrate(&logs(&["002", "007", "012"])).unwrap();
    for series in logs(&["003", "008", "013", "018"]) {
        let error = off(&calibration, &series);
        assert!(error < 0.06, "{}: {error}", series.name());
    }
}

#[test]
fn broken_runs_are_named_and_left_out() {
    let calibration = calibrate(&logs(&["001", "006", "014", "015", "019", "026", "029", "030"])).unwrap();
    let has = |text: &str| calibration.notes.iter().any(|note| note.contains(text));
    for name in ["sendrecv 10x1 (015", "sendrecv 10x8 (030"] {
        assert!(
            calibration.notes.iter().any(|note| note.starts_with(name) && note.contains("slow: ")),
            "{name}"
        );
        assert!(
            calibration.notes.iter().any(|note| note.starts_with(name) && note.contains("left out")),
            "{name}"
        );
    }
    assert!(!has("all_reduce 1x8"), "{:?}", calibration.notes);
    assert!(calibration.scores.iter().all(|(series, _)| series.operation != Operation::SendRecv));
    // Alone it is taken, and said to be slow.
    let alone = calibrate(&logs(&["110"])).unwrap();
    assert!(alone.notes.iter().any(|note| note.contains("slow: ")), "{:?}", alone.notes);
    assert_eq!(alone.scores.len(), 1);
}

#[test]
fn what_logs_do_not_say_is_said() {
    let calibration = calibrate(&logs(&["001", "006"])).unwrap();
    let note = |text: &str| calibration.notes.iter().any(|note| note.contains(text));
    assert!(note("no log of several nodes: nothing is known of this network"), "{:?}", calibration.notes);
    let start = calibration.site.constants();
    for constant in [Constant::NicShare, Constant::RingSimpleHop, Constant::TreeLlHop, Constant::PeerNicShare]
    {
        assert!(!calibration.fit.determined.contains(&constant), "{}", constant.key());
        let kept = calibration.fit.constants.get(constant) / start.get(constant);
        assert!((kept - 1.0).abs() < 1e-9, "{}: {kept}", constant.key());
    }
    assert!(calibration.fit.determined.contains(&Constant::LinkShare));
}

#[test]
fn three_sizes_are_refused_and_gpus_are_not_mixed() {
    let mut few = logs(&["001"]);
    few[0].points.truncate(3);
    assert!(
        matches!(calibrate(&few), Err(CalibrateError::TooFew { reasons }) if reasons.contains("3 sizes"))
    );
    let mixed = logs(&["001", "111"]);
    assert!(matches!(calibrate(&mixed), Err(CalibrateError::SeveralGpus { .. })));
}

#[test]
fn fits_are_the_same_each_time_and_in_any_order() {
    let mut series = logs(&["001", "007", "014"]);
    let first = calibrate(&series).unwrap();
    assert_eq!(calibrate(&series).unwrap().fit, first.fit);
    assert_eq!(cluster_file(&first), cluster_file(&calibrate(&series).unwrap()));
    series.reverse();
    let reversed = calibrate(&series).unwrap();
    for constant in Constant::ALL {
        let (a, b) = (first.fit.constants.get(constant), reversed.fit.constants.get(constant));
        assert!((a - b).abs() <= 1e-3 * a.abs(), "{}: {a} and {b}", constant.key());
    }
}

#[test]
fn modelled_times_never_fall_with_the_size() {
    for series in logs(&["006", "010", "026", "029", "103", "137"]) {
        let site = site_of(&series).unwrap();
        for nodes in [1, 2, 3, 64] {
            for operation in Operation::ALL {
                let hardware = site.hardware(nodes, series.gpus_per_node);
                let cost =
                    LibraryModel { hardware, constants: site.constants() }.cost(operation, hardware.ranks());
                let seconds: Vec<f64> =
                    (0..36).map(|exponent| cost.seconds(power_of_two(exponent))).collect();
                assert!(
                    seconds.windows(2).all(|pair| pair[0] <= pair[1]),
                    "{} {nodes}: {seconds:?}",
                    operation.name()
                );
                assert!(seconds[0] > 0.0 && seconds[35].is_finite());
            }
        }
    }
}

fn power_of_two(exponent: u32) -> f64 {
    (0..exponent).fold(1.0, |power, _| 2.0 * power)
}
