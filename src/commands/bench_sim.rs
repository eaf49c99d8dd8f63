//! `zipwire bench sim`: what simulating costs. Each row is measured in a process of its own, so that its peak of memory is its own.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use zipwire::bench::{CASES, Level, SimBenchError, SimCase, SimRow, bench_sim, bench_sim_scenario, can_play};
use zipwire::{Cancel, STOPPED};

use super::{print, print_json};
use crate::cli::BenchSimArgs;
use crate::error::CliError;
use crate::progress::Progress;
use crate::table;

/// Between two looks at a process.
const POLL: Duration = Duration::from_millis(5);

/// Subject of one row.
enum Subject {
    Case(&'static SimCase),
    Scenario(PathBuf, Level),
}

impl Subject {
    fn name(&self) -> String {
        match self {
            Self::Case(case) => case.name.to_owned(),
            Self::Scenario(path, _) => path.display().to_string(),
        }
    }

    fn level(&self) -> Level {
        match self {
            Self::Case(case) => case.level(),
            Self::Scenario(_, level) => *level,
        }
    }

    fn measure(&self, cancel: &Cancel) -> Result<SimRow, SimBenchError> {
        match self {
            Self::Case(case) => bench_sim(case, cancel),
            Self::Scenario(path, level) => bench_sim_scenario(path, *level, cancel),
        }
    }

    /// Measures it in a process of its own, which does not outlive this one; the row as that prints it.
    fn measure_apart(&self, cancel: &Cancel) -> Result<Value, CliError> {
        let failed = |why: String| CliError::Child { name: self.name(), why };
        let program = zipwire::launch::program().map_err(|error| failed(error.to_string()))?;
        let mut command = Command::new(&program[0]);
        command.args(&program[1..]).args([
            "bench",
            "sim",
            "--alone",
            "--json",
            "--level",
            self.level().name(),
        ]);
        match self {
            Self::Case(case) => command.args(["--cases", case.name]),
            Self::Scenario(path, _) => command.arg("--").arg(path),
        };
        let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| failed(error.to_string()))?;
        // What it prints fits into the pipe.
        let status = loop {
            match child.try_wait().map_err(|error| failed(error.to_string()))? {
                Some(status) => break status,
                None if cancel.is_cancelled() => {
                    // It may have ended by itself: Ctrl-C reaches both.
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(SimBenchError::Cancelled.into());
                }
                None => std::thread::sleep(POLL),
            }
        };
        if status.code() == Some(i32::from(STOPPED)) {
            return Err(SimBenchError::Cancelled.into());
        }
        if !status.success() {
            return Err(failed(format!("it has ended with {status}")));
        }
        let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
        let mut report: Value =
            serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))?;
        Ok(report["rows"][0].take())
    }
}

pub(crate) fn run(args: &BenchSimArgs, cancel: &Cancel) -> Result<(), CliError> {
    let subjects = subjects(args)?;
    let progress = Progress::new(if args.alone { 0 } else { subjects.len() });
    let mut rows = Vec::new();
    for subject in &subjects {
        if cancel.is_cancelled() {
            return Err(SimBenchError::Cancelled.into());
        }
        progress.begin(&subject.name());
        rows.push(if args.alone {
            json!(subject.measure(cancel)?)
        } else {
            subject.measure_apart(cancel)?
        });
        progress.end();
    }
    drop(progress);
    if args.json { print_json(&json!({ "rows": rows })) } else { print(text(&rows) + "\n") }
}

/// Subjects that the arguments name: cases, then scenarios.
fn subjects(args: &BenchSimArgs) -> Result<Vec<Subject>, CliError> {
    let has_level = |level: Level| args.level.is_none_or(|asked| asked == level);
    let mut cases: Vec<&SimCase> = Vec::new();
    for name in &args.cases {
        match name.as_str() {
            "all" => cases.extend(CASES),
            name => cases.push(SimCase::by_name(name)?),
        }
    }
    if args.cases.is_empty() && args.scenarios.is_empty() {
        cases.extend(CASES.iter().filter(|case| case.is_default));
    }
    let mut subjects: Vec<Subject> =
        cases.into_iter().filter(|case| has_level(case.level())).map(Subject::Case).collect();
    for path in &args.scenarios {
        for level in Level::ALL.into_iter().filter(|level| has_level(*level)) {
            // A level that was not asked for is left out where it cannot be had.
            if args.level.is_some() || can_play(path, level)? {
                subjects.push(Subject::Scenario(path.clone(), level));
            }
        }
    }
    if subjects.is_empty() {
        let message = "there is nothing to measure\nhelp: none of the cases is of the level of `--level`";
        return Err(CliError::Usage(message.to_owned()));
    }
    Ok(subjects)
}

pub(crate) fn level(name: &str) -> Result<Level, String> {
    Level::ALL.into_iter().find(|level| level.name() == name).ok_or_else(|| {
        format!("unknown level `{name}`; expected one of {}", Level::ALL.map(Level::name).join(", "))
    })
}

fn text(rows: &[Value]) -> String {
    let header = [
        "case",
        "level",
        "ranks",
        "transfers",
        "prepare CPU",
        "simulate CPU",
        "peak memory",
        "simulated",
        "events",
        "links/event",
        "flows/event",
        "touches/event",
    ];
    let mut lines = table::new(&header, &[0, 1]);
    for row in rows {
        let word = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let seconds = |key: &str| table::or_dash(row[key].as_f64(), |s| format!("{s:.4} s"));
        let work = |key: &str| table::or_dash(row["work"][key].as_f64(), |mean| format!("{mean:.1}"));
        lines.add_row(vec![
            word("case"),
            word("level"),
            row["ranks"].to_string(),
            row["transfers"].to_string(),
            seconds("prepare_s"),
            seconds("cpu_s"),
            table::or_dash(row["peak_bytes"].as_f64(), table::bytes),
            table::or_dash(row["simulated_s"].as_f64(), table::seconds),
            table::or_dash(row["work"]["events"].as_u64(), |events| events.to_string()),
            work("links"),
            work("flows"),
            work("touches"),
        ]);
    }
    format!(
        "seconds of one core, median of up to five runs; each row in a process of its own\n\
         network: flows straight into the network; to prepare is to draw them\n\
         simulator: scenario, plan, machines, network, timeline in memory; to prepare is to read, plan and check\n\n{}",
        table::text(&lines)
    )
}
