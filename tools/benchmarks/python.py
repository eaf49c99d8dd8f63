#!/usr/bin/env python3
"""Compares the Python package with the Rust library that it calls, and with ZipNN's Python API, in one process.

    tools/benchmarks/python.py

Values are 256 MiB of BF16 from N(0, 0.02^2). The first run sets up an environment in target/bench-venv; the wheel is built
by maturin in release. Calls take turns; cells are medians of seven. `into` is memory that is there, else memory is new. Rust's figures are those of
`cargo run --release -p zipwire-models --example tensor`, which does the same calls on the same values by turns with this process.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

from environment import ROOT, TARGET, VENV, set_up

ROUNDS = 7

if __name__ == "__main__":
    set_up(__file__)

import ml_dtypes
import numpy as np

for module in ("torch", "safetensors", "safetensors.torch"):
    sys.modules.setdefault(module, mock.MagicMock())
import zipnn


def install():
    """Builds the wheel and installs it; returns its bytes."""
    pip = [VENV / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "maturin>=1.9,<2"], check=True)
    wheels = TARGET / "python" / "release"
    command = [VENV / "bin" / "maturin", "build", "--quiet", "--release", "--manifest-path", ROOT / "crates/python/Cargo.toml"]
    subprocess.run([*command, "--out", wheels], check=True)
    wheel = max(wheels.glob("*.whl"), key=lambda path: path.stat().st_mtime)
    subprocess.run([*pip, "--no-deps", "--force-reinstall", wheel], check=True)
    return wheel.stat().st_size


def seconds(work):
    begin = time.perf_counter()
    result = work()
    return time.perf_counter() - begin, result


def import_seconds():
    """Time from the start of an import to its end, in new processes."""
    code = "import time; b = time.perf_counter(); import zipwire_tensors; print(time.perf_counter() - b)"
    runs = [subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True) for _ in range(5)]
    return statistics.median(float(run.stdout) for run in runs)


def ours(values, codec, threads):
    import zipwire_tensors as zt

    room, back = bytearray(zt.bound(values, codec)), np.ones_like(values)
    size = zt.compress_into(values, room, codec, threads=threads)
    frame = bytes(room[:size])
    return size, {
        "compress": lambda: zt.compress(values, codec, threads=threads),
        "compress into": lambda: zt.compress_into(values, room, codec, threads=threads),
        "decompress": lambda: zt.decompress(frame, threads=threads),
        "decompress into": lambda: zt.decompress(frame, back, threads=threads),
    }


def theirs(values, threads):
    coder = zipnn.ZipNN(input_format="byte", bytearray_dtype="bfloat16", threads=threads)
    data = values.tobytes()
    frame = coder.compress(bytearray(data))
    assert bytes(coder.decompress(frame)) == data
    # It reorders bits of its input in place, so each call gets a copy, which is made before.
    return len(frame), {"compress": lambda copy: coder.compress(copy), "decompress": lambda: coder.decompress(frame)}, lambda: bytearray(data)


def rust(path, codec, threads):
    command = ["cargo", "run", "--quiet", "--release", "-p", "zipwire-models", "--example", "tensor", "--", path, codec, str(threads)]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)


def measure(values, path, threads):
    path.write_bytes(values.tobytes())
    times = {}
    calls = {codec: ours(values, codec, threads) for codec in ("tiered", "rans")}
    other_size, other, copy = theirs(values, threads)
    sizes = {codec: size for codec, (size, _) in calls.items()} | {"ZipNN": other_size}
    add = lambda row, what, taken: times.setdefault((row, what), []).append(taken)
    for _ in range(ROUNDS):
        for codec, (_, works) in calls.items():
            for what, taken in rust(path, codec, threads).items():
                add(f"{codec}, Rust", what, taken)
            for what, work in works.items():
                add(codec, what, seconds(work)[0])
        data = copy()
        add("ZipNN", "compress", seconds(lambda: other["compress"](data))[0])
        add("ZipNN", "decompress", seconds(other["decompress"])[0])
    return sizes, {key: statistics.median(taken) for key, taken in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    print(f"wheel {install() / 1e6:.1f} MB, import {1e3 * import_seconds():.0f} ms, load average {os.getloadavg()[0]:.1f}\n")
    values = np.random.default_rng(1).normal(0, 0.02, 128 << 20).astype(np.float32).astype(ml_dtypes.bfloat16)
    whats = ["compress", "compress into", "decompress", "decompress into"]
    print("| threads | row | size % | " + " | ".join(f"{what}, GB/s" for what in whats) + " |\n|---|---|---|" + "---|" * len(whats))
    path = Path("/dev/shm" if os.access("/dev/shm", os.W_OK) else TARGET) / f"zipwire-bench-{os.getpid()}"
    try:
        for threads in (1, 2):
            sizes, medians = measure(values, path, threads)
            for row in ("tiered, Rust", "tiered", "rans, Rust", "rans", "ZipNN"):
                cells = [medians.get((row, what)) for what in whats]
                text = " | ".join("" if cell is None else f"{values.nbytes / cell / 1e9:.2f}" for cell in cells)
                print(f"| {threads} | {row} | {100 * sizes[row.split(',')[0]] / values.nbytes:.2f} | {text} |", flush=True)
    finally:
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
