//! Types of values, as PyTorch spells them.

use zipwire_codec::DType;

/// Type of values that a profiler names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueType {
    /// One that codecs know.
    Float(DType),
    /// Another one, of so many bytes.
    Bytes(u64),
}

impl ValueType {
    /// The type of this name, in any case of letters.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let name = name.strip_prefix("c10::").unwrap_or(&name);
        Some(match name {
            "bfloat16" => Self::Float(DType::Bf16),
            "half" | "float16" => Self::Float(DType::F16),
            "float" | "float32" => Self::Float(DType::F32),
            _ if name.starts_with("float8_e5m2") => Self::Float(DType::F8E5M2),
            _ if name.starts_with("float8") => Self::Float(DType::F8E4M3),
            "byte" | "char" | "bool" | "uint8" | "int8" | "quint8" | "qint8" => Self::Bytes(1),
            "short" | "int16" | "uint16" => Self::Bytes(2),
            "int" | "int32" | "uint32" | "complexhalf" => Self::Bytes(4),
            "double" | "long" | "float64" | "int64" | "uint64" | "complexfloat" => Self::Bytes(8),
            "complexdouble" => Self::Bytes(16),
            _ => return None,
        })
    }
}

/// Bytes of a value of the type of this name.
pub(crate) fn dtype_bytes(name: &str) -> Option<u64> {
    Some(match ValueType::named(name)? {
        ValueType::Float(dtype) => dtype.width() as u64,
        ValueType::Bytes(bytes) => bytes,
    })
}
