//! `--profile`: where this program spends its own time, as a Chrome trace for Perfetto.
//!
//! The spans are those of the crate `tracing`, wherever the program opens them. It is not the timeline of a run, whose times
//! are the cluster's.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tracing_chrome::{ChromeLayerBuilder, FlushGuard};
use tracing_subscriber::layer::SubscriberExt;

use zipwire::models::file::Output;

use crate::error::CliError;
use crate::threads;

/// A profile that is being recorded. The file appears under its name when it is complete; dropped before, it leaves nothing
/// behind.
pub(crate) struct Profile {
    path: PathBuf,
    output: Output,
    guard: FlushGuard,
    failure: Failure,
}

/// Begins of profiles: with a first span, and without any.
const BEGINS: [&[u8; 4]; 2] = [b"[\n{\"", b"[\n\n]"];

/// Why the file is not complete, if it is not.
type Failure = Arc<Mutex<Option<io::Error>>>;

impl Profile {
    /// Makes sure that `path` can be written and records every span from now on. To be called once per process.
    ///
    /// # Errors
    /// If the file cannot be written: bad usage.
    pub(crate) fn start(path: &Path) -> Result<Self, CliError> {
        let refused = |error: &dyn Display| {
            let path = path.display();
            CliError::Usage(format!(
                "cannot write profile `{path}`: {error}\nhelp: choose a writable file with `--profile`"
            ))
        };
        // What is renamed over would be gone.
        if path.exists() && !is_profile(path) {
            return Err(refused(&"it exists and is no profile"));
        }
        // It is written by a thread of its own, without which the layer would panic.
        threads::one_can_start().map_err(CliError::Threads)?;
        let output = Output::begin(path, true).map_err(|error| refused(&error))?;
        let file = output.file().try_clone().map_err(|error| refused(&error))?;
        let failure = Failure::default();
        let writer = Writer { file, failure: Arc::clone(&failure) };
        let (layer, guard) =
            ChromeLayerBuilder::new().writer(writer).include_args(true).include_locations(false).build();
        tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer))
            .expect("a process records one profile");
        Ok(Self { path: path.to_owned(), output, guard, failure })
    }

    /// Completes the file and gives it its name. All spans have ended.
    pub(crate) fn finish(self) -> Result<(), CliError> {
        let Self { path, output, guard, failure } = self;
        // Waits for the thread that writes.
        drop(guard);
        match failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(source) => Err(CliError::Profile { path, source }),
            None => Ok(output.finish()?),
        }
    }
}

/// Whether a file begins as profiles do.
fn is_profile(path: &Path) -> bool {
    let mut begin = [0; 4];
    path.is_file()
        && File::open(path).is_ok_and(|mut file| file.read_exact(&mut begin).is_ok())
        && BEGINS.contains(&&begin)
}

/// Keeps the first error to itself: the thread that writes would panic.
struct Writer {
    file: File,
    failure: Failure,
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if failure.is_none()
            && let Err(error) = self.file.write_all(bytes)
        {
            *failure = Some(error);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
