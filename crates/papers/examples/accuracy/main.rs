//! How well logs are predicted, as a document and a picture: `validation FOLDER OUT` reads all `*.txt` of a folder and writes
//! `validation-library.md` and `validation-library.svg`.
//!
//! Each log is predicted by the constants of its GPU's generation alone, and by a calibration on the *other* logs of its cluster, if
//! there are any; logs are of one cluster if their sources name the same repository, and their comments the same GPU and NICs.

#![allow(clippy::disallowed_methods, reason = "it reads and writes files")]
#![allow(clippy::unwrap_used, reason = "whoever runs it sees what is missing")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use zipwire_calibrate::{Given, LARGE_BYTES, Score, Series, calibrate, parse_log, score, site_of};
use zipwire_cluster::library::LibraryModel;
use zipwire_papers::plots::{Scatter, ScatterSeries};

struct Entry {
    series: Series,
    health: String,
    cluster: String,
    preset: LibraryModel,
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [folder, out] = args.as_slice() else { panic!("usage: validation FOLDER OUT") };
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.retain(|name| name.ends_with(".txt"));
    names.sort();
    let entries: Vec<Entry> = names.iter().flat_map(|name| read(Path::new(folder), name)).collect();
    fs::write(Path::new(out).join("validation-library.md"), document(&entries)).unwrap();
    fs::write(Path::new(out).join("validation-library.svg"), picture(&entries)).unwrap();
}

fn read(folder: &Path, name: &str) -> Vec<Entry> {
    let text = fs::read_to_string(folder.join(name)).unwrap();
    let log = parse_log(name, &text, Given::default()).unwrap_or_else(|error| panic!("{error}"));
    let comment = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        line.map_or(String::new(), |line| line.trim().to_owned())
    };
    let repository = comment("# source:").split_whitespace().nth(1).unwrap_or("").to_owned();
    let health = comment("# health:");
    let is_wanted = |series: &Series| !series.dtype.contains("int");
    let entry = |series: Series| {
        let preset = site_of(&series).expect("a series has one GPU");
        let hardware = preset.hardware(series.nodes, series.gpus_per_node);
        let nics = series.nics.map_or(String::new(), |nics| {
            format!(
                "{:.0}",
                nics.bytes_per_s * f64::from(nics.per_node) / f64::from(series.gpus_per_node) / 1e9
            )
        });
        let cluster =
            format!("{repository} {} {}", preset.gpu.name, if series.nodes == 1 { "" } else { &nics });
        let preset = LibraryModel { hardware, constants: preset.constants() };
        Entry { series, health: health.clone(), cluster, preset }
    };
    log.series.into_iter().filter(is_wanted).map(entry).collect()
}

fn is_healthy(entry: &Entry) -> bool {
    entry.health.starts_with("healthy")
}

/// By the other logs of its cluster; one node's logs are of all clusters of their repository and GPU.
fn calibrated(entry: &Entry, entries: &[Entry]) -> Option<Score> {
    let others = entries.iter().filter(|other| {
        is_healthy(other)
            && other.series != entry.series
            && (other.cluster == entry.cluster
                || other.cluster.trim_end() == entry.cluster.trim_end()
                || entry.cluster.starts_with(&other.cluster))
    });
    let others: Vec<Series> = others.map(|other| other.series.clone()).collect();
    let leaves_node = |series: &Series| series.nodes > 1;
    if leaves_node(&entry.series) && !others.iter().any(leaves_node) {
        return None;
    }
    let calibration = calibrate(&others).ok()?;
    let hardware = calibration.site.hardware(entry.series.nodes, entry.series.gpus_per_node);
    let model = LibraryModel { hardware, constants: calibration.fit.constants };
    Some(score(&entry.series, &model))
}

fn document(entries: &[Entry]) -> String {
    let mut text = String::from(
        "# Costs of a library's collectives, against public logs\n\n\
         What NCCL's own collectives take (`[cluster.library] model = \"nccl-2.30\"`), predicted and measured by nccl-tests. Logs are public;\n\
         those that may be copied are in [traces/samples/nccl-tests](../traces/samples/nccl-tests/README.md), of others there are only these\n\
         figures. *Preset*: constants of the GPU's generation, and NICs of nominal speed; they were fitted to the healthy logs of H100 and\n\
         A100 with InfiniBand or RoCE, of B200 and of RTX PRO 6000 below, so there these columns say how well a model with few constants can\n\
         meet them, and elsewhere how well they carry over. *Others*: a calibration that knows the other healthy logs of the same cluster and not\n\
         this one.\n\n\
         Off: mean over sizes of 32 MiB and more of how far bus bandwidth is off, as a share of what was measured. Factor: the largest\n\
         between predicted and measured time, either way, over sizes below 32 MiB. Where a log names no NICs, their speed is assumed from what was\n\
         measured; racks of GB200 and GB300 are one node of NVLink, so logs within one do not depend on NICs.\n\n\
         Made by `cargo run --release -p zipwire-papers --example validation -- FOLDER docs`.\n\n\
         ![measured and predicted bus bandwidth](validation-library.svg)\n\n",
    );
    let scores: Vec<(Score, Option<Score>)> = entries
        .iter()
        .map(|entry| (score(&entry.series, &entry.preset), calibrated(entry, entries)))
        .collect();
    summary(&mut text, entries, &scores);
    text.push_str(
        "\n## All logs\n\n| log | operation | nodes x GPUs | health | preset: off | factor | others: off | factor |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for (entry, (preset, others)) in entries.iter().zip(&scores) {
        let series = &entry.series;
        let percent = |score: Option<Score>| {
            score
                .and_then(|score| score.large)
                .map_or("-".to_owned(), |error| format!("{:.1} %", 100.0 * error))
        };
        let factor = |score: Option<Score>| {
            score.and_then(|score| score.worst_small).map_or("-".to_owned(), |factor| format!("{factor:.2}"))
        };
        writeln!(
            text,
            "| {} | {} | {} x {} | {} | {} | {} | {} | {} |",
            series.file.trim_end_matches(".txt"),
            series.operation.name(),
            series.nodes,
            series.gpus_per_node,
            entry.health.split([':', ';', '(', ',']).next().unwrap_or("").trim(),
            percent(Some(*preset)),
            factor(Some(*preset)),
            percent(*others),
            factor(*others),
        )
        .unwrap();
    }
    text
}

/// Means by kind of hardware.
fn summary(text: &mut String, entries: &[Entry], scores: &[(Score, Option<Score>)]) {
    type Errors = (Vec<f64>, Vec<f64>);
    let mut kinds: BTreeMap<String, Errors> = BTreeMap::new();
    for (entry, (preset, others)) in entries.iter().zip(scores).filter(|(entry, _)| is_healthy(entry)) {
        let gpu = entry.cluster.split_whitespace().skip(1).filter(|word| word.parse::<f64>().is_err());
        let mut kind = gpu.collect::<Vec<_>>().join(" ");
        if entry.series.nodes == 1 {
            kind.push_str(", one node");
        } else {
            let gigabits =
                entry.preset.hardware.node_bytes_per_s / f64::from(entry.series.gpus_per_node) * 8e-9;
            write!(kind, ", {gigabits:.0} Gb/s per GPU").unwrap();
        }
        let errors = kinds.entry(kind).or_default();
        errors.0.extend(preset.large);
        errors.1.extend(others.and_then(|score| score.large));
    }
    text.push_str("| healthy logs of | logs | preset: off, mean | worst | others: logs | off, mean | worst |\n|---|---|---|---|---|---|---|\n");
    let figures = |errors: &[f64]| match errors {
        [] => "- | -".to_owned(),
        _ => {
            let mean = errors.iter().sum::<f64>() / errors.len() as f64;
            format!("{:.1} % | {:.1} %", 100.0 * mean, 100.0 * errors.iter().copied().fold(0.0, f64::max))
        }
    };
    for (kind, (preset, others)) in kinds {
        let counts = (preset.len(), others.len());
        writeln!(
            text,
            "| {kind} | {} | {} | {} | {} |",
            counts.0,
            figures(&preset),
            counts.1,
            figures(&others)
        )
        .unwrap();
    }
}

/// Measured against predicted bus bandwidth of healthy logs, both logarithmic, from 0.1 to 1000 GB/s.
fn picture(entries: &[Entry]) -> String {
    let points = |is_wanted: fn(u64) -> bool| -> Vec<[f64; 2]> {
        let mut pairs = Vec::new();
        for Entry { series, preset, .. } in entries.iter().filter(|entry| is_healthy(entry)) {
            let cost = preset.cost(series.operation, series.ranks());
            for point in series.points.iter().filter(|point| is_wanted(point.bytes)) {
                let both = [point.seconds, cost.seconds(point.bytes as f64)];
                pairs.push(both.map(|seconds| series.bus(point.bytes, seconds) / 1e9));
            }
        }
        pairs
    };
    let series = [
        ("messages below 32 MiB", points(|bytes| bytes < LARGE_BYTES)),
        ("from 32 MiB on", points(|bytes| bytes >= LARGE_BYTES)),
    ];
    Scatter {
        title: "Bus bandwidth of healthy public logs of nccl-tests, and what presets predict".to_owned(),
        x_title: "measured bus bandwidth, GB/s".to_owned(),
        y_title: "predicted bus bandwidth, GB/s".to_owned(),
        decades: [-1, 3],
        series: series.map(|(name, points)| ScatterSeries { name: name.to_owned(), points }).into(),
    }
    .svg()
}
