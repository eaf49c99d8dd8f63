//! Groups of tokens of a KV cache.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use zipwire::kv::{self, Geometry, KvError, Order, Place};

use crate::buffers::{Held, apart, filled};
use crate::errors::{Kind, Raise, raise, raised};
use crate::tensors::spec_of;

impl Raise for KvError {
    fn kind(&self) -> Kind {
        match self {
            Self::Unsupported { .. } | Self::Codec { .. } => Kind::Codec,
            Self::Incompatible { .. } => Kind::Base,
            Self::Version { .. } => Kind::Version,
            Self::Damaged { .. } | Self::Decode { .. } => Kind::Format,
            _ => Kind::Tensor,
        }
    }
}

/// Layer, first token and number of tokens of a group, and bytes of each of its planes.
type Group = (u32, u64, u32, usize);

/// Codes groups of one cache. Planes are keys and values, or the one of a latent.
#[pyclass(frozen, module = "zipwire_tensors._native")]
pub(crate) struct KvCodec(kv::KvCodec);

#[pymethods]
impl KvCodec {
    #[new]
    #[pyo3(signature = (layers, heads, head_size, dtype, heads_first, latent, group_tokens, codec))]
    fn new(
        layers: u32,
        heads: u32,
        head_size: u32,
        dtype: &str,
        heads_first: bool,
        latent: bool,
        group_tokens: u32,
        codec: &str,
    ) -> PyResult<Self> {
        let dtype = kv::DType::from_name(dtype)
            .ok_or_else(|| raised(Kind::Tensor, format!("no codec knows values of `{dtype}`")))?;
        let order = if heads_first { Order::Heads } else { Order::Tokens };
        let geometry = match latent {
            true => Geometry::latent(layers, head_size, dtype),
            false => Geometry::grouped(layers, heads, head_size, dtype),
        };
        let geometry =
            geometry.and_then(|geometry| geometry.with_order(order).with_group_tokens(group_tokens));
        let geometry = geometry.map_err(|error| raise(&error))?;
        kv::KvCodec::new(geometry, spec_of(codec)?).map(Self).map_err(|error| raise(&error))
    }

    /// Hash of cache and codec, which both ends compare.
    #[getter]
    fn compatibility(&self) -> u64 {
        self.0.compatibility()
    }

    /// The most bytes of a group of so many tokens.
    fn bound(&self, tokens: u32) -> usize {
        self.0.bound(tokens)
    }

    /// A group of these planes.
    fn encode(
        &self,
        py: Python<'_>,
        layer: u32,
        token: u64,
        planes: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyBytes>> {
        let held = planes.iter().map(Held::of).collect::<PyResult<Vec<_>>>()?;
        let bytes: Vec<&[u8]> = held.iter().map(Held::bytes).collect();
        let row = self.0.geometry().row_len();
        let tokens = u32::try_from(bytes.first().map_or(0, |plane| plane.len() / row)).unwrap_or(u32::MAX);
        let encode = |out: &mut [u8]| py.detach(|| self.0.encode(Place { layer, token }, &bytes, out));
        filled(py, self.0.bound(tokens.min(self.0.geometry().group_tokens())), |out| {
            encode(out).map_err(|error| raise(&error))
        })
    }

    /// Layer, first token, number of tokens, and bytes of each plane of a group.
    fn peek(&self, group: &Bound<'_, PyAny>) -> PyResult<Group> {
        let held = Held::of(group)?;
        let found = self.0.peek(held.bytes()).map_err(|error| raise(&error))?;
        Ok((found.place.layer, found.place.token, found.tokens, found.plane_len))
    }

    /// Restores the planes of a group into writable buffers of their length.
    fn decode(
        &self,
        py: Python<'_>,
        group: &Bound<'_, PyAny>,
        planes: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let group = Held::of(group)?;
        let mut held = planes.iter().map(Held::writable).collect::<PyResult<Vec<_>>>()?;
        for (number, plane) in held.iter().enumerate() {
            apart(plane, [Some(&group), held.get(number + 1)])?;
        }
        let mut out: Vec<&mut [u8]> = held.iter_mut().map(Held::bytes_mut).collect();
        let done = py.detach(|| self.0.decode(group.bytes(), &mut out).map(|_| ()));
        done.map_err(|error| raise(&error))
    }
}
