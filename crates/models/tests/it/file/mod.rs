mod archives;
pub(crate) mod common;
mod damage;
mod layout;
#[cfg(unix)]
mod places;
mod releases;
mod whole;
