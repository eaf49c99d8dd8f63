//! The plans of an adaptive variant, each made at most once.

use std::rc::Rc;

use zipwire_codec::{Spec, Table};
use zipwire_schedule::Plan;

use super::Arms;
use crate::ExecuteError;

/// Plans that are kept; the one that was not used for longest gives way.
const PLANS: usize = 32;

/// An arm for each segment, and whether statistics are exchanged.
pub(crate) type Key = (Vec<usize>, bool);

/// The plans of an adaptive variant.
pub(crate) struct Plans<'a, 'e> {
    pub(super) arms: &'a Arms<'e>,
    /// The table that frames name, in place of the scenario's.
    table: Option<Table>,
    /// The one used last is the last.
    kept: Vec<(Key, Rc<Plan>)>,
}

impl<'a, 'e> Plans<'a, 'e> {
    pub(crate) fn new(arms: &'a Arms<'e>) -> Self {
        Self { arms, table: None, kept: Vec::new() }
    }

    /// From now on, frames name this table.
    pub(crate) fn use_table(&mut self, table: &Table) {
        if self.table.as_ref() != Some(table) {
            self.table = Some(table.clone());
            self.kept.clear();
        }
    }

    /// The table that took the place of the scenario's.
    pub(crate) fn table(&self) -> Option<&Table> {
        self.table.as_ref()
    }

    pub(crate) fn get(&mut self, key: &Key) -> Result<Rc<Plan>, ExecuteError> {
        let found = self.kept.iter().position(|(other, _)| other == key);
        let entry = match found {
            Some(index) => self.kept.remove(index),
            None => (key.clone(), Rc::new(self.make(key)?)),
        };
        let plan = Rc::clone(&entry.1);
        self.kept.push(entry);
        if self.kept.len() > PLANS {
            self.kept.remove(0);
        }
        Ok(plan)
    }

    fn make(&self, key: &Key) -> Result<Plan, ExecuteError> {
        let mut plan = self.arms.valid_plan(&key.0, key.1)?;
        if let Some(table) = &self.table {
            // Lengths that a plan reserves depend on no table.
            let named = |spec: Spec| spec.without_table().with_table(table);
            let codec = plan.codec.take().map(named).transpose();
            plan.codec = codec.expect("it was calibrated by the codec");
        }
        Ok(plan)
    }
}
