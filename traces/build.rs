//! Tells the program's build script, by `DEP_ZIPWIRE_TRACES_FOLDER`, where the samples are that it carries: in the repository, or in this
//! crate's package.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::metadata=folder={}", std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"));
}
