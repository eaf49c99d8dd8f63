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
    #[error("{file}:{line}: {reason}\nhelp: pass what nccl-tests wrote with `-J`, or rccl-tests with `-Z`")]
    Json {
        file: String,
        /// The line, from 1.
        line: usize,
        reason: String,
    },
    #[error(
        "{file}:{line}: the log does not say which operation it measured{candidates}\n\
         help: add `--op all_reduce`, or another one of: {}",
        operations()
    )]
    NoOperation {
        file: String,
        /// Line of the first row, from 1.
        line: usize,
        /// Operations that its rows leave, `: it is alltoall or all_gather`; nothing if they leave all.
        candidates: String,
    },
    #[error(
        "{file}:{line}: `{operation}` is not modelled\n\
         help: calibrate with logs of others: {}{}",
        operations(),
        if operation == "alltoallv" { "; if all parts were of one size, `--op alltoall` takes it as that" } else { "" }
    )]
    NotModelled {
        file: String,
        /// Line of the first row, from 1.
        line: usize,
        operation: String,
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
        "{file}:{line}: the log is of one GPU alone, which exchanges nothing\n\
         help: measure with two GPUs or more; if more took part, say how many with `--nodes` and `--gpus-per-node`"
    )]
    OneGpu {
        file: String,
        /// Line of the first row, from 1.
        line: usize,
    },
    #[error(
        "{file}:{line}: the log is of {runs} runs of one rank each, which exchanged nothing\n\
         help: build nccl-tests with `make MPI=1`, so that the processes of a launcher are ranks of one run, and measure again"
    )]
    Alone {
        file: String,
        /// Line of the first row, from 1.
        line: usize,
        runs: usize,
    },
    #[error(
        "{file}:{line}: lines of several runs are mixed here: a rank is listed twice before the first row\n\
         help: let each run write into a file of its own; if processes should be ranks of one run, build nccl-tests with `make MPI=1`"
    )]
    Mixed {
        file: String,
        /// Line of the first row, from 1.
        line: usize,
    },
    #[error(
        "{file}:{line}: {ranks} ranks are spread unevenly over {nodes} hosts: {spread}\n\
         help: if that is meant, say what comes nearest with `--nodes` and `--gpus-per-node`"
    )]
    Uneven {
        file: String,
        /// Line of the first row, from 1.
        line: usize,
        ranks: usize,
        nodes: usize,
        /// Ranks of each host, or how they were counted.
        spread: String,
    },
    #[error(
        "{file}:{line}: the communicators of NCCL_TESTS_SPLIT are unlike: {}; {}\n\
         help: measure with a split into equal groups, as `NCCL_TESTS_SPLIT=\"MOD 8\"`, or state what one of them was with `--nodes` and \
         `--gpus-per-node`", groups[0], groups[1]
    )]
    Groups {
        file: String,
        /// Line of the first row, from 1.
        line: usize,
        /// Ranks of two of them by host.
        groups: [String; 2],
    },
    #[error(
        "{file}:{line}: no NICs are such: `{text}`\n\
         help: state those of a node with `--nics 8x200G`: their number, and the line rate of each"
    )]
    OddNics {
        file: String,
        /// Line that says so, from 1.
        line: usize,
        text: String,
    },
    #[error(
        "{file}:{line}: several ranks of host `{host}` are on one GPU: several hosts seem to have this name\n\
         help: say how many with `--nodes`"
    )]
    OneName {
        file: String,
        /// Line of the first row, from 1.
        line: usize,
        host: String,
    },
    #[error(
        "{file}:{line}: the results were wrong ({wrong}), so times mean nothing\n\
         help: find out what damages values, and measure again"
    )]
    Wrong {
        file: String,
        /// Line that says so, from 1.
        line: usize,
        wrong: String,
    },
    #[error(
        "{file}:{line}: bus over algorithm bandwidth is {printed}, but {claimed}\n\
         help: the former is the factor {meaning}; say what it was with `--op`, `--nodes` and `--gpus-per-node`, or take the parts of \
         different runs apart"
    )]
    Factor {
        file: String,
        /// Line of a row that shows it, from 1.
        line: usize,
        /// Factor of the printed bandwidths, and these.
        printed: String,
        /// Factor of the operation and the ranks that the log or the user states, and these.
        claimed: String,
        /// Operations and ranks of the printed factor.
        meaning: String,
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
        "nothing to fit: {reasons}\nhelp: a fit takes at least {least} sizes, over all logs of the cluster; measure with `-b 32M -e 8G -f 2`",
        least = crate::series::LEAST_SIZES
    )]
    TooFew { reasons: String },
    #[error(
        "the logs are of different GPUs, `{first}` and `{second}`\nhelp: calibrate each cluster by its own logs"
    )]
    SeveralGpus { first: String, second: String },
}
