//! The changes and the packages of a release.

use std::collections::BTreeSet;

use cargo_metadata::{DependencyKind, MetadataCommand};

const CHANGES: &str = include_str!("../../CHANGELOG.md");

#[test]
fn changes_name_the_version() {
    let version = env!("CARGO_PKG_VERSION");
    let heading = format!("\n## [{version}] - ");
    assert!(CHANGES.contains(&heading), "CHANGELOG.md has no `{}`", heading.trim());
    assert!(CHANGES.contains(&format!("\n[{version}]: ")), "CHANGELOG.md has no link for {version}");
}

/// Cells of a table's row that begins with `name`.
fn row(name: &str) -> Vec<&'static str> {
    let found = CHANGES.lines().find(|line| line.starts_with(&format!("| {name}")));
    found.unwrap_or_else(|| panic!("CHANGELOG.md has no row for {name}")).split(" | ").collect()
}

#[test]
fn changes_name_the_versions_of_formats() {
    let versions = [
        ("containers", u64::from(zipwire::codec::CONTAINER_VERSION)),
        ("tensors by themselves", u64::from(zipwire::models::tensor::TENSOR_VERSION)),
        ("compressed model files", zipwire::models::file::FORMAT_VERSION),
        ("groups of KV caches", u64::from(zipwire::kv::VERSION)),
        ("stores of checkpoints", zipwire::models::store::FORMAT_VERSION),
        ("profiles", u64::from(zipwire::profiles::PROFILE_VERSION)),
        ("advice", u64::from(zipwire::advice::ADVICE_VERSION)),
    ];
    for (name, version) in versions {
        let said = row(name)[1];
        assert_eq!(said.split(';').next(), Some(version.to_string().as_str()), "{name}: {said}");
    }
    let newest = format!("1; {} of codec `planes`", zipwire::codec::FRAME_VERSION);
    assert_eq!(row("frames")[1], newest);
}

/// A crate that is published and one that is not would not go together; and the version of a crate is the version that others ask for.
#[test]
fn packages_depend_on_packages() {
    let metadata = MetadataCommand::new().exec().expect("cargo knows the workspace");
    let packages = metadata.workspace_packages();
    // An empty list of registries means none.
    let kept = packages.iter().filter(|package| package.publish.as_ref().is_some_and(Vec::is_empty));
    let kept: BTreeSet<&str> = kept.map(|package| package.name.as_str()).collect();
    let expected = ["zipwire-c", "zipwire-emulation", "zipwire-nccl-shim", "zipwire-python"];
    assert_eq!(kept, BTreeSet::from(expected), "crates that are not published");
    for package in packages.iter().filter(|package| !kept.contains(package.name.as_str())) {
        let name = &package.name;
        assert!(
            package.description.is_some() && package.readme.is_some(),
            "{name} has no description or page"
        );
        for dependency in package.dependencies.iter().filter(|dependency| dependency.path.is_some()) {
            let (other, asked) = (&dependency.name, dependency.req.to_string());
            if dependency.kind == DependencyKind::Development && asked == "*" {
                // Cargo leaves it out of the package.
                continue;
            }
            assert!(!kept.contains(other.as_str()), "{name} depends on {other}, which is not published");
            assert_eq!(asked, format!("^{}", package.version), "{name} asks for another {other}");
        }
    }
}
