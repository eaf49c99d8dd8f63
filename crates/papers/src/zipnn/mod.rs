//! ZipNN: sizes of models, of what training makes, and of differences between checkpoints.

mod clean;
mod deltas;
mod exponents;
mod training;
mod weights;

use crate::figure::Figure;

/// In the order of the sections.
pub(super) const FIGURES: &[Figure] =
    &[exponents::FIGURE, weights::FIGURE, clean::FIGURE, training::FIGURE, deltas::FIGURE];
