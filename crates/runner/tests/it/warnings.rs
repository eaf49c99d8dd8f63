//! Warnings about assumptions that numbers rest on: each kind where it holds, and nowhere else.

use zipwire_runner::warnings::warnings;
use zipwire_runner::{Cancel, ExecuteError, Prepared, RunResult, compare, executors::SIM};
use zipwire_scenarios::{Source, load};

const SCENARIO: &str = r#"
name = "warned"
seed = 1
iterations = 1

[cluster]
nodes = 2
gpus_per_node = 4
nics_per_node = 4
gpu_bandwidth = "100 GB/s"
nic_bandwidth = "25 GB/s"
latency_intra = "5 us"
latency_inter = "10 us"
launch = "5 us"
host_sync = "60 us"

[workload]
kind = "collective"
collective = "all-gather"
bytes_per_rank = "8 MiB"
payload = { gaussian = 0.02 }

[codec]
id = "window7"
speed = { encode = "500 GB/s", decode = "500 GB/s", launch = "5 us" }

[[variant]]
name = "native"
algorithm = "direct"
[[variant]]
name = "zipped"
protocol = "static-first"
algorithm = "direct"
"#;

/// The warnings of the scenario with some keys changed.
fn of(sets: &[&str], may_simulate: bool) -> Vec<String> {
    of_text(SCENARIO, sets, may_simulate)
}

fn of_text(text: &str, sets: &[&str], may_simulate: bool) -> Vec<String> {
    let sets: Vec<String> = sets.iter().map(|&set| set.to_owned()).collect();
    let experiment = load(&Source::from_text("warned.toml", text, "."), &sets, None).unwrap();
    let cancel = Cancel::default();
    let mut prepared = Prepared::new(&experiment, &cancel).unwrap();
    let first = experiment.variants[0].name.clone();
    let keep = |_: &RunResult<'_>| Ok::<_, ExecuteError>(());
    let compared = compare(&mut prepared, &[SIM], &first, true, &cancel, |_, _| (), keep).unwrap();
    warnings(&compared.executors, &mut prepared, may_simulate, &cancel).unwrap()
}

#[test]
fn nothing_is_said_of_what_is_all_stated_and_measured() {
    assert_eq!(of(&[], true), [""; 0]);
}

/// A ring that crosses between nodes once in each direction leaves each node by one NIC and enters it by another; a ring for each NIC uses
/// all four.
#[test]
fn a_ring_that_leaves_nics_idle() {
    let ring = "variant.0.algorithm=ring";
    assert_eq!(
        of(&[ring, "variant.0.channels=1"], true),
        [
            "`native` leaves 4 of 8 NICs idle, which a library would use and be faster: set `channels = 4` or another `algorithm`"
        ]
    );
    assert_eq!(of(&[ring, "variant.0.channels=4"], true), [""; 0]);
}

/// Four GPUs around a square whose links follow other ranks than one another: a ring in rank order crosses GPUs, and along the square none.
#[test]
fn a_ring_across_other_gpus() {
    let square = |ring: [u32; 4]| {
        let edge = |at: usize| {
            let (src, dst) = (ring[at], ring[(at + 1) % 4]);
            format!("{{ between = [\"gpu {src}\", \"gpu {dst}\"], bandwidth = \"50 GB/s\" }}")
        };
        let edges: Vec<String> = (0..4).map(edge).collect();
        format!(
            "name = \"square\"\n[cluster]\nnodes = 1\ngpus_per_node = 4\nlatency_intra = \"5 us\"\n[cluster.topology]\nkind = \"graph\"\nswitches = []\n\
             edges = [{}]\n[workload]\nkind = \"collective\"\ncollective = \"all-reduce\"\nbytes_per_rank = \"1 MiB\"\n\
             [[variant]]\nname = \"native\"\nalgorithm = \"ring\"\n",
            edges.join(", ")
        )
    };
    let crossed = of_text(&square([0, 2, 1, 3]), &[], false);
    assert!(
        crossed[0].starts_with("`native` sends from `gpu 0` to `gpu 1` over links of other GPUs"),
        "{crossed:?}"
    );
    assert!(!of_text(&square([0, 1, 2, 3]), &[], false).iter().any(|warning| warning.contains("other GPUs")));
}

/// The look at sizes takes no time; the loss that the warning states is that of a run with the time set.
#[test]
fn a_look_at_sizes_that_takes_no_time() {
    let free = "cluster.host_sync=0 us";
    let said = of(&[free], true);
    assert!(
        said.len() == 1 && said[0].starts_with("`zipped` reads sizes on the host in no time: with"),
        "{said:?}"
    );
    assert_eq!(
        of(&[free], false),
        [
            "`zipped` reads sizes on the host in no time: set `cluster.host_sync`, \"60 us\" on the GPUs of presets"
        ]
    );
    assert_eq!(of(&[free, "variant.1.protocol=\"native\""], true), [""; 0], "nobody looks");
}

#[test]
fn launches_that_take_no_time() {
    let free = ["cluster.launch=0 us", "codec.speed.launch=0 us"];
    let said = of(&free, true);
    assert!(
        said.len() == 1 && said[0].starts_with("launches take no time, of which `zipped` has most"),
        "{said:?}"
    );
    assert_eq!(of(&free[..1], true), [""; 0], "the codec's launches take time");
}

#[test]
fn a_ratio_without_a_payload() {
    let bare = SCENARIO.replace("payload = { gaussian = 0.02 }", "");
    let said = of_text(&bare, &["codec.ratio=1.4"], true);
    assert!(
        said.len() == 1 && said[0].starts_with("the ratio 1.4 is stated and rests on no payload"),
        "{said:?}"
    );
    assert_eq!(of(&["codec.ratio=1.4"], true), [""; 0]);
}

/// A library that is declared to be faster than the NICs.
#[test]
fn calls_that_are_declared_faster_than_links() {
    let library = |bandwidth: &str| {
        let cost = format!("{{ latency = \"20 us\", bandwidth = \"{bandwidth}\" }}");
        let text = SCENARIO
            .replace("[workload]", &format!("library = {{ all-gather = {cost} }}\n\n[workload]"))
            .replacen("algorithm = \"direct\"", "algorithm = \"library\"", 1);
        of_text(&text, &[], false)
    };
    assert_eq!(library("80 GB/s"), [""; 0]);
    assert_eq!(
        library("250 GB/s"),
        [
            "`native` takes 2.50 times as long as `cluster.library.all-gather.bandwidth` says: GPUs and NICs of this cluster carry no more"
        ]
    );
}
