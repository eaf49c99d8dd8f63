#!/usr/bin/env python3
"""Sizes of adjacent checkpoints by other methods, beside which `codec/examples/deltas.rs` prints those of `delta+X`.

    tools/benchmarks/deltas.py BEFORE.safetensors AFTER.safetensors...
    tools/benchmarks/deltas.py --plain FILE.safetensors...

Each file is compared with the one before, tensor by tensor. The bits that differ (XOR) are given to ZipNN; and to the method of LMC by
formula: bytes of values in groups, for each 64 KiB of a group the shortest of a Huffman code of its own, as long as an ideal one and 128 bytes of
table, of two bytes for each run of equal bytes, and of the bytes as they are. With `--plain` these are the values themselves, beside which `zipwire inspect
--codec grouped,blockwise` prints those of the project. Prints percent of the raw bytes. Uses the environment of `tools/benchmarks/codec.py`.
"""

import sys

from environment import set_up

if __name__ == "__main__":
    set_up(__file__)

import heapq
import json
import struct
from pathlib import Path

import codec
import numpy as np

TABLE = 128
BLOCK = 64 * 1024


def tensors(path):
    data = Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    for name, tensor in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__" and tensor["dtype"] in codec.ZipNN.dtypes:
            begin, end = tensor["data_offsets"]
            yield name, tensor["dtype"], data[8 + length + begin : 8 + length + end]


def huffman_bits(counts):
    """Bits of all symbols by a Huffman code: the sum of the weights of its inner nodes."""
    heap = [int(count) for count in counts if count]
    if len(heap) == 1:
        return heap[0]
    heapq.heapify(heap)
    bits = 0
    while len(heap) > 1:
        both = heapq.heappop(heap) + heapq.heappop(heap)
        bits += both
        heapq.heappush(heap, both)
    return bits


def lmc(data, width):
    groups = np.frombuffer(data, np.uint8).reshape(-1, width).T
    blocks = (group[at : at + BLOCK] for group in groups for at in range(0, len(group), BLOCK))
    return sum(block_len(block) for block in blocks)


def block_len(block):
    runs = 1 + np.count_nonzero(block[1:] != block[:-1])
    return min(len(block), TABLE + huffman_bits(np.bincount(block)) / 8, 2 * runs)


def sizes(file, name, dtype, data):
    """A row of the table."""
    coder = codec.ZipNN(dtype)
    frame = coder.encode(bytearray(data))
    if bytes(coder.decode(frame)) != data:
        sys.exit("ZipNN is not lossless")
    shares = [100 * size / len(data) for size in (len(frame), lmc(data, codec.WIDTHS[dtype]))]
    print(f"| {Path(file).name} | {name} | {dtype} | {shares[0]:.2f} | {shares[1]:.2f} |")


def main():
    print("| file | tensor | type | ZipNN % | LMC % |\n|---|---|---|---|---|")
    if sys.argv[1:2] == ["--plain"]:
        for file in sys.argv[2:]:
            for name, dtype, data in tensors(file):
                sizes(file, name, dtype, data)
        return
    for before, after in zip(sys.argv[1:], sys.argv[2:]):
        bases = {name: data for name, _, data in tensors(before)}
        for name, dtype, data in tensors(after):
            if len(bases.get(name, b"")) != len(data):
                continue
            differ = np.bitwise_xor(np.frombuffer(data, np.uint8), np.frombuffer(bases[name], np.uint8)).tobytes()
            sizes(after, name, dtype, differ)


if __name__ == "__main__":
    main()
