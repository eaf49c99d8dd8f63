//! `zipwire report`: results as one HTML page; and `--report` of the commands that make results.

use std::path::{Path, PathBuf};

use zipwire::report::{Outcome, REPORT_MARK, TimelineSketch, bytes, report};
use zipwire::traces::{read_chrome, read_text};
use zipwire::{Cancel, ExecuteError};

use super::marked::Marked;
use crate::cli::ReportArgs;
use crate::error::CliError;
use crate::progress::Progress;

const REPORT: Marked = Marked { mark: REPORT_MARK.as_bytes(), at: 0, command: "report" };

/// Files of a folder that may be its result.
const RESULTS: [&str; 3] = ["summary.json", "validation.json", "advice.json"];

/// Longest result that is read, in bytes: above that of the largest sweep.
const LONGEST: u64 = 1 << 30;

pub(crate) fn run(args: &ReportArgs, cancel: &Cancel) -> Result<(), CliError> {
    refuse(Some(&args.out))?;
    let read = |path: &PathBuf| outcome(path, &path.display().to_string(), cancel);
    let outcomes = args.results.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    write(&outcomes, &args.out, cancel)
}

/// Refuses to replace a file that is no report, before anything is computed for one.
pub(super) fn refuse(file: Option<&Path>) -> Result<(), CliError> {
    file.map_or(Ok(()), |file| REPORT.refuse_others(file))
}

/// Writes a report of the result that is in a folder, which is called `name`.
pub(super) fn of_folder(folder: &Path, name: &str, file: &Path, cancel: &Cancel) -> Result<(), CliError> {
    write(&[outcome(folder, name, cancel)?], file, cancel)
}

fn write(outcomes: &[Outcome], file: &Path, cancel: &Cancel) -> Result<(), CliError> {
    let page = report(outcomes);
    REPORT.write(file, cancel, |out| out.write_all(page.as_bytes()))?;
    say!("the report is in {} ({}): open it in a browser", file.display(), bytes(page.len() as f64));
    Ok(())
}

/// Reads a result, in a folder or a file, and what is beside it.
fn outcome(path: &Path, name: &str, cancel: &Cancel) -> Result<Outcome, CliError> {
    let (mut outcome, folder) = result(path, name)?;
    let record = folder.join("run.json");
    if outcome.has_record() && record.exists() {
        outcome.add_record(&record.display().to_string(), &text(&record)?)?;
    }
    let timelines = outcome.timelines();
    let progress = Progress::new(timelines.len());
    for (executor, variant) in timelines {
        progress.next(&format!("timeline of {variant}"));
        if cancel.is_cancelled() {
            return Err(ExecuteError::Cancelled.into());
        }
        let timeline = format!("{executor}-{variant}.trace.json");
        // Names are from a file: none leads out of the folder.
        if !timeline.contains(['/', '\\']) && folder.join(&timeline).exists() {
            outcome.add_timeline(TimelineSketch::of(&read_chrome(&folder.join(&timeline))?));
        }
    }
    Ok(outcome)
}

/// Reads a result alone, and says in which folder it is.
pub(super) fn result<'p>(path: &'p Path, name: &str) -> Result<(Outcome, &'p Path), CliError> {
    let (file, folder) = if path.is_dir() {
        let found = RESULTS.iter().map(|name| path.join(name)).find(|file| file.exists());
        let found = found.ok_or_else(|| {
            CliError::Usage(format!(
                "`{}` has no result: none of `{}` is in it\nhelp: give a folder that `zipwire run` or `zipwire validate --out` wrote, or a file of `zipwire advise -o`",
                path.display(),
                RESULTS.join("`, `")
            ))
        })?;
        (found, path)
    } else {
        (path.to_owned(), path.parent().unwrap_or(Path::new("")))
    };
    Ok((Outcome::read(name, &text(&file)?)?, folder))
}

fn text(file: &Path) -> Result<String, CliError> {
    read_text(file, LONGEST).map_err(|error| {
        CliError::Usage(format!(
            "cannot read `{}`: {error}\nhelp: give a folder that `zipwire run` or `zipwire validate --out` wrote, or a file of `zipwire advise -o`",
            file.display()
        ))
    })
}
