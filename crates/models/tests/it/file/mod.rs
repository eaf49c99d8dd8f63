mod archives;
mod common;
mod damage;
mod layout;
mod releases;
mod whole;
