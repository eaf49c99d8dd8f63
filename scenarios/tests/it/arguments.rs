//! Errors besides those of scenarios and `--set`: places as numbers, colour, `--variant`, and folders.

use crate::common::{Folder, VALID, valid_with};
use insta::assert_snapshot;

#[test]
fn positions_are_those_of_the_argument() {
    let error = Folder::new().try_load(VALID, &["cluster.nodes=0"]).unwrap_err();
    assert_eq!((error.line(), error.column()), (None, Some(21)));
    assert_eq!(error.to_string(), "`--set cluster.nodes=0`: `cluster.nodes` is out of range: `0`");
    let text = valid_with("nodes = 2", "nodes = 0");
    let error = Folder::new().try_load(&text, &[]).unwrap_err();
    assert_eq!((error.line(), error.column()), (Some(4), Some(9)));
    assert_eq!(error.to_string(), "test.toml:4:9: `cluster.nodes` is out of range: `0`");
}

#[test]
fn unknown_variant() {
    let mut experiment = Folder::new().load(VALID);
    let names = ["native".to_owned(), "static".to_owned()];
    assert_snapshot!(experiment.select(&names).unwrap_err().render(false), @r"
    error: unknown variant `static`
     |
     | --variant native,static
     |                  ^^^^^^
     |
     = help: did you mean `static-first`? it must be one of `native` and `static-first`
    ");
    assert_eq!(experiment.variants.len(), 2, "a refused selection changes nothing");
}

#[test]
fn colour_is_only_added() {
    let error = Folder::new().try_load(VALID, &["cluster.nodes=0"]).unwrap_err();
    let (plain, coloured) = (error.render(false), error.render(true));
    assert!(!plain.contains('\u{1b}') && coloured.contains("\u{1b}["));
    let mut stripped = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        stripped.push_str(before);
        rest = after.split_once('m').unwrap().1;
    }
    assert_eq!(stripped + rest, plain);
}

#[test]
fn a_folder_is_no_scenario() {
    let folder = zipwire_scenarios::Source::read(std::path::Path::new("tests")).unwrap_err();
    assert!(folder.to_string().contains("cannot read `tests`"), "{folder}");
    assert_eq!(folder.problem().help().as_deref(), Some("name a file in it"));
}
