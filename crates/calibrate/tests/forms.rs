//! Forms of logs as people have them: each is read for what it is, or refused with the place and the remedy.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::fmt::Write as _;

use zipwire_calibrate::{Given, Log, Nics, Site, calibrate, cluster_file, parse_log};
use zipwire_cluster::library::{Constant, Operation};

/// Lines for ranks on hosts with so many ranks each.
fn ranks(hosts: &[usize]) -> String {
    let mut lines = "# Using devices\n".to_owned();
    let mut rank = 0;
    for (host, count) in hosts.iter().enumerate() {
        for device in 0..*count {
            let bus = format!("[0000:{device:02x}:00]");
            writeln!(
                lines,
                "#  Rank {rank:2} Group  0 Pid   1000 on  n{host} device  {device} {bus} NVIDIA H200"
            )
            .unwrap();
            rank += 1;
        }
    }
    lines
}

/// Rows of a type and a reduction, of 20 us and so many GB/s.
fn rows(operation: Operation, ranks: u32, kind: (&str, &str), gbps: f64, wrong: &str) -> String {
    let mut lines =
        "#       size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong\n"
            .to_owned();
    let (dtype, redop) = kind;
    for shift in [10, 20, 25, 27, 29, 31] {
        let bytes = 1_u64 << shift;
        let us = 20.0 + bytes as f64 / gbps / 1e3;
        let algbw = bytes as f64 / us / 1e3;
        let half = format!("{us:.2} {algbw:.2} {:.2} {wrong}", algbw * operation.bus_factor(ranks));
        let parts = match operation {
            Operation::AllGather | Operation::ReduceScatter | Operation::AllToAll => u64::from(ranks),
            _ => 1,
        };
        let root = if operation == Operation::Broadcast { 0 } else { -1 };
        writeln!(lines, "  {bytes}  {}  {dtype}  {redop}  {root}  {half}  {half}", bytes / 4 / parts)
            .unwrap();
    }
    lines
}

fn starting(operation: &str) -> String {
    format!(
        "# nccl-tests version 2.19.6\n# Collective test starting: {operation}_perf\n# nThread 1 nGpus 1 minBytes 8\n#\n"
    )
}

/// A whole log of an operation on hosts with so many ranks each.
fn log(operation: Operation, hosts: &[usize]) -> String {
    let count = hosts.iter().sum::<usize>() as u32;
    let redop = if operation.is_reduction() { "sum" } else { "none" };
    let rows = rows(operation, count, ("float", redop), 300.0, "0");
    format!("{}{}#\n{rows}# Out of bounds values : 0 OK\n#\n", starting(operation.name()), ranks(hosts))
}

fn read(file: &str, text: &str) -> Result<Log, String> {
    parse_log(file, text, Given::default()).map_err(|error| error.to_string())
}

fn names(log: &Log) -> Vec<String> {
    log.series.iter().map(zipwire_calibrate::Series::name).collect()
}

fn refused(file: &str, text: &str, given: Given) -> String {
    parse_log(file, text, given).expect_err(text).to_string()
}

fn given(nodes: u32, gpus_per_node: u32) -> Given {
    Given { nodes: Some(nodes), gpus_per_node: Some(gpus_per_node), ..Given::default() }
}

#[test]
fn labelled_logs_are_those_without_labels() {
    let plain = log(Operation::AllGather, &[8]);
    let expected = read("log", &plain).unwrap();
    assert_eq!((names(&expected), &expected.notes), (vec!["all_gather 1x8".to_owned()], &Vec::new()));
    for label in [
        "0: ",
        "[1,0]<stdout>:",
        "Mon Nov 24 10:01:02 2025[1,0]<stdout>:",
        "2025-11-24T10:01:02.123Z stdout F ",
        "Nov 24 10:01:02 ",
        "[pod/nccl-launcher/nccl] ",
        "\u{1b}[32m",
    ] {
        let labelled: String = plain.lines().map(|line| format!("{label}{line}\u{1b}[0m\r\n")).collect();
        assert_eq!(read("log", &format!("\u{feff}{labelled}")).unwrap(), expected, "{label}");
    }
}

#[test]
fn runs_of_one_file_are_logs_of_their_own() {
    let two = log(Operation::AllGather, &[8]) + "+ srun done\n" + &log(Operation::AllReduce, &[8, 8]);
    let both = read("two", &two).unwrap();
    assert_eq!(names(&both), ["all_gather 1x8", "all_reduce 2x8"]);
    for (series, alone) in
        both.series.iter().zip([log(Operation::AllGather, &[8]), log(Operation::AllReduce, &[8, 8])])
    {
        assert_eq!(*series, read("two", &alone).unwrap().series[0]);
    }
    // A loop over numbers of GPUs begins with one alone.
    let scaling = log(Operation::AllReduce, &[1]) + &log(Operation::AllReduce, &[2]);
    let scaling = read("scaling", &scaling).unwrap();
    assert_eq!(names(&scaling), ["all_reduce 1x2"]);
    assert!(scaling.notes[0].contains("a run of one GPU alone is left out"), "{:?}", scaling.notes);
}

#[test]
fn a_run_that_died_before_its_first_row_is_left_out() {
    let whole = log(Operation::AllReduce, &[8, 8]);
    let died = starting("all_gather") + &ranks(&[8]) + "n0: Test NCCL failure common.cu:958\n";
    for text in [format!("{died}{whole}"), format!("{whole}{died}"), format!("{died}{died}{whole}{died}")] {
        assert_eq!(names(&read("batch", &text).unwrap()), ["all_reduce 2x8"], "{text}");
    }
    // NCCL's own lines are between ranks and rows of a run that goes on.
    let (header, rows) = whole.split_at(whole.find("#       size").unwrap());
    let spoken = format!("{header}NCCL version 2.29.2+cuda13.0\n{rows}");
    assert_eq!(names(&read("spoken", &spoken).unwrap()), ["all_reduce 2x8"]);
}

#[test]
fn facts_of_one_run_are_not_those_of_another_that_lists_its_ranks() {
    let remark = "# gpu: B200; nodes: 1; gpus_per_node: 8\n";
    let unlisted = starting("all_gather") + &rows(Operation::AllGather, 8, ("float", "none"), 300.0, "0");
    let listed = log(Operation::Broadcast, &[8, 8]);
    let found = read("both", &format!("{remark}{unlisted}{listed}")).unwrap();
    assert_eq!(names(&found), ["all_gather 1x8", "broadcast 2x8"]);
    let gpus: Vec<_> = found.series.iter().map(|series| series.gpu.as_deref().unwrap()).collect();
    assert_eq!(gpus, ["B200", "NVIDIA H200"]);
}

#[test]
fn remarks_behind_the_rows_count() {
    let rows = rows(Operation::AllGather, 8, ("float", "none"), 300.0, "0");
    for end in [
        "# gpu: B200; nodes: 1; gpus_per_node: 8; op: all_gather\n",
        "# Collective test concluded: all_gather_perf\n",
    ] {
        let log = parse_log("log", &format!("{rows}{end}"), given(1, 8)).unwrap();
        assert_eq!(names(&log), ["all_gather 1x8"], "{end}");
    }
    let failed = format!("{rows}Rank 0 on node7\n# Out of bounds values : 12 FAILED\n");
    let given = Given { operation: Some(Operation::AllGather), ..given(1, 8) };
    assert!(refused("failed", &failed, given).contains("out of bounds values: 12"));
}

#[test]
fn lines_of_programs_around_it_change_nothing() {
    let plain = log(Operation::AllGather, &[8]);
    let expected = read("log", &plain).unwrap();
    for before in ["Rank 0 on node7\nRank 0 on node8\n", "10.0.0.1: Warning: no such device\n"] {
        assert_eq!(read("log", &format!("{before}{plain}")).unwrap().series, expected.series, "{before}");
    }
    // A command line with a comment behind it, and an operation that the user states over a mere word.
    let rows = rows(Operation::AllGather, 8, ("float", "none"), 300.0, "0");
    let log = parse_log("log", &format!("./build/all_gather_perf -g8 # go\n{rows}"), given(1, 8)).unwrap();
    assert_eq!(names(&log), ["all_gather 1x8"]);
    let stated = Given { operation: Some(Operation::AllGather), ..given(1, 8) };
    let log = parse_log("log", &format!("make ./build/gather_perf\n{rows}"), stated).unwrap();
    assert_eq!(names(&log), ["all_gather 1x8"]);
}

#[test]
fn processes_that_measured_alone_are_refused_with_the_remedy() {
    let one = log(Operation::AllGather, &[1]);
    let message = refused("alone", &one.repeat(8), Given::default());
    assert!(message.starts_with("alone:9: the log is of 8 runs of one rank each"), "{message}");
    assert!(message.contains("`make MPI=1`"), "{message}");
    // All headers come first where the processes write at the same time.
    let (header, rows) = one.split_at(one.find("#       size").unwrap());
    let message = refused("at-once", &(header.repeat(8) + &rows.repeat(8)), Given::default());
    assert!(message.contains("8 runs of one rank each"), "{message}");
    // Flags do not make one rank of eight.
    let message = refused("alone", &one.repeat(8), given(1, 8));
    assert!(message.contains("the factor of one rank alone, which exchanges nothing"), "{message}");
    let message = refused("one", &one, Given::default());
    assert!(
        message.starts_with("one:9: the log is of one GPU alone, which exchanges nothing\nhelp: measure"),
        "{message}"
    );
}

#[test]
fn hosts_that_are_unlike_or_of_one_name_are_refused() {
    let uneven = log(Operation::AllGather, &[8, 4]);
    let message = refused("uneven", &uneven, Given::default());
    assert!(message.contains("12 ranks are spread unevenly over 2 hosts: 8 on `n0`, 4 on `n1`"), "{message}");
    assert!(message.contains("--gpus-per-node"), "{message}");
    assert_eq!(names(&parse_log("uneven", &uneven, given(2, 6)).unwrap()), ["all_gather 2x6"]);
    let one_name = log(Operation::AllGather, &[8, 8]).replace(" n1 ", " n0 ");
    let message = refused("one-name", &one_name, Given::default());
    assert!(
        message.contains("several ranks of host `n0` are on one GPU") && message.contains("--nodes"),
        "{message}"
    );
    let two = Given { nodes: Some(2), ..Given::default() };
    assert_eq!(names(&parse_log("one-name", &one_name, two).unwrap()), ["all_gather 2x8"]);
    // Two runs at once.
    let eight = ranks(&[8]);
    let mixed = log(Operation::AllGather, &[8]).replace(&eight, &(eight.clone() + &eight));
    assert!(refused("mixed", &mixed, Given::default()).contains("lines of several runs are mixed"));
}

#[test]
fn wrong_results_are_left_out_or_refused() {
    let wrong = |wrong: &str| {
        let rows = rows(Operation::AllReduce, 8, ("float", "sum"), 300.0, wrong);
        format!("{}{}{rows}", starting("all_reduce"), ranks(&[8]))
    };
    let message = refused("wrong", &(wrong("12") + "# Out of bounds values : 72 FAILED\n"), Given::default());
    assert!(
        message.contains("wrong:15: the results were wrong (`#wrong` is above 0 in all 6 rows)"),
        "{message}"
    );
    let message =
        refused("bounds", &(wrong("N/A") + "# Out of bounds values : 72 FAILED\n"), Given::default());
    assert!(message.contains("bounds:21: the results were wrong (out of bounds values: 72"), "{message}");
    let one = wrong("0").replacen(" 0  ", " 288  ", 1) + "# Out of bounds values : 288 FAILED\n";
    let log = read("one", &one).unwrap();
    assert_eq!(log.series[0].points.len(), 5);
    assert_eq!(
        log.notes,
        [
            "one:15: results were wrong in 1 of 6 rows, which are left out: 1 KiB in line 15 (288 wrong values)"
        ]
    );
}

#[test]
fn bandwidths_of_another_operation_or_of_other_ranks_are_refused() {
    let text = log(Operation::AllReduce, &[8]);
    let message = refused("log", &text, given(1, 16));
    assert!(message.contains("(523.54 over 299.16 GB/s), but 1.875 for all_reduce on 16 ranks"), "{message}");
    assert!(message.contains("the factor of all_reduce on 8 ranks"), "{message}");
    let other = Given { operation: Some(Operation::AllGather), ..Given::default() };
    assert!(refused("log", &text, other).contains("but 0.875 for all_gather on 8 ranks"));
    // Two runs without headers between them.
    let rows = rows(Operation::AllGather, 8, ("float", "none"), 300.0, "0");
    let message = refused("log", &(text + rows.split_once('\n').unwrap().1), Given::default());
    assert!(message.contains("of all_gather, reduce_scatter or alltoall on 8 ranks"), "{message}");
}

#[test]
fn of_types_and_reductions_floats_with_sum_are_taken() {
    let of = |kinds: &[(&str, &str, f64)]| {
        let rows: String = kinds
            .iter()
            .map(|(dtype, redop, gbps)| rows(Operation::AllReduce, 8, (dtype, redop), *gbps, "0"))
            .collect();
        read("log", &format!("{}{}{rows}", starting("all_reduce"), ranks(&[8]))).unwrap()
    };
    let only = of(&[("float", "sum", 300.0)]);
    let all = of(&[
        ("int8", "sum", 70.0),
        ("float", "sum", 300.0),
        ("float", "prod", 200.0),
        ("float", "max", 100.0),
    ]);
    assert_eq!(all.series, only.series);
    assert_eq!(
        all.notes,
        ["log:22: of several types and reductions, float sum is taken, and left out are: int8, prod, max"]
    );
    let integers = of(&[("int8", "sum", 70.0)]);
    assert_eq!((integers.series[0].dtype.as_str(), integers.notes.len()), ("int8", 0));
    let floats = of(&[("half", "sum", 290.0), ("float", "sum", 300.0)]);
    let types: Vec<&str> = floats.series.iter().map(|series| series.dtype.as_str()).collect();
    assert_eq!(types, ["half", "float"], "each for itself, not in the mean");
}

#[test]
fn operations_that_are_not_modelled_are_refused_by_name() {
    let of = |name: &str| log(Operation::AllToAll, &[8]).replace("alltoall_perf", &format!("{name}_perf"));
    for name in ["gather", "scatter", "alltoallv", "hypercube", "something_new"] {
        let message = refused("log", &of(name), Given::default());
        assert!(
            message.starts_with(&format!("log:16: `{name}` is not modelled\nhelp: calibrate with")),
            "{message}"
        );
    }
    let as_alltoall = Given { operation: Some(Operation::AllToAll), ..Given::default() };
    assert_eq!(names(&parse_log("log", &of("alltoallv"), as_alltoall).unwrap()), ["alltoall 1x8"]);
    assert!(refused("log", &of("gather"), as_alltoall).contains("`gather` is not modelled"));
    // Beside others it is left out.
    let both = read("both", &(of("gather") + &log(Operation::AllGather, &[8]))).unwrap();
    assert_eq!(names(&both), ["all_gather 1x8"]);
    assert_eq!(both.notes, ["both:16: `gather` is not modelled, and left out"]);
}

#[test]
fn operations_without_headers_are_found_elsewhere() {
    let bare = |operation: Operation| log(operation, &[8]).replace(&starting(operation.name()), "");
    let found = |file: &str, text: &str| {
        let log = read(file, text).unwrap();
        assert_eq!(log.notes.len(), 1, "{:?}", log.notes);
        (names(&log).remove(0), log.notes[0].clone())
    };
    let command = format!("mpirun -np 8 ./build/all_gather_perf -b 8\n{}", bare(Operation::AllGather));
    let (name, note) = found("log", &command);
    assert_eq!((name.as_str(), note.contains("by a command line in the log")), ("all_gather 1x8", true));
    let (name, note) = found("out/allgather-8.txt", &bare(Operation::AllGather));
    assert_eq!((name.as_str(), note.contains("by the name of the file")), ("all_gather 1x8", true));
    // In place, sends and All-to-All cannot be checked, and the programs say so.
    for (operation, is_checked) in [
        (Operation::AllReduce, true),
        (Operation::ReduceScatter, true),
        (Operation::AllGather, true),
        (Operation::AllToAll, false),
        (Operation::Broadcast, true),
    ] {
        let mut text = bare(operation);
        if !is_checked {
            text = text
                .lines()
                .map(|line| {
                    line.strip_suffix(" 0").map_or(line.to_owned(), |line| format!("{line} N/A")) + "\n"
                })
                .collect();
        }
        let (name, note) = found("log", &text);
        assert_eq!(name, format!("{} 1x8", operation.name()));
        assert!(note.contains("by the factor of bandwidths"), "{note}");
    }
    // Nothing was checked: it may be either.
    let unchecked = bare(Operation::AllGather).replace(" 0  ", " N/A  ").replace(" 0\n", " N/A\n");
    let message = refused("log", &unchecked, Given::default());
    assert!(
        message.contains("which operation it measured: by its rows it is all_gather or alltoall\n"),
        "{message}"
    );
    // The name of a file does not stand against the rows.
    let message = refused("all_reduce.txt", &bare(Operation::AllGather), Given::default());
    assert!(message.contains("but 1.75 for all_reduce on 8 ranks"), "{message}");
}

#[test]
fn headers_without_their_marks_are_read() {
    let text = log(Operation::AllGather, &[8, 8]);
    let bare = read("log", &text.replace("# ", "").replace("#\n", "\n")).unwrap();
    assert_eq!(bare.series, read("log", &text).unwrap().series);
}

const RECORDS: [(u64, u32, f64); 4] =
    [(1 << 20, 0, 25.0), (1 << 20, 1, 26.0), (1 << 30, 0, 3000.0), (1 << 30, 1, 3100.0)];

#[test]
fn records_of_rccl_tests_are_read() {
    let record = |(bytes, in_place, us): (u64, u32, f64)| {
        let gbps = bytes as f64 / us / 1e3;
        format!(
            "{{\"numCycle\":0, \"name\":\"AllGather\", \"nodes\":2, \"ranks\":16, \"ranksPerNode\":8, \"gpusPerRank\":1, \
             \"size\":{bytes}, \"type\":\"float\", \"redop\":\"none\", \"inPlace\":{in_place}, \"time\":{us:.6}, \"algBw\":{gbps:.6}, \
             \"busBw\":{:.6}, \"wrong\":\"0\"}}",
            gbps * 15.0 / 16.0
        )
    };
    let records = RECORDS.map(record);
    let csv = RECORDS.map(|(bytes, in_place, us)| {
        let gbps = bytes as f64 / us / 1e3;
        format!(
            "0,AllGather,2,16,8,1,{bytes},float,none,{in_place},{us:.6},{gbps:.6},{:.6},0\n",
            gbps * 15.0 / 16.0
        )
    });
    let columns = "numCycle,collective,nodes,ranks,ranksPerNode,gpusPerRank,size,type,redop,inplace,time,algbw,busbw,#wrong\n";
    let forms =
        [records.join("\n"), format!("[\n{}\n]\n", records.join(",\n")), columns.to_owned() + &csv.concat()];
    for text in &forms {
        let log = read("records", text).unwrap();
        assert_eq!(names(&log), ["all_gather 2x8"]);
        let points: Vec<_> =
            log.series[0].points.iter().map(|point| (point.bytes, (point.seconds * 1e6).round())).collect();
        assert_eq!(points, [(1 << 20, 25.0), (1 << 30, 3000.0)]);
        assert!((log.series[0].points[0].spread - 0.04).abs() < 1e-9);
    }
    // A run that was killed, another operation, and wrong results.
    let cut = read("cut", &forms[0][..forms[0].len() - 20]).unwrap();
    assert!(
        cut.series[0].points.len() == 2 && cut.notes[0].contains("cut:4: the last record has no end"),
        "{:?}",
        cut.notes
    );
    assert!(
        refused("gather", &forms[0].replace("AllGather", "Gather"), Given::default())
            .contains("`gather` is not modelled")
    );
    assert!(
        refused("reduce", &forms[0].replace("AllGather", "AllReduce"), Given::default())
            .contains("on 16 ranks")
    );
    assert!(
        refused("wrong", &forms[2].replace(",0\n", ",7\n"), Given::default())
            .contains("the results were wrong")
    );
    assert!(
        refused("odd", &forms[2].replace("25.000000", "x"), Given::default())
            .starts_with("odd:2: this is no measurement")
    );
}

#[test]
fn tables_by_size_of_a_fork_are_read() {
    let text = r#"{"identifier": "structured", "benchmark": [
        {"1024": {"count": 256, "type": "float", "oop_time": 10.0, "ip_time": 11.0, "oop_error": 0.0, "ip_error": "N/A"}},
        {"4096": {"count": 1024, "type": "float", "oop_time": 12.0, "oop_error": 0.0}}]}"#;
    let all_gather = Given { operation: Some(Operation::AllGather), ..given(1, 8) };
    let log = parse_log("fork.json", text, all_gather).unwrap();
    let points: Vec<_> =
        log.series[0].points.iter().map(|point| (point.bytes, (point.seconds * 1e6).round())).collect();
    assert_eq!(points, [(1024, 10.0), (4096, 12.0)]);
    assert!(refused("fork.json", text, Given::default()).contains("does not say which operation"));
}

#[test]
fn wrong_results_in_json_are_refused() {
    let text = r#"{"args": ["all_reduce_perf"], "results": [{"size": 1024, "out_of_place": {"time": 10.0}}],
        "out_of_bounds": {"count": 12, "okay": "false"}}"#;
    assert!(refused("j", text, given(1, 8)).contains("the results were wrong (out of bounds values: 12"));
    let row = text.replace("10.0}", "10.0, \"nwrong\": 3}").replace("false", "true");
    assert!(refused("j", &row, given(1, 8)).contains("`#wrong` is above 0 in all 1 rows"));
}

#[test]
fn nics_are_not_faster_than_their_line() {
    // Rings reach 31 GB/s of NICs that are stated to have 200 Gb/s.
    let text = |gbps: f64| {
        let rows = rows(Operation::AllGather, 2, ("float", "none"), gbps, "0");
        format!("# interconnect: 1x200G\n{}{}{rows}", starting("all_gather"), ranks(&[1, 1]))
    };
    let written = |gbps: f64| {
        let calibration = calibrate(&read("log", &text(gbps)).unwrap().series).unwrap();
        let note = calibration.notes.iter().find(|note| note.contains("line rate")).cloned();
        let file = cluster_file(&calibration);
        let line = file.lines().find_map(|line| line.strip_prefix("nic_bandwidth = ")).unwrap().to_owned();
        (line, note)
    };
    let (line, note) = written(62.0);
    assert_eq!(line, "\"25 GB/s\"");
    assert!(note.unwrap().contains("more or faster NICs, or other paths"));
    let (line, note) = written(44.0);
    assert!(note.is_none() && line != "\"25 GB/s\"", "{line}");
}

/// Trees between two nodes beat rings, and must not make their NICs faster than they are.
#[test]
fn a_fit_to_trees_leaves_rings_below_the_line_rate() {
    let rows = rows(Operation::AllReduce, 8, ("float", "sum"), 97.0, "0");
    let text = format!("# interconnect: 4x200G\n{}{}{rows}", starting("all_reduce"), ranks(&[4, 4]));
    let calibration = calibrate(&read("log", &text).unwrap().series).unwrap();
    for share in [Constant::NicShare, Constant::TreeNicShare, Constant::PeerNicShare] {
        assert!(calibration.fit.constants.get(share) <= 1.0, "{}", share.key());
    }
    assert!(calibration.fit.constants.get(Constant::LlNicShare) <= 0.5);
}

#[test]
fn nics_are_as_the_user_states_them() {
    let rows = rows(Operation::AllReduce, 8, ("float", "sum"), 40.0, "0");
    let text = |nics: &str| format!("{nics}{}{}{rows}", starting("all_reduce"), ranks(&[4, 4]));
    let stated = Given { nics: Nics::parse("4x400G"), ..Given::default() };
    let site = |text: &str, given| calibrate(&parse_log("log", text, given).unwrap().series).unwrap().site;
    let of = |site: Site| (site.nics_per_node, site.nic_bytes_per_s);
    assert_eq!(of(site(&text("# interconnect: 2x200G\n"), Given::default())), (2, 25e9));
    assert_eq!(of(site(&text("# interconnect: 2x200G\n"), stated)), (4, 50e9));
    assert_eq!(of(site(&text(""), stated)), (4, 50e9));
    let odd = text("# interconnect: 1x9223372036854775808G\n");
    let message = refused("log", &odd, Given::default());
    assert!(message.contains("log:1: no NICs are such") && message.contains("--nics 8x200G"), "{message}");
    assert_eq!(of(site(&odd, stated)), (4, 50e9));
    for unreadable in ["8", "8x", "x200G", "8x200", "0x200G", "8x0G", "8x9000G", "8x-1G", "8x200Gx"] {
        assert_eq!(Nics::parse(unreadable), None, "{unreadable}");
    }
}

/// Where a log of few GPUs states the NICs of a whole node, that of the most GPUs says how many are theirs.
#[test]
fn nics_of_a_node_are_shared_by_all_of_its_gpus() {
    let log = |gpus: usize| {
        let ranks_of_all = 2 * gpus as u32;
        let rows = rows(Operation::AllGather, ranks_of_all, ("float", "none"), 45.0, "0");
        let text = format!("{}{}{rows}", starting("all_gather"), ranks(&[gpus, gpus]));
        parse_log("log", &text, Given { nics: Nics::parse("4x400G"), ..Given::default() }).unwrap().series
    };
    let calibration = calibrate(&[log(1), log(4)].concat()).unwrap();
    assert_eq!((calibration.site.nics_per_node, calibration.site.nic_bytes_per_s), (4, 50e9));
}

/// `NCCL_TESTS_SPLIT="MOD 4"` has one communicator for each GPU of a node, and all of them at the same time.
#[test]
fn communicators_of_a_split_are_one_of_them() {
    let split = |group: fn(usize) -> usize| {
        let lines = ranks(&[4, 4]);
        let mut rank = 0;
        let lines = lines.lines().map(|line| {
            let grouped = line.replace("Group  0", &format!("Group {:2}", group(rank)));
            rank += usize::from(grouped.contains("Rank"));
            grouped + "\n"
        });
        lines.collect::<String>()
    };
    let text = |ranks: &str, count| {
        let rows = rows(Operation::AllReduce, count, ("float", "sum"), 40.0, "0");
        format!("# interconnect: 4x400G\n{}{ranks}{rows}", starting("all_reduce"))
    };
    let across = read("log", &text(&split(|rank| rank % 4), 2)).unwrap();
    assert_eq!(names(&across), ["all_reduce 2x1"]);
    let nics = across.series[0].nics.unwrap();
    assert_eq!((nics.per_node, nics.bytes_per_s), (1, 50e9));
    assert!(across.notes[0].contains("4 communicators of 2 ranks each"), "{:?}", across.notes);
    assert_eq!(names(&read("log", &text(&split(|rank| rank / 4), 4)).unwrap()), ["all_reduce 1x4"]);
    let uneven = text(&split(|rank| usize::from(rank < 2)), 2);
    let message = refused("log", &uneven, Given::default());
    assert!(message.contains("communicators of NCCL_TESTS_SPLIT are unlike") && message.contains("MOD 8"));
    let alone = text(&split(|rank| rank), 1);
    assert!(refused("log", &alone, Given::default()).contains("of one GPU alone"));
}

#[test]
fn gpus_without_logs_of_their_own_are_said_to_stand_on_others() {
    let notes = |gpu: &str| {
        let rows = rows(Operation::AllGather, 8, ("float", "none"), 300.0, "0");
        let ranks = ranks(&[8]).replace("NVIDIA H200", gpu);
        let log = read("log", &format!("{}{ranks}{rows}", starting("all_gather"))).unwrap();
        let calibration = calibrate(&log.series).unwrap();
        (calibration.site.gpu, calibration.notes.join("\n"), cluster_file(&calibration))
    };
    let (gpu, said, file) = notes("AMD Instinct MI300X");
    assert_eq!((gpu.name, gpu.bytes_per_s, gpu.constants().get(Constant::NvlsShare)), ("MI300X", 448e9, 0.0));
    assert!(said.contains(
        "nothing is known but their links, of 448 GB/s: the fit begins from constants of `hopper`"
    ));
    assert!(file.contains("# Assumed: "), "{file}");
    assert!(said.contains("all_reduce, alltoall, sendrecv on 1 x 8 GPUs: do not rely on"), "{said}");
    let (_, said, file) = notes("Some New GPU");
    assert!(said.contains("`Some New GPU`, which is not known") && file.contains("# Assumed: "));
    let (_, said, file) = notes("NVIDIA H200");
    assert!(!said.contains("begins from constants") && !file.contains("# Assumed: "));
}

#[test]
fn operations_that_nothing_like_was_measured_of_are_not_predicted() {
    let series = |operation: Operation, gbps: f64| {
        let redop = if operation.is_reduction() { "sum" } else { "none" };
        let rows = rows(operation, 8, ("float", redop), gbps, "0");
        let text = format!("# interconnect: 4x200G\n{}{}{rows}", starting(operation.name()), ranks(&[4, 4]));
        read("log", &text).unwrap().series
    };
    // Rings reach 70 of 100 GB/s here, where others reach all.
    let slow = calibrate(&series(Operation::AllGather, 80.0)).unwrap();
    let why = slow.not_predicted(Operation::AllToAll, 8, 4).unwrap();
    assert!(why.contains("no log is of it or its like"), "{why}");
    assert_eq!(slow.not_predicted(Operation::ReduceScatter, 8, 4), None);
    assert!(slow.notes.iter().any(|note| note.contains("alltoall") && note.contains("do not rely on")));
    let usual = calibrate(&series(Operation::AllGather, 112.0)).unwrap();
    assert_eq!(usual.not_predicted(Operation::AllToAll, 8, 4), None);
    let one = calibrate(&read("log", &log(Operation::AllGather, &[8])).unwrap().series).unwrap();
    assert!(
        one.not_predicted(Operation::AllGather, 2, 8).unwrap().contains("nothing is known of the network")
    );
}

#[test]
fn speeds_in_notes_have_five_digits() {
    let rows = rows(Operation::AllReduce, 16, ("float", "sum"), 0.4295, "0");
    let text = format!("{}{}{rows}", starting("all_reduce"), ranks(&[8, 8]));
    let calibration = calibrate(&read("log", &text).unwrap().series).unwrap();
    assert!(
        calibration.notes.iter().any(|note| note.contains("1 of 10 Gb/s per node")),
        "{:?}",
        calibration.notes
    );
}

#[test]
fn damaged_logs_are_read_or_refused() {
    let plain = log(Operation::AllReduce, &[2, 2]);
    let labelled: String = plain.lines().map(|line| format!("[1,0]<stdout>:{line}\n")).collect();
    let json = r#"{"args": ["all_reduce_perf"], "results": [{"size": 1024, "type": "float", "out_of_place": {"time": 10.0}}]}"#;
    for text in [plain, labelled, json.to_owned()] {
        for at in (0..text.len()).step_by(3) {
            for damage in ["", "9999999999999999999", "-", "[", "\u{e9}", "\n", "#", "e308"] {
                let damaged = format!("{}{damage}{}", &text[..at], &text[at + 1..]);
                let place = parse_log("log", &damaged, given(2, 2)).err().map(|error| error.to_string());
                assert!(
                    place.is_none_or(|message| message.starts_with("log:") && message.contains("\nhelp: "))
                );
            }
        }
    }
}
