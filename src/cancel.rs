//! Ctrl-C: one flag that every long loop looks at.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit code of a process that Ctrl-C stopped, as shells count it: 128 + SIGINT.
pub const STOPPED: u8 = 130;

/// Whether the user asked to stop. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// A flag that nothing sets but [`Self::cancel`].
    pub fn new() -> Self {
        Self::default()
    }

    /// A flag that Ctrl-C and SIGTERM set; a second one ends the process at once. To be called once per process.
    ///
    /// # Errors
    /// If the system refuses a signal handler.
    pub fn on_ctrl_c() -> Result<Self, ctrlc::Error> {
        let cancel = Self::new();
        let handler = cancel.clone();
        ctrlc::set_handler(move || {
            if handler.is_cancelled() {
                std::process::exit(STOPPED.into());
            }
            handler.cancel();
        })?;
        Ok(cancel)
    }

    /// Asks everything to stop.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether somebody asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The flag itself, for executors.
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }
}
