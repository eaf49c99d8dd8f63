#!/usr/bin/env python3
"""A model of made-up weights, as a safetensors file or as shards with their index: shapes of Llama 3 8B, cut to some layers.

    tools/benchmarks/synthetic_model.py OUT [--layers N] [--shards N] [--seed N]

BF16 matrices of N(0, 0.02^2), norms of ones. With 13 layers, the default, it has 7.77 GB. OUT is a file, or with `--shards` a folder, as hubs have it. Takes NumPy,
and memory for a part of one tensor.
"""

import argparse
import json
import struct
from pathlib import Path

from environment import set_up

if __name__ == "__main__":
    set_up(__file__)

HIDDEN, INTERMEDIATE, KV, VOCABULARY = 4096, 14336, 1024, 128256
# Values that are drawn at once.
AT_ONCE = 1 << 24


def tensors(layers):
    """Names and shapes, in the order of the file."""
    yield "model.embed_tokens.weight", [VOCABULARY, HIDDEN]
    for layer in range(layers):
        front = f"model.layers.{layer}."
        yield front + "input_layernorm.weight", [HIDDEN]
        yield front + "mlp.down_proj.weight", [HIDDEN, INTERMEDIATE]
        yield front + "mlp.gate_proj.weight", [INTERMEDIATE, HIDDEN]
        yield front + "mlp.up_proj.weight", [INTERMEDIATE, HIDDEN]
        yield front + "post_attention_layernorm.weight", [HIDDEN]
        yield front + "self_attn.k_proj.weight", [KV, HIDDEN]
        yield front + "self_attn.o_proj.weight", [HIDDEN, HIDDEN]
        yield front + "self_attn.q_proj.weight", [HIDDEN, HIDDEN]
        yield front + "self_attn.v_proj.weight", [KV, HIDDEN]
    yield "model.norm.weight", [HIDDEN]
    yield "lm_head.weight", [VOCABULARY, HIDDEN]


def count(shape):
    product = 1
    for length in shape:
        product *= length
    return product


def write(path, rows, random):
    import numpy as np

    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in rows:
        start, end = end, end + 2 * count(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, shape in rows:
            left = count(shape)
            while left:
                part = min(left, AT_ONCE)
                if len(shape) == 1:
                    values = np.ones(part, np.float32)
                else:
                    values = random.standard_normal(part, dtype=np.float32) * np.float32(0.02)
                (values.view(np.uint32) >> 16).astype(np.uint16).tofile(file)
                left -= part
    return end


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--layers", type=int, default=13)
    parser.add_argument("--shards", type=int)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    import numpy as np

    random = np.random.default_rng(arguments.seed)
    rows = list(tensors(arguments.layers))
    if not arguments.shards:
        bytes_written = write(arguments.out, rows, random)
        print(f"{len(rows)} tensors, {bytes_written / 1e9:.2f} GB")
        return
    arguments.out.mkdir(parents=True)
    total, weight_map = 0, {}
    for shard in range(arguments.shards):
        name = f"model-{shard + 1:05}-of-{arguments.shards:05}.safetensors"
        of_shard = rows[len(rows) * shard // arguments.shards : len(rows) * (shard + 1) // arguments.shards]
        total += write(arguments.out / name, of_shard, random)
        weight_map.update({tensor: name for tensor, _ in of_shard})
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (arguments.out / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
    print(f"{len(rows)} tensors, {total / 1e9:.2f} GB in {arguments.shards} files")


if __name__ == "__main__":
    main()
