//! Types of values, as PyTorch spells them.

/// Bytes of a value of a type that PyTorch names, in any case of letters.
pub(crate) fn dtype_bytes(name: &str) -> Option<u64> {
    let name = name.strip_prefix("c10::").unwrap_or(name).to_ascii_lowercase();
    Some(match name.as_str() {
        "byte" | "char" | "bool" | "uint8" | "int8" | "quint8" | "qint8" => 1,
        _ if name.starts_with("float8") => 1,
        "half" | "bfloat16" | "short" | "float16" | "int16" | "uint16" => 2,
        "float" | "int" | "float32" | "int32" | "uint32" | "complexhalf" => 4,
        "double" | "long" | "float64" | "int64" | "uint64" | "complexfloat" => 8,
        "complexdouble" => 16,
        _ => return None,
    })
}
