//! Quantities that no cluster, matrix or window can have are errors at their own place, wherever they stand.

use crate::common::{Folder, VALID, flat, valid_with};

/// The scenario is refused, and the error points at `value`, which follows `before` there and nowhere else.
#[track_caller]
fn points_at(text: &str, before: &str, value: &str) {
    let whole = format!("{before}{value}");
    assert_eq!(text.matches(&whole).count(), 1, "`{whole}` stands once in\n{text}");
    let error = Folder::new().try_load(text, &[]).expect_err(&format!("refused for `{whole}`:\n{text}"));
    let before = &text[..text.find(&whole).unwrap() + before.len()];
    let line = 1 + before.matches('\n').count();
    let column = 1 + before.rsplit('\n').next().unwrap().chars().count();
    assert_eq!((error.line(), error.column()), (Some(line), Some(column)), "{}", error.render(false));
}

/// Values with this unit that are no possible quantities.
fn impossible(unit: &str) -> Vec<String> {
    let quoted = ["nan", "-nan", "inf", "-inf", "-1", "1e999", "-1e999"];
    let bare = ["nan", "-inf", "inf", "-1.5"];
    quoted.iter().map(|number| format!("\"{number} {unit}\"")).chain(bare.map(str::to_owned)).collect()
}

/// Like [`points_at`], for a line that is added to `[cluster]`.
#[track_caller]
fn in_cluster(before: &str, value: &str, after: &str) {
    let line = format!("{before}{value}{after}\nlatency_inter");
    points_at(&valid_with("latency_inter", &line), before, value);
}

/// Like [`points_at`], for another value for a key of `[cluster]`.
#[track_caller]
fn instead(key: &str, value: &str) {
    let old = VALID.lines().find(|line| line.starts_with(key)).unwrap();
    let before = format!("{key} = ");
    points_at(&valid_with(old, &format!("{before}{value}")), &before, value);
}

const EDGE: &str = "topology = { kind = \"graph\", edges = [{ between = [\"gpu 0\", \"gpu 1\"]";

#[test]
fn bandwidths() {
    let zero = ["\"0 GB/s\"", "\"-0 GB/s\"", "\"1e-12 GB/s\""].map(str::to_owned);
    for value in &impossible("GB/s").into_iter().chain(zero).collect::<Vec<_>>() {
        instead("gpu_bandwidth", value);
        instead("nic_bandwidth", value);
        in_cluster("links = { \"nic 0 up\" = ", value, " }");
        in_cluster("topology = { kind = \"rail\", uplink_bandwidth = ", value, " }");
        let pods = "topology = { kind = \"fat-tree\", nodes_per_leaf = 1, leaves_per_pod = 1";
        in_cluster(&format!("{pods}, pod_uplink_bandwidth = "), value, " }");
        in_cluster(&format!("{EDGE}, bandwidth = "), value, " }] }");
    }
}

#[test]
fn times() {
    for value in &impossible("us") {
        instead("latency_intra", value);
        instead("latency_inter", value);
        in_cluster("launch = ", value, "");
        in_cluster("host_sync = ", value, "");
        in_cluster(&format!("{EDGE}, bandwidth = \"1 B/s\", latency = "), value, " }] }");
    }
}

#[test]
fn oversubscription() {
    for value in ["0.999", "0", "-2.0", "nan", "-nan", "inf", "1e7", "\"2\""] {
        in_cluster("topology = { kind = \"rail\", oversubscription = ", value, " }");
        let tree = "topology = { kind = \"fat-tree\", leaves_per_pod = 2, nodes_per_leaf = 3";
        in_cluster(&format!("{tree}, oversubscription = "), value, " }");
        in_cluster(&format!("{tree}, pod_oversubscription = "), value, " }");
    }
}

#[test]
fn sizes_of_trees() {
    for value in ["0", "-1", "65537", "1.5"] {
        in_cluster("topology = { kind = \"fat-tree\", nodes_per_leaf = ", value, " }");
        in_cluster("topology = { kind = \"fat-tree\", nodes_per_leaf = 2, leaves_per_pod = ", value, " }");
    }
}

/// An All-to-All of four ranks with this matrix.
fn matrix(rows: &str) -> String {
    flat(&format!("kind = \"collective\"\ncollective = \"all-to-all\"\nmatrix = {rows}"))
}

#[test]
fn entries_of_a_matrix() {
    let row = "[0, 2, 2, 2]";
    for value in
        ["-8", "nan", "-inf", "inf", "0.5", "\"nan B\"", "\"-8 B\"", "\"inf KiB\"", "\"1e999 B\"", "3"]
    {
        points_at(&matrix(&format!("[{row}, {row}, [2, {value}, 0, 2], {row}]")), "[2, ", value);
        let file = value.trim_matches('"').trim_end_matches(" B").trim_end_matches(" KiB");
        let csv = format!("0,2,2,2\n2,0,2,2\n2, {file} ,0,2\n2,2,2,0\n");
        let error = Folder::new().with("m.csv", csv).try_load(&matrix("\"m.csv\""), &[]).unwrap_err();
        assert_eq!((error.line(), error.column()), (Some(3), Some(4)), "{}", error.render(false));
    }
}

#[test]
fn windows() {
    for value in ["0", "-1", "4", "nan", "1.5"] {
        points_at(
            &valid_with("protocol = \"static-first\"", &format!("window = {value}")),
            "window = ",
            value,
        );
    }
}
