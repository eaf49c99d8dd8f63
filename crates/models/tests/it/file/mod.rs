mod archives;
mod common;
mod releases;
mod whole;
mod znn;
