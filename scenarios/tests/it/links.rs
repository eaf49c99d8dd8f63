//! Single links that differ, by name: in the file, and created by `--set` and `--real-set`.

use crate::common::{Folder, VALID, valid_with};
use insta::assert_snapshot;
use zipwire_scenarios::{Experiment, ScenarioError, Source, load_real};

const LINKS: &str = "latency_inter = \"10 us\"\n\n[cluster.links]\n\"nic 1 down\" = \"12.5 GB/s\"";

/// Bytes per second of the links that differ from the others of their kind.
fn differing(experiment: &Experiment) -> Vec<(String, f64)> {
    let topology = &experiment.topology;
    topology.link_bandwidths.iter().map(|(&link, &bandwidth)| (topology.link_name(link), bandwidth)).collect()
}

fn really(text: &str, real_sets: &[&str]) -> Result<Experiment, ScenarioError> {
    let real_sets: Vec<String> = real_sets.iter().map(|&set| set.to_owned()).collect();
    load_real(
        &Source::from_text("test.toml", text, "."),
        &["cluster.launch=1 us".to_owned()],
        &real_sets,
        None,
    )
}

#[test]
fn a_link_that_differs_has_its_own_bandwidth() {
    let experiment = Folder::new().load(&valid_with("latency_inter = \"10 us\"", LINKS));
    assert_eq!(differing(&experiment), [("nic 1 down".to_owned(), 12.5e9)]);
    let capacities = experiment.topology.capacities();
    assert_eq!(capacities.iter().filter(|&&capacity| capacity == 12.5e9).count(), 1);
    assert_eq!(capacities.iter().filter(|&&capacity| capacity == 25e9).count(), capacities.len() - 1);
}

#[test]
fn a_path_creates_the_table() {
    let set = Folder::new().try_load(VALID, &["cluster.links.\"gpu 3 up\"=1 GB/s"]).unwrap();
    assert_eq!(differing(&set), [("gpu 3 up".to_owned(), 1e9)]);
    let both = really(VALID, &["cluster.links.\"nic 0 up\"=2 GB/s", "cluster.links.\"gpu 0 down\"=3 GB/s"]);
    assert_eq!(differing(&both.unwrap()), [("gpu 0 down".to_owned(), 3e9), ("nic 0 up".to_owned(), 2e9)]);
}

#[test]
fn a_real_set_comes_after_every_set() {
    let experiment = really(VALID, &["cluster.launch=2 us"]).unwrap();
    assert_eq!(experiment.host.launch_s, 2e-6);
}

#[test]
fn a_real_set_is_shown_as_the_user_wrote_it() {
    let shown = |real_set| really(VALID, &[real_set]).unwrap_err().render(false);
    assert_snapshot!(shown("cluster.hots_sync=1 us"), @r"
    error: unknown key `hots_sync` in `cluster`
     |
     | --real-set cluster.hots_sync=1 us
     |                    ^^^^^^^^^
     |
     = help: did you mean `host_sync`? the valid keys are `preset`, `file`, `nodes`, `gpus_per_node`, `topology`, `gpu_bandwidth`, `nic_bandwidth`, `nics_per_node`, `latency_intra`, `latency_inter`, `launch`, `host_sync`, `compute_slowdown`, `reduce`, `library`, `codec_speed`, `links`, `model` and `start`
    ");
    assert_snapshot!(shown("cluster.host_sync"), @r#"
    error: `--real-set` takes `path=value`
     |
     | --real-set cluster.host_sync
     |            ^^^^^^^^^^^^^^^^^
     |
     = help: like `--real-set "cluster.host_sync=60 us"`
    "#);
}
