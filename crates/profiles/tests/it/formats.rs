//! One run, written in all formats: each gives the same table as far as it goes. Files that are cut off or damaged never stop the program.

use std::collections::BTreeMap;

use zipwire_profiles::{
    CollectiveOp, Format, OpRecord, Profile, ProfileError, Timing, merge, place, read_chakra, read_flight,
    read_inspector, read_kineto, read_shim,
};

use crate::gzip;
use crate::written::{self, InspectorForm, Run};

/// Bytes of the file of a rank, and its name.
type Writer = fn(&Run, u32) -> Vec<u8>;

/// Reader of all files of a job.
type Reader = fn(&[(String, Vec<u8>)]) -> Result<Profile, ProfileError>;

pub(crate) fn kineto(files: &[(String, Vec<u8>)]) -> Result<Profile, ProfileError> {
    merge(files.iter().map(|(name, bytes)| read_kineto(name, bytes.as_slice())).collect::<Result<_, _>>()?)
}

pub(crate) fn flight(files: &[(String, Vec<u8>)]) -> Result<Profile, ProfileError> {
    merge(files.iter().map(|(name, bytes)| read_flight(name, bytes.as_slice())).collect::<Result<_, _>>()?)
}

pub(crate) fn chakra(files: &[(String, Vec<u8>)]) -> Result<Profile, ProfileError> {
    merge(files.iter().map(|(name, bytes)| read_chakra(name, bytes.as_slice())).collect::<Result<_, _>>()?)
}

pub(crate) fn inspector(files: &[(String, Vec<u8>)]) -> Result<Profile, ProfileError> {
    let logs = files.iter().map(|(name, bytes)| read_inspector(name, bytes.as_slice()));
    let logs = logs.collect::<Result<Vec<_>, _>>()?;
    merge(place(logs.into_iter().flatten().collect())?)
}

pub(crate) fn shim(files: &[(String, Vec<u8>)]) -> Result<Profile, ProfileError> {
    let logs = files.iter().map(|(name, bytes)| read_shim(name, bytes.as_slice()));
    merge(place(logs.collect::<Result<_, _>>()?)?)
}

/// Formats with their writers and readers, the name of rank 0's file and what its times mean.
const FORMATS: [(&str, Writer, Reader, Timing); 9] = [
    ("rank-0.json", written::kineto, kineto, Timing::Kernels),
    ("nccl_trace_rank_0", written::flight, flight, Timing::Durations),
    ("rank-0.json", written::flight_json, flight, Timing::Durations),
    ("job.0.et", written::chakra, chakra, Timing::Kernels),
    ("job.0.et", written::chakra_without_begins, chakra, Timing::Durations),
    (
        "node-pid0.log",
        |run, rank| written::inspector(run, rank, InspectorForm::Lines),
        inspector,
        Timing::Durations,
    ),
    (
        "node-pid0.log",
        |run, rank| written::inspector(run, rank, InspectorForm::Verbose),
        inspector,
        Timing::Kernels,
    ),
    (
        "node-pid0.log",
        |run, rank| written::inspector(run, rank, InspectorForm::Batches),
        inspector,
        Timing::Durations,
    ),
    ("zipwire-nccl.0.jsonl", written::shim, shim, Timing::Issued),
];

fn files(run: &Run, name: &str, write: Writer) -> Vec<(String, Vec<u8>)> {
    (0..run.ranks).map(|rank| (name.replace('0', &rank.to_string()), write(run, rank))).collect()
}

/// Calls by rank, members of their group and operation, in order: bytes, splits, peer and, if it is known, duration.
type Calls = BTreeMap<(u32, Vec<u32>, CollectiveOp), Vec<(Option<u64>, Option<u64>, Option<u32>, i64)>>;

fn calls(profile: &Profile, has_durations: bool) -> Calls {
    let mut calls = Calls::new();
    for op in &profile.ops {
        let group = profile.groups[op.group].ranks.clone().expect("ranks of groups are known");
        assert!(op.splits_in.is_empty() && op.splits_out.is_empty(), "{op:?}");
        let duration_ns = if has_durations { op.duration_ns } else { 0 };
        calls.entry((op.rank, group, op.op)).or_default().push((
            op.bytes_in,
            op.bytes_out,
            op.peer,
            duration_ns,
        ));
    }
    calls
}

/// By rank, operations in order with their begins after that of the first.
fn begins(profile: &Profile) -> BTreeMap<u32, Vec<(CollectiveOp, i64)>> {
    let mut begins: BTreeMap<u32, Vec<_>> = BTreeMap::new();
    for op in &profile.ops {
        begins.entry(op.rank).or_default().push((op.op, op.start_ns));
    }
    for calls in begins.values_mut() {
        let first = calls[0].1;
        calls.iter_mut().for_each(|(_, begin)| *begin -= first);
    }
    begins
}

#[test]
fn one_run_is_the_same_table_in_all_formats() {
    let run = written::run(3);
    let first = kineto(&files(&run, "rank-0.json", written::kineto)).unwrap();
    assert_eq!(first.ops.len(), run.calls.len());
    for (name, write, read, timing) in FORMATS {
        let files = files(&run, name, write);
        let profile = read(&files).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((profile.world_size, profile.ranks.len(), profile.timing), (4, 4, timing), "{name}");
        assert_eq!(calls(&profile, timing.has_durations()), calls(&first, timing.has_durations()), "{name}");
        let unmatched: Vec<&OpRecord> = profile.ops.iter().filter(|op| op.ranks_seen < 2).collect();
        assert!(unmatched.is_empty(), "{name}: {unmatched:?}");
        assert_eq!(profile.not_used, [], "{name}");
        if matches!(timing, Timing::Kernels | Timing::Issued) || profile.format == Format::Flight {
            assert_eq!(begins(&profile), begins(&first), "{name}");
        }
        let packed: Vec<_> = files.iter().map(|(name, bytes)| (name.clone(), packed(bytes))).collect();
        assert_eq!(read(&packed).unwrap(), profile, "{name}: as gzip of two members");
    }
}

/// Gzip of two members.
fn packed(bytes: &[u8]) -> Vec<u8> {
    let (first, second) = bytes.split_at(bytes.len() / 3);
    [gzip(first), gzip(second)].concat()
}

#[test]
fn compute_is_known_where_the_format_has_it() {
    let run = written::run(2);
    let compute_ns: i64 = run.compute[0].iter().map(|(begin, end)| end - begin).sum();
    for (name, write, read, _) in FORMATS {
        let profile = read(&files(&run, name, write)).unwrap();
        let is_known = matches!(profile.format, Format::Kineto | Format::Chakra);
        assert_eq!(profile.is_compute_known, is_known, "{name}");
        assert_eq!(profile.ranks[0].compute_ns, if is_known { compute_ns } else { 0 }, "{name}");
    }
}

#[test]
fn ranks_that_are_missing_have_twins_in_all_formats() {
    let run = written::run(2);
    for (name, write, read, _) in FORMATS {
        let mut files = files(&run, name, write);
        files.remove(2);
        let profile = read(&files).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(
            (profile.world_size, profile.ranks.len(), profile.ranks_missing.len()),
            (4, 3, 1),
            "{name}"
        );
        assert_eq!(profile.ranks_missing[0].from, 2, "{name}");
    }
}

/// Random numbers that are the same on every machine.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

#[test]
fn files_that_are_cut_off_or_damaged_anywhere_are_read_or_refused() {
    let mut run = written::run(1);
    run.calls.retain(|call| call.begin_ns % 10_000_000 > 1_600_000);
    for (name, write, read, _) in FORMATS {
        let whole = write(&run, 0);
        let mut refused = 0;
        let mut look = |bytes: Vec<u8>| {
            if let Err(error) = read(&[(name.to_owned(), bytes)]) {
                refused += 1;
                let message = error.to_string();
                let last = message.lines().last().unwrap_or_default();
                assert!(last.starts_with("help: "), "{name}: {message}");
            }
        };
        for end in 0..whole.len() {
            look(whole[..end].to_vec());
        }
        let mut numbers = Numbers(7);
        for _ in 0..2000 {
            let mut bytes = whole.clone();
            for _ in 0..=numbers.below(3) {
                let at = numbers.below(bytes.len());
                bytes[at] ^= 1 << numbers.below(8);
            }
            look(bytes);
        }
        assert!(refused > whole.len() / 2, "{name}: {refused} of {}", whole.len());
    }
}

#[test]
fn files_of_other_formats_are_refused_by_name() {
    let run = written::run(1);
    let read_as = |format: &str, bytes: &[u8]| -> Result<(), ProfileError> {
        match format {
            "flight" => read_flight("x", bytes).map(drop),
            "chakra" => read_chakra("x", bytes).map(drop),
            "inspector" => read_inspector("x", bytes).map(drop),
            _ => read_shim("x", bytes).map(drop),
        }
    };
    let written: [(&str, Vec<u8>); 6] = [
        ("kineto", written::kineto(&run, 0)),
        ("flight", written::flight(&run, 0)),
        ("flight", written::flight_json(&run, 0)),
        ("chakra", written::chakra(&run, 0)),
        ("inspector", written::inspector(&run, 0, InspectorForm::Lines)),
        ("shim", written::shim(&run, 0)),
    ];
    for wanted in ["flight", "chakra", "inspector", "shim"] {
        for (format, bytes) in written.iter().filter(|(format, _)| *format != wanted) {
            let said = crate::message(read_as(wanted, bytes));
            let hint = format!("`zipwire import {format}` reads it");
            assert!(
                said.starts_with("`x` is no ") && (*format == "chakra" || said.contains(&hint)),
                "{wanted}: {said}"
            );
        }
        for (bytes, found) in [
            (&b""[..], "is empty"),
            (b"SQLite format 3\0", "a database, as Nsight Systems exports"),
            (b"PK\x03\x04", "a zip archive"),
            (b"{\"zipwire_profile\":1}", "a profile that zipwire wrote"),
            (b"nccl_bus_bandwidth_gbs{gpu=\"GPU0\"} 1", "metrics for Prometheus"),
            (b"# nccl-tests version 2.19\nmore\n", ""),
            (b"{\"some\": [1, 2]}", ""),
            (b"\x00\x01\x02\x03", ""),
        ] {
            let said = crate::message(read_as(wanted, bytes));
            assert!(said.contains("`x` is no ") && said.contains(found), "{wanted}, {found}: {said}");
        }
    }
    let said = crate::message(read_kineto("x", written[1].1.as_slice()));
    assert!(said.contains("is a pickle"), "{said}");
}
