mod common;
mod damage;
mod history;
mod releases;
