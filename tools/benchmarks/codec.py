#!/usr/bin/env python3
"""Compares zipwire's codecs with ZipNN, zstd, LZ4, lmzip and OpenZL: size and speed, in one run.

    tools/benchmarks/codec.py [--pages small,huge] [--before PROGRAM] [--json FILE] [FILE.safetensors ...]

Without files the values are 256 MiB of BF16 from N(0, 0.02^2). The first run sets up a virtual environment with the
other codecs in target/bench-venv and builds zipwire; both are used again afterwards.

Each safetensors file is measured per type of values, over its tensors of at least 8 KiB, on one thread. zipwire and the
others take turns, load by load, so that a busy moment of the machine hits both. Every row was decoded and compared with
what was encoded. GB/s are raw bytes (10^9) per second of wall time, the median of several rounds; `x copy` is the speed as a share of copying
the same values in the same process. The others are called from Python and return new memory
each time, whose page faults count, where zipwire writes to buffers that are there; lmzip works on files only and is given one in memory. ZipNN and lmzip choose their methods themselves; zstd is at level 1; OpenZL is given a graph that
splits off the exponents of BF16 and Huffman codes them.

`--pages` are those of zipwire's buffers. With `--before`, the `zipwire` program of an older build is measured as well, by turns
with this one, three times each; cells are medians.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from environment import ROOT, TARGET, set_up

LEAST_BYTES = 8 * 1024
ROUNDS = 3
CODECS = ["raw", "window7", "codebook16", "tiered", "rans", "rans:mantissa=2", "grouped", "blockwise", "huffman"]

if __name__ == "__main__":
    set_up(__file__)

import statistics
import struct
import tempfile
import time
from unittest import mock

import lmz
import lz4.block
import numpy as np
import openzl.ext as openzl
import zstandard

# ZipNN imports these for tensors of PyTorch; it is given bytes.
for module in ("torch", "safetensors", "safetensors.torch"):
    sys.modules.setdefault(module, mock.MagicMock())
import zipnn

WIDTHS = {"BF16": 2, "F16": 2, "F32": 4, "F8_E4M3": 1, "F8_E5M2": 1}


def read(path):
    """The tensors of each type of a safetensors file, of at least `LEAST_BYTES`."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    loads = {}
    for name, tensor in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__" and tensor["dtype"] in WIDTHS:
            begin, end = tensor["data_offsets"]
            if end - begin >= LEAST_BYTES:
                loads.setdefault(tensor["dtype"], []).append(data[8 + length + begin : 8 + length + end])
    return loads


def write(path, dtype, tensors):
    """A safetensors file of flat tensors."""
    header, offset = {}, 0
    for number, tensor in enumerate(tensors):
        end = offset + len(tensor)
        shape = [len(tensor) // WIDTHS[dtype]]
        header[str(number)] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(tensors))


class Zstd:
    name, dtypes = "zstd -1", set(WIDTHS)

    def __init__(self, dtype):
        self.encode, self.decode = zstandard.ZstdCompressor(1).compress, zstandard.ZstdDecompressor().decompress


class Lz4:
    name, dtypes = "lz4", set(WIDTHS)

    def __init__(self, dtype):
        self.encode, self.decode = lz4.block.compress, lz4.block.decompress


class ZipNN:
    name, dtypes = "ZipNN", {"BF16", "F16", "F32"}

    def __init__(self, dtype):
        kind = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}[dtype]
        coder = zipnn.ZipNN(input_format="byte", bytearray_dtype=kind, threads=1)
        # It reorders bits of its input in place: each call gets a copy, made before.
        self.encode, self.decode, self.spoils = coder.compress, coder.decompress, True


class OpenZL:
    name, dtypes = "OpenZL", {"BF16"}

    def __init__(self, dtype):
        graph = openzl.Compressor()
        outputs = (openzl.graphs.Store()(graph), openzl.graphs.Huffman()(graph))
        graph.select_starting_graph(openzl.nodes.BFloat16Deconstruct()(graph, *outputs))
        graph.set_parameter(openzl.CParam.FormatVersion, openzl.MAX_FORMAT_VERSION)
        self.graph, self.context = graph, openzl.CCtx()

    def encode(self, data):
        # A context forgets its graph with each frame.
        self.context.ref_compressor(self.graph)
        return self.context.compress([openzl.Input(openzl.Type.Numeric, np.frombuffer(data, np.uint16))])

    def decode(self, frame):
        return memoryview(openzl.DCtx().decompress(frame)[0].content.as_nparray()).cast("B")


def median_seconds(work, prepare=lambda: ()):
    """Median of a few calls, each with an untimed result of `prepare`."""
    seconds, begin = [], time.perf_counter()
    while len(seconds) < 3 or (time.perf_counter() - begin < 0.5 and len(seconds) < 25):
        arguments = prepare()
        before = time.perf_counter()
        work(*arguments)
        seconds.append(time.perf_counter() - before)
    return statistics.median(seconds)


def row(name, tensors, coded_len, encode_s, decode_s, copy_s):
    raw = sum(map(len, tensors))
    return {
        "codec": name,
        "size_pct": 100 * coded_len / raw,
        "encode_gbps": raw / encode_s / 1e9,
        "decode_gbps": raw / decode_s / 1e9,
        "memcpy_gbps": raw / copy_s / 1e9,
    }


def measure(codec, tensors, copy_s):
    frames = [codec.encode(bytearray(tensor)) for tensor in tensors]
    if any(bytes(codec.decode(frame)) != tensor for frame, tensor in zip(frames, tensors)):
        sys.exit(f"{codec.name} is not lossless")
    inputs = (lambda: ([bytearray(t) for t in tensors],)) if hasattr(codec, "spoils") else (lambda: (tensors,))
    encode_s = median_seconds(lambda data: [codec.encode(tensor) for tensor in data], inputs)
    decode_s = median_seconds(lambda: [codec.decode(frame) for frame in frames])
    return row(codec.name, tensors, sum(map(len, frames)), encode_s, decode_s, copy_s)


def measure_lmzip(dtype, tensors, copy_s, folder):
    plain, coded, back = folder / "plain.safetensors", folder / "coded.lmz", folder / "back.safetensors"
    write(plain, dtype, tensors)
    encode = lambda: lmz.compress(str(plain), str(coded), workers=1)
    decode = lambda: lmz.decompress(str(coded), str(back), workers=1, overwrite=True)
    encode_s, decode_s = median_seconds(encode), median_seconds(decode)
    if back.read_bytes() != plain.read_bytes():
        sys.exit("lmzip is not lossless")
    return row("lmzip", tensors, coded.stat().st_size, encode_s, decode_s, copy_s)


def bench(program, path, codecs, pages):
    command = [program, "bench", "codec", "--codec", ",".join(codecs), "--pages", pages, "--json", path]
    output = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | {"NO_COLOR": "1"})
    return json.loads(output.stdout)["rows"]


def measure_zipwire(path, codecs, pages, before):
    """Rows of this build, and of the one before by turns: `before tiered`, `huge before tiered`."""
    programs = {"": TARGET / "release" / "zipwire"} | ({"before ": before} if before else {})
    turns = [{prefix: bench(program, path, codecs, pages) for prefix, program in programs.items()} for _ in range(ROUNDS if before else 1)]
    rows = []
    for prefix in programs:
        for cells in zip(*(turn[prefix] for turn in turns)):
            merged = dict(cells[0])
            for key in ("encode_gbps", "decode_gbps", "memcpy_gbps"):
                merged[key] = statistics.median(cell[key] for cell in cells)
            huge = "" if merged["pages"] == "small" else f"{merged['pages']} "
            rows.append(merged | {"codec": huge + prefix + merged["codec"]})
    return rows


def gaussian():
    """Values like those of `zipwire bench codec`, from another generator."""
    values = np.random.default_rng(1).normal(0, 0.02, 128 << 20).astype(np.float32).view(np.uint32)
    return ((values + 0x7FFF + (values >> 16 & 1)) >> 16).astype(np.uint16).tobytes()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows here")
    parser.add_argument("--pages", default="small", help="pages of zipwire's buffers [default: small]")
    parser.add_argument("--before", type=Path, metavar="PROGRAM", help="an older build of zipwire, measured by turns")
    arguments = parser.parse_args()
    subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=ROOT, check=True)
    rows = []
    load = " ".join(f"{part:.1f}" for part in os.getloadavg())
    print(f"pages of {os.sysconf('SC_PAGE_SIZE')} bytes, {os.cpu_count()} cores, load average {load}\n")
    print("| values | codec | size % | encode GB/s | x copy | decode GB/s | x copy |")
    print("|---|---|---|---|---|---|---|")
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        folder = Path(folder)
        loads = [(path.name, path, *load) for path in arguments.files for load in read(path).items()]
        if not arguments.files:
            path, tensors = folder / "gaussian.safetensors", [gaussian()]
            write(path, "BF16", tensors)
            loads = [("N(0, 0.02^2)", path, "BF16", tensors)]
        for name, path, dtype, tensors in loads:
            target = [np.ones(len(tensor), np.uint8) for tensor in tensors]
            source = [np.frombuffer(tensor, np.uint8) for tensor in tensors]
            copy_s = median_seconds(lambda: [np.copyto(to, of) for to, of in zip(target, source)])
            found = [own for own in measure_zipwire(path, CODECS, arguments.pages, arguments.before) if own["dtype"] == dtype]
            for codec in (ZipNN, OpenZL, Zstd, Lz4):
                if dtype in codec.dtypes:
                    found.append(measure(codec(dtype), tensors, copy_s))
            found.append(measure_lmzip(dtype, tensors, copy_s, folder))
            for result in found:
                shares = [result[key] / result["memcpy_gbps"] for key in ("encode_gbps", "decode_gbps")]
                print(
                    f"| {name}, {dtype} | {result['codec']} | {result['size_pct']:.2f} |"
                    f" {result['encode_gbps']:.2f} | {shares[0]:.2f} |"
                    f" {result['decode_gbps']:.2f} | {shares[1]:.2f} |",
                    flush=True,
                )
                rows.append(result | {"values": name, "dtype": dtype})
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
