//! Calibration: from logs of nccl-tests on a cluster to constants of the model of its communication library
//! ([`LibraryModel`](zipwire_cluster::library::LibraryModel)).
//!
//! [`parse_log`] reads one log, as text, JSON or CSV, to [`Series`]: one operation on one shape of cluster, over sizes. [`calibrate()`]
//! fits constants to many series of one cluster, says how well they are met, and says what looks wrong with them. [`HostConstants`] are those
//! of hosts, as probes measure them. Nothing here reads files or clocks: texts and numbers go in.

mod affine;
mod calibrate;
mod cluster_file;
mod error;
mod factor;
mod fit;
mod header;
mod hosts;
mod json;
mod label;
mod log;
mod rccl;
mod row;
mod run;
mod series;
mod site;

pub use affine::{AffineFit, Line};
pub use calibrate::{
    Calibration, Held, LARGE_BYTES, Score, calibrate, calibrate_few, check as check_health, score,
};
pub use cluster_file::{CLUSTER_FILE_MARK, cluster_file};
pub use error::{CalibrateError, LogError};
pub use fit::{Fit, fit};
pub use hosts::{Codec, HOSTS_FILE_MARK, HostConstants, Pair, Port, Sharing};
pub use log::{Given, Log, parse_log};
pub use series::{Nics, Point, Series};
pub use site::{Gpu, Site, site_of};
