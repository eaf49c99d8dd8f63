//! One synthetic run, written as each profiler would write it.
//!
//! It depends on nothing but the standard library, `serde_json` and its own types, so that tests of other packages can include it by its path.

#![allow(dead_code, reason = "each test that includes it uses some of the formats")]
#![allow(unreachable_pub, reason = "tests include it as a module of their own")]

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Map, Value, json};

/// Bytes of a value: all values are of type BFloat16.
pub const VALUE_BYTES: u64 = 2;

/// A job: ranks from 0, their groups, what they sent and what they computed. Times are nanoseconds since 1970, whole microseconds.
#[derive(Clone, Debug)]
pub struct Run {
    pub ranks: u32,
    pub groups: Vec<GroupOf>,
    /// In order of their begin.
    pub calls: Vec<CallOf>,
    /// By rank, times from begin to end in which it computes.
    pub compute: Vec<Vec<(i64, i64)>>,
    /// Name of the GPU that all ranks have.
    pub gpu: String,
    pub gpus_per_node: u32,
}

/// A group of ranks. The first one of a run has all of them.
#[derive(Clone, Debug)]
pub struct GroupOf {
    pub name: String,
    pub description: String,
    pub ranks: Vec<u32>,
}

/// One call of one rank.
#[derive(Clone, Debug, Default)]
pub struct CallOf {
    pub rank: u32,
    /// Place of its group among those of the run.
    pub group: usize,
    /// Its name in profiles: `all_reduce`, `alltoall`, `send` and so on.
    pub op: &'static str,
    pub bytes_in: u64,
    pub bytes_out: u64,
    /// Global rank of the other end, or of the root.
    pub peer: Option<u32>,
    pub begin_ns: i64,
    pub end_ns: i64,
    pub stream: u64,
    /// Bytes after compression over those before, of a sample.
    pub coded_share: Option<f64>,
}

impl CallOf {
    fn is_between_two(&self) -> bool {
        matches!(self.op, "send" | "recv")
    }
}

impl Run {
    /// Calls of a rank in order, each with its number: collectives and transfers of a group are counted apart, from 1.
    pub fn numbered(&self, rank: u32) -> Vec<(u64, &CallOf)> {
        let mut counts: BTreeMap<(usize, bool), u64> = BTreeMap::new();
        let number = |call: &CallOf| {
            let count = counts.entry((call.group, call.is_between_two())).or_default();
            *count += 1;
            *count
        };
        let calls: Vec<&CallOf> = self.calls.iter().filter(|call| call.rank == rank).collect();
        calls.iter().copied().map(number).zip(calls.iter().copied()).collect()
    }

    /// Rank within a group.
    pub fn seat(&self, group: usize, rank: u32) -> usize {
        self.groups[group].ranks.iter().position(|member| *member == rank).expect("it is a member")
    }

    /// Sender and receiver of a transfer, as ranks of its group.
    fn ends(&self, call: &CallOf) -> (usize, usize) {
        let own = self.seat(call.group, call.rank);
        let other = self.seat(call.group, call.peer.expect("transfers have a peer"));
        if call.op == "send" { (own, other) } else { (other, own) }
    }
}

/// The run that tests share: 4 ranks in 2 groups of tensor parallelism and 2 of data parallelism, and so many steps of 10 ms.
pub fn run(steps: u32) -> Run {
    let group = |name: &str, description: &str, ranks: &[u32]| GroupOf {
        name: name.to_owned(),
        description: description.to_owned(),
        ranks: ranks.to_vec(),
    };
    let groups = vec![
        group("0", "default_pg", &[0, 1, 2, 3]),
        group("1", "tensor parallel", &[0, 1]),
        group("2", "tensor parallel", &[2, 3]),
        group("3", "data parallel", &[0, 2]),
        group("4", "data parallel", &[1, 3]),
    ];
    let mut run = Run {
        ranks: 4,
        groups,
        calls: Vec::new(),
        compute: vec![Vec::new(); 4],
        gpu: "NVIDIA H200".to_owned(),
        gpus_per_node: 4,
    };
    for step in 0..steps {
        let begin_ns = 1_700_000_000_000_000_000 + i64::from(step) * 10_000_000;
        for rank in 0..4 {
            add_step(&mut run, rank, step, begin_ns);
        }
    }
    run.calls.sort_by_key(|call| (call.begin_ns, call.rank));
    run
}

/// Calls of a step of one rank. Ranks come one after the other, 2 us apart, and collectives end together.
fn add_step(run: &mut Run, rank: u32, step: u32, begin_ns: i64) {
    let (tensor, data) = (1 + rank as usize / 2, 3 + rank as usize % 2);
    let late_us = 2 * i64::from(rank);
    let mut call = |group, op, bytes: (u64, u64), us: (i64, i64), peer, share| {
        run.calls.push(CallOf {
            rank,
            group,
            op,
            bytes_in: bytes.0,
            bytes_out: bytes.1,
            peer,
            begin_ns: begin_ns + 1000 * (us.0 + late_us),
            end_ns: begin_ns + 1000 * us.1,
            stream: [28, 20, 20, 24, 24][group],
            coded_share: share,
        });
    };
    if step == 0 {
        call(0, "broadcast", (65_536, 65_536), (100, 160), Some(0), None);
    }
    call(tensor, "all_gather", (1 << 20, 2 << 20), (500, 700), None, None);
    call(tensor, "reduce_scatter", (2 << 20, 1 << 20), (1500, 1700), None, None);
    call(0, "alltoall", (4 << 20, 4 << 20), (1800, 2100), None, None);
    let (op, other) = if rank < 2 { ("send", rank + 2) } else { ("recv", rank - 2) };
    call(data, op, (393_216, 393_216), (2200, 2300), Some(other), None);
    call(data, "all_reduce", (32 << 20, 32 << 20), (3000, 4000), None, (step == 0).then_some(0.6875));
    call(0, "all_reduce", (16_384, 16_384), (5000, 5060), None, None);
    for (from_us, to_us) in [(170, 500), (700, 1500), (1700, 1900), (2500, 3500), (4000, 5000), (5060, 9000)]
    {
        let ns = |us: i64| begin_ns + 1000 * us;
        run.compute[rank as usize].push((ns(from_us), ns(to_us)));
    }
}

/// The trace of PyTorch's profiler.
pub fn kineto(run: &Run, rank: u32) -> Vec<u8> {
    let base_ns = 1_690_000_000_000_000_000_i64;
    let us = |ns: i64| (ns - base_ns) as f64 / 1e3;
    let span = |begin: i64, end: i64| (us(begin), (end - begin) as f64 / 1e3);
    let mut events = Vec::new();
    for (seq, call) in run.numbered(rank) {
        let (ts, dur) = span(call.begin_ns, call.end_ns);
        let group = &run.groups[call.group];
        let (kernel, collective) = match call.op {
            "all_reduce" => ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)", "allreduce"),
            "all_gather" => ("ncclDevKernel_AllGather_RING_LL(x)", "_allgather_base"),
            "reduce_scatter" => ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(x)", "_reduce_scatter_base"),
            "alltoall" => ("ncclDevKernel_SendRecv(x)", "all_to_all"),
            "broadcast" => ("ncclDevKernel_Broadcast_RING_LL(x)", "broadcast"),
            transfer => ("ncclDevKernel_SendRecv(x)", transfer),
        };
        let mut args = json!({
            "External id": 1000 + events.len(), "device": rank % run.gpus_per_node, "stream": call.stream,
            "Collective name": collective, "In msg nelems": call.bytes_in / VALUE_BYTES,
            "Out msg nelems": call.bytes_out / VALUE_BYTES, "Group size": group.ranks.len(), "dtype": "BFloat16",
            "In split size": "[]", "Out split size": "[]", "Process Group Name": group.name,
            "Process Group Description": group.description, "Process Group Ranks": format!("{:?}", group.ranks),
            "Seq": seq,
        });
        if call.is_between_two() {
            // The other end only.
            args[if call.op == "send" { "Dst Rank" } else { "Src Rank" }] = json!(call.peer);
        }
        events.push(json!({"ph": "X", "cat": "kernel", "name": kernel, "pid": rank, "tid": call.stream, "ts": ts, "dur": dur,
            "args": args}));
    }
    for &(begin, end) in &run.compute[rank as usize] {
        let (ts, dur) = span(begin, end);
        events.push(json!({"ph": "X", "cat": "kernel", "name": "sm90_gemm", "pid": rank, "tid": 7, "ts": ts, "dur": dur,
            "args": {"device": rank % run.gpus_per_node, "stream": 7}}));
    }
    let configs = run.groups.iter().map(|group| {
        json!({"pg_name": group.name, "pg_desc": group.description, "pg_size": group.ranks.len(), "ranks": group.ranks})
    });
    let devices: Vec<Value> =
        (0..run.gpus_per_node).map(|gpu| json!({"id": gpu, "name": run.gpu, "numSms": 132})).collect();
    let trace = json!({
        "schemaVersion": 1, "deviceProperties": devices,
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": run.ranks, "pg_config": configs.collect::<Vec<_>>()},
        "traceEvents": events, "traceName": "trace.json", "baseTimeNanoseconds": base_ns,
    });
    trace.to_string().into_bytes()
}

/// The dump of the Flight Recorder, of version 2.10, as its JSON has it.
pub fn flight_value(run: &Run, rank: u32) -> Value {
    let mut entries = Vec::new();
    for (record, (seq, call)) in run.numbered(rank).into_iter().enumerate() {
        let group = &run.groups[call.group];
        let is_p2p = call.is_between_two();
        let name = match call.op {
            "all_gather" => "nccl:_all_gather_base".to_owned(),
            "reduce_scatter" => "nccl:_reduce_scatter_base".to_owned(),
            "alltoall" => "nccl:all_to_all".to_owned(),
            "send" => format!("nccl:send {}->{}", run.ends(call).0, run.ends(call).1),
            "recv" => format!("nccl:recv {}<-{}", run.ends(call).1, run.ends(call).0),
            other => format!("nccl:{other}"),
        };
        entries.push(json!({
            "record_id": record, "pg_id": call.group, "process_group": [group.name, group.description],
            "thread_name": "pt_main", "thread_id": "140", "collective_seq_id": if is_p2p { 0 } else { seq },
            "p2p_seq_id": if is_p2p { seq } else { 0 }, "op_id": record + 1, "profiling_name": name,
            "time_created_ns": call.begin_ns, "duration_ms": (call.end_ns - call.begin_ns) as f32 / 1e6_f32,
            "input_sizes": [[call.bytes_in / VALUE_BYTES / 8, 8]], "input_dtypes": ["BFloat16"],
            "output_sizes": [[call.bytes_out / VALUE_BYTES / 8, 8]], "output_dtypes": ["BFloat16"],
            "state": "completed", "time_discovered_started_ns": call.end_ns + 1_000_000,
            "time_discovered_completed_ns": call.end_ns + 1_000_000, "retired": true, "timeout_ms": 600_000,
            "is_p2p": is_p2p,
        }));
    }
    let configs = run.groups.iter().filter(|group| group.ranks.contains(&rank)).map(|group| {
        let config =
            json!({"name": group.name, "desc": group.description, "ranks": format!("{:?}", group.ranks)});
        (group.name.clone(), config)
    });
    let configs: Map<String, Value> = configs.collect();
    json!({
        "version": "2.10", "pg_config": configs, "comm_lib_version": "2.27.5",
        "pg_status": {"0": {"last_enqueued_collective": 9, "last_started_collective": 9, "last_completed_collective": 9}},
        "entries": entries,
    })
}

/// The dump of the Flight Recorder as JSON.
pub fn flight_json(run: &Run, rank: u32) -> Vec<u8> {
    flight_value(run, rank).to_string().into_bytes()
}

/// The dump of the Flight Recorder as it writes it to a file, a pickle of protocol 2.
pub fn flight(run: &Run, rank: u32) -> Vec<u8> {
    pickle(&flight_value(run, rank))
}

/// Pickle of a value, with the opcodes that PyTorch's writer has: texts that come again are references.
pub fn pickle(value: &Value) -> Vec<u8> {
    let mut out = vec![0x80, 2];
    let mut writer = PickleWriter { out: &mut out, memo: HashMap::new(), next: 0 };
    writer.value(value, false);
    out.push(b'.');
    out
}

struct PickleWriter<'a> {
    out: &'a mut Vec<u8>,
    memo: HashMap<String, u32>,
    next: u32,
}

impl PickleWriter<'_> {
    fn put(&mut self) -> u32 {
        let index = self.next;
        self.next += 1;
        match u8::try_from(index) {
            Ok(short) => self.out.extend([b'q', short]),
            Err(_) => {
                self.out.push(b'r');
                self.out.extend(index.to_le_bytes());
            }
        }
        index
    }

    fn text(&mut self, text: &str) {
        if let Some(index) = self.memo.get(text) {
            match u8::try_from(*index) {
                Ok(short) => self.out.extend([b'h', short]),
                Err(_) => {
                    self.out.push(b'j');
                    self.out.extend(index.to_le_bytes());
                }
            }
            return;
        }
        self.out.push(b'X');
        self.out.extend((text.len() as u32).to_le_bytes());
        self.out.extend(text.as_bytes());
        let index = self.put();
        self.memo.insert(text.to_owned(), index);
    }

    fn number(&mut self, number: i64) {
        if let Ok(short) = u8::try_from(number) {
            self.out.extend([b'K', short]);
        } else if let Ok(short) = u16::try_from(number) {
            self.out.push(b'M');
            self.out.extend(short.to_le_bytes());
        } else if let Ok(long) = i32::try_from(number) {
            self.out.push(b'J');
            self.out.extend(long.to_le_bytes());
        } else {
            self.out.extend([0x8a, 8]);
            self.out.extend(number.to_le_bytes());
        }
    }

    fn value(&mut self, value: &Value, is_tuple: bool) {
        match value {
            Value::Null => self.out.push(b'N'),
            Value::Bool(is_true) => self.out.push(if *is_true { 0x88 } else { 0x89 }),
            Value::String(text) => self.text(text),
            Value::Number(number) => match number.as_i64() {
                Some(whole) => self.number(whole),
                None => {
                    self.out.push(b'G');
                    self.out.extend(number.as_f64().expect("it is a number").to_be_bytes());
                }
            },
            Value::Array(items) if is_tuple => {
                self.out.push(b'(');
                items.iter().for_each(|item| self.value(item, false));
                self.out.push(b't');
                self.put();
            }
            Value::Array(items) => {
                self.out.push(b']');
                self.put();
                self.out.push(b'(');
                items.iter().for_each(|item| self.value(item, false));
                self.out.push(b'e');
            }
            Value::Object(members) => {
                self.out.push(b'}');
                self.put();
                self.out.push(b'(');
                for (key, value) in members {
                    self.text(key);
                    self.value(value, key == "process_group");
                }
                self.out.push(b'u');
            }
        }
    }
}

/// Forms of the lines of NCCL's Inspector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InspectorForm {
    /// Version 4.0: each line has the head of its communicator.
    Lines,
    /// The same with the times of events.
    Verbose,
    /// Version 4.3: a head for each batch, which the lines behind it are of.
    Batches,
}

/// The log of the process of a rank, as NCCL's Inspector writes it. An All-to-All is a message to and from each rank.
pub fn inspector(run: &Run, rank: u32, form: InspectorForm) -> Vec<u8> {
    let version = if form == InspectorForm::Batches { "v4.3" } else { "v4.0" };
    let head = |group: usize| {
        json!({
            "header": {"id": format!("0x7f8c496ae9f6{group:02x}"), "rank": run.seat(group, rank),
                "n_ranks": run.groups[group].ranks.len(), "nnodes": 1},
            "metadata": {"inspector_output_format_version": version, "git_rev": "", "rec_mechanism": "nccl_profiler_interface",
                "dump_timestamp_us": 1_700_000_000_100_000_u64, "hostname": "node-0", "pid": 4000 + rank},
        })
    };
    let mut numbers: BTreeMap<(usize, String), u64> = BTreeMap::new();
    let mut batches: BTreeMap<usize, Vec<Value>> = BTreeMap::new();
    let mut lines = Vec::new();
    for (_, call) in run.numbered(rank) {
        for (kind, perf) in inspector_records(run, call, form == InspectorForm::Verbose, &mut numbers) {
            let mut line = if form == InspectorForm::Batches { json!({}) } else { head(call.group) };
            line[kind] = perf;
            if form == InspectorForm::Batches {
                batches.entry(call.group).or_default().push(line);
            } else {
                lines.push(line);
            }
        }
    }
    for (group, records) in batches {
        let mut marker = head(group);
        let p2p = records.iter().filter(|line| line.get("p2p_perf").is_some()).count();
        marker["dump_stats"] = json!({"coll_records": records.len() - p2p, "coll_dropped_total": 0,
            "coll_dropped_since_last_dump": 0, "p2p_records": p2p, "p2p_dropped_total": 0, "p2p_dropped_since_last_dump": 0});
        lines.push(marker);
        // Each batch has its collectives first.
        let (messages, collectives): (Vec<_>, Vec<_>) =
            records.into_iter().partition(|line| line.get("p2p_perf").is_some());
        lines.extend(collectives.into_iter().chain(messages));
    }
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    text.into_bytes()
}

/// Records of a call by their keys: collectives are numbered by kind in each communicator.
fn inspector_records(
    run: &Run,
    call: &CallOf,
    is_verbose: bool,
    numbers: &mut BTreeMap<(usize, String), u64>,
) -> Vec<(&'static str, Value)> {
    let us = (call.end_ns - call.begin_ns) / 1000;
    let ranks = run.groups[call.group].ranks.len();
    let mut number = |name: &str| {
        let number = numbers.entry((call.group, name.to_owned())).or_default();
        *number += 1;
        *number
    };
    let traced = |mut perf: Value| {
        if is_verbose {
            perf["event_trace_ts"] = json!({"coll_start_ts": call.begin_ns / 1000 - 40, "coll_stop_ts": call.begin_ns / 1000 - 30,
            "kernel_events": [
                {"channel_id": 0, "kernel_start_ts": call.begin_ns / 1000, "kernel_stop_ts": call.end_ns / 1000, "kernel_record_ts": 0},
                {"channel_id": 1, "kernel_start_ts": call.begin_ns / 1000 + 1, "kernel_stop_ts": call.end_ns / 1000, "kernel_record_ts": 0},
            ]});
        }
        perf
    };
    let mut p2p = |name: &str, peer: usize, bytes: u64| {
        let perf = json!({"p2p": name, "p2p_sn": number(name), "p2p_peer": peer, "p2p_msg_size_bytes": bytes,
            "p2p_exec_time_us": us, "p2p_timing_source": "kernel_gpu", "p2p_algobw_gbs": 1.0, "p2p_busbw_gbs": 1.0});
        ("p2p_perf", traced(perf))
    };
    let (name, bytes) = match call.op {
        "send" => return vec![p2p("Send", run.ends(call).1, call.bytes_in)],
        "recv" => return vec![p2p("Recv", run.ends(call).0, call.bytes_out)],
        "alltoall" => {
            let part = call.bytes_in / ranks as u64;
            return (0..ranks)
                .flat_map(|peer| [("Send", peer), ("Recv", peer)])
                .map(|(name, peer)| p2p(name, peer, part))
                .collect();
        }
        "all_reduce" => ("AllReduce", call.bytes_in),
        "all_gather" => ("AllGather", call.bytes_in),
        "reduce_scatter" => ("ReduceScatter", call.bytes_out),
        _ => ("Broadcast", call.bytes_in),
    };
    let perf = json!({"coll": name, "coll_sn": number(name), "coll_msg_size_bytes": bytes, "coll_exec_time_us": us,
        "coll_timing_source": "kernel_gpu", "coll_algobw_gbs": 1.0, "coll_busbw_gbs": 1.0});
    vec![("coll_perf", traced(perf))]
}

/// The execution trace of MLCommons Chakra of a rank, as its converter of PyTorch's traces writes it.
pub fn chakra(run: &Run, rank: u32) -> Vec<u8> {
    chakra_nodes(run, rank, true)
}

/// The same without the times at which nodes begin, as newer converters write it.
pub fn chakra_without_begins(run: &Run, rank: u32) -> Vec<u8> {
    chakra_nodes(run, rank, false)
}

fn chakra_nodes(run: &Run, rank: u32, has_begins: bool) -> Vec<u8> {
    let mut metadata = Vec::new();
    message(&mut metadata, 2, &attribute("schema", &AttributeOf::Text("1.1.1-chakra.0.0.4".to_owned())));
    text(&mut metadata, 1, "0.0.4");
    let mut out = delimited(&metadata);
    let mut nodes: Vec<(i64, i64, Option<&CallOf>)> = run
        .calls
        .iter()
        .filter(|call| call.rank == rank)
        .map(|call| (call.begin_ns, call.end_ns, Some(call)))
        .collect();
    nodes.extend(run.compute[rank as usize].iter().map(|&(begin, end)| (begin, end, None)));
    nodes.sort_by_key(|(begin, _, call)| (*begin, call.is_some()));
    let configs: Vec<Value> = run
        .groups
        .iter()
        .map(|group| json!({"pg_name": group.name, "pg_desc": group.description, "pg_size": group.ranks.len(), "ranks": group.ranks}))
        .collect();
    let mut setup = Vec::new();
    number(&mut setup, 1, 1);
    text(&mut setup, 2, "## process_group:init ##");
    number(&mut setup, 3, 1);
    let mut inputs = Vec::new();
    // A list of Python that has one text.
    text(&mut inputs, 1, &format!("['{}']", Value::Array(configs)));
    message(&mut setup, 8, &inputs);
    out.extend(delimited(&setup));
    for (index, (begin, end, call)) in nodes.into_iter().enumerate() {
        let mut node = Vec::new();
        number(&mut node, 1, 2 + index as u64);
        text(&mut node, 2, call.map_or("sm90_gemm", |call| call.op));
        let kind = match call.map(|call| call.op) {
            None => 4,
            Some("send") => 5,
            Some("recv") => 6,
            Some(_) => 7,
        };
        number(&mut node, 3, kind);
        if has_begins {
            number(&mut node, 6, begin as u64 / 1000);
        }
        number(&mut node, 7, (end - begin) as u64 / 1000);
        for (name, value) in chakra_attributes(run, call) {
            message(&mut node, 10, &attribute(name, &value));
        }
        out.extend(delimited(&node));
    }
    out
}

fn chakra_attributes(run: &Run, call: Option<&CallOf>) -> Vec<(&'static str, AttributeOf)> {
    let mut attributes = vec![("is_cpu_op", AttributeOf::Bool(false))];
    let Some(call) = call else { return attributes };
    attributes.push(("stream", AttributeOf::Int64(call.stream)));
    attributes.push(("comm_size", AttributeOf::Int64(call.bytes_in)));
    attributes.push(("pg_name", AttributeOf::Text(run.groups[call.group].name.clone())));
    if call.is_between_two() {
        let (src, dst) = run.ends(call);
        attributes.push(("comm_src", AttributeOf::Int64(u64::from(run.groups[call.group].ranks[src]))));
        attributes.push(("comm_dst", AttributeOf::Int64(u64::from(run.groups[call.group].ranks[dst]))));
    } else {
        let kinds = [
            "all_reduce",
            "reduce",
            "all_gather",
            "gather",
            "scatter",
            "broadcast",
            "alltoall",
            "reduce_scatter",
        ];
        let kind = kinds.iter().position(|name| *name == call.op).expect("it has a number");
        attributes.push(("comm_type", AttributeOf::Int64(kind as u64)));
    }
    attributes
}

/// Value of an attribute of Chakra.
pub enum AttributeOf {
    Int64(u64),
    Bool(bool),
    Text(String),
}

pub fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub fn number(out: &mut Vec<u8>, field: u64, value: u64) {
    varint(out, field << 3);
    varint(out, value);
}

pub fn message(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    varint(out, field << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend(bytes);
}

pub fn text(out: &mut Vec<u8>, field: u64, text: &str) {
    message(out, field, text.as_bytes());
}

pub fn delimited(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    varint(&mut out, bytes.len() as u64);
    out.extend(bytes);
    out
}

pub fn attribute(name: &str, value: &AttributeOf) -> Vec<u8> {
    let mut out = Vec::new();
    text(&mut out, 1, name);
    match value {
        AttributeOf::Int64(value) => number(&mut out, 9, *value),
        AttributeOf::Bool(value) => number(&mut out, 27, u64::from(*value)),
        AttributeOf::Text(value) => text(&mut out, 29, value),
    }
    out
}

/// The journal of `libzipwire_nccl.so` in mode `stats`. An All-to-All is a group of messages to and from each rank, as PyTorch makes it.
pub fn shim(run: &Run, rank: u32) -> Vec<u8> {
    let seconds = |ns: i64| format!("{}.{:06}", ns / 1_000_000_000, ns % 1_000_000_000 / 1000);
    let begin = seconds(run.calls[0].begin_ns - 1_000_000_000);
    let mut lines = vec![format!(
        r#"{{"kind":"start","zipwire_nccl":1,"t":{begin},"pid":{},"rank":{rank},"mode":"stats","codec":"tiered","min_bytes":4194304,"sample":1000}}"#,
        4000 + rank
    )];
    let comm = |group: usize| {
        let ranks = run.groups[group].ranks.len();
        format!(r#""comm":"3dfda7d7164ec0{group:02x}","rank":{},"nranks":{ranks}"#, run.seat(group, rank))
    };
    let used: BTreeSet<usize> =
        run.calls.iter().filter(|call| call.rank == rank).map(|call| call.group).collect();
    for group in &used {
        lines.push(format!(r#"{{"kind":"comm","t":{begin},"op":"comm_init_rank",{}}}"#, comm(*group)));
    }
    for (index, (_, call)) in run.numbered(rank).into_iter().enumerate() {
        let ranks = run.groups[call.group].ranks.len();
        let line = |op: &str, bytes: u64, named: String, group: &str| {
            let sample = call.coded_share.map_or(String::new(), |share| {
                format!(r#","sample":{{"bytes":1048576,"exponent_bits":2.500,"ratio":{share:.4}}}"#)
            });
            format!(
                r#"{{"kind":"op","t":{},"op":"{op}","count":{},"bytes":{bytes},"dtype":"bfloat16"{named},{}{group},"stream":"{:#x}","capturing":false,"eligible":false{sample}}}"#,
                seconds(call.begin_ns),
                bytes / VALUE_BYTES,
                comm(call.group),
                call.stream,
            )
        };
        match call.op {
            "alltoall" => {
                for peer in 0..ranks {
                    for op in ["send", "recv"] {
                        let group = format!(r#","group":{}"#, index + 1);
                        lines.push(line(
                            op,
                            call.bytes_in / ranks as u64,
                            format!(r#","peer":{peer}"#),
                            &group,
                        ));
                    }
                }
            }
            "send" => lines.push(line("send", call.bytes_in, format!(r#","peer":{}"#, run.ends(call).1), "")),
            "recv" => {
                lines.push(line("recv", call.bytes_out, format!(r#","peer":{}"#, run.ends(call).0), ""));
            }
            "broadcast" => {
                let root = run.seat(call.group, call.peer.expect("it has a root"));
                lines.push(line("broadcast", call.bytes_in, format!(r#","root":{root}"#), ""));
            }
            "reduce_scatter" => {
                lines.push(line("reduce_scatter", call.bytes_out, r#","redop":"sum""#.to_owned(), ""));
            }
            "all_reduce" => lines.push(line("all_reduce", call.bytes_in, r#","redop":"sum""#.to_owned(), "")),
            other => lines.push(line(other, call.bytes_in, String::new(), "")),
        }
    }
    let count = lines.len() + 1;
    lines.push(format!(r#"{{"kind":"end","t":{begin},"ops":{{}},"lines":{count},"lost":0,"samples":1}}"#));
    (lines.join("\n") + "\n").into_bytes()
}
