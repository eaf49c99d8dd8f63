//! Errors of profiles.

use std::io;

use thiserror::Error;

/// Why profiles could not be read or put together. Messages name the file and the place in it, and their last line says what to do.
#[derive(Debug, Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are named by the messages")]
pub enum ProfileError {
    #[error(
        "cannot read `{file}`: {source}\n\
         help: export or copy the trace again: `gzip -t` says whether a compressed file is whole"
    )]
    Read { file: String, source: io::Error },
    #[error("`{file}` is no {wanted}: it {found}\nhelp: {remedy}")]
    NotThis { file: String, wanted: &'static str, found: &'static str, remedy: String },
    #[error(
        "`{file}` is a {wanted} of version `{version}`, which is not known here: {known}\n\
         help: write it with a version that is known, or build a newer zipwire"
    )]
    Version { file: String, wanted: &'static str, version: String, known: &'static str },
    #[error(
        "{file}:{line}: {reason}\nhelp: export the trace again, or repair that line: nothing behind it was read"
    )]
    Json { file: String, line: u64, reason: String },
    #[error(
        "{file}:{line}: the trace ends in the middle, after {events} events\n\
         help: the profiler or a copy was stopped while it wrote: export or copy the trace again"
    )]
    Truncated { file: String, line: u64, events: u64 },
    #[error(
        "`{file}` ends in the middle, after {records} records\n\
         help: its program or a copy was stopped while it wrote: write or copy the file again"
    )]
    CutOff { file: String, records: u64 },
    #[error(
        "{file}:{line}: the file ends in the middle of this line\n\
         help: its program or a copy was stopped while it wrote: copy the file again, or delete this line to import those before it"
    )]
    CutLine { file: String, line: u64 },
    #[error(
        "`{file}`, byte {byte}: {reason}\n\
         help: write or copy the file again: nothing behind that byte was read"
    )]
    Damaged { file: String, byte: u64, reason: String },
    #[error(
        "`{file}`, byte {byte}: the pickle has Python run code of its own (opcode {opcode}), which nothing here does\n\
         help: pass the dump as the Flight Recorder wrote it, or as JSON"
    )]
    Code { file: String, byte: u64, opcode: String },
    #[error(
        "{file}:{line}: a second trace begins here\n\
         help: each rank's trace is a file of its own: cut this one apart before line {line}"
    )]
    SecondTrace { file: String, line: u64 },
    #[error(
        "{file}:{line}: communication of GPU {second} in a trace that has some of GPU {first}: traces of several ranks in one file\n\
         help: import the traces of the ranks themselves, a file for each, as the profiler wrote them"
    )]
    SeveralRanks { file: String, line: u64, first: u64, second: u64 },
    #[error("{file}:{line}: {things} than are held in memory\nhelp: profile fewer steps")]
    TooMany { file: String, line: u64, things: &'static str },
    #[error(
        "`{file}` has no kernels of a GPU among its {events} events\n\
         help: profile with `activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]`, on a GPU"
    )]
    NoKernels { file: String, events: u64 },
    #[error(
        "{}: there is nothing to import{not_used}\n\
         help: profile steps in which the job communicates, by NCCL or RCCL",
        nothing(*kernels)
    )]
    NoCalls { kernels: u64, not_used: String },
    #[error(
        "`{file}` does not say which rank it is of, by `distributedInfo` or its name\n\
         help: name the files of a job `rank-0.json`, `rank-1.json` and so on, `.gz` behind it if they are compressed"
    )]
    NoRank { file: String },
    #[error(
        "`{file}` has no call of `{communicator}`, the largest communicator of all files: which rank it is of is not known\n\
         help: import files of one job, and record a call of all ranks: `NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES=0` has small ones in the log"
    )]
    NotOfAll { file: String, communicator: String },
    #[error(
        "`{first}` and `{second}` are both of rank {rank}\n\
         help: import one step of one job: each rank once"
    )]
    TwoTraces { rank: u32, first: String, second: String },
    #[error(
        "`{first}` is of a job of {first_ranks} ranks, and `{second}` of one of {second_ranks}\n\
         help: import the ranks of one job"
    )]
    OtherJob { first: String, first_ranks: u32, second: String, second_ranks: u32 },
    #[error(
        "`{file}` is of rank {rank}, which a job of {ranks} ranks does not have\n\
         help: name files by their ranks, from 0, or import the ranks of one job"
    )]
    BeyondJob { file: String, rank: u32, ranks: u32 },
    #[error(
        "`{first}` and `{second}` have {calls} calls of the same groups and numbers, and no two of them agree in what they do\n\
         help: import the same steps of one job, profiled on all ranks at the same time"
    )]
    NothingMatches { first: String, second: String, calls: u64 },
}

/// Why nothing is there, from the number of kernels, 0 for formats that have none.
fn nothing(kernels: u64) -> String {
    match kernels {
        0 => "no call can be used".to_owned(),
        _ => format!("none of the {kernels} kernels communicates with a known time"),
    }
}
