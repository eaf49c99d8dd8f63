mod archives;
mod common;
mod releases;
mod whole;
