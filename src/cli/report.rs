//! The arguments of `zipwire report`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Results: folders that `run` or `validate --out` wrote, or a `summary.json`, or the file of `advise -o`. Several, such as before and after a change, are held against the first.
    #[arg(required = true, value_name = "OUT")]
    pub(crate) results: Vec<PathBuf>,
    /// The page, which replaces nothing but another report.
    #[arg(short = 'o', long, value_name = "FILE.html", default_value = "report.html")]
    pub(crate) out: PathBuf,
}
