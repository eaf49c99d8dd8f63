mod archives;
pub(crate) mod common;
#[cfg(unix)]
mod places;
mod releases;
mod whole;
