//! Comment lines of a log: the operation, the ranks and their hosts, the GPU, the NICs.

use zipwire_cluster::library::Operation;

use crate::series::Nics;

/// Facts that comment lines state; `None` where they do not.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Header {
    pub(crate) operation: Option<Operation>,
    pub(crate) nodes: Option<u32>,
    pub(crate) gpus_per_node: Option<u32>,
    /// The host of each rank, from nccl-tests' own lines.
    pub(crate) hosts: Vec<String>,
    pub(crate) gpu: Option<String>,
    /// NICs of a node, or of a GPU where the flag is set.
    pub(crate) nics: Option<(Nics, bool)>,
}

impl Header {
    /// Takes what a line without its `#` says.
    pub(crate) fn read(&mut self, comment: &str) {
        let words: Vec<&str> = comment.split_whitespace().collect();
        if words.first() == Some(&"Rank")
            && let Some(on) = words.iter().position(|word| *word == "on")
            && let Some(host) = words.get(on + 1)
        {
            self.hosts.push((*host).to_owned());
            if let Some(bus) = words.iter().position(|word| word.starts_with('[')) {
                self.gpu.get_or_insert_with(|| words[bus + 1..].join(" "));
            }
            return;
        }
        for word in &words {
            self.read_program(word);
        }
        for part in comment.split(';') {
            if let Some((key, value)) = part.split_once(':') {
                self.read_pair(key.trim(), value.trim());
            }
        }
        if comment.trim_start().starts_with("interconnect:") {
            self.nics = nics(&words);
        }
    }

    /// A word that names one of nccl-tests' programs, as `./build/all_reduce_perf`.
    pub(crate) fn read_program(&mut self, word: &str) {
        let program = word.rsplit('/').next().unwrap_or(word);
        let name = program.trim_end_matches([',', ';', ')', '"']).strip_suffix("_perf");
        if let Some(operation) = name.and_then(Operation::named) {
            self.operation.get_or_insert(operation);
        }
    }

    fn read_pair(&mut self, key: &str, value: &str) {
        match key {
            "gpu" => self.gpu = Some(value.to_owned()),
            "nodes" => self.nodes = value.parse().ok().filter(|nodes| *nodes > 0),
            "gpus_per_node" => self.gpus_per_node = value.parse().ok().filter(|gpus| *gpus > 0),
            "op" => self.operation = Operation::named(value),
            _ => {}
        }
    }

    /// NICs of a node of so many GPUs.
    pub(crate) fn nics_of(&self, gpus_per_node: u32) -> Option<Nics> {
        let (nics, is_per_gpu) = self.nics?;
        let factor = if is_per_gpu { gpus_per_node } else { 1 };
        Some(Nics { per_node: nics.per_node.saturating_mul(factor), ..nics })
    }
}

/// `8x200G`, or `4x Slingshot-11 200G`, and whether `per GPU` follows.
fn nics(words: &[&str]) -> Option<(Nics, bool)> {
    let speed = |word: &str| -> Option<f64> {
        let digits: String = word.chars().take_while(char::is_ascii_digit).collect();
        let rest = word[digits.len()..].trim_end_matches([',', ';', ')']);
        (rest == "G" || rest == "Gb/s").then(|| digits.parse().ok())?
    };
    words.iter().enumerate().find_map(|(index, word)| {
        let (count, same_word) = word.split_once('x')?;
        let count: u32 = count.trim_start_matches('(').parse().ok().filter(|count| *count > 0)?;
        let (gigabits, last) = match speed(same_word) {
            Some(gigabits) => (gigabits, index),
            // A few words for the kind of NIC; another item of the list is not of this one.
            None if same_word.is_empty() => {
                let next = words.iter().enumerate().skip(index + 1).take(4);
                let mut item = next.scan(false, |ended, (at, word)| {
                    let taken = (!*ended).then_some((at, *word));
                    *ended |= word.ends_with([';', ',']);
                    taken
                });
                item.find_map(|(at, word)| Some((speed(word)?, at)))?
            }
            None => return None,
        };
        let is_per_gpu = words.get(last + 1..last + 3).is_some_and(|next| next == ["per", "GPU"]);
        Some((Nics { per_node: count, bytes_per_s: gigabits * 1e9 / 8.0 }, is_per_gpu))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &[&str]) -> Header {
        let mut header = Header::default();
        lines.iter().for_each(|line| header.read(line));
        header
    }

    #[test]
    fn lines_of_the_programs_name_hosts_and_gpus() {
        let header = of(&[
            " Collective test starting: all_reduce_perf",
            "  Rank  0 Group  0 Pid 1234 on  node-a device  0 [0000:0f:00] NVIDIA H200",
            "  Rank  1 Group  0 Pid 1235 on  node-b device  0 [0000:0f:00] NVIDIA H200",
        ]);
        assert_eq!(header.operation, Some(Operation::AllReduce));
        assert_eq!(header.hosts, ["node-a", "node-b"]);
        assert_eq!(header.gpu.as_deref(), Some("NVIDIA H200"));
    }

    #[test]
    fn remarks_name_what_programs_leave_out() {
        let header = of(&[" gpu: H100-SXM; nodes: 2; gpus_per_node: 8; ranks: 16; op: alltoall"]);
        assert_eq!((header.nodes, header.gpus_per_node), (Some(2), Some(8)));
        assert_eq!(header.operation, Some(Operation::AllToAll));
        assert_eq!(header.gpu.as_deref(), Some("H100-SXM"));
    }

    #[test]
    fn nics_are_found_among_other_things() {
        let nics = |text: &str, gpus| {
            of(&[&format!(" interconnect: {text}")])
                .nics_of(gpus)
                .map(|nics| (nics.per_node, nics.bytes_per_s))
        };
        assert_eq!(nics("NVLink4; GCP A3 Mega 8x200G TCPXO", 8), Some((8, 25e9)));
        assert_eq!(nics("4x GH200 NVLink4; 4x Slingshot-11 200G per node", 4), Some((4, 25e9)));
        assert_eq!(nics("inferred 1x400G per GPU used", 2), Some((2, 50e9)));
        assert_eq!(nics("PCIe; 1x NIC RoCE, CX-7", 2), None);
        assert_eq!(nics("4x H100 SXM, NVLink4, one node", 4), None);
    }
}
