//! New tables for the frames of an adaptive variant, where the one in use no longer serves its values.

use zipwire_codec::{Table, TableUsage};
use zipwire_payload::Payload;
use zipwire_scenarios::{Experiment, Variant};
use zipwire_schedule::Plan;
use zipwire_sim::{calibrated_table, table_fit};
use zipwire_traces::SwitcherTable;

use crate::{Cancel, ExecuteError};

/// The share of a rank's values that a table may miss more than it promised.
const TOLERANCE: f64 = 0.01;

/// Bytes that a rank tells about the table: values and those that it missed, 8 bytes each, and room for a new one, of 108 bytes at most, in whole words.
pub(super) const TABLE_BYTES: u64 = 8 + 8 + 112;

/// The table that frames share, in the course of a run: a stale one is noticed, and a new one takes its place.
/// Each rank knows from its frames how many of its values the table has not served. One for which these are too many calibrates a table from its own values,
/// and tells it in the exchange of statistics; so all ranks know it before its first frame, and take the one of the lowest such rank.
pub(super) struct Recalibration<'a> {
    payload: &'a Payload,
    cancel: &'a Cancel,
    /// The share that the table in use promises not to serve; of one that was calibrated on the way, what the rank that it serves worst missed when it was
    /// used first. `None` until then.
    promised: Option<f64>,
    pub(super) tables: Vec<SwitcherTable>,
}

/// Whether frames of the variant share a table that can become stale: they are frames of a payload, and not of a stated ratio.
pub(super) fn takes_new_tables(experiment: &Experiment, variant: &Variant) -> bool {
    promise(experiment, variant).is_some()
}

/// Share of values that the table of the variant is declared not to serve.
fn promise(experiment: &Experiment, variant: &Variant) -> Option<f64> {
    let is_coded = variant.arms.iter().any(Variant::is_coded);
    let choice = experiment.codec_of(variant).filter(|choice| is_coded && choice.ratio.is_none())?;
    choice.table_misses.filter(|_| experiment.payload.is_some())
}

impl<'a> Recalibration<'a> {
    /// For a variant to which it applies.
    pub(super) fn new(experiment: &'a Experiment, variant: &Variant, cancel: &'a Cancel) -> Option<Self> {
        let (promised, payload) = (promise(experiment, variant)?, experiment.payload.as_ref()?);
        Some(Self { payload, cancel, promised: Some(promised), tables: Vec::new() })
    }

    /// Looks at an iteration whose statistics were exchanged; the table of the iterations after it, if that is another one.
    pub(super) fn observe(&mut self, iteration: u32, plan: &Plan) -> Result<Option<Table>, ExecuteError> {
        let Some(spec) = &plan.codec else { return Ok(None) };
        let proceed = || !self.cancel.is_cancelled();
        let fits = table_fit(plan, spec, self.payload, proceed)?.ok_or(ExecuteError::Cancelled)?;
        let coded = || fits.iter().filter(|fit| fit.values() > 0);
        let Some(worst) = coded().map(TableUsage::missed).reduce(f64::max) else { return Ok(None) };
        let Some(promised) = self.promised else {
            self.promised = Some(worst);
            return Ok(None);
        };
        let is_stale = |fit: &TableUsage| fit.missed() > promised + TOLERANCE;
        let Some(rank) = fits.iter().position(is_stale) else { return Ok(None) };
        let Some(table) = calibrated_table(plan, spec, self.payload, rank)? else { return Ok(None) };
        if spec.table_id() == Some(table.id()) {
            // Nothing better is known.
            self.promised = Some(worst);
            return Ok(None);
        }
        self.tables.push(SwitcherTable {
            iteration: iteration + 1,
            id: format!("{:08x}", table.id()),
            rank: u32::try_from(rank).expect("ranks are counted in 32 bits"),
            missed: fits[rank].missed(),
            promised,
        });
        self.promised = None;
        Ok(Some(table))
    }
}
