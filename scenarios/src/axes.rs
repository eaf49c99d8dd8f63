//! The table `[sweep]`: paths of the scenario, and the values that each takes in turn.

use crate::error::Result;
use crate::language::{Field, Raw, any, array, keys, map, raw};
use crate::problem::Problem;
use crate::set::Path;
use crate::tree::{Node, Value};

keys! { pub(crate) static KEYS =
    sweep: Raw = raw(|| map(array(any()).at_least(1))), "paths, as `--set` takes them, and the values of each: `zipwire run` runs the cross product";
}

/// Most points of a sweep.
pub(crate) const POINT_LIMIT: usize = 1_000_000;

/// A path and its values, at least one.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    /// The path as the scenario spells it.
    pub(crate) key: String,
    pub(crate) path: Path,
    pub(crate) values: Vec<Node>,
}

/// Takes the table out of the tree and reads it.
pub(crate) fn take(root: &mut Node) -> Result<Vec<Axis>> {
    let Value::Table(table) = &mut root.value else { unreachable!("a document is a table") };
    let name = KEYS.sweep.name;
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

/// Points of axes that [`take`] has read.
pub(crate) fn count(axes: &[Axis]) -> usize {
    axes.iter().map(|axis| axis.values.len()).product()
}
