//! `dispatch_dtype`: what a forward dispatch carries, byte by byte.

use crate::common::{Folder, VALID, valid_with};
use ndarray::ArcArray2;
use zipwire_codec::DType;
use zipwire_payload::ChunkId;
use zipwire_scenarios::Experiment;
use zipwire_schedule::{CallKind, Rank, SegmentId, Work};

/// The valid scenario with FP8 in its dispatch, and one of its keys replaced.
fn fp8_with(old: &str, new: &str) -> String {
    valid_with(old, new).replacen("routing = ", "dispatch_dtype = \"F8_E4M3\"\nrouting = ", 1)
}

/// Type and bytes of an All-to-All.
fn call<'a>(experiment: &'a Experiment, name: &str) -> (DType, &'a ArcArray2<u64>) {
    let segment = experiment.job().segments.iter().find(|segment| &*segment.name == name).unwrap();
    match &segment.work {
        Work::Call { dtype, kind: CallKind::AllToAll { bytes, .. }, .. } => (*dtype, bytes),
        other => panic!("{other:?} is no All-to-All"),
    }
}

/// Chunk from rank 0 to rank 1.
fn chunk(experiment: &Experiment, segment: u32, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    let id = ChunkId::new(SegmentId(segment), Rank(0), Rank(1));
    experiment.payload.as_ref().unwrap().fill(id, &mut out);
    out
}

#[test]
fn a_token_has_a_byte_for_each_value_and_four_for_every_128() {
    let plain = Folder::new().load(VALID);
    let fp8 = Folder::new().load(&fp8_with("256", "256"));
    let (dtype, bytes) = call(&fp8, "dispatch");
    assert_eq!(dtype, DType::F8E4M3);
    assert_eq!(*bytes, call(&plain, "dispatch").1 / 512 * (256 + 2 * 4));
    assert_eq!(call(&fp8, "combine"), call(&plain, "combine"), "what comes back is BF16");
    let named = Folder::new().load(&valid_with("routing = ", "dispatch_dtype = \"BF16\"\nrouting = "));
    assert_eq!(named.job(), plain.job());
    // DeepSeek-V3's tokens: 7168 values, 56 scales.
    let large = Folder::new().load(&fp8_with("hidden = 256", "hidden = 7168"));
    assert!(call(&large, "dispatch").1.rows().into_iter().all(|row| row.sum() == 64 * 2 * (7168 + 56 * 4)));
}

#[test]
fn a_chunk_is_made_of_rows_of_values_and_scales() {
    let experiment = Folder::new().load(&fp8_with("256", "256"));
    for row in chunk(&experiment, 0, 100 * 264).chunks(264) {
        let (values, scales) = row.split_at(256);
        for (block, scale) in values.chunks(128).zip(scales.as_chunks().0) {
            let scale = f32::from_le_bytes(*scale);
            // The largest of 128 values of a standard deviation of 0.02 is between 1.5 and 6 of these.
            assert!((0.03..0.12).contains(&(scale * 448.0)), "{scale}");
            assert_eq!(block.iter().map(|byte| byte & 0x7f).max(), Some(0x7e), "448 times the scale");
        }
    }
    let plain = Folder::new().load(VALID);
    assert_eq!(chunk(&experiment, 2, 4096), chunk(&plain, 2, 4096), "combine carries what it did");
}

#[test]
fn noise_stays_noise() {
    let fp8 = Folder::new().load(&fp8_with("{ gaussian = 0.02 }", "\"noise\""));
    let plain = Folder::new().load(&valid_with("{ gaussian = 0.02 }", "\"noise\""));
    assert_eq!(chunk(&fp8, 0, 4096), chunk(&plain, 0, 4096));
}

#[test]
fn tokens_that_are_shared_have_rows_of_that_length() {
    let text = fp8_with("payload = ", "tokens = \"shared\"\npayload = ");
    let experiment = Folder::new().load(&text);
    let tokens = experiment.job().segments[0].work.tokens().unwrap();
    assert_eq!(tokens.row_bytes(), 264);
    let (_, bytes) = call(&experiment, "dispatch");
    assert!(bytes.indexed_iter().all(|((src, dst), len)| src == dst || *len == tokens.bytes()[[src, dst]]));
}

#[test]
fn in_training_only_the_forward_dispatch_is_fp8() {
    let training = |key: &str| {
        let workload = format!(
            "kind = \"moe-training\"\nsequence = 64\ngradients = \"none\"\n{key}\
             model = {{ layers = 1, hidden = 256, heads = 4, experts = 8, top_k = 2, expert_intermediate = 96 }}\n\
             routing = \"uniform\"\npayload = {{ gaussian = 0.02 }}\n[compute]\nattention = \"50 us\"\nexpert = \"80 us\"\n"
        );
        let (head, tail) = VALID.split_once("kind = ").unwrap();
        let (_, codec) = tail.split_once("[codec]").unwrap();
        Folder::new().load(&format!("{head}{workload}\n[codec]{codec}"))
    };
    let (plain, fp8) = (training(""), training("dispatch_dtype = \"F8_E4M3\"\n"));
    let (dtype, bytes) = call(&fp8, "L0 dispatch");
    assert_eq!(dtype, DType::F8E4M3);
    assert_eq!(*bytes, call(&plain, "L0 dispatch").1 / 512 * 264);
    for name in ["L0 combine", "L0 combine backward", "L0 dispatch backward"] {
        assert_eq!(call(&fp8, name), call(&plain, name), "{name}");
        assert_eq!(call(&fp8, name).0, DType::Bf16);
    }
    let position = |name: &str| fp8.job().segments.iter().position(|s| &*s.name == name).unwrap() as u32;
    let backward = position("L0 dispatch backward");
    assert_eq!(chunk(&fp8, backward, 4096), chunk(&plain, backward, 4096));
    assert_ne!(chunk(&fp8, position("L0 dispatch"), 4096), chunk(&plain, position("L0 dispatch"), 4096));
}
