//! Serving with ranks that are threads: caches of real bytes, decisions of the machine that simulations have, too.

mod ends;
mod moves;
mod paced;
mod scenes;
