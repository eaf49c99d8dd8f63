//! Jobs of this program's own processes: every scenario with so many ranks, over MPI and simulated.

use std::process::{Command, ExitCode};

use libtest_mimic::Failed;
use zipwire::Cancel;
use zipwire::executors::MPI;
use zipwire::launch::{self, Role};

use super::Installed;
use super::conformance::{self, Case};

/// Says that this process is a rank, of a job that compares the scenarios with so many ranks.
const VARIABLE: &str = "ZIPWIRE_TEST_RANKS";
/// How rank 0 begins the line of a scenario.
const RESULT: &str = "scenario ";
/// Values of a token of the quickstart: as few as conformance has elsewhere.
const HIDDEN: u32 = 256;

/// How many ranks the scenarios have that this process is to compare; `None` if it is no rank.
pub(crate) fn task() -> Option<u32> {
    std::env::var(VARIABLE).ok()?.parse().ok()
}

/// Runs this process as a rank of the job.
pub(crate) fn rank(ranks: &u32) -> ExitCode {
    let role = launch::join(None, true, &Cancel::new());
    match role.unwrap_or_else(|error| panic!("{error}")) {
        Role::Other => ExitCode::SUCCESS,
        Role::First => {
            for case in cases(*ranks) {
                let compared = conformance::conforms(MPI, &case, None);
                let said = compared.map_or_else(
                    |error| format!("failed: {}", error.message().unwrap_or("no message").replace('\n', " ")),
                    |()| "conforms".to_owned(),
                );
                println!("{RESULT}{} {said}", case.name);
            }
            launch::finish(0).unwrap_or_else(|error| panic!("{error}"));
            ExitCode::SUCCESS
        }
    }
}

/// Every scenario with so many ranks; where none has so many, those that can be had on so many nodes of one.
fn cases(ranks: u32) -> Vec<Case> {
    let has =
        |case: &Case| conformance::resolve(case).is_ok_and(|experiment| experiment.topology.ranks() == ranks);
    let all = conformance::cases(HIDDEN);
    let own: Vec<Case> = all.iter().filter(|case| has(case)).cloned().collect();
    if !own.is_empty() {
        return own;
    }
    all.into_iter().map(|case| case.on_nodes(ranks)).filter(has).collect()
}

/// Compares every scenario with so many ranks.
pub(crate) fn conforms(installed: &Installed, ranks: u32) -> Result<(), Failed> {
    let expected = cases(ranks).len();
    if expected == 0 {
        return Err(format!("no scenario can be had with {ranks} ranks").into());
    }
    let mut command = launcher(installed, ranks)?;
    command.arg(std::env::current_exe()?).env(VARIABLE, ranks.to_string());
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let said: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(RESULT)).collect();
    let failed: Vec<&&str> = said.iter().filter(|line| !line.ends_with(" conforms")).collect();
    if output.status.success() && failed.is_empty() && said.len() == expected {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(format!("{} of {expected} scenarios were compared; {failed:?}\n{errors}", said.len()).into())
}

/// The line that starts so many processes of a program.
pub(crate) fn launcher(installed: &Installed, ranks: u32) -> Result<Command, Failed> {
    let words = words(installed, &ranks.to_string())?;
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).env("ZIPWIRE_MPI_LIB", installed.libraries());
    Ok(command)
}

/// The same as words.
pub(crate) fn words(installed: &Installed, ranks: &str) -> Result<Vec<String>, Failed> {
    let launcher = installed.launcher();
    if !launcher.is_file() {
        return Err(format!("there is no `{}`", launcher.display()).into());
    }
    let mut words = vec![launcher.display().to_string(), "-n".to_owned(), ranks.to_owned()];
    if installed.libraries().join("libmpi.so.40").is_file() {
        words.extend(["--oversubscribe", "--bind-to", "none", "--allow-run-as-root"].map(str::to_owned));
    }
    Ok(words)
}
