//! `[codec]`: which codec the coded variants use, and what it costs.

use std::ops::RangeInclusive;

use zipwire_cluster::CodecCost;
use zipwire_codec::{Spec, SpecError};
use zipwire_traces::{TableFileError, parse_table};

use crate::cluster::codec_speed::{self, CodecSpeeds, DeclaredSpeed};
use crate::cluster::{Preset, presets};
use crate::error::Result;
use crate::files::Files;
use crate::language::{Field, Schema, custom, keys, names, one_of, pattern, schema, table, text};
use crate::problem::{Problem, TableProblem};
use crate::tree::Place;

/// A codec, its declared cost and, if stated, its ratio.
#[derive(Clone, Debug, PartialEq)]
pub struct CodecChoice {
    /// The codec, for real runs and for sizes; with the table that its frames share, if they do.
    pub spec: Spec,
    /// The share of values that this table does not serve, by its file.
    pub table_misses: Option<f64>,
    /// Time of encoding and decoding, by size.
    pub cost: CodecCost,
    /// How that is known, if the cluster says it and not the scenario.
    pub declared: Option<DeclaredSpeed>,
    /// Raw bytes over coded bytes. If given, simulations use it for every chunk and code no payload.
    pub ratio: Option<f64>,
}

/// Stated ratios of raw to coded bytes. Frames are never longer than their values, but for some bytes.
const RATIO_LIMITS: RangeInclusive<f64> = 1.0..=1e4;

keys! { pub(crate) static KEYS =
    id: Spec = custom(read_spec, spec_schema), "the codec of the coded variants; options follow a colon: `window7:scale=std`; `dedup:row=N+` in front leaves out repeated rows, `delta+` in front of `rans` or `tiered` codes differences from `base` of the payload", needed = "\"window7\"";
    table: String = text(), "file of a table that all frames share, from `zipwire calibrate table`: a code book of `codebook16`, frequencies of `rans`; each frame has its own by default", example = "\"FILE.json\"";
    speed: CodecCost = custom(codec_speed::read_cost, || table(codec_speed::COST.all)), "declared speed of encoding and decoding; what the cluster's `codec_speed` says by default";
    ratio: f64 = custom(read_ratio, ratio_schema), "raw bytes over coded bytes; measured on the payload by default";
}

/// Reads the table; also gives the place of its header. `speeds` are those of the cluster.
pub(crate) fn read(field: &Field<'_>, speeds: &CodecSpeeds, files: &Files) -> Result<(CodecChoice, Place)> {
    let table = field.table(KEYS.all)?;
    let spec = table.need(KEYS.id)?;
    let (spec, table_misses) = match table.field(KEYS.table) {
        Some(file) => with_table(spec, &file, files)?,
        None if spec.table_id().is_some() => {
            let problem = TableProblem::Nowhere { codec: spec.to_string() };
            return Err(problem.at(table.need_field(KEYS.id)?.place()));
        }
        None => (spec, None),
    };
    let (cost, declared) = match table.get(KEYS.speed)? {
        Some(cost) => (cost, None),
        None => {
            let declared = speeds.get(spec.codec().id()).ok_or_else(|| {
                table.error(Problem::NoCodecSpeed { codec: spec.to_string(), presets: presets_with(&spec) })
            })?;
            (declared.cost, Some(declared.clone()))
        }
    };
    let ratio = table.get(KEYS.ratio)?;
    Ok((CodecChoice { spec, table_misses, cost, declared, ratio }, field.place()))
}

/// A stated ratio.
pub(crate) fn read_ratio(field: &Field<'_>) -> Result<f64> {
    match field.number(0.0..=1.0) {
        Ok(value) if value < 1.0 => {
            let remedy = "1 at least: a codec sends values as they are where it cannot make them shorter";
            Err(field.out_of_range(value, remedy))
        }
        _ => field.number(RATIO_LIMITS),
    }
}

pub(crate) fn ratio_schema() -> Schema {
    schema::number(RATIO_LIMITS)
}

/// Ids of all codecs, also those of papers.
pub(crate) fn ids() -> impl Iterator<Item = &'static str> {
    zipwire_paper_codecs::register();
    Spec::ids()
}

/// The spec with this text.
pub(crate) fn parse(text: &str) -> std::result::Result<Spec, SpecError> {
    zipwire_paper_codecs::register();
    text.parse()
}

fn read_spec(field: &Field<'_>) -> Result<Spec> {
    // What chunks are made of is not the same in all workloads, so the spec must say itself what a row is. What they differ from is the
    // payload's to say, and what is in a table, another key's.
    let complete = |spec: Spec| match spec.clone().complete() {
        Err(SpecError::NoBase { .. } | SpecError::NoTable { .. }) => Ok(spec),
        other => other,
    };
    parse(field.string()?).and_then(complete).map_err(|error| {
        field.error(match error {
            SpecError::UnknownId { id, .. } => {
                let valid = ids().map(str::to_owned).collect();
                Problem::UnknownName { what: "codec", name: id, valid }
            }
            other => Problem::Codec(other),
        })
    })
}

/// The codec with the table of a file, and what that promises.
fn with_table(spec: Spec, file: &Field<'_>, files: &Files) -> Result<(Spec, Option<f64>)> {
    let name = file.string()?;
    let path = files.path(name);
    let unreadable = |source| TableProblem::File(TableFileError::Read { path: path.clone(), source });
    let text = files.text(name).map_err(|source| unreadable(source).at(file.place()))?;
    let read = parse_table(text.text.as_bytes(), &path)
        .map_err(|error| TableProblem::File(error).at(file.place()))?;
    let spec = spec.with_table(&read.table).map_err(|error| TableProblem::Codec(error).at(file.place()))?;
    Ok((spec, Some(read.promise())))
}

/// Names of the presets that say how fast the codec is.
fn presets_with(spec: &Spec) -> Vec<&'static str> {
    let id = spec.codec().id();
    let has_it = |preset: &&Preset| preset.codec_speeds().is_ok_and(|speeds| speeds.contains_key(id));
    presets().iter().filter(has_it).map(|preset| preset.name).collect()
}

fn spec_schema() -> Schema {
    // Which options a codec has, and what is in front of it, is the codec's matter.
    let all: Vec<_> = ids().collect();
    let behind = |prefix: &str| {
        let can_be = |id: &&str| format!("{prefix}+{id}").parse::<Spec>().is_ok();
        let ids: Vec<_> = ids().filter(can_be).collect();
        format!("^{prefix}(:[^+]*)?\\+({})(:|$)", ids.join("|"))
    };
    let with_options = std::iter::once(format!("^({}):", all.join("|"))).chain(Spec::prefixes().map(behind));
    one_of([names(all), pattern(&with_options.collect::<Vec<_>>().join("|"))])
}
