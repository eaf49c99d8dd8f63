//! Recorded tensors in: one BF16 tensor of a safetensors file, as rows.
//!
//! Reads the header and the one tensor, not the file: checkpoints are large.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use safetensors::Dtype;
use safetensors::tensor::Metadata;

use crate::{Rows, TraceError};

/// Bytes of the length in front of the header.
const LENGTH_BYTES: u64 = 8;
/// Longest header read, in bytes: the limit of the safetensors format.
const HEADER_LIMIT: u64 = 100_000_000;
/// How many similar names an error lists.
const NEAREST: usize = 3;

/// The BF16 tensor `tensor` of the safetensors file at `path`. The last dimension is the row; the product of the
/// others is the row count, so that a vector is one row and a scalar is one row of one value.
///
/// # Errors
/// If the file cannot be read, is not a safetensors file, is truncated or too long, has no such tensor (the nearest
/// names are listed), or if the tensor is empty or not BF16.
pub fn read_bf16(path: &Path, tensor: &str) -> Result<Rows, TraceError> {
    let io = |source| TraceError::Io { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(io)?;
    let (header_end, metadata) = read_header(path, &mut file)?;

    let info = metadata.info(tensor).ok_or_else(|| TraceError::NoSuchTensor {
        path: path.to_owned(),
        tensor: tensor.to_owned(),
        nearest: nearest(tensor, metadata.offset_keys()),
    })?;
    if info.dtype != Dtype::BF16 {
        return Err(TraceError::WrongDtype {
            path: path.to_owned(),
            tensor: tensor.to_owned(),
            found: info.dtype.to_string(),
            needed: "BF16",
        });
    }
    let (begin, end) = info.data_offsets;
    if begin == end {
        let shape = info.shape.clone();
        return Err(TraceError::EmptyTensor { path: path.to_owned(), tensor: tensor.to_owned(), shape });
    }

    let mut bytes = vec![0; end - begin];
    file.seek(SeekFrom::Start(header_end + begin as u64)).map_err(io)?;
    file.read_exact(&mut bytes).map_err(io)?;
    Ok(Rows::new(bytes, 2 * info.shape.last().copied().unwrap_or(1)))
}

/// Where the header ends and what it says. The file is exactly as long as the header says.
fn read_header(path: &Path, file: &mut File) -> Result<(u64, Metadata), TraceError> {
    let io = |source| TraceError::Io { path: path.to_owned(), source };
    let found = file.metadata().map_err(io)?.len();
    let invalid = |header_end: u64, reason: String| TraceError::NotSafetensors {
        path: path.to_owned(),
        header_end: header_end.min(found),
        reason,
    };

    if found < LENGTH_BYTES {
        return Err(invalid(found, format!("`{found}` bytes are too few for a header")));
    }
    let mut length = [0; LENGTH_BYTES as usize];
    file.read_exact(&mut length).map_err(io)?;
    let length = u64::from_le_bytes(length);
    let header_end = length.saturating_add(LENGTH_BYTES);
    if length > HEADER_LIMIT {
        return Err(invalid(header_end, format!("a header of `{length}` bytes is above the format's limit")));
    }
    if header_end > found {
        return Err(TraceError::WrongLength { path: path.to_owned(), found, needed: header_end });
    }

    let mut header = vec![0; length as usize];
    file.read_exact(&mut header).map_err(io)?;
    let metadata: Metadata =
        serde_json::from_slice(&header).map_err(|error| invalid(header_end, error.to_string()))?;
    let needed = header_end + metadata.data_len() as u64;
    if found != needed {
        return Err(TraceError::WrongLength { path: path.to_owned(), found, needed });
    }
    Ok((header_end, metadata))
}

/// The names most like `wanted`, best first. Jaro-Winkler favours a common beginning, which is how a recorded
/// name (`L2.disp[0:1536]|rows0:256`) extends the tensor's own (`L2.disp`).
fn nearest(wanted: &str, mut names: Vec<String>) -> Vec<String> {
    let distance = |name: &String| 1.0 - strsim::jaro_winkler(wanted, name);
    names.sort_by(|a, b| distance(a).total_cmp(&distance(b)).then_with(|| a.cmp(b)));
    names.truncate(NEAREST);
    names
}
