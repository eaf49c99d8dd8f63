//! `payload`: the bytes that transfers carry, for the compression ratio and for real runs.

use std::collections::HashMap;
use std::sync::Arc;

use zipwire_codec::DType;
use zipwire_payload::{Payload, Rows};
use zipwire_traces::TraceError;

use crate::error::Result;
use crate::files::Files;
use crate::language::{
    AnyKey, Condition, Field, Keys, Rule, Schema, keys, names, number, one_of, table, text,
};
use crate::problem::{PayloadProblem, Problem};

/// Where the rows of the communication segments come from.
pub(crate) enum Rowset {
    /// Recorded rows, by position of their tensor.
    Recorded(Vec<Recorded>),
    /// Normally distributed values, drawn when everything else is known to be right.
    Gaussian {
        std: f64,
    },
    Noise,
}

#[derive(Clone)]
pub(crate) struct Recorded {
    rows: Arc<Rows>,
    /// The same tensor as ranks have it already.
    base: Option<Arc<Rows>>,
}

/// The payload that needs no number.
const NOISE: &str = "noise";

/// Standard deviations that leave BF16 room on both sides.
const STD_LIMITS: std::ops::RangeInclusive<f64> = 1e-30..=1e30;

/// Meaning of a tensor's key.
const TENSOR: &str = "name of the tensor whose rows the call carries";

keys! { static KEYS =
    file: String = text(), "a safetensors file of values of the type that is sent, mostly BF16";
    gaussian: f64 = number(STD_LIMITS), "standard deviation of values that are drawn, BF16";
}

keys! { static BEFORE =
    base: String = text(), "a safetensors file of the same tensors as all ranks have them already, but for gradients: what `delta+` codecs take differences from; with `file`";
}

keys! { pub(crate) static TENSORS =
    tensor: String = text(), TENSOR, example = "\"NAME\"";
    dispatch: String = text(), TENSOR, example = "\"NAME\"";
    combine: String = text(), TENSOR, example = "\"NAME\"";
    parameters: String = text(), TENSOR, example = "\"NAME\"";
    activations: String = text(), TENSOR, example = "\"NAME\"";
    gradients: String = text(), TENSOR, example = "\"NAME\"";
    keys: String = text(), "name of the tensor that keys of caches are drawn from", example = "\"NAME\"";
    values: String = text(), "name of the tensor that values of caches are drawn from", example = "\"NAME\"";
    latent: String = text(), "name of the tensor that latents of caches are drawn from", example = "\"NAME\"";
}

/// The `payload` of a workload: the tensors that its calls can carry, by their keys.
pub(crate) struct Carried {
    /// Subset of `TENSORS`.
    pub(crate) tensors: Keys<'static>,
    /// How many of them, the first ones, are carried whatever the workload says.
    pub(crate) always: usize,
}

impl Carried {
    /// Reads `payload`, if it is there, of a workload that carries the first `count` tensors. Tensors have the type `dtype`, that of the
    /// values that travel before anything is made of them.
    pub(crate) fn read(
        &self,
        field: Option<Field<'_>>,
        count: usize,
        dtype: DType,
        files: &Files,
    ) -> Result<Option<Rowset>> {
        let Some(field) = field else { return Ok(None) };
        let table = match field.as_string() {
            Some(_) => field.choice("payload", &[NOISE], |name| name).map(|_| None),
            None => field.table(&self.keys()).map(Some),
        }?;
        let Some(table) = table else { return Ok(Some(Rowset::Noise)) };
        // Tensors that are missing are told one by one, as they are looked for in the file.
        let [source, _, drawn] = self.rules();
        table.check(&[source, drawn])?;
        if let Some(std) = table.get(KEYS.gaussian)? {
            if dtype != DType::Bf16 {
                return Err(PayloadProblem::DrawnType { dtype: dtype.name() }.at(field.place()));
            }
            return Ok(Some(Rowset::Gaussian { std }));
        }
        let (carried, others) = self.tensors.split_at(count);
        table.refuse_all(others, "no call of the workload carries it")?;
        let (file, before) = (table.need_field(KEYS.file)?, table.field(BEFORE.base));
        let read = |&key: &&'static dyn AnyKey| {
            let tensor = table.need_field(key)?;
            let name = tensor.string()?;
            let rows = files.tensor(file.string()?, name, dtype).map_err(|error| {
                // Point at the tensor where the tensor is to blame, else at the file.
                let blamed = if is_of_tensor(&error) { &tensor } else { &file };
                blamed.error(Problem::Recording(error))
            })?;
            // Gradients are new in every step, and are added up: nobody had them before.
            let before = before.as_ref().filter(|_| key.name() != TENSORS.gradients.name);
            let base = before.map(|before| base(before, &tensor, &rows, dtype, files)).transpose()?;
            Ok(Recorded { rows, base })
        };
        let recorded = carried.iter().map(read).collect::<Result<Vec<_>>>()?;
        if let Some(before) = before.filter(|_| recorded.iter().all(|tensor| tensor.base.is_none())) {
            return Err(PayloadProblem::GradientBase.at(before.place()));
        }
        Ok(Some(Rowset::Recorded(recorded)))
    }

    pub(crate) fn schema(&self) -> Schema {
        one_of([names([NOISE]), table(&self.keys()).with(self.rules().into())])
    }

    fn keys(&self) -> Vec<&'static dyn AnyKey> {
        [&[KEYS.file as &dyn AnyKey], self.tensors, BEFORE.all, &[KEYS.gaussian]].concat()
    }

    fn rules(&self) -> [Rule; 3] {
        [
            Rule::one_of(KEYS.all),
            Condition::Has(KEYS.file).needs(&self.tensors[..self.always]),
            Condition::Has(KEYS.gaussian)
                .refuses(&[self.tensors, BEFORE.all].concat(), "the payload is drawn, not read from a file"),
        ]
    }
}

/// The `payload` of caches: tensors of keys and of values, or of latents. Which, the model says, and so only the reader.
pub(crate) fn caches_schema() -> Schema {
    static EITHER: Carried = Carried { tensors: &[TENSORS.keys, TENSORS.values, TENSORS.latent], always: 0 };
    let grouped: Keys<'_> = &[TENSORS.keys, TENSORS.values];
    let lacks_latent = Condition::All(vec![Condition::Has(KEYS.file), Condition::Lacks(TENSORS.latent)]);
    let rules = [
        lacks_latent.needs(grouped),
        Condition::Has(TENSORS.latent).refuses(grouped, "latents are all there is"),
    ];
    one_of([names([NOISE]), table(&EITHER.keys()).with(EITHER.rules().into()).with(rules.into())])
}

/// Whether an error is about a tensor, and not about all of its file.
fn is_of_tensor(error: &TraceError) -> bool {
    matches!(
        error,
        TraceError::NoSuchTensor { .. } | TraceError::WrongDtype { .. } | TraceError::EmptyTensor { .. }
    )
}

/// The tensor in the file of the base, of the type and shape of `rows`.
fn base(
    before: &Field<'_>,
    tensor: &Field<'_>,
    rows: &Rows,
    dtype: DType,
    files: &Files,
) -> Result<Arc<Rows>> {
    let name = tensor.string()?;
    let base = files.tensor(before.string()?, name, dtype).map_err(|error| {
        // The name is right, as the other file has it.
        let is_of_tensor = is_of_tensor(&error);
        let error = PayloadProblem::Base(error).at(before.place());
        if is_of_tensor { error.with(tensor.place(), "the tensor") } else { error }
    })?;
    let shape = |rows: &Rows| [rows.row_count(), rows.row_bytes() / dtype.width()];
    if shape(&base) != shape(rows) {
        let (tensor_name, found, needed) = (name.to_owned(), shape(&base), shape(rows));
        let problem = PayloadProblem::BaseShape { tensor: tensor_name, found, needed };
        return Err(problem.at(before.place()).with(tensor.place(), "the tensor"));
    }
    Ok(base)
}

impl Rowset {
    /// Whether ranks have something already of what differs from it.
    pub(crate) fn has_base(&self) -> bool {
        match self {
            Self::Recorded(tensors) => tensors.iter().any(|tensor| tensor.base.is_some()),
            Self::Gaussian { .. } | Self::Noise => false,
        }
    }

    /// One source per segment of the job, which carries the tensor of that position, quantized to FP8 in rows of
    /// `fp8_values` values where that is given; random bits stay as they are. Segments that do not communicate get one that is never used.
    pub(crate) fn into_payload(
        self,
        tensors: &[Option<usize>],
        fp8_values: &[Option<usize>],
        seed: u64,
        files: &Files,
    ) -> Payload {
        let recorded = match self {
            Self::Recorded(recorded) => recorded,
            Self::Gaussian { std } => {
                let sources = shared(&files.gaussian(std, seed), tensors.len());
                return Payload::new(seed, quantized(sources, fp8_values));
            }
            Self::Noise => return noise(tensors.len(), seed, files),
        };
        let of_segments = tensors.iter().map(|tensor| &recorded[tensor.unwrap_or(0)]);
        let sources = of_segments.clone().map(|tensor| Arc::clone(&tensor.rows)).collect();
        let payload = Payload::new(seed, quantized(sources, fp8_values));
        // What is quantized anew differs from what was quantized before.
        let base = |(tensor, values): (&Recorded, &Option<usize>)| {
            let base = Arc::clone(tensor.base.as_ref()?);
            quantized(vec![base], &[*values]).pop()
        };
        let bases = of_segments.zip(fp8_values).map(base).collect::<Vec<_>>();
        if bases.iter().any(Option::is_some) { payload.with_bases(bases) } else { payload }
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
