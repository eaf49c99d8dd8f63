//! How well constants are known before anything is measured.

use zipwire_cluster::library::Constant;

/// How far a constant may be from that of its GPU's generation, as the standard deviation of its logarithm. Latencies differ by
/// hosts and networks; shares of links are the same for all of a generation, and those of NICs nearly so.
pub fn prior(constant: Constant) -> f64 {
    use Constant as C;
    match constant {
        C::LinkShare | C::TreeShare | C::NvlsShare | C::PairShare | C::PeerLinkShare | C::Ll128Share => 0.1,
        C::NicShare | C::TreeNicShare | C::PeerNicShare | C::TreeLl128Share | C::PeerChannelShare => 0.15,
        C::LlBandwidth
        | C::RingCrowd
        | C::Ll128Base
        | C::Ll128Step
        | C::SimpleBase
        | C::SimpleStep
        | C::OwnShare => 0.3,
        C::Launch
        | C::LlStep
        | C::LlNicShare
        | C::Lag
        | C::NvlsBase
        | C::NvlsStep
        | C::NvlsLag
        | C::NicLag
        | C::RingLlHop
        | C::RingLl128Hop
        | C::RingSimpleHop
        | C::TreeLlHop
        | C::TreeLl128Hop
        | C::TreeSimpleHop
        | C::NvlsTreeHop
        | C::SharpShare
        | C::PeerLlBase
        | C::PeerBase
        | C::PeerLlBandwidth
        | C::PeerLag
        | C::PeerHop => 0.7,
    }
}
