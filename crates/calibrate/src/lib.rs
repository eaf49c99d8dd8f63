//! Calibration: from logs of nccl-tests on a cluster to constants of the model of its communication library
//! ([`LibraryModel`](zipwire_cluster::library::LibraryModel)).
//!
//! [`parse_log`] reads one log, as text or as JSON, to [`Series`]: one operation on one shape of cluster, over sizes. [`calibrate()`]
//! fits constants to many series of one cluster, says how well they are met, and says what looks wrong with them. [`HostConstants`] are those
//! of hosts, as probes measure them. Nothing here reads files or clocks: texts and numbers go in.

mod affine;
mod calibrate;
mod cluster_file;
mod error;
mod fit;
mod gpu;
mod header;
mod health;
mod hosts;
mod json;
mod line;
mod linear;
mod log;
mod row;
mod score;
mod series;
mod site;
mod table;
mod text;

pub use affine::AffineFit;
pub use calibrate::{Calibration, Held, calibrate};
pub use cluster_file::{CLUSTER_FILE_MARK, cluster_file};
pub use error::{CalibrateError, LogError};
pub use fit::{Fit, fit};
pub use gpu::Gpu;
pub use health::check as check_health;
pub use hosts::{Codec, HOSTS_FILE_MARK, HostConstants, Pair, Port, Sharing};
pub use line::Line;
pub use log::{Given, Log, parse_log};
pub use score::{LARGE_BYTES, Score, score};
pub use series::{Nics, Point, Series};
pub use site::{Site, site_of};
