//! Who computes: how far it has come, while codecs and transfers take their part of the GPU.

use zipwire_cluster::{Progress, Slowdown};

/// What an instance does, or one rank of it, and what disturbs that.
#[derive(Clone, Debug, Default)]
pub struct Computing {
    progress: Option<Progress>,
    /// Groups of layers that are left of a chunk, each with its seconds, the next one last.
    left_s: Vec<f64>,
    coding: u32,
    moving: u32,
    /// Events of earlier versions mean nothing.
    version: u32,
}

impl Computing {
    /// Begins with parts of so many seconds; when the first one ends, and under which version.
    pub fn begin(&mut self, now_s: f64, mut parts_s: Vec<f64>, slowdown: &Slowdown) -> (f64, u32) {
        parts_s.reverse();
        self.left_s = parts_s;
        self.next(now_s, slowdown).expect("there is a part")
    }

    /// Begins with the next part, if there is one.
    pub fn next(&mut self, now_s: f64, slowdown: &Slowdown) -> Option<(f64, u32)> {
        self.version += 1;
        self.progress = None;
        let seconds = self.left_s.pop()?;
        let progress = Progress::begin(now_s, seconds, self.factor(slowdown));
        self.progress = Some(progress);
        Some((progress.end_s(), self.version))
    }

    /// Whether an event of this version is that of the part that is computed.
    pub fn is_current(&self, version: u32) -> bool {
        self.version == version && self.progress.is_some()
    }

    /// What else is going on has changed; the new end of the part, if it has another one.
    pub fn disturb(
        &mut self,
        now_s: f64,
        coding: i32,
        moving: i32,
        slowdown: &Slowdown,
    ) -> Option<(f64, u32)> {
        self.coding = self.coding.checked_add_signed(coding).expect("what ends has begun");
        self.moving = self.moving.checked_add_signed(moving).expect("what ends has begun");
        let factor = self.factor(slowdown);
        let progress = self.progress.as_mut()?;
        let before_s = progress.end_s();
        progress.change(now_s, factor);
        if progress.end_s() == before_s {
            return None;
        }
        self.version += 1;
        Some((progress.end_s(), self.version))
    }

    fn factor(&self, slowdown: &Slowdown) -> f64 {
        slowdown.factor(self.coding > 0, self.moving > 0)
    }
}
