//! `payload`: the bytes that transfers carry, for the compression ratio and for real runs.

use std::collections::HashMap;
use std::sync::Arc;

use zipwire_codec::DType;
use zipwire_payload::{Payload, Rows};
use zipwire_traces::TraceError;

use crate::error::Result;
use crate::files::Files;
use crate::problem::Problem;
use crate::reader::{Field, Reader};
use crate::schema::{Condition, Rule, Schema, names, number, one_of, optional, string, table};

/// Where the rows of the communication segments come from.
pub(crate) enum Rowset {
    /// Recorded rows, by position of their tensor.
    Recorded(Vec<Arc<Rows>>),
    /// Normally distributed values, drawn when everything else is known to be right.
    Gaussian { std: f64 },
    /// Random bits.
    Noise,
}

/// The payload that needs no number.
const NOISE: &str = "noise";

const SOURCES: &[&str] = &["file", "gaussian"];

/// Standard deviations that leave BF16 room on both sides.
const STD_LIMITS: std::ops::RangeInclusive<f64> = 1e-30..=1e30;

impl Rowset {
    /// Reads `payload`, in which a file needs `tensors`, the keys that name what calls carry; they are among `valid`, with
    /// `file` and `gaussian`. `dtypes` are those of the values that travel.
    pub(crate) fn read(
        field: &Field<'_>,
        valid: &'static [&'static str],
        tensors: &[&'static str],
        dtypes: &[DType],
        files: &Files,
    ) -> Result<Self> {
        let table = match field.as_string() {
            Some(_) => field.choice("payload", &[NOISE], |name| name).map(|_| None),
            None => field.table(valid).map(Some),
        }?;
        if let Some(dtype) = dtypes.iter().find(|dtype| **dtype != DType::Bf16) {
            return Err(field.error(Problem::PayloadType { dtype: dtype.name() }));
        }
        let Some(table) = table else { return Ok(Self::Noise) };
        let (source, value) = table.one_of(SOURCES)?;
        let is_tensor = |key: &&&str| !SOURCES.contains(key);
        if source == "file" {
            for &key in valid.iter().filter(is_tensor).filter(|key| !tensors.contains(key)) {
                table.refuse(key, "no call of the workload carries it")?;
            }
            return Self::recorded(&table, &value, tensors, files);
        }
        for &key in valid.iter().filter(is_tensor) {
            table.refuse(key, "the payload is drawn, not read from a file")?;
        }
        Ok(Self::Gaussian { std: value.number(STD_LIMITS)? })
    }

    /// What [`read`](Self::read) reads for the same `valid`, of which a file always needs `tensors`.
    pub(crate) fn schema(valid: &'static [&'static str], tensors: &'static [&'static str]) -> Schema {
        let tensor = |&key| optional(key, "name of the tensor whose rows the call carries", string());
        #[rustfmt::skip]
        let keys = [
            optional("file", "a safetensors file of BF16 values", string()),
            optional("gaussian", "standard deviation of values that are drawn", number(STD_LIMITS)),
        ];
        let all = valid.iter().filter(|key| !SOURCES.contains(key));
        let table = table(valid, keys.into_iter().chain(all.map(tensor)))
            .with_one_of(SOURCES)
            .when(Condition::Has("file"), Rule::Needs(tensors))
            .when(Condition::Has("gaussian"), Rule::Refuses(tensors));
        one_of([names([NOISE]), table])
    }

    fn recorded(
        table: &Reader<'_>,
        file: &Field<'_>,
        tensors: &[&'static str],
        files: &Files,
    ) -> Result<Self> {
        let name = file.string()?;
        let read = |&key: &&'static str| {
            let tensor = table.need(key, "\"NAME\"")?;
            files.tensor(name, tensor.string()?).map_err(|error| {
                // Point at the tensor where the tensor is to blame, else at the file.
                let is_tensor = matches!(
                    error,
                    TraceError::NoSuchTensor { .. }
                        | TraceError::WrongDtype { .. }
                        | TraceError::EmptyTensor { .. }
                );
                let blamed = if is_tensor { &tensor } else { file };
                blamed.error(Problem::Recording(error))
            })
        };
        Ok(Self::Recorded(tensors.iter().map(read).collect::<Result<_>>()?))
    }

    /// One source per segment of the job, which carries the tensor of that position, quantized to rows of so many FP8 values
    /// where `fp8_values` says so; random bits stay as they are. Segments that do not communicate get one that is never used.
    pub(crate) fn into_payload(
        self,
        tensors: &[Option<usize>],
        fp8_values: &[Option<usize>],
        seed: u64,
        files: &Files,
    ) -> Payload {
        let is_noise = matches!(self, Self::Noise);
        let sources: Vec<Arc<Rows>> = match self {
            Self::Recorded(rows) => {
                tensors.iter().map(|tensor| Arc::clone(&rows[tensor.unwrap_or(0)])).collect()
            }
            Self::Gaussian { std } => shared(&files.gaussian(std, seed), tensors.len()),
            Self::Noise => shared(&files.noise(seed), tensors.len()),
        };
        Payload::new(seed, if is_noise { sources } else { quantized(sources, fp8_values) })
    }
}

/// Incompressible bytes for every segment: for scenarios in which nothing depends on what is sent.
pub(crate) fn noise(segments: usize, seed: u64, files: &Files) -> Payload {
    Payload::new(seed, shared(&files.noise(seed), segments))
}

/// Quantizes the sources of some segments, each once.
fn quantized(sources: Vec<Arc<Rows>>, fp8_values: &[Option<usize>]) -> Vec<Arc<Rows>> {
    let mut known: HashMap<u128, Arc<Rows>> = HashMap::new();
    let quantize = |(rows, values): (Arc<Rows>, &Option<usize>)| match values {
        Some(values) => {
            Arc::clone(known.entry(rows.digest()).or_insert_with(|| Arc::new(rows.quantized(*values))))
        }
        None => rows,
    };
    sources.into_iter().zip(fp8_values).map(quantize).collect()
}

/// The same rows for every segment.
fn shared(rows: &Arc<Rows>, segments: usize) -> Vec<Arc<Rows>> {
    std::iter::repeat_n(Arc::clone(rows), segments).collect()
}
