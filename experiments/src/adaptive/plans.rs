//! The plans of an adaptive variant, each made at most once.

use std::rc::Rc;

use zipwire_schedule::Plan;

use super::Arms;
use crate::ExecuteError;

/// Plans that are kept; the one that was not used for longest gives way.
const PLANS: usize = 32;

/// An arm for each segment, and whether statistics are exchanged.
pub(crate) type Key = (Vec<usize>, bool);

/// See the module.
pub(crate) struct Plans<'a, 'e> {
    pub(super) arms: &'a Arms<'e>,
    /// The one used last is the last.
    kept: Vec<(Key, Rc<Plan>)>,
}

impl<'a, 'e> Plans<'a, 'e> {
    pub(crate) fn new(arms: &'a Arms<'e>) -> Self {
        Self { arms, kept: Vec::new() }
    }

    /// The plan of a choice, valid.
    pub(crate) fn get(&mut self, key: &Key) -> Result<Rc<Plan>, ExecuteError> {
        let found = self.kept.iter().position(|(other, _)| other == key);
        let entry = match found {
            Some(index) => self.kept.remove(index),
            None => (key.clone(), Rc::new(self.arms.valid_plan(&key.0, key.1)?)),
        };
        let plan = Rc::clone(&entry.1);
        self.kept.push(entry);
        if self.kept.len() > PLANS {
            self.kept.remove(0);
        }
        Ok(plan)
    }
}
