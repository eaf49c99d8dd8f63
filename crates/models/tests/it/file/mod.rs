mod archives;
mod common;
#[cfg(unix)]
mod places;
mod releases;
mod whole;
