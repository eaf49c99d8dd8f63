//! What simulations in tests have in common.

use zipwire_cluster::{HostCost, NetworkModel, Topology, TransferStart};
use zipwire_schedule::{Capabilities, CostModel, Durations, Plan, Readiness, TransferOrder};
use zipwire_sim::{FrameSizes, Setup};

/// One iteration of an uncoded plan without host costs and faults, as an executor would run it that completes ops and lets
/// the machine order transfers.
pub(crate) fn setup<'a>(plan: &'a Plan, topology: &'a Topology, durations: &'a Durations) -> Setup<'a> {
    Setup {
        plan,
        topology,
        model: NetworkModel::MaxMin,
        start: TransferStart::Rendezvous,
        costs: CostModel { host: HostCost::default(), codec: None },
        sizes: FrameSizes::None,
        durations,
        iterations: 0..1,
        capabilities: Capabilities {
            readiness: Readiness::Completed,
            transfer_order: TransferOrder::Machine,
            timed: true,
        },
        faults: &[],
        fired: None,
        deadlines: None,
    }
}
