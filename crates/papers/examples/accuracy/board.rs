//! How well logs of nccl-tests are predicted: by presets, and by calibrations with other logs of the same cluster.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use rayon::prelude::*;
use zipwire_calibrate::{Given, LARGE_BYTES, Score, Series, calibrate, parse_log, score, site_of};
use zipwire_cluster::library::LibraryModel;
use zipwire_papers::plots::{Scatter, ScatterSeries};
use zipwire_scenarios::presets;

/// A log, or a part of a table of several operations and shapes.
pub(crate) struct Entry {
    series: Series,
    health: String,
    /// Repository, GPU and NICs: logs of which these are the same are of one cluster.
    cluster: String,
    gpu: &'static str,
    preset: LibraryModel,
}

/// Logs of a folder whose names begin so, by name.
pub(crate) fn entries(folder: &Path, prefix: &str) -> Vec<Entry> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> =
        names.filter(|name| name.ends_with(".txt") && name.starts_with(prefix)).collect();
    names.sort();
    names.iter().flat_map(|name| read(folder, name)).collect()
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
        let site = site_of(&series).expect("a series has one GPU");
        let hardware = site.hardware(series.nodes, series.gpus_per_node);
        let nics = series.nics.filter(|_| series.nodes > 1).map_or(String::new(), |nics| {
            let of_gpu = nics.bytes_per_s * f64::from(nics.per_node) / f64::from(series.gpus_per_node);
            format!("{:.0}", of_gpu / 1e9)
        });
        let cluster = format!("{repository} {} {nics}", site.gpu.name);
        let preset = LibraryModel { hardware, constants: site.constants() };
        Entry { series, health: health.clone(), cluster, gpu: site.gpu.name, preset }
    };
    log.series.into_iter().filter(is_wanted).map(entry).collect()
}

impl Entry {
    fn is_healthy(&self) -> bool {
        self.health.starts_with("healthy")
    }

    fn is_across(&self) -> bool {
        self.preset.hardware.shape(self.series.ranks()).domains > 1
    }

    /// Whether another log is of this one's cluster; those of one node are of all clusters of their repository and GPU.
    fn is_beside(&self, other: &Self) -> bool {
        other.is_healthy() && self.cluster.starts_with(&other.cluster)
    }

    /// Gb/s of NICs for each GPU, stated or assumed.
    fn gigabits(&self) -> f64 {
        self.preset.hardware.node_bytes_per_s / f64::from(self.series.gpus_per_node) * 8e-9
    }

    /// Whether a preset that comes with zipwire is of this hardware: its GPUs, and NICs where several nodes take part.
    fn is_of_preset(&self) -> bool {
        let name = self.gpu.to_lowercase();
        let preset = presets().iter().find(|preset| preset.name.split('-').next() == Some(name.as_str()));
        preset.and_then(|preset| preset.topology().ok()).is_some_and(|topology| {
            let nics = f64::from(topology.nics_per_node) / f64::from(topology.gpus_per_node);
            !self.is_across() || (topology.nic_bandwidth * nics * 8e-9 - self.gigabits()).abs() < 1.0
        })
    }

    fn group(&self) -> String {
        let (series, gpu) = (&self.series, self.gpu);
        if self.is_across() {
            format!("{gpu} | {:.0} Gb/s | {} | {}", self.gigabits(), series.operation.name(), series.nodes)
        } else {
            format!("{gpu} | none | {} | {}", series.operation.name(), series.nodes)
        }
    }

    fn key(&self) -> String {
        let Series { file, operation, nodes, gpus_per_node, .. } = &self.series;
        format!("{},{},{nodes},{gpus_per_node}", file.trim_end_matches(".txt"), operation.name())
    }
}

/// How a log is predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum By {
    /// By constants of the GPU's generation, and NICs of nominal speed.
    Preset,
    /// By a calibration with all other logs of the cluster.
    Others,
    /// By a calibration with logs of one node and of the fewest nodes above one, if it is of more.
    Fewer,
    /// By a calibration with logs of other operations of the cluster.
    OtherOperations,
}

impl By {
    const ALL: [Self; 4] = [Self::Preset, Self::Others, Self::Fewer, Self::OtherOperations];

    fn name(self) -> &'static str {
        match self {
            Self::Preset => "preset",
            Self::Others => "others",
            Self::Fewer => "fewer nodes",
            Self::OtherOperations => "other operations",
        }
    }
}

/// A prediction of a log, if there is anything to predict it by.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Predicted {
    /// How well it is met.
    Met(Score),
    /// The calibration says that it predicts no such operation on so many nodes.
    Not,
    /// There are no logs to calibrate with.
    NoLogs,
}

impl Predicted {
    fn off(&self) -> Option<f64> {
        match self {
            Self::Met(score) => score.large.map(|share| 100.0 * share),
            _ => None,
        }
    }

    fn factor(&self) -> Option<f64> {
        match self {
            Self::Met(score) => score.worst_small,
            _ => None,
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Not => "not predicted".to_owned(),
            _ => self.off().map_or("-".to_owned(), |off| format!("{off:.1} %")),
        }
    }
}

/// All logs, each with its predictions.
pub(crate) struct Board {
    rows: Vec<(Entry, [Predicted; 4])>,
}

/// Errors of the last release in percent, by log and [`By`].
#[derive(Default)]
pub(crate) struct Last(BTreeMap<(String, &'static str), f64>);

impl Last {
    /// Reads what [`Board::figures`] wrote.
    pub(crate) fn parse(csv: &str) -> Self {
        let row = |line: &str| {
            let mut fields = line.rsplitn(4, ',');
            let (_, off, by, key) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
            let by = By::ALL.into_iter().find(|known| known.name() == by)?;
            Some(((key.to_owned(), by.name()), off.parse().ok()?))
        };
        Self(csv.lines().skip(1).filter_map(row).collect())
    }

    fn get(&self, entry: &Entry, by: By) -> Option<f64> {
        self.0.get(&(entry.key(), by.name())).copied()
    }
}

/// Points by which a mean may be worse than in the last release.
const WORSE: f64 = 1.0;

impl Board {
    pub(crate) fn of(entries: Vec<Entry>) -> Self {
        let predicted: Vec<[Predicted; 4]> =
            entries.par_iter().map(|entry| By::ALL.map(|by| predict(entry, &entries, by))).collect();
        Self { rows: entries.into_iter().zip(predicted).collect() }
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Errors of all predictions as CSV, for [`Last::parse`] of a later release.
    pub(crate) fn figures(&self) -> String {
        let mut text = "log,operation,nodes,gpus_per_node,by,off_pct,factor\n".to_owned();
        for (entry, predicted) in &self.rows {
            for (by, predicted) in By::ALL.into_iter().zip(predicted) {
                let Some(off) = predicted.off() else { continue };
                let factor = predicted.factor().map_or(String::new(), |factor| format!("{factor:.2}"));
                writeln!(text, "{},{},{off:.1},{factor}", entry.key(), by.name()).unwrap();
            }
        }
        text
    }

    /// Healthy logs of hardware that has a preset, and those that are calibrated, in groups whose mean is worse than in the last release.
    pub(crate) fn worse_than(&self, last: &Last) -> Vec<String> {
        let mut worse = Vec::new();
        for by in By::ALL {
            let counts = |entry: &Entry| by != By::Preset || entry.is_of_preset();
            for (group, rows) in self.groups() {
                let both = rows.iter().filter(|(entry, _)| counts(entry)).filter_map(|(entry, predicted)| {
                    Some((predicted[by as usize].off()?, last.get(entry, by)?))
                });
                let (now, before): (Vec<f64>, Vec<f64>) = both.unzip();
                if let (Some(now), Some(before)) = (mean(&now), mean(&before))
                    && now > before + WORSE
                {
                    worse.push(format!("{group}, by {}: {now:.1} % off, {before:.1} % before", by.name()));
                }
            }
        }
        worse
    }

    /// Healthy logs by GPU, NICs, operation and nodes.
    fn groups(&self) -> BTreeMap<String, Vec<&(Entry, [Predicted; 4])>> {
        let mut groups: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for row in self.rows.iter().filter(|(entry, _)| entry.is_healthy()) {
            groups.entry(row.0.group()).or_default().push(row);
        }
        groups
    }

    /// The page, with what the last release had beside it.
    pub(crate) fn document(&self, last: &Last) -> String {
        let mut text = HEAD.to_owned();
        self.goals(&mut text, last);
        text.push_str(
            "\n## By hardware and operation\n\nHealthy logs, in the mean; behind a slash, the last release. NICs are those of a GPU; `none`: within NVLink or a node.\n\n\
             | GPU | NICs | operation | nodes | logs | preset | others | fewer nodes | other operations |\n|---|---|---|---|---|---|---|---|---|\n",
        );
        for (group, rows) in self.groups() {
            let cells = By::ALL.map(|by| {
                let now: Vec<f64> = rows.iter().filter_map(|(_, all)| all[by as usize].off()).collect();
                let not = rows.iter().any(|(_, all)| all[by as usize] == Predicted::Not);
                let before: Vec<f64> = rows.iter().filter_map(|(entry, _)| last.get(entry, by)).collect();
                let now = mean(&now)
                    .map_or(if not { "not predicted" } else { "-" }.to_owned(), |off| format!("{off:.1} %"));
                mean(&before).map_or(now.clone(), |before| format!("{now} / {before:.1} %"))
            });
            writeln!(text, "| {group} | {} | {} |", rows.len(), cells.join(" | ")).unwrap();
        }
        text.push_str(
            "\n## All logs\n\nThe factor is that of the preset.\n\n| log | operation | nodes x GPUs | health | preset | factor | others | fewer nodes | other operations |\n\
             |---|---|---|---|---|---|---|---|---|\n",
        );
        for (entry, predicted) in &self.rows {
            let series = &entry.series;
            let [preset, others, fewer, operations] = predicted.each_ref().map(Predicted::text);
            writeln!(
                text,
                "| {} | {} | {} x {} | {} | {preset} | {} | {others} | {fewer} | {operations} |",
                series.file.trim_end_matches(".txt"),
                series.operation.name(),
                series.nodes,
                series.gpus_per_node,
                entry.health.split([':', ';', '(', ',']).next().unwrap_or("").trim(),
                predicted[0].factor().map_or("-".to_owned(), |factor| format!("{factor:.2}")),
            )
            .unwrap();
        }
        text
    }

    /// Means and worst logs, beside what they should be.
    fn goals(&self, text: &mut String, last: &Last) {
        text.push_str("| healthy logs | logs | mean | should be | worst | should be | last release: mean | worst | not predicted |\n|---|---|---|---|---|---|---|---|---|\n");
        let goals = [
            (By::Preset, "presets, on hardware of their own", "6 %", "15 %"),
            (By::Others, "calibrated with all other logs of the cluster", "-", "-"),
            (By::Fewer, "calibrated with few nodes, on more", "10 %", "20 %"),
            (By::OtherOperations, "calibrated with other operations", "12 %", "-"),
        ];
        for (by, name, mean_goal, worst_goal) in goals {
            let counts = |entry: &Entry| entry.is_healthy() && (by != By::Preset || entry.is_of_preset());
            let rows = self.rows.iter().filter(|(entry, _)| counts(entry));
            let now: Vec<f64> = rows.clone().filter_map(|(_, all)| all[by as usize].off()).collect();
            let before: Vec<f64> = rows.clone().filter_map(|(entry, _)| last.get(entry, by)).collect();
            let not = rows.filter(|(_, all)| all[by as usize] == Predicted::Not).count();
            let percent = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1} %"));
            let worst = |all: &[f64]| all.iter().copied().reduce(f64::max);
            writeln!(
                text,
                "| {name} | {} | {} | {mean_goal} | {} | {worst_goal} | {} | {} | {not} |",
                now.len(),
                percent(mean(&now)),
                percent(worst(&now)),
                percent(mean(&before)),
                percent(worst(&before)),
            )
            .unwrap();
        }
        let own = self.rows.iter().filter(|(entry, _)| entry.is_healthy() && entry.is_of_preset());
        let factors: Vec<f64> = own.filter_map(|(_, all)| all[0].factor()).collect();
        let within = factors.iter().filter(|factor| **factor <= 1.5).count();
        writeln!(
            text,
            "\nBelow 32 MiB, presets are within a factor of 1.5 at all sizes of {within} of {} logs of their own hardware.",
            factors.len()
        )
        .unwrap();
    }

    /// Measured against predicted bus bandwidth of healthy logs, both logarithmic, from 0.1 to 1000 GB/s.
    pub(crate) fn picture(&self) -> String {
        let points = |is_wanted: fn(u64) -> bool| -> Vec<[f64; 2]> {
            let mut pairs = Vec::new();
            for (Entry { series, preset, .. }, _) in self.rows.iter().filter(|(entry, _)| entry.is_healthy())
            {
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
}

fn predict(entry: &Entry, entries: &[Entry], by: By) -> Predicted {
    let Series { operation, nodes, gpus_per_node, .. } = entry.series;
    if by == By::Preset {
        return Predicted::Met(score(&entry.series, &entry.preset));
    }
    let beside = entries.iter().filter(|other| entry.is_beside(other) && other.series != entry.series);
    let several = beside.clone().map(|other| other.series.nodes).chain([nodes]).filter(|nodes| *nodes > 1);
    let fewest = several.min().unwrap_or(1);
    let is_known = |other: &&Entry| match by {
        By::Preset | By::Others => true,
        By::Fewer => other.series.nodes <= fewest,
        By::OtherOperations => other.series.operation != operation,
    };
    let known: Vec<Series> = beside.filter(is_known).map(|other| other.series.clone()).collect();
    if by == By::Fewer && nodes <= fewest || !entry.is_healthy() && by != By::Others {
        return Predicted::NoLogs;
    }
    let Ok(calibration) = calibrate(&known) else { return Predicted::NoLogs };
    if calibration.not_predicted(operation, nodes, gpus_per_node).is_some() {
        return Predicted::Not;
    }
    let hardware = calibration.site.hardware(nodes, gpus_per_node);
    let model = LibraryModel { hardware, constants: calibration.fit.constants };
    Predicted::Met(score(&entry.series, &model))
}

fn mean(all: &[f64]) -> Option<f64> {
    (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
}

const HEAD: &str = "\
# Accuracy of a library's collectives, against public logs

What NCCL's own collectives take (`[cluster.library] model = \"nccl-2.30\"`), predicted and measured by nccl-tests. Logs are public;
those that may be copied are in [traces/samples/nccl-tests](../traces/samples/nccl-tests/README.md), of others there are only these
figures. Four predictions of each:

- *preset*: constants of the GPU's generation, and NICs of nominal speed. They were fitted to the healthy logs of H100 and A100 with InfiniBand or
  RoCE, of B200 and of RTX PRO 6000 below, so there this column says how well a model with few constants can meet them, and elsewhere how well they carry
  over. What trees carry between racks is from the logs of several racks;
- *others*: a calibration that knows the other healthy logs of the same cluster and not this one;
- *fewer nodes*: one that knows logs of one node and of the fewest nodes above one, for logs of more;
- *other operations*: one that knows logs of other operations of the cluster, of any number of nodes.

Off: mean over sizes of 32 MiB and more of how far bus bandwidth is off, as a share of what was measured. Factor: the largest between predicted and
measured time, either way, over sizes below 32 MiB. Where a log names no NICs, their speed is assumed from what was measured; racks of GB200 and
GB300 are one node of NVLink. *Not predicted*: the calibration knows nothing like it, and says so in a note ([calibration.md](calibration.md#the-fit)).

Made by `cargo run --release -p zipwire-papers --example accuracy -- FOLDER docs`, which fails where healthy logs of hardware that has a preset, or of a
calibration, are predicted worse than in the last release (`accuracy.csv`) by more than a point in the mean of a group; `--release` makes
the figures of now those of the last release. `.ci/wide accuracy` runs it where `ZIPWIRE_NCCL_LOGS` names the folder.

![measured and predicted bus bandwidth](accuracy.svg)

";
