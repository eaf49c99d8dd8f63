//! Shape of a cluster as the model of a library sees it: how many GPUs NVLink connects, how many such domains there are, and the
//! links of each.

/// Hardware of a cluster, nominal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hardware {
    /// Number of nodes.
    pub nodes: u32,
    /// GPUs of each node that take part.
    pub gpus_per_node: u32,
    /// Bytes per second of a GPU's link within the node, in each direction.
    pub gpu_bytes_per_s: f64,
    /// Bytes per second of all NICs together that these GPUs of a node use, in each direction.
    pub node_bytes_per_s: f64,
    /// GPUs that NVLink connects where these are those of several nodes, as in a rack; 0 if they are those of one node.
    pub nvlink_domain: u32,
}

/// Ranks in domains, within each of which NVLink (or whatever is in a node) connects them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Domains, at least 1.
    pub domains: u32,
    /// Ranks of each domain; of the mean one where they differ.
    pub ranks_per_domain: f64,
    /// All ranks.
    pub ranks: u32,
    /// Bytes per second of a GPU's link within its domain, in each direction.
    pub gpu_bytes_per_s: f64,
    /// Bytes per second of all NICs of a domain together, in each direction; infinite if there is one domain.
    pub domain_bytes_per_s: f64,
}

impl Hardware {
    /// The shape of a call among the first `ranks` ranks, at least 1 and at most all.
    pub fn shape(&self, ranks: u32) -> Shape {
        let gpus = self.gpus_per_node.max(1);
        let nodes = ranks.div_ceil(gpus).max(1);
        let nodes_per_domain = (self.nvlink_domain / gpus).clamp(1, nodes);
        let domains = nodes.div_ceil(nodes_per_domain);
        let domain_bytes_per_s = match domains {
            1 => f64::INFINITY,
            _ => self.node_bytes_per_s * f64::from(nodes) / f64::from(domains),
        };
        Shape {
            domains,
            ranks_per_domain: f64::from(ranks) / f64::from(domains),
            ranks,
            gpu_bytes_per_s: self.gpu_bytes_per_s,
            domain_bytes_per_s,
        }
    }

    /// Number of all ranks.
    pub fn ranks(&self) -> u32 {
        self.nodes * self.gpus_per_node
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rack(nodes: u32) -> Hardware {
        Hardware {
            nodes,
            gpus_per_node: 4,
            gpu_bytes_per_s: 900e9,
            node_bytes_per_s: 200e9,
            nvlink_domain: 72,
        }
    }

    #[test]
    fn a_rack_of_eighteen_nodes_is_one_domain_and_twenty_racks_are_twenty() {
        let one = rack(18).shape(72);
        assert_eq!((one.domains, one.ranks_per_domain), (1, 72.0));
        let twenty = rack(360).shape(1440);
        assert_eq!((twenty.domains, twenty.ranks_per_domain), (20, 72.0));
        assert_eq!(twenty.domain_bytes_per_s, 18.0 * 200e9);
    }

    #[test]
    fn nodes_are_domains_unless_something_else_is_said() {
        let hardware = Hardware { nvlink_domain: 0, ..rack(3) };
        let all = hardware.shape(hardware.ranks());
        assert_eq!((all.domains, all.ranks_per_domain, all.domain_bytes_per_s), (3, 4.0, 200e9));
        assert_eq!(hardware.shape(4).domains, 1);
    }
}
