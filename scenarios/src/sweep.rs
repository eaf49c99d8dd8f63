//! `[sweep]`: the cross product of values for some paths of the scenario. A point of it is the scenario with one value for
//! each path.
//!
//! It runs nothing, and keeps no point: each is resolved when it is asked for.

use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_128;

use crate::error::{Result, ScenarioError};
use crate::experiment::{self, Experiment};
use crate::files::Files;
use crate::language::{Field, Raw, any, array, keys, map, raw};
use crate::origin::{Arguments, Source};
use crate::problem::Problem;
use crate::set::Path;
use crate::tree::{Document, Node, Place, Value};

/// Longest text of a value in an error, in characters.
const SHOWN: usize = 40;

/// A scenario with a sweep. Cheap to share between threads; files are read once.
#[derive(Debug)]
pub struct Sweep {
    arguments: Arc<Arguments>,
    /// The scenario without the sweep.
    root: Node,
    axes: Vec<Axis>,
    files: Files,
}

/// A scenario: one experiment, or the points of a sweep.
#[derive(Debug)]
pub enum Scenario {
    /// It has no `[sweep]`, or an empty one.
    One(Box<Experiment>),
    /// One experiment for each point.
    Sweep(Sweep),
}

/// Reads a scenario, with its sweep if it has one. Points are checked by [`Sweep::check`].
///
/// `sets` and `seed` are as for [`load`](crate::load); neither may set what a sweep does.
///
/// # Errors
/// A mistake in the scenario, or in the table of the sweep, with its place in the file or the argument.
pub fn open(source: &Source, sets: &[String], seed: Option<u64>) -> Result<Scenario> {
    let (arguments, files) = (Arguments::new(source, sets, &[], seed), Files::new(&source.base));
    let (mut root, paths) = experiment::parse(&arguments)?;
    let axes = take_axes(&mut root)?;
    if axes.is_empty() {
        let experiment = experiment::resolve(&root, &arguments, None, &files)?.experiment(&files);
        return Ok(Scenario::One(Box::new(experiment)));
    }
    check_paths(&root, &axes, &paths, seed)?;
    let sweep = Sweep { arguments, root, axes, files };
    sweep.base()?;
    Ok(Scenario::Sweep(sweep))
}

impl Scenario {
    /// The experiment, without the sweep if there is one.
    ///
    /// # Errors
    /// None once the scenario was opened, unless a file has changed since.
    pub fn base(&self) -> Result<Experiment> {
        match self {
            Self::One(experiment) => Ok((**experiment).clone()),
            Self::Sweep(sweep) => sweep.base(),
        }
    }

    /// The sweep, if it has one.
    pub fn into_sweep(self) -> Option<Sweep> {
        match self {
            Self::One(_) => None,
            Self::Sweep(sweep) => Some(sweep),
        }
    }
}

/// The sweep of a scenario, with files from disk or from a parcel, and without reading those that only the scenario without the sweep needs.
pub(crate) fn load_unchecked(arguments: &Arc<Arguments>, files: Files) -> Result<Option<Sweep>> {
    let (mut root, paths) = experiment::parse(arguments)?;
    let axes = take_axes(&mut root)?;
    if axes.is_empty() {
        return Ok(None);
    }
    check_paths(&root, &axes, &paths, arguments.seed)?;
    Ok(Some(Sweep { arguments: Arc::clone(arguments), root, axes, files }))
}

/// Nothing may be set that the sweep sets again at every point, by an argument or by the sweep itself.
fn check_paths(root: &Node, axes: &[Axis], sets: &[Path], seed: Option<u64>) -> Result<()> {
    let own: Vec<Vec<String>> = axes.iter().map(|axis| axis.path.canonical(root)).collect();
    for (index, axis) in axes.iter().enumerate() {
        if own[index + 1..].iter().any(|later| own[index].starts_with(later)) {
            let reason = "a later key of the sweep replaces it";
            return Err(Problem::NoEffect { path: axis.key.clone(), reason }.at(axis.path.place()));
        }
    }
    let reason = "the sweep replaces it at every point";
    for set in sets {
        let path = set.canonical(root);
        if own.iter().any(|axis| path.starts_with(axis)) {
            return Err(Problem::NoEffect { path: path.join("."), reason }.at(set.place()));
        }
    }
    if let Some(seed) = seed.filter(|_| own.iter().any(|axis| axis[..] == ["seed"])) {
        let document = Document::argument(format!("--seed {seed}"));
        let place = Place::new(&document, 0..document.text.len());
        return Err(Problem::NoEffect { path: "--seed".to_owned(), reason }.at(place));
    }
    Ok(())
}

impl Sweep {
    /// How many points there are, at least 1.
    pub fn point_count(&self) -> usize {
        count_points(&self.axes)
    }

    /// The paths that are set, as the scenario spells them, in its order.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.axes.iter().map(|axis| axis.key.as_str())
    }

    /// Values that a point sets, one per path. Points count from 0; the last path changes fastest.
    ///
    /// # Panics
    /// If there is no such point.
    pub fn values(&self, point: usize) -> Vec<serde_json::Value> {
        self.nodes(point).into_iter().map(Node::to_json).collect()
    }

    /// The scenario without the sweep.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn base(&self) -> Result<Experiment> {
        let files = self.files.for_another();
        experiment::resolve(&self.root, &self.arguments, None, &files)
            .map(|resolved| resolved.experiment(&files))
    }

    /// Whether a point is valid, without drawing its payload.
    ///
    /// # Errors
    /// The first thing that is wrong with it, with the value in the sweep that is to blame.
    ///
    /// # Panics
    /// If there is no such point.
    pub fn check(&self, point: usize) -> Result<()> {
        self.resolve(point).map(|_| ())
    }

    /// A point, resolved.
    ///
    /// # Errors
    /// See [`check`](Self::check).
    ///
    /// # Panics
    /// If there is no such point.
    pub fn point(&self, point: usize) -> Result<Experiment> {
        Ok(self.resolve(point)?.experiment(&self.files))
    }

    /// A hash of all that the points depend on: the scenario with what was set, the sweep, the seed, and every file that has
    /// been read. Files are read by [`check`](Self::check): it means all of them when all points were checked.
    pub fn digest(&self) -> String {
        let axes = self.axes.iter().map(|axis| {
            let values: serde_json::Value = axis.values.iter().map(Node::to_json).collect();
            (axis.key.clone(), values)
        });
        let axes: Vec<(String, serde_json::Value)> = axes.collect();
        let files = self.files.digests().into_iter().map(|(name, hash)| (name, format!("{hash:032x}")));
        let files: Vec<(String, String)> = files.collect();
        let text = serde_json::json!([self.root.to_json(), axes, self.arguments.seed, files]).to_string();
        format!("{:032x}", xxh3_128(text.as_bytes()))
    }

    fn resolve(&self, point: usize) -> Result<experiment::Resolved> {
        self.resolve_without(point, None).map_err(|error| self.explain(point, error))
    }

    /// A point in which one axis is left as it is without the sweep.
    fn resolve_without(&self, point: usize, left_out: Option<usize>) -> Result<experiment::Resolved> {
        let mut root = self.root.clone();
        let axes = self.axes.iter().zip(self.nodes(point)).enumerate();
        for (_, (axis, value)) in axes.filter(|(index, _)| Some(*index) != left_out) {
            axis.path.put(&mut root, value.clone())?;
        }
        experiment::resolve(&root, &self.arguments, Some(point), &self.files.for_another())
    }

    /// Says at which point something is wrong, and points at a value of the sweep: the one that is wrong itself, or the first
    /// without which all would be well.
    fn explain(&self, point: usize, error: ScenarioError) -> ScenarioError {
        let nodes = self.nodes(point);
        let blamed = if nodes.iter().any(|node| error.is_within(&node.place))
            || self.axes.iter().any(|axis| error.is_within(&axis.path.place()))
        {
            None
        } else {
            let cures = |index: &usize| self.resolve_without(point, Some(*index)).is_ok();
            Some(nodes[(0..nodes.len()).find(cures).unwrap_or(0)].place.clone())
        };
        let set =
            self.axes.iter().zip(&nodes).map(|(axis, node)| format!("`{} = {}`", axis.key, shown(node)));
        let set = set.collect::<Vec<_>>().join(", ");
        error.at_point(point + 1, self.point_count(), set, blamed)
    }

    fn nodes(&self, point: usize) -> Vec<&Node> {
        assert!(point < self.point_count(), "there is no point {point}");
        let mut rest = point;
        let mut nodes: Vec<&Node> = self
            .axes
            .iter()
            .rev()
            .map(|axis| {
                let node = &axis.values[rest % axis.values.len()];
                rest /= axis.values.len();
                node
            })
            .collect();
        nodes.reverse();
        nodes
    }
}

/// A value as it is written, on one line and not too long.
fn shown(node: &Node) -> String {
    let text = node.text().split_whitespace().collect::<Vec<_>>().join(" ");
    if text.chars().count() <= SHOWN {
        return text;
    }
    format!("{}...", text.chars().take(SHOWN).collect::<String>())
}

keys! { pub(crate) static AXES =
    sweep: Raw = raw(|| map(array(any()).at_least(1))), "paths, as `--set` takes them, and the values of each: `zipwire run` runs the cross product";
}

const POINT_LIMIT: usize = 1_000_000;

/// A path and its values, at least one.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    /// The path as the scenario spells it.
    pub(crate) key: String,
    pub(crate) path: Path,
    pub(crate) values: Vec<Node>,
}

/// Takes the table out of the tree and reads it.
pub(crate) fn take_axes(root: &mut Node) -> Result<Vec<Axis>> {
    let Value::Table(table) = &mut root.value else { unreachable!("a document is a table") };
    let name = AXES.sweep.name;
    let Some(index) = table.entries.iter().position(|entry| entry.key == name) else { return Ok(Vec::new()) };
    let entry = table.entries.remove(index);
    let place = entry.node.place.clone();
    let Value::Table(keys) = &entry.node.value else {
        let (path, found) = (name.to_owned(), entry.node.value.kind());
        return Err(Problem::WrongType { path, expected: "a table", found }.at(place));
    };
    let mut axes = Vec::with_capacity(keys.entries.len());
    for entry in &keys.entries {
        if let Value::Table(_) = &entry.node.value {
            return Err(Problem::BarePath { key: entry.key.clone() }.at(entry.key_place.clone()));
        }
        let path = Path::of_key(entry)?;
        let no_effect =
            |reason| Problem::NoEffect { path: entry.key.clone(), reason }.at(entry.key_place.clone());
        if path.first() == name {
            return Err(no_effect("a sweep does not change itself"));
        }
        if path.first() == "name" {
            return Err(no_effect("the points of a sweep are written to one folder, which it names"));
        }
        let field = Field::at(&format!("{name}.\"{}\"", entry.key), &entry.node);
        field.array()?;
        let Value::Array(values) = &entry.node.value else { unreachable!("it has just been read as one") };
        if values.is_empty() {
            return Err(field.error(Problem::out_of_range("the number of values", 0, "at least 1")));
        }
        axes.push(Axis { key: entry.key.clone(), path, values: values.clone() });
    }
    let count: u128 = axes.iter().map(|axis| axis.values.len() as u128).fold(1, u128::saturating_mul);
    if count > POINT_LIMIT as u128 {
        let (what, limits) = ("the number of points of the sweep", format!("at most {POINT_LIMIT}"));
        return Err(Problem::out_of_range(what, count, limits).at(place));
    }
    Ok(axes)
}

/// Points of axes that [`take_axes`] has read.
pub(crate) fn count_points(axes: &[Axis]) -> usize {
    axes.iter().map(|axis| axis.values.len()).product()
}
