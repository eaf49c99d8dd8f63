//! Recordings that users bring: tensors, routing, timelines.

#![no_main]

use std::fmt::Display;

use libfuzzer_sys::fuzz_target;
use zipwire_codec::DType;
use zipwire_fuzz::scratch_file;
use zipwire_traces::{TensorFile, read_chrome, read_routing_matrices, read_routing_trace, read_rows};

fuzz_target!(|input: (u8, &[u8])| {
    let (kind, bytes) = input;
    let path = scratch_file(bytes);
    match kind % 4 {
        0 => {
            if let Some(file) = read(TensorFile::open(&path)) {
                let mut total = 0;
                for tensor in file.tensors() {
                    let values = file.read(tensor).expect("the length of the file has been compared");
                    assert_eq!(values.len() as u64, tensor.bytes());
                    total += values.len();
                    let dtype = DType::from_name(&tensor.dtype).unwrap_or(DType::Bf16);
                    if let Some(rows) = read(read_rows(&path, &tensor.name, dtype)) {
                        assert_eq!(rows.as_bytes(), values);
                        assert_eq!(rows.row(rows.row_count() - 1).len(), rows.row_bytes());
                    }
                }
                assert!(total <= bytes.len());
                read(read_rows(&path, "absent", DType::Bf16));
            }
        }
        1 => {
            if let Some(matrices) = read(read_routing_matrices(&path)) {
                assert!(matrices.iter().all(|matrix| matrix.counts.nrows() == matrix.rank_count as usize));
            }
        }
        2 => {
            if let Some(steps) = read(read_routing_trace(&path)) {
                assert!(steps.iter().all(|step| step.tokens.len() == steps[0].tokens.len()));
            }
        }
        _ => {
            if let Some(trace) = read(read_chrome(&path)) {
                assert!(trace.spans.iter().all(|span| span.duration_ns() >= 0));
            }
        }
    }
});

/// The recording, if it could be read; errors must print.
fn read<T, E: Display>(result: Result<T, E>) -> Option<T> {
    result.inspect_err(|error| assert!(!error.to_string().is_empty())).ok()
}
