mod archives;
pub(crate) mod common;
mod damage;
mod formats;
mod layout;
#[cfg(unix)]
mod places;
mod releases;
mod whole;
