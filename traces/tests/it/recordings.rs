//! The samples read as what they are; every way in which a recording can be wrong has its own message.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use zipwire_payload::{ChunkId, Payload, Rows};
use zipwire_schedule::DType;
use zipwire_schedule::{Rank, SegmentId};
use zipwire_traces::{TraceError, read_routing_matrices, read_routing_trace, read_rows};

const FORWARD: &str = "train_late_a2a_forward.bf16.safetensors";
const DISPATCH: &str = "L2.disp[0:1536]|rows0:256";

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("samples").join(name)
}

/// A file with `content`, in a folder of its own that goes with the guard.
fn file(name: &str, content: impl AsRef<[u8]>) -> (TempDir, PathBuf) {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join(name);
    fs::write(&path, content).expect("a file in it");
    (folder, path)
}

/// The message with the folder cut from the path, so that it is the same everywhere.
fn message<T>(path: &Path, result: Result<T, TraceError>) -> String {
    let error = result.err().expect("the recording is wrong");
    let folder = path.parent().expect("a file in a folder");
    let help = error.help().map_or_else(String::new, |help| format!("\nhelp: {help}"));
    format!("{error}{help}").replace(&format!("{}/", folder.display()), "")
}

mod routing {
    use super::*;

    #[test]
    fn matrices_of_the_sample() {
        let matrices = read_routing_matrices(&sample("devB_rank_expert_matrix_step290.jsonl")).unwrap();
        let keys: Vec<_> = matrices.iter().map(|m| (m.layer, m.rank_count, m.sharding.as_str())).collect();
        assert_eq!(
            keys,
            [
                (0, 8, "domain"),
                (2, 8, "domain"),
                (0, 16, "domain"),
                (2, 16, "domain"),
                (0, 8, "shuffled"),
                (2, 8, "shuffled"),
                (0, 16, "shuffled"),
                (2, 16, "shuffled"),
            ]
        );
        for matrix in &matrices {
            assert_eq!((matrix.step, matrix.top_k), (290, 2));
            assert_eq!(matrix.counts.dim(), (matrix.rank_count as usize, 16));
            for row in matrix.counts.rows() {
                assert_eq!(
                    row.sum(),
                    matrix.tokens_per_rank * u64::from(matrix.top_k),
                    "no token is dropped"
                );
            }
        }
        assert_eq!(matrices[0].counts[[0, 0]], 136);
        assert_eq!(matrices[0].counts[[1, 0]], 126, "rows are source ranks");
    }

    #[test]
    fn trace_of_the_sample() {
        let steps = read_routing_trace(&sample("devB_routing_trace_every5.csv")).unwrap();
        assert_eq!(steps.len(), 240);
        assert_eq!(
            (steps[0].step, steps[0].layer, steps[0].tokens[..3].to_vec()),
            (0, 0, vec![200, 240, 219])
        );
        assert_eq!((steps[239].step, steps[239].layer), (295, 3));
        for step in &steps {
            assert_eq!(step.tokens.len(), 16);
            assert_eq!(step.tokens.iter().sum::<u64>(), 16 * 128 * 2, "every token goes to two experts");
        }
    }

    const GOOD: &str = r#"{"step":1,"layer":2,"ranks":2,"sharding":"domain","tokens_per_rank":4,"topk":2,"matrix":[[1,7],[8,0]]}"#;

    #[test]
    fn matrices_with_blank_lines_windows_line_ends_and_more_keys() {
        let more = GOOD.replace("\"step\"", "\"note\":[1],\"step\"");
        let (_folder, path) = file("m.jsonl", format!("\n{GOOD}\r\n\n{more}"));
        let matrices = read_routing_matrices(&path).unwrap();
        assert_eq!(matrices.len(), 2);
        assert_eq!(matrices[0], matrices[1]);
        assert_eq!(matrices[0].counts[[1, 0]], 8);
    }

    #[test]
    fn bad_matrices() {
        let second_line = |bad: &str| {
            let (_folder, path) = file("m.jsonl", format!("{GOOD}\n{bad}\n"));
            message(&path, read_routing_matrices(&path))
        };
        let with = |from: &str, to: &str| {
            assert!(GOOD.contains(from));
            second_line(&GOOD.replace(from, to))
        };
        let messages = [
            second_line("{\"step\": 1,"),
            second_line("[1, 2]"),
            with("\"layer\":2,", ""),
            with("[8,0]", "[8,-1]"),
            with("[8,0]", "[8,0.5]"),
            with("[8,0]", "[8]"),
            with(",[8,0]", ""),
            with("[[1,7],[8,0]]", "[[],[]]"),
            with("\"ranks\":2", "\"ranks\":0"),
        ];
        insta::assert_snapshot!(messages.join("\n"), @r#"
        `m.jsonl` line 2 column 11: EOF while parsing a value
        `m.jsonl` line 2 column 6: invalid length 2, expected an object with `step`, `layer`, `ranks`, `sharding`, `tokens_per_rank`, `topk` and `matrix`
        `m.jsonl` line 2 column 92: missing field `layer`
        `m.jsonl` line 2 column 100: invalid value: integer `-1`, expected u64
        `m.jsonl` line 2 column 101: invalid type: floating point `0.5`, expected u64
        `m.jsonl` line 2 column 1: `matrix` is ragged: row `1` has `1` columns, row `0` has `2`
        `m.jsonl` line 2 column 1: `matrix` has `1` rows where `ranks` is `2`
        `m.jsonl` line 2 column 1: `matrix` has no columns
        `m.jsonl` line 2 column 1: `ranks` is `0`
        "#);
    }

    #[test]
    fn bad_traces() {
        let of = |content: &str| {
            let (_folder, path) = file("t.csv", content);
            message(&path, read_routing_trace(&path))
        };
        let messages = [
            of("step,layer\n"),
            of("step,expert,e0\n"),
            of("step,layer,e0,e2\n"),
            of("step,layer,e0,e1\n0,0,1,2\n0,1,3\n"),
            of("step,layer,e0,e1\n0,0,1,2\n0,1,3,x\n"),
            of("step,layer,e0,e1\n0,-1,1,2\n"),
            of("step,layer,e0,e1\n0,4294967296,1,2\n"),
            of("step,layer,e0\n"),
            of(""),
        ];
        insta::assert_snapshot!(messages.join("\n"), @r#"
        `t.csv` line 1 column `e0`: the header lacks `e0`
        `t.csv` line 1 column `layer`: the header has `expert` where `layer` is needed
        `t.csv` line 1 column `e1`: the header has `e2` where `e1` is needed
        `t.csv` line 3 column `e1`: the row has `3` columns, the header has `4`
        `t.csv` line 3 column `e1`: `x` is not a non-negative integer
        `t.csv` line 2 column `layer`: `-1` is not a non-negative integer
        `t.csv` line 2 column `layer`: layer `4294967296` does not fit 32 bits
        `t.csv` holds no records
        `t.csv` line 1 column `step`: the header lacks `step`
        "#);
    }

    #[test]
    fn bytes_that_are_not_text() {
        let (_folder, path) = file("m.jsonl", [b"{\"step\": \"".as_slice(), &[0xff, 0xfe], b"\"}"].concat());
        assert!(matches!(read_routing_matrices(&path), Err(TraceError::BadJsonl { line: 1, .. })));
        let (_folder, path) = file("t.csv", [b"step,layer,e0\n0,0,".as_slice(), &[0xff, b'\n']].concat());
        match read_routing_trace(&path) {
            Err(TraceError::BadCsv { line: 2, column, .. }) => assert_eq!(column, "e0"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn files_without_records() {
        let (_folder, path) = file("m.jsonl", "\n\n");
        assert_eq!(message(&path, read_routing_matrices(&path)), "`m.jsonl` holds no records");
    }

    #[test]
    fn missing_files() {
        let path = sample("nowhere/m.jsonl");
        assert!(matches!(read_routing_matrices(&path), Err(TraceError::Io { .. })));
        assert!(matches!(read_routing_trace(&path), Err(TraceError::Io { .. })));
        assert!(matches!(read_rows(&path, "x", DType::Bf16), Err(TraceError::Io { .. })));
    }
}

mod tensors {
    use super::*;

    /// A safetensors file from its header and data.
    fn safetensors(header: &str, data: &[u8]) -> Vec<u8> {
        [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
    }

    #[test]
    fn rows_of_the_samples() {
        let rows = read_rows(&sample(FORWARD), DISPATCH, DType::Bf16).unwrap();
        assert_eq!((rows.row_count(), rows.row_bytes()), (256, 512));
        let distinct: std::collections::HashSet<_> = (0..256).map(|index| rows.row(index)).collect();
        assert!(distinct.len() > 250, "rows are recorded tokens, not one repeated: {}", distinct.len());

        let norm = read_rows(&sample("train_late_weights.bf16.safetensors"), "L2.n1.w", DType::Bf16).unwrap();
        assert_eq!((norm.row_count(), norm.row_bytes()), (1, 512), "a vector is one row");
    }

    #[test]
    fn data_lie_where_the_header_says() {
        let header = r#"{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"BF16","shape":[2,1,2],"data_offsets":[2,10]},"c":{"dtype":"BF16","shape":[],"data_offsets":[10,12]}}"#;
        let (_folder, path) =
            file("x.safetensors", safetensors(header, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]));
        assert_eq!(read_rows(&path, "b", DType::Bf16).unwrap(), Rows::new((2..10).collect(), 4));
        assert_eq!(
            read_rows(&path, "c", DType::Bf16).unwrap(),
            Rows::new(vec![10, 11], 2),
            "a scalar is one row"
        );
    }

    #[test]
    fn bad_files() {
        let whole = fs::read(sample(FORWARD)).unwrap();
        let of = |content: &[u8], tensor: &str| {
            let (_folder, path) = file("x.safetensors", content);
            message(&path, read_rows(&path, tensor, DType::Bf16))
        };
        let empty = r#"{"e":{"dtype":"BF16","shape":[0,4],"data_offsets":[0,0]}}"#;
        let messages = [
            of(&whole, "L2.disp"),
            of(&whole, "L2.counts"),
            of(&whole[..whole.len() - 1], DISPATCH),
            of(&whole[..100], DISPATCH),
            of(&whole[..7], DISPATCH),
            of(&[&whole[..], &[0]].concat(), DISPATCH),
            of(b"name = \"quickstart\"\n", DISPATCH),
            of(b"PK\x03\x04 not a safetensors file at all", DISPATCH),
            of(&safetensors("{\"e\":", &[]), "e"),
            of(&safetensors(&empty.replace("[0,0]}", "[0,8]}"), &[0; 8]), "e"),
            of(&safetensors(empty, &[]), "e"),
            of(&safetensors("{}", &[]), "e"),
        ];
        insta::assert_snapshot!(messages.join("\n"), @r"
        `x.safetensors` has no tensor `L2.disp`
        help: the nearest names are `L2.disp[0:1536]|rows0:256`, `L2.counts`, `L2.comb[0:1536]|rows0:256`
        tensor `L2.counts` of `x.safetensors` holds `I32` values where `BF16` is needed
        `x.safetensors` has `262463` bytes where its header describes `262464`
        help: the file is truncated; copy or download it again
        `x.safetensors` has `100` bytes where its header describes `256`
        help: the file is truncated; copy or download it again
        `x.safetensors` is not a safetensors file: `7` bytes are too few for a header (in the header, bytes 0 to 7)
        help: tensors are read from safetensors files, as `safetensors.torch.save_file` writes them
        `x.safetensors` has `262465` bytes where its header describes `262464`
        help: something was appended to the file
        `x.safetensors` is not a safetensors file: it begins with text, and not with the length of a header (in the header, bytes 0 to 8)
        help: tensors are read from safetensors files, as `safetensors.torch.save_file` writes them
        `x.safetensors` is a zip archive
        help: `zipwire compress x.safetensors`; its parts are read from the result
        `x.safetensors` is not a safetensors file: EOF while parsing a value at line 1 column 5 (in the header, bytes 0 to 13)
        help: tensors are read from safetensors files, as `safetensors.torch.save_file` writes them
        `x.safetensors` is not a safetensors file: tensor `e` of BF16 [0, 4] has no bytes 0 to 8 at line 1 column 57 (in the header, bytes 0 to 65)
        help: tensors are read from safetensors files, as `safetensors.torch.save_file` writes them
        tensor `e` of `x.safetensors` is empty: its shape is `[0, 4]`
        `x.safetensors` has no tensor `e`
        help: the file holds no tensors
        ");
    }
}

#[test]
fn payload_of_recorded_tensors() {
    let source = |name| Arc::new(read_rows(&sample(FORWARD), name, DType::Bf16).unwrap());
    let payload = Payload::new(7, vec![source(DISPATCH), source("L2.comb[0:1536]|rows0:256")]);
    let mut chunk = vec![0; 10_000];
    payload.fill(ChunkId::new(SegmentId(1), Rank(3), Rank(4)), &mut chunk);
    assert_eq!(payload.mismatch(ChunkId::new(SegmentId(1), Rank(3), Rank(4)), &chunk), None);
    chunk[9_999] ^= 1;
    assert_eq!(payload.mismatch(ChunkId::new(SegmentId(1), Rank(3), Rank(4)), &chunk), Some(9_999));
}
