//! ZipCCL: collectives of training.

mod codec;
mod fig10;
mod fig14;
mod fig8;
mod fig9;
mod sensitivity;
mod table1;
mod training;
mod window;

use super::figure::Figure;

pub(super) use sensitivity::SUBJECT;

/// In the order of the paper.
pub(super) const FIGURES: &[Figure] = &[
    codec::FIGURE,
    table1::FIGURE,
    window::FIGURE,
    fig8::FIGURE,
    fig9::FIGURE,
    fig10::FIGURE,
    fig14::FIGURE,
];
