//! Whether what has come to a rank is what was sent: sizes, findings of decoders, and at last all values.

use zipwire_kernels::Decoder;
use zipwire_schedule::machine::Machine;
use zipwire_schedule::plan::{Batch, Local, OpKind};
use zipwire_schedule::{Failure, FailureKind, OpId, SizeId};

use super::backend::CudaBackend;
use crate::run_program::failure;

impl CudaBackend<'_> {
    /// No size is larger than what it is the size of: what follows relies on it.
    pub(super) fn check_sizes(
        &self,
        machine: &Machine,
        op: OpId,
        sizes: &[(SizeId, u64)],
    ) -> Result<(), Failure> {
        let capacity = |size: SizeId| self.device_state().capacities[size.index()];
        let Some(&(size, value)) = sizes.iter().find(|(size, value)| *value > capacity(*size)) else {
            return Ok(());
        };
        let (kind, whose) = match &machine.op(op).kind {
            OpKind::Local(Local::Encode(_)) => (FailureKind::Device, "its encoder wrote".to_owned()),
            OpKind::Compute(_) | OpKind::Library(_) | OpKind::Local(_) => {
                unreachable!("only encoders and exchanges define sizes")
            }
            OpKind::Exchange(exchange) => {
                let peer = exchange.receives.iter().find(|receive| receive.content.brings() == Some(size));
                let peer = peer.expect("exchanges define the sizes that they receive").peer;
                (FailureKind::Corrupt, format!("rank {peer} announces"))
            }
        };
        let detail = format!("{whose} a section of {value} bytes where {} have room", capacity(size));
        Err(failure(machine, Some(op), kind, detail))
    }

    /// Fails if a decoder of the batch has reported a fault.
    pub(super) fn check_frames(&self, machine: &Machine, op: OpId, batch: &Batch) -> Result<(), Failure> {
        let report = self.device_state().op(op).report.as_ref().expect("decoders report");
        let mut states = vec![0; usize::try_from(report.to.len()).expect("it is in memory")];
        report.to.read(0, &mut states);
        let faults = Decoder::faults(&states);
        match batch.blocks.iter().zip(faults).find_map(|(block, fault)| Some((block, fault?))) {
            None => Ok(()),
            Some((block, fault)) => {
                let detail = format!("the frame from rank {}: {fault}", block.chunk.origin);
                Err(failure(machine, Some(op), FailureKind::Corrupt, detail))
            }
        }
    }

    /// Compares what this rank has received with what was sent. Waits for the device, which has nothing else to do.
    pub(super) fn finish(&mut self, machine: &Machine) -> Result<(), Failure> {
        let _span = tracing::info_span!("check").entered();
        for received in &self.device_state().samples.received {
            let bytes = received.kept.read().map_err(|error| self.broken(received.consumer, &error))?;
            if let Some(offset) = self.payload.mismatch(received.chunk.id, &bytes) {
                return Err(self.failure_report.altered(machine, received.consumer, &received.chunk, offset));
            }
            self.bytes_verified += received.kept.len();
        }
        Ok(())
    }
}
