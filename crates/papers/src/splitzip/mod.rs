//! SplitZip: transfers of KV caches.

mod fp8;
mod inputs;
mod requests;
mod serving;
mod transfer;

use super::figure::Figure;

/// In the order of the abstract.
pub(super) const FIGURES: &[Figure] = &[inputs::FIGURE, transfer::FIGURE, requests::FIGURE, fp8::FIGURE];
