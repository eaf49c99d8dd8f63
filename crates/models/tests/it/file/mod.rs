mod archives;
pub(crate) mod common;
mod releases;
mod whole;
