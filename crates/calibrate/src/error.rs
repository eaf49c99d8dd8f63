//! Errors of logs, and of series that are to be fitted.

use thiserror::Error;

/// Why a log could not be read. Every variant names the file and the place in it.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are named by the messages")]
pub enum LogError {
    #[error(
        "{file}:{line}: this is no row of nccl-tests: `{text}`\n\
         help: pass the output of an nccl-tests program, as text or as what its `-J` wrote"
    )]
    NotARow {
        file: String,
        /// The line, from 1.
        line: usize,
        text: String,
    },
    #[error(
        "{file}:{lines}: no row of nccl-tests up to the last line\n\
         help: pass the output of an nccl-tests program, as text or as what its `-J` wrote"
    )]
    Empty { file: String, lines: usize },
    #[error("{file}:{line}: {reason}\nhelp: pass what nccl-tests wrote with `-J`")]
    Json {
        file: String,
        /// The line, from 1.
        line: usize,
        reason: String,
    },
    #[error(
        "{file}:{line}: the log does not say which operation it measured\n\
         help: add `--op all_reduce`, or another one of: {}",
        operations()
    )]
    NoOperation {
        file: String,
        /// Line of the first row, from 1.
        line: usize,
    },
    #[error("{file}:{line}: the log does not say on how many {what} it ran\nhelp: add `{flag}`")]
    NoShape {
        file: String,
        /// Line of the first row, from 1.
        line: usize,
        what: &'static str,
        flag: &'static str,
    },
    #[error(
        "{file}:{line}: {ranks} ranks are spread unevenly over {nodes} hosts\n\
         help: if that is meant, say what comes nearest with `--nodes` and `--gpus-per-node`"
    )]
    Uneven {
        file: String,
        /// Line of the first row, from 1.
        line: usize,
        ranks: usize,
        nodes: usize,
    },
}

fn operations() -> String {
    zipwire_cluster::library::Operation::ALL.map(zipwire_cluster::library::Operation::name).join(", ")
}

/// Why nothing could be fitted.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are named by the messages")]
pub enum CalibrateError {
    #[error(
        "nothing to fit: {reasons}\nhelp: a fit takes at least {least} sizes of one operation on one cluster; measure with \
         `-b 32M -e 8G -f 2`", least = crate::series::LEAST_SIZES
    )]
    TooFew { reasons: String },
    #[error(
        "the logs are of different GPUs, `{first}` and `{second}`\nhelp: calibrate each cluster by its own logs"
    )]
    SeveralGpus { first: String, second: String },
}
