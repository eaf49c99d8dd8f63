//! Roles and tolerances of published numbers do not change without an entry in `roles.toml`, the log of such changes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use xxhash_rust::xxh3::xxh3_64;
use zipwire_papers::{Expected, Number, Paper};

/// Hash of the texts of all first roles but the late ones: no entry of the log changes them.
const FIRST: u64 = 14565617879894850871;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Log {
    first: BTreeMap<Paper, BTreeMap<String, String>>,
    change: Vec<Change>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    date: String,
    paper: Paper,
    numbers: Vec<String>,
    to: String,
    why: String,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/paper")
}

fn log() -> Log {
    toml::from_str(&fs::read_to_string(folder().join("roles.toml")).unwrap()).unwrap()
}

/// Role and tolerance as the log writes them.
fn role(number: &Number) -> String {
    let allowed = [
        ("tolerance", number.tolerance),
        ("within", number.within),
        ("gain_tolerance", number.gain_tolerance),
    ];
    let allowed = allowed.iter().find_map(|(key, value)| Some(format!(", {key} {:?}", (*value)?)));
    format!("{}{}", number.role.name(), allowed.unwrap_or_default())
}

/// Replays the log: roles by paper and id.
fn replayed(log: &Log) -> BTreeMap<Paper, BTreeMap<String, String>> {
    let mut roles = log.first.clone();
    for role in roles.values_mut().flat_map(BTreeMap::values_mut) {
        *role = role.trim_end_matches(", late").to_owned();
    }
    for Change { date, paper, numbers, to, why } in &log.change {
        assert!(date.len() == 10 && !why.is_empty() && !numbers.is_empty(), "{to}");
        for id in numbers {
            let role = roles.get_mut(paper).and_then(|roles| roles.get_mut(id));
            *role.unwrap_or_else(|| panic!("{date}: there is no number `{paper} {id}`")) = to.clone();
        }
    }
    roles
}

/// The number whose role differs from what the log comes to, or which only one of them has.
fn unlogged(expected: &Expected, log: &Log) -> Option<String> {
    let logged = replayed(log);
    for paper in Paper::ALL {
        let has: BTreeMap<String, String> =
            expected.of(paper).iter().map(|number| (number.id.clone(), role(number))).collect();
        let was = &logged[&paper];
        let differs = has.keys().chain(was.keys()).find(|id| has.get(*id) != was.get(*id));
        if let Some(id) = differs {
            return Some(format!("{paper} {id}: {:?}, in the log {:?}", has.get(id), was.get(id)));
        }
    }
    None
}

#[test]
fn no_role_changes_without_an_entry() {
    let expected = Expected::read(&folder()).unwrap();
    assert_eq!(unlogged(&expected, &log()), None, "add the change to `roles.toml`");
    // A change that nobody wrote down is seen.
    let text = fs::read_to_string(folder().join("expected.toml")).unwrap();
    let needs = "role = \"conditional\"\nneeds = \"a larger sample\"\n";
    let softened = text.replacen("role = \"prediction\"\ntolerance = 0.25\n", needs, 1);
    let wider = text.replacen("gain_tolerance = 0.2\n", "gain_tolerance = 0.3\n", 1);
    for (changed, id) in [(softened, "exponents-used"), (wider, "fig9-deepseek-16")] {
        let found = unlogged(&Expected::parse("e.toml", &changed).unwrap(), &log()).unwrap();
        assert!(found.contains(id), "{found}");
    }
}

#[test]
fn first_roles_stay_what_they_were() {
    let first = log().first;
    let roles = first.iter().flat_map(|(paper, roles)| roles.iter().map(move |(id, role)| (paper, id, role)));
    let early = roles.filter(|(.., role)| !role.ends_with(", late"));
    let rows = early.map(|(paper, id, role)| format!("{paper} {id} {role}\n"));
    assert_eq!(
        xxh3_64(rows.collect::<String>().as_bytes()),
        FIRST,
        "a new number is `late`, and what was first does not change"
    );
}
