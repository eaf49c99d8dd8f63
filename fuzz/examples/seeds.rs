//! Writes the inputs that the fuzzers begin with to `seeds`: `cargo run --manifest-path fuzz/Cargo.toml --example seeds`.
//!
//! They are made again where a format changes; a fuzzer finds its way without them, but later.

use std::fs;
use std::path::Path;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zipwire_codec::{Codec, DType, Layout, Spec};
use zipwire_fuzz::{SPECS, codec, manifest_body, values};
use zipwire_traces::TableFile;

/// Targets that make values of any bytes.
const OF_ANY_BYTES: [&str; 11] = [
    "window7",
    "tiered",
    "rans",
    "groups",
    "codebook16",
    "dedup",
    "delta",
    "round_trip",
    "container",
    "model",
    "kv",
];

fn main() -> std::io::Result<()> {
    zipwire_paper_codecs::register();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    let write = |target: &str, name: &str, bytes: &[u8]| -> std::io::Result<()> {
        fs::create_dir_all(folder.join(target))?;
        fs::write(folder.join(target).join(name), bytes)
    };
    for (name, dtype, layout, frame) in frames() {
        // From the header, as `frame` reads its input; nothing is cut.
        write("frame", &format!("{name}-{dtype}-{layout}"), &[&[1, 0, 0], &frame[..]].concat())?;
    }
    for target in OF_ANY_BYTES {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for number in 0..24 {
            let mut bytes = vec![0; 160];
            rng.fill(&mut bytes[..]);
            write(target, &number.to_string(), &bytes)?;
        }
    }
    for (number, spec) in SPECS.iter().chain([&"dedup:row=16+tiered:row=8"]).enumerate() {
        write("spec", &format!("spec-{number}"), spec.as_bytes())?;
    }
    let (sample, layout) = ([0x3c; 4096], Layout::Compact);
    for (codec, dtype) in [
        ("codebook16", DType::Bf16),
        ("codebook16", DType::F8E5M2),
        ("rans", DType::Bf16),
        ("rans", DType::F32),
        ("rans", DType::F8E4M3),
    ] {
        let spec: Spec = codec.parse().expect("ids are specs");
        let table = spec.train(layout, dtype, &[&sample]).expect("the codec codes the type");
        let text = TableFile { table, layout, values: 0, missed: 0 }.to_text();
        write("spec", &format!("table-{codec}-{dtype}"), text.as_bytes())?;
    }
    for (name, text) in scenarios() {
        write("scenario", name, text.as_bytes())?;
    }
    for (name, kind, bytes) in recordings() {
        write("recording", name, &[&[kind], &bytes[..]].concat())?;
    }
    write("store_manifest", "sound", manifest_body().as_bytes())?;
    write(
        "store_manifest",
        "outside",
        manifest_body().replace("m.safetensors", "../m.safetensors").as_bytes(),
    )?;
    // A number of an object, nothing cut, and an edit of each field of its header.
    for number in 0..4_u8 {
        for at in [5_u16, 6, 8, 16, 24, 40, 72, 104, 0x4000, 0x4010, 0x9000] {
            let [low, high] = at.to_le_bytes();
            write("store_object", &format!("{number}-{at}"), &[number, 0, 1, low, high, 1, 0])?;
        }
    }
    Ok(())
}

/// A short frame of each codec, type and layout, with values of several kinds.
fn frames() -> Vec<(&'static str, DType, Layout, Vec<u8>)> {
    let mut frames = Vec::new();
    for name in [
        "raw",
        "window7",
        "tiered",
        "rans",
        "codebook16",
        "grouped",
        "blockwise",
        "huffman",
        "planes",
        "dedup:row=4+tiered",
    ] {
        let codec = codec(name);
        let name = codec.id();
        for dtype in DType::ALL.into_iter().filter(|dtype| codec.supports(*dtype)) {
            for layout in Layout::ALL {
                let values = short_values(dtype);
                let frame = codec.encode_to_vec(layout, dtype, &values).expect("the type is supported");
                frames.push((name, dtype, layout, frame));
            }
        }
    }
    frames
}

/// 300 values: Gaussian ones, zeros among others, and noise.
fn short_values(dtype: DType) -> Vec<u8> {
    // A number of values, then runs: length, kind, and what the kind takes.
    let recipe = [0, 1, 44, 127, 6, 120, 1, 0, 99, 5, 118, 2, 0, 99, 50, 0, 127, 8, 1, 3, 0];
    values(&mut arbitrary::Unstructured::new(&recipe), dtype).expect("the recipe is whole")
}

/// Scenarios with the file that they read, and arguments: the shipped ones, which `tools/fuzz` takes as well, read none.
fn scenarios() -> Vec<(&'static str, String)> {
    let scenario = |nodes: u32, workload: &str, rest: &str| {
        format!(
            "name = \"a\"\n[cluster]\nnodes = {nodes}\ngpus_per_node = 2\ngpu_bandwidth = \"25 GB/s\"\n\
             nic_bandwidth = \"50 Gb/s\"\nlatency_intra = \"5 us\"\nlatency_inter = \"10 us\"\n\
             [workload]\n{workload}\n\0{rest}"
        )
    };
    let moe = |routing: &str| {
        format!(
            "kind = \"moe\"\nmodel = {{ experts = 2, top_k = 1, hidden = 8, tokens_per_rank = 4 }}\n\
             routing = {{ {routing} }}"
        )
    };
    let matrix = "kind = \"collective\"\ncollective = \"all-to-all\"\nmatrix = \"input\"";
    let flows = "kind = \"transfers\"\nfile = \"input\"\nstart = \"rank-ready\"";
    let record = "{\"step\":0,\"layer\":1,\"ranks\":2,\"sharding\":\"domain\",\"tokens_per_rank\":4,\
                  \"topk\":1,\"matrix\":[[1,3],[2,2]]}\n";
    vec![
        ("matrix", scenario(1, matrix, "0, 64\n32,0\n\0seed=7\0cluster.gpu_bandwidth=50 GB/s")),
        ("flows", scenario(2, flows, "src,dst,bytes,start_us\n0,1,64,0\n\n3, 0,2,1.5\n")),
        (
            "routing-trace",
            scenario(1, &moe("trace = \"input\", layer = 1, step = 0"), "step,layer,e0,e1\n0,1,5,3\n"),
        ),
        (
            "routing-matrix",
            scenario(1, &moe("matrix = \"input\", layer = 1, step = 0, sharding = \"domain\""), record),
        ),
    ]
}

/// Small files of each kind that `recording` reads.
fn recordings() -> Vec<(&'static str, u8, Vec<u8>)> {
    let header = r#"{"__metadata__":{"a":"b"},"x":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},"y":{"dtype":"F32","shape":[],"data_offsets":[12,16]}}"#;
    let tensors = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[7; 16]].concat();
    let matrices = concat!(
        r#"{"step":290,"layer":2,"ranks":2,"sharding":"domain","tokens_per_rank":8,"topk":2,"matrix":[[9,7],[4,12]]}"#,
        "\n\n",
        r#"{"step":291,"layer":3,"ranks":1,"sharding":"shuffled","tokens_per_rank":1,"topk":1,"matrix":[[1]]}"#,
        "\n"
    );
    let trace = "step,layer,e0,e1\n0,0,5,11\n5,1, 8,8\n";
    let timeline = concat!(
        r#"{"traceEvents":["#,
        r#"{"ph":"M","pid":0,"name":"process_name","args":{"name":"rank 0"}},"#,
        r#"{"ph":"M","pid":1,"name":"process_name","args":{"name":"rank 1"}},"#,
        r#"{"ph":"b","cat":"iteration","id":0,"pid":0,"ts":0,"name":"iteration","args":{"iteration":0}},"#,
        r#"{"ph":"X","cat":"tx","pid":0,"tid":3,"ts":1.25,"dur":2.5,"name":"send raw","args":"#,
        r#"{"iteration":0,"segment":"flow","op":1,"stage":"raw","peer":1,"tag":2,"bytes":64}},"#,
        r#"{"ph":"e","cat":"iteration","id":0,"pid":0,"ts":9.75,"name":"iteration"}],"#,
        r#""otherData":{"scenario":"a","variant":"native","executor":"sim","seed":7,"#,
        r#""plan_digest":"00ff","clock":"virtual","codec":null}}"#
    );
    vec![
        ("tensors", 0, tensors),
        ("matrices", 1, matrices.into()),
        ("routing", 2, trace.into()),
        ("timeline", 3, timeline.into()),
    ]
}
