//! Constants of hosts as probes measure them, and the file of `[cluster]` with them.

use serde::Serialize;

use crate::Line;
use crate::cluster_file::significant;

/// Text in the first line of every file of hosts.
pub const HOSTS_FILE_MARK: &str = "measured by probes";

/// Ports that differ from the median by more than this have a bandwidth of their own in a file.
const DIFFERS: f64 = 0.05;

/// Constants of hosts as probes measured them.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HostConstants {
    /// Nodes that ranks were on.
    pub nodes: u32,
    /// Ranks of each node.
    pub gpus_per_node: u32,
    /// NICs of a node.
    pub nics_per_node: u32,
    /// Nodes below each leaf switch, if there are such.
    pub nodes_per_leaf: Option<u32>,
    /// Two ranks of one node; `None` if no node has two.
    pub intra: Option<Pair>,
    /// Two ranks of different nodes; `None` if there is one node.
    pub inter: Option<Pair>,
    /// Bytes per second that all ranks of a node send to one another at the same time; `None` if no node has two.
    pub host_bytes_per_s: Option<f64>,
    /// NICs, node by node.
    pub nics: Vec<Port>,
    /// Bytes per second from one leaf switch to another, of all nodes below; `None` without leaves.
    pub uplink_bytes_per_s: Option<f64>,
    /// How several streams share a port.
    pub sharing: Vec<Sharing>,
    /// Seconds of an exchange of all ranks with next to no bytes, beyond those of one message.
    pub launch_s: f64,
    /// Codecs, while all ranks code.
    pub codecs: Vec<Codec>,
    /// Bytes per second that a rank reads where it adds values up, while all do.
    pub reduce_bytes_per_s: Option<f64>,
    /// Bytes per second that rank 0 copies in memory while all other ranks are idle.
    pub copy_bytes_per_s: f64,
    /// Remarks of the probes.
    pub notes: Vec<String>,
}

/// A message between two ranks that do nothing else.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Pair {
    /// Sending rank.
    pub src: u32,
    /// Receiving rank.
    pub dst: u32,
    /// Seconds of a short message.
    pub alpha_s: f64,
    /// Line through the times of long messages; its slope is the bandwidth.
    pub line: Line,
    /// The shortest and the longest of these, in bytes.
    pub bytes: (u64, u64),
}

/// Both ways of a NIC, in bytes per second.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Port {
    /// Its number in the cluster.
    pub nic: u32,
    /// Away from the node.
    pub up_bytes_per_s: f64,
    /// Towards the node.
    pub down_bytes_per_s: f64,
}

/// Several streams at one port, against one alone.
#[derive(Clone, Debug, Serialize)]
pub struct Sharing {
    /// Senders and receivers, in words.
    pub what: String,
    /// Bytes per second of all streams together.
    pub bytes_per_s: f64,
    /// Bytes per second of one stream alone.
    pub alone_bytes_per_s: f64,
}

/// Speeds of a codec.
#[derive(Clone, Debug, Serialize)]
pub struct Codec {
    /// Its identifier.
    pub id: String,
    /// Encoding, by bytes of values.
    pub encode: Line,
    /// Decoding, by bytes of values.
    pub decode: Line,
}

impl HostConstants {
    /// The least bandwidth that is above half of the NICs' ways, and none if there are no NICs.
    fn nic_median(&self) -> Option<f64> {
        let mut ways: Vec<f64> =
            self.nics.iter().flat_map(|port| [port.up_bytes_per_s, port.down_bytes_per_s]).collect();
        ways.sort_by(f64::total_cmp);
        ways.get(ways.len() / 2).copied()
    }

    /// Bandwidth of a rank's link: what it reaches within its node, or, where it is alone there, no less than its NIC.
    fn gpu_bytes_per_s(&self) -> f64 {
        let ways = self.nics.iter().flat_map(|port| [port.up_bytes_per_s, port.down_bytes_per_s]);
        self.intra.map_or_else(|| ways.fold(0.0, f64::max), |pair| pair.line.bytes_per_s)
    }

    /// The file, with the source of each constant as a comment.
    pub fn file(&self) -> String {
        let mut lines = vec![
            format!(
                "# {} x {} ranks as processes, {HOSTS_FILE_MARK}; any number of nodes by `nodes`.",
                self.nodes, self.gpus_per_node
            ),
            String::new(),
            format!("nodes = {}", self.nodes),
            format!("gpus_per_node = {}", self.gpus_per_node),
            format!("nics_per_node = {}", self.nics_per_node),
        ];
        lines.extend(self.topology());
        lines.push(if self.intra.is_some() {
            "# Two ranks of a node, long messages.".to_owned()
        } else {
            "# No node has two ranks: as fast as the fastest NIC.".to_owned()
        });
        lines.push(format!("gpu_bandwidth = \"{}\"", bandwidth(self.gpu_bytes_per_s())));
        lines.push("# Short messages.".to_owned());
        let alpha = |pair: Option<Pair>| pair.map_or(0.0, |pair| pair.alpha_s);
        lines.push(format!("latency_intra = \"{}\"", time(alpha(self.intra.or(self.inter)))));
        if let (Some(inter), Some(median)) = (self.inter, self.nic_median()) {
            lines.push(format!("latency_inter = \"{}\"", time(inter.alpha_s)));
            lines.push("# The median of both ways of all NICs.".to_owned());
            lines.push(format!("nic_bandwidth = \"{}\"", bandwidth(median)));
            lines.extend(self.links(median));
        }
        lines.push("# An exchange of all ranks beyond its longest message.".to_owned());
        lines.push(format!("launch = \"{}\"", time(self.launch_s)));
        if let Some(reduce) = self.reduce_bytes_per_s {
            lines.push(format!("reduce = \"{}\"", bandwidth(reduce)));
        }
        for Codec { id, encode, decode } in &self.codecs {
            lines.extend([
                String::new(),
                format!("[codec_speed.{id}]"),
                format!("encode = \"{}\"", bandwidth(encode.bytes_per_s)),
                format!("decode = \"{}\"", bandwidth(decode.bytes_per_s)),
                format!("launch = \"{}\" # the mean of both", time((encode.alpha_s + decode.alpha_s) / 2.0)),
                "basis = \"measured\"".to_owned(),
                "source = \"zipwire calibrate probe: all ranks at the same time\"".to_owned(),
            ]);
        }
        lines.push(String::new());
        lines.join("\n")
    }

    /// Topology, where it limits anything.
    fn topology(&self) -> Vec<String> {
        if let Some(nodes) = self.nodes_per_leaf {
            let below = self.nic_median().unwrap_or(0.0) * f64::from(nodes * self.nics_per_node);
            // What nodes do not fill is not known to be any narrower than they are.
            let uplink = self.uplink_bytes_per_s.filter(|uplink| *uplink < (1.0 - DIFFERS) * below);
            let uplink = uplink
                .map_or_else(String::new, |uplink| format!(", uplink_bandwidth = \"{}\"", bandwidth(uplink)));
            return vec![format!("topology = {{ kind = \"fat-tree\", nodes_per_leaf = {nodes}{uplink} }}")];
        }
        let all = f64::from(self.gpus_per_node) * self.gpu_bytes_per_s();
        let host = self.host_bytes_per_s.filter(|host| *host < (1.0 - DIFFERS) * all);
        host.map_or_else(Vec::new, |host| {
            let comment = "# All ranks of a node at the same time.".to_owned();
            let kind = format!("topology = {{ kind = \"nodes\", host_bandwidth = \"{}\" }}", bandwidth(host));
            vec![comment, kind]
        })
    }

    /// NICs that differ.
    fn links(&self, median: f64) -> Option<String> {
        let ways = self.nics.iter().flat_map(|port| {
            [("up", port.up_bytes_per_s), ("down", port.down_bytes_per_s)]
                .map(|(way, bytes_per_s)| (port.nic, way, bytes_per_s))
        });
        let differ = ways.filter(|(.., bytes_per_s)| (bytes_per_s / median - 1.0).abs() > DIFFERS);
        let links: Vec<String> = differ
            .map(|(nic, way, bytes_per_s)| format!("\"nic {nic} {way}\" = \"{}\"", bandwidth(bytes_per_s)))
            .collect();
        (!links.is_empty()).then(|| format!("links = {{ {} }}", links.join(", ")))
    }
}

/// Within what files may say: what takes no time that a clock shows has no bandwidth that can be seen.
fn bandwidth(bytes_per_s: f64) -> String {
    format!("{} MB/s", significant(bytes_per_s.clamp(1.0, 1e18) / 1e6))
}

fn time(seconds: f64) -> String {
    format!("{} us", significant(seconds.max(0.0) * 1e6))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(bytes_per_s: f64) -> Pair {
        let line = Line { alpha_s: 0.0, bytes_per_s, r2: 1.0, residual_pct: 0.0 };
        Pair { src: 0, dst: 1, alpha_s: 1e-4, line, bytes: (1, 2) }
    }

    fn nics(ways: &[(f64, f64)]) -> Vec<Port> {
        let port =
            |(nic, &(up_bytes_per_s, down_bytes_per_s))| Port { nic, up_bytes_per_s, down_bytes_per_s };
        (0..).zip(ways).map(port).collect()
    }

    #[test]
    fn slow_ports_are_named_and_leaves_that_limit_nothing_are_not() {
        let constants = HostConstants {
            nodes: 3,
            gpus_per_node: 1,
            nics_per_node: 1,
            inter: Some(pair(25e6)),
            nics: nics(&[(25e6, 25.1e6), (25e6, 24.9e6), (5e6, 25e6)]),
            nodes_per_leaf: Some(1),
            uplink_bytes_per_s: Some(24.9e6),
            ..HostConstants::default()
        };
        let file = constants.file();
        assert!(file.contains("links = { \"nic 2 up\" = \"5 MB/s\" }"), "{file}");
        assert!(file.contains("gpu_bandwidth = \"25.1 MB/s\""), "{file}");
        assert!(file.contains("topology = { kind = \"fat-tree\", nodes_per_leaf = 1 }"), "{file}");
        let narrow = HostConstants { uplink_bytes_per_s: Some(10e6), ..constants };
        assert!(narrow.file().contains("uplink_bandwidth = \"10 MB/s\""));
    }

    #[test]
    fn a_host_that_cannot_move_what_all_of_its_ranks_can_is_a_limit() {
        let constants = HostConstants {
            nodes: 1,
            gpus_per_node: 4,
            nics_per_node: 1,
            intra: Some(pair(2e9)),
            host_bytes_per_s: Some(3e9),
            ..HostConstants::default()
        };
        assert!(constants.file().contains("host_bandwidth = \"3000 MB/s\""));
        let wide = HostConstants { host_bytes_per_s: Some(8e9), ..constants };
        assert!(!wide.file().contains("host_bandwidth"));
    }
}
