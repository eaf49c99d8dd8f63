//! Constants that scenarios assume, how each was obtained, and how numbers depend on them: `constants.toml`, with the values that the scenarios really have.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use toml::Value;
use zipwire_runner::Cancel;
use zipwire_traces::read_text;

use crate::expected::LONGEST;
use crate::measure::Measure;
use crate::{Bench, Number, Paper, ReproduceError};

/// The file's name, in the folder of the papers' scenarios.
const FILE: &str = "constants.toml";

/// A constant of a paper's scenarios.
#[derive(Clone, Debug, Serialize)]
pub struct Constant {
    /// The scenarios that have it, themselves or from the preset that they name.
    pub files: Vec<String>,
    /// Where it is there, as `--set` takes it.
    pub path: String,
    /// Its value, as TOML.
    pub value: String,
    /// How it was obtained.
    pub origin: Origin,
    /// The source, or the way.
    pub how: String,
    /// Where it is in a table of a preset: a scenario can replace such a table as a whole only.
    #[serde(skip)]
    table: Option<PresetTable>,
}

/// A key of a preset whose value is a table.
#[derive(Clone, Debug)]
struct PresetTable {
    /// The key, as `--set` takes it.
    path: String,
    value: Value,
    /// Where the constant is in it.
    inner: String,
}

/// How a constant was obtained.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The paper says it.
    Quoted,
    /// It follows from what the paper says.
    Derived,
    /// The paper does not say it.
    Assumed,
    /// It was chosen so that published numbers come out.
    Fitted,
}

impl Origin {
    /// Its name in files and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Quoted => "quoted",
            Self::Derived => "derived",
            Self::Assumed => "assumed",
            Self::Fitted => "fitted",
        }
    }
}

impl Constant {
    /// Its value times `factor`, and what sets it; `None` if it is no quantity.
    pub(super) fn moved(&self, factor: f64) -> Option<(String, String)> {
        let moved = scaled(&self.value, factor)?;
        let set = match &self.table {
            Some(PresetTable { path, value, inner }) => {
                let mut table = value.clone();
                *entry_mut(&mut table, inner)? = Value::String(moved.clone());
                format!("{path}={table}")
            }
            None => format!("{}={moved}", self.path),
        };
        Some((moved, set))
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    files: Vec<String>,
    path: String,
    origin: Origin,
    how: String,
}

/// Why the constants of a paper are not known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are named by the messages")]
pub enum ConstantsError {
    #[error(
        "cannot read `{}`: {source}\nhelp: `--scenarios` names the folder of the papers' scenarios", path.display()
    )]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("`{}`: {message}", path.display())]
    Form { path: PathBuf, message: String },
    /// A constant that two files should share and do not.
    #[error(
        "`{path}` is {} in `{}` and {} in `{}`\nhelp: no figure has constants of its own: make them equal",
        values[0], files[0], values[1], files[1]
    )]
    Differs { path: String, files: [String; 2], values: [String; 2] },
    #[error("`{FILE}`: `{path}` is in no file\nhelp: name the scenarios that have it in `files`")]
    Nowhere { path: String },
    #[error("`{}` has no value at `{key}`\nhelp: `{FILE}` names it: correct `path` there", path.display())]
    Missing { path: PathBuf, key: String },
}

/// The constants of a paper's scenarios in `folder`.
pub(super) fn read(folder: &Path, paper: Paper) -> Result<Vec<Constant>, ConstantsError> {
    let mut entries: BTreeMap<Paper, Vec<Entry>> = parse(&folder.join(FILE))?;
    let mut documents = BTreeMap::new();
    let entries = entries.remove(&paper).unwrap_or_default();
    entries.into_iter().map(|entry| constant(folder, entry, &mut documents)).collect()
}

/// A constant with the value that all of its files have.
fn constant(
    folder: &Path,
    entry: Entry,
    documents: &mut BTreeMap<String, Value>,
) -> Result<Constant, ConstantsError> {
    let Entry { files, path, origin, how } = entry;
    let mut shared: Option<(&String, String)> = None;
    let mut table = None;
    for file in &files {
        let at = folder.join(file);
        if !documents.contains_key(file) {
            documents.insert(file.clone(), parse(&at)?);
        }
        let own = lookup(&documents[file], &path).map(|value| (value.to_string(), None));
        let found = own.or_else(|| of_preset(&documents[file], &path));
        let (value, found) = found.ok_or_else(|| ConstantsError::Missing { path: at, key: path.clone() })?;
        match &shared {
            Some((first, other)) if *other != value => {
                let files = [(*first).clone(), file.clone()];
                return Err(ConstantsError::Differs { path, files, values: [other.clone(), value] });
            }
            Some(_) => {}
            None => {
                shared = Some((file, value));
                table = found;
            }
        }
    }
    let Some((_, value)) = shared else { return Err(ConstantsError::Nowhere { path }) };
    Ok(Constant { files, path, value, origin, how, table })
}

pub(super) fn parse<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<T, ConstantsError> {
    let text = read_text(path, LONGEST)
        .map_err(|source| ConstantsError::Unreadable { path: path.to_owned(), source })?;
    toml::from_str(&text)
        .map_err(|error| ConstantsError::Form { path: path.to_owned(), message: error.to_string() })
}

/// The value of a key of `[cluster]` in the preset that the scenario names.
fn of_preset(scenario: &Value, path: &str) -> Option<(String, Option<PresetTable>)> {
    let (key, name) = (path.strip_prefix("cluster.")?, lookup(scenario, "cluster.preset")?.as_str()?);
    let preset = zipwire_scenarios::presets().iter().find(|preset| preset.name == name)?;
    let table: Value = toml::from_str(preset.text).ok()?;
    let value = lookup(&table, key)?.to_string();
    let within = key.split_once('.').and_then(|(outer, inner)| {
        let (path, value) = (format!("cluster.{outer}"), lookup(&table, outer)?.clone());
        Some(PresetTable { path, value, inner: inner.to_owned() })
    });
    Some((value, within))
}

/// The value at a dotted path of tables.
fn entry_mut<'v>(value: &'v mut Value, path: &str) -> Option<&'v mut Value> {
    path.split('.').try_fold(value, |value, key| value.as_table_mut()?.get_mut(key))
}

/// A number, or a quantity with its unit, times `factor`; `None` if it is neither.
fn scaled(value: &str, factor: f64) -> Option<String> {
    let text = value.trim_matches('"');
    let end = text.find(|sign: char| !sign.is_ascii_digit() && sign != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    // Products of decimal fractions, without the digits that binary ones add.
    let moved = format!("{:.9}", number.parse::<f64>().ok()? * factor);
    let moved = moved.trim_end_matches('0');
    let moved = if moved.ends_with('.') { format!("{moved}0") } else { moved.to_owned() };
    Some(format!("{moved}{unit}"))
}

/// The value at a dotted path; entries of arrays by their `name`.
fn lookup<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(value, |value, key| match value {
        Value::Table(table) => table.get(key),
        Value::Array(items) => {
            items.iter().find(|item| item.get("name").and_then(Value::as_str) == Some(key))
        }
        _ => None,
    })
}

/// How far each constant is moved: a fifth down and up, and every number that depends on it is measured again.
const FACTORS: [f64; 2] = [0.8, 1.2];

/// Numbers with constants changed. Simulations have one iteration here, and some fewer layers: only effects count.
#[derive(Clone, Debug, Serialize)]
pub struct Sensitivity {
    /// Ids of the numbers that depend on any fitted constant.
    pub numbers: Vec<String>,
    /// The numbers as they are.
    pub unchanged: Vec<f64>,
    /// A row for each constant and each factor.
    pub rows: Vec<Moved>,
}

/// The numbers with one constant moved.
#[derive(Clone, Debug, Serialize)]
pub struct Moved {
    /// The scenarios in which it was moved: all that have it.
    pub files: Vec<String>,
    /// Where the constant is.
    pub path: String,
    /// Factor of the change.
    pub factor: f64,
    /// Changed value of the constant.
    pub value: String,
    /// Numbers with that value.
    pub results: Vec<f64>,
}

/// Inputs of short runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Short<'a> {
    pub(super) folder: &'a Path,
    /// Files and what makes their runs shorter, beside a single iteration.
    pub(super) shorter: &'a [(&'a str, &'a str)],
    pub(super) cancel: &'a Cancel,
}

impl<'a> Short<'a> {
    fn bench(&self) -> Bench<'a> {
        Bench::of_short_runs(self.folder, self.cancel, self.shorter)
    }
}

pub(super) struct Subject<'a> {
    id: &'a str,
    measure: &'a Measure,
    /// The scenarios that it was simulated from.
    files: BTreeSet<String>,
    unchanged: f64,
}

/// Constants by how far they are moved, of which [`Sensitivity::measure`] announces each.
pub(super) fn moves(constants: &[Constant]) -> impl Iterator<Item = (&Constant, f64)> {
    let fitted = constants.iter().filter(|constant| constant.origin == Origin::Fitted);
    fitted.flat_map(|constant| FACTORS.map(|factor| (constant, factor)))
}

impl Sensitivity {
    /// Moves each fitted constant under what depends on it; `begin` is told which is next, from any thread. `None` if nothing was
    /// fitted.
    pub(super) fn measure(
        subjects: &[Subject<'_>],
        constants: &[Constant],
        short: &Short<'_>,
        begin: &(dyn Fn(&str) + Sync),
    ) -> Result<Option<Self>, ReproduceError> {
        if subjects.is_empty() {
            return Ok(None);
        }
        let moves: Vec<(&Constant, f64)> = moves(constants).collect();
        let rows = moves.into_par_iter().map(|(constant, factor)| {
            begin(&constant.path);
            let Some((value, set)) = constant.moved(factor) else { return Ok(None) };
            let bench = short.bench().with_moved(&constant.files, set);
            let results = subjects.iter().map(|subject| subject.measure(constant, &bench));
            let results = results.collect::<Result<_, ReproduceError>>()?;
            let (files, path) = (constant.files.clone(), constant.path.clone());
            Ok(Some(Moved { files, path, factor, value, results }))
        });
        // Of several errors the first one, whichever was found first.
        let rows: Vec<Result<Option<Moved>, ReproduceError>> = rows.collect();
        let rows = rows.into_iter().filter_map(Result::transpose).collect::<Result<_, _>>()?;
        Ok(Some(Self {
            numbers: subjects.iter().map(|subject| subject.id.to_owned()).collect(),
            unchanged: subjects.iter().map(|subject| subject.unchanged).collect(),
            rows,
        }))
    }
}

/// The numbers whose scenarios have constants that are moved.
pub(super) fn subjects<'a>(
    numbers: &'a [Number],
    constants: &[Constant],
    short: &Short<'_>,
) -> Result<Vec<Subject<'a>>, ReproduceError> {
    let bench = short.bench();
    let mut subjects = Vec::new();
    for (id, measure) in numbers.iter().filter_map(|number| Some((&number.id, number.measure.as_ref()?))) {
        bench.proceed()?;
        let ours = measure.ours(&bench)?.value;
        let files = bench.take_used();
        let is_moved = moves(constants).any(|(constant, _)| has_any(&files, constant));
        if let Some(unchanged) = ours.filter(|_| is_moved) {
            subjects.push(Subject { id, measure, files, unchanged });
        }
    }
    Ok(subjects)
}

fn has_any(files: &BTreeSet<String>, constant: &Constant) -> bool {
    constant.files.iter().any(|file| files.contains(file))
}

impl Subject<'_> {
    /// The number on a bench on which `constant` is moved.
    fn measure(&self, constant: &Constant, bench: &Bench<'_>) -> Result<f64, ReproduceError> {
        if !has_any(&self.files, constant) {
            return Ok(self.unchanged);
        }
        bench.proceed()?;
        let ours = self.measure.ours(bench)?.value;
        Ok(ours.expect("the number has a value, whatever its constants are"))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use zipwire_scenarios::{Source, load};

    use super::*;

    #[test]
    fn values_are_those_of_the_scenarios() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/paper");
        let constants = read(&folder, Paper::SplitZip).unwrap();
        let value =
            |path: &str| constants.iter().find(|constant| constant.path == path).unwrap().value.clone();
        assert_eq!(value("codec.speed.encode"), "\"613.3 GB/s\"");
        assert_eq!(value("codec.ratio"), "1.328");
        assert_eq!(value("variant.pipelined.parts"), "32");
        for paper in Paper::ALL {
            read(&folder, paper).unwrap_or_else(|error| panic!("{paper}: {error}"));
        }
    }

    #[test]
    fn quantities_keep_their_units() {
        assert_eq!(scaled("\"18 GB/s\"", 1.2).unwrap(), "21.6 GB/s");
        assert_eq!(scaled("16.0", 0.8).unwrap(), "12.8");
        assert_eq!(scaled("\"2.5 ms\"", 0.8).unwrap(), "2.0 ms");
        assert_eq!(scaled("\"none\"", 0.8), None);
    }

    /// A constant in a table of a preset is moved there, and nothing else of the table.
    #[test]
    fn all_fitted_constants_can_be_moved() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/paper");
        for constant in read(&folder, Paper::ZipCcl).unwrap() {
            if constant.origin != Origin::Fitted {
                continue;
            }
            let (value, set) =
                constant.moved(1.2).unwrap_or_else(|| panic!("{} is no quantity", constant.path));
            for file in &constant.files {
                let source = Source::read(&folder.join(file)).unwrap();
                load(&source, std::slice::from_ref(&set), None).unwrap_or_else(|error| panic!("{error}"));
            }
            assert!(set.contains(&value), "{set}");
        }
    }

    #[test]
    fn mistakes_are_named_with_their_file() {
        let folder = tempfile::tempdir().unwrap();
        let error = |list: &str| {
            fs::write(folder.path().join(FILE), list).unwrap();
            let message = read(folder.path(), Paper::Lmc).unwrap_err().to_string();
            message.replace(&folder.path().display().to_string(), "DIR")
        };
        let entry = |path: &str| {
            format!(
                "[[lmc]]\nfiles = [\"a.toml\", \"b.toml\"]\npath = \"{path}\"\norigin = \"fitted\"\nhow = \"h\"\n"
            )
        };
        assert!(error(&entry("b")).starts_with("cannot read `DIR/a.toml`: "));
        fs::write(folder.path().join("a.toml"), "b = [{ name = \"c\", d = 1 }]\n").unwrap();
        assert_eq!(
            error(&entry("b.x.d")),
            "`DIR/a.toml` has no value at `b.x.d`\nhelp: `constants.toml` names it: correct `path` there"
        );
        assert!(error("[[lmc]]\n").starts_with("`DIR/constants.toml`: TOML parse error at line 1"));
        fs::write(folder.path().join("b.toml"), "b = [{ name = \"c\", d = 2 }]\n").unwrap();
        assert_eq!(
            error(&entry("b.c.d")),
            "`b.c.d` is 1 in `a.toml` and 2 in `b.toml`\nhelp: no figure has constants of its own: make them equal"
        );
        fs::write(folder.path().join("b.toml"), "b = [{ name = \"c\", d = 1 }]\n").unwrap();
        assert_eq!(read(folder.path(), Paper::Lmc).unwrap()[0].value, "1");
        assert!(
            error("[[lmc]]\nfiles = []\npath = \"b\"\norigin = \"fitted\"\nhow = \"h\"\n")
                .contains("`b` is in no file")
        );
    }
}
