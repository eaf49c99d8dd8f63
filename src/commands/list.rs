//! `zipwire scenario list|unpack`: the scenarios of a folder, or those that the program carries.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use zipwire::{Cancel, ExecuteError};

use super::{print, print_json};
use crate::commands::load_file;
use crate::error::CliError;
use crate::{shipped, table};

/// One line of the list; a file that does not resolve says why.
#[derive(Default, Serialize)]
struct Listed {
    file: PathBuf,
    scenario: Option<String>,
    workload: Option<&'static str>,
    ranks: Option<u32>,
    variants: Vec<String>,
    description: Option<String>,
    error: Option<String>,
}

/// Lists the scenarios of a folder; without one, those that the program carries.
pub(super) fn run(folder: Option<&Path>, json: bool, cancel: &Cancel) -> Result<(), CliError> {
    let listed = match folder {
        Some(folder) => entries(folder, cancel)?,
        None => {
            // Until the files are removed.
            let _hold = cancel.hold();
            let unpacked = shipped::unpacked()?;
            entries(&unpacked.path().join("scenarios"), cancel)?
                .into_iter()
                .map(|item| Listed {
                    file: item.file.strip_prefix(unpacked.path()).map(Path::to_owned).unwrap_or(item.file),
                    ..item
                })
                .collect()
        }
    };
    if json {
        return print_json(&listed);
    }
    let mut rows = table::new(&["file", "workload", "ranks", "what for"], &[0, 1, 3]);
    for item in listed {
        let what_for = item.error.map_or(item.description, |error| Some(format!("error: {error}")));
        rows.add_row(vec![
            item.file.display().to_string(),
            item.workload.unwrap_or("-").to_owned(),
            table::or_dash(item.ranks, |ranks| ranks.to_string()),
            what_for.unwrap_or_default(),
        ]);
    }
    print(table::text(&table::fitted(rows)) + "\n")?;
    if folder.is_none() {
        say!(
            "the program carries these: `zipwire scenario unpack DIR` writes them to a folder, where `zipwire run` takes them"
        );
    }
    Ok(())
}

/// Writes what the program carries to a folder that is empty or not there.
pub(super) fn unpack(folder: &Path) -> Result<(), CliError> {
    let shown = folder.display();
    let fails = |error: io::Error| CliError::Usage(format!("cannot write to folder `{shown}`: {error}"));
    if folder.exists() && fs::read_dir(folder).map_err(fails)?.next().is_some() {
        return Err(CliError::Usage(format!(
            "folder `{shown}` is not empty\nhelp: name one that is, or that does not exist"
        )));
    }
    let count = shipped::unpack(folder).map_err(fails)?;
    let first = folder.join("scenarios/quickstart.toml");
    print(format!("{count} files are in {shown}: begin with `zipwire run {}`\n", first.display()))
}

fn entries(folder: &Path, cancel: &Cancel) -> Result<Vec<Listed>, CliError> {
    let mut files = Vec::new();
    collect(folder, &mut files)
        .map_err(|error| CliError::Usage(format!("cannot list folder `{}`: {error}", folder.display())))?;
    files.sort();
    let entry =
        |file| if cancel.is_cancelled() { Err(ExecuteError::Cancelled.into()) } else { Ok(entry(file)) };
    files.into_iter().map(entry).collect()
}

/// Scenario files below a folder; build files, other TOML files and folders that start with a dot are none.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.starts_with('.') || name == "Cargo.toml" {
            continue;
        }
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "toml") && is_scenario(&path) {
            files.push(path);
        }
    }
    Ok(())
}

/// Files that cannot be read are listed, with the reason.
fn is_scenario(path: &Path) -> bool {
    !std::fs::read_to_string(path).is_ok_and(|text| !zipwire::scenarios::is_scenario_file(&text))
}

fn entry(file: PathBuf) -> Listed {
    match load_file(&file, &[], None) {
        Ok(experiment) => Listed {
            file,
            workload: Some(experiment.job.name),
            ranks: Some(experiment.topology.ranks()),
            variants: experiment.variants.iter().map(|variant| variant.name.clone()).collect(),
            scenario: Some(experiment.name),
            description: experiment.description,
            error: None,
        },
        Err(error) => Listed { file, error: Some(error.to_string()), ..Listed::default() },
    }
}
