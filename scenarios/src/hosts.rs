//! An experiment on other hardware than it was written for.

use std::iter;
use std::path::Path;

use crate::cluster::{self, Cluster, CodecSpeeds};
use crate::codec::CodecChoice;
use crate::error::Result;
use crate::experiment::Experiment;
use crate::files::Files;
use crate::language::Field;
use crate::origin::Source;
use crate::problem::Problem;
use crate::tree::{Document, Place};
use crate::{set, tree};

impl Experiment {
    /// The same work, planned as it is, on hosts with the constants of a hardware file: links, costs of hosts, and speeds of all codecs,
    /// whatever the scenario says of them. How many nodes the file has does not matter.
    ///
    /// # Errors
    /// If the file is wrong, is of nodes with another number of GPUs, or lacks the speed of a codec.
    pub fn on_hosts(&self, file: &Source) -> Result<Self> {
        let document = Document::file(file.name.clone(), file.text.clone());
        let mut root = tree::parse(&document)?;
        set::apply(&mut root, set::SET, &format!("nodes={}", self.topology.nodes))?;
        let whole = Field::at("cluster", &root);
        let Cluster { topology, host, fitted_domains, codec_speeds, .. } =
            cluster::read(&whole, &Files::new(Path::new("")))?;
        if topology.gpus_per_node != self.topology.gpus_per_node {
            let limits = format!("{}, as in the scenario", self.topology.gpus_per_node);
            let problem = Problem::out_of_range("gpus_per_node", topology.gpus_per_node, limits);
            return Err(problem.at(whole.place()));
        }
        let mut experiment = Self { preset: None, topology, host, fitted_domains, ..self.clone() };
        let place = whole.place();
        let mut all = self.variants.iter().flat_map(|variant| iter::once(variant).chain(&variant.arms));
        let is_used = all.any(|variant| variant.is_coded() && variant.codec.is_none());
        if let Some(choice) = experiment.codec.as_mut().filter(|_| is_used) {
            take_speed(choice, &codec_speeds, &place)?;
        }
        for variant in &mut experiment.variants {
            let arms = variant.arms.iter_mut().map(|arm| &mut arm.codec);
            for choice in iter::once(&mut variant.codec).chain(arms).flatten() {
                take_speed(choice, &codec_speeds, &place)?;
            }
        }
        Ok(experiment)
    }
}

/// Gives a codec the speed that it has on the hosts.
fn take_speed(choice: &mut CodecChoice, speeds: &CodecSpeeds, place: &Place) -> Result<()> {
    let id = choice.spec.codec().id();
    let declared = speeds.get(id).ok_or_else(|| {
        let path = format!("codec_speed.{id}");
        Problem::missing_key(&path, "cluster", "{ encode = \"... GB/s\", decode = \"... GB/s\" }")
            .at(place.clone())
    })?;
    (choice.cost, choice.declared) = (declared.cost, Some(declared.clone()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load;

    const SCENARIO: &str = "name = \"s\"\n\n[cluster]\nnodes = 2\ngpus_per_node = 2\ngpu_bandwidth = \"25 GB/s\"\n\
        nic_bandwidth = \"25 GB/s\"\nlatency_intra = \"1 us\"\nlatency_inter = \"1 us\"\n\n[workload]\nkind = \"collective\"\n\
        collective = \"all-gather\"\nbytes_per_rank = \"1 MiB\"\npayload = { gaussian = 0.02 }\n\n\
        [codec]\nid = \"window7\"\nspeed = { encode = \"200 GB/s\", decode = \"200 GB/s\" }\n\n\
        [[variant]]\nname = \"coded\"\nprotocol = \"size-first\"\n";
    const HOSTS: &str = "nodes = 4\ngpus_per_node = 2\ngpu_bandwidth = \"10 MB/s\"\nnic_bandwidth = \"5 MB/s\"\n\
        latency_intra = \"2 us\"\nlatency_inter = \"3 us\"\nlaunch = \"4 us\"\n";
    const SPEED: &str = "\n[codec_speed.window7]\nencode = \"1 GB/s\"\ndecode = \"2 GB/s\"\n\
        basis = \"measured\"\nsource = \"a probe\"\n";

    fn on(hosts: &str) -> Result<Experiment> {
        on_with(hosts, &[])
    }

    fn on_with(hosts: &str, sets: &[String]) -> Result<Experiment> {
        let experiment = load(&Source::from_text("s.toml", SCENARIO, ""), sets, None).unwrap();
        experiment.on_hosts(&Source::from_text("hosts.toml", hosts, ""))
    }

    #[test]
    fn constants_are_those_of_the_file_and_the_rest_stays() {
        let experiment = on(&[HOSTS, SPEED].concat()).unwrap();
        assert_eq!((experiment.topology.nodes, experiment.topology.nic_bandwidth), (2, 5e6));
        assert_eq!(experiment.host.launch_s, 4e-6);
        let choice = experiment.codec_of(&experiment.variants[0]).unwrap();
        assert_eq!(choice.cost.encode_bytes_per_s, 1e9);
        assert_eq!((experiment.name.as_str(), experiment.job().segments.len()), ("s", 1));
    }

    #[test]
    fn files_of_other_hosts_are_refused() {
        let error = on(HOSTS).unwrap_err().to_string();
        assert!(error.contains("codec_speed.window7"), "{error}");
        // Where nothing is coded, no speed is needed.
        assert!(on_with(HOSTS, &["variant.coded.protocol=native".to_owned()]).is_ok());
        let error = on(&HOSTS.replace("gpus_per_node = 2", "gpus_per_node = 8")).unwrap_err().render(false);
        assert!(error.contains("2, as in the scenario"), "{error}");
    }
}
