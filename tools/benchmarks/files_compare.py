#!/usr/bin/env python3
"""Sizes and seconds of `zipwire compress` and of other programs on the same files: the tables of docs/benchmarks/files.md.

    tools/benchmarks/files_compare.py [--turns N] [--folder FOLDER] FILE ...

The others: ZipNN as its script `zipnn_compress_file.py` calls it, with the type that most bytes of the file have; lmzip, `zstd -3` and `xz -1`,
all with as many threads as there are processors. Every program reads a file and writes one in FOLDER (a new one in /dev/shm, if there is one, so that
disks do not count). Programs take turns; a time is the best of all turns and includes the start of the program, of Python, too: for ZipNN the time
between reading and writing, which its library needs, is given beside it. What comes back is compared with the original; `zipwire` also verifies a
checksum as it goes, as `xz`, `zstd` and lmzip do. `ZIPWIRE=PROGRAM` names a program that was built elsewhere.
"""

import argparse
import filecmp
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from environment import ROOT, TARGET, VENV, set_up

if __name__ == "__main__" and sys.argv[1:2] != ["--zipnn"]:
    set_up(__file__)

ZIPNN_TYPES = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}


def zipnn_file(direction, dtype, source, target):
    """Runs ZipNN on a file as its scripts do, in a process of its own, and prints the seconds of the library."""
    from unittest import mock

    # ZipNN imports these for tensors; here it is given bytes.
    for module in ("torch", "safetensors", "safetensors.torch"):
        sys.modules.setdefault(module, mock.MagicMock())
    import zipnn

    coder = zipnn.ZipNN(bytearray_dtype=dtype, method="HUFFMAN", threads=os.cpu_count())
    data = Path(source).read_bytes()
    begin = time.monotonic()
    # Compressing changes its input, so it gets one of its own.
    out = coder.compress(bytearray(data)) if direction == "compress" else coder.decompress(data)
    print(time.monotonic() - begin)
    Path(target).write_bytes(out)


def dtype_of(path):
    """The type that most bytes of a file have; F32 of an archive, which ZipNN is told to take it for."""
    if path.suffix != ".safetensors":
        return "F32"
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    bytes_of = Counter()
    for name, tensor in header.items():
        if name != "__metadata__":
            bytes_of[tensor["dtype"]] += tensor["data_offsets"][1] - tensor["data_offsets"][0]
    return bytes_of.most_common(1)[0][0]


def programs(zipwire, dtype):
    """Name, command that compresses, command that restores, suffix. `{}` is the file."""
    threads = str(os.cpu_count())
    for name, options in [("zipwire", []), ("zipwire, `--fast`", ["--fast"])]:
        yield (
            name,
            [zipwire, "compress", "{plain}", *options, "-o", "{packed}"],
            [zipwire, "decompress", "{packed}", "-o", "{back}"],
        )
    if dtype in ZIPNN_TYPES:
        script = [sys.executable, __file__, "--zipnn"]
        yield (
            "ZipNN",
            [*script, "compress", ZIPNN_TYPES[dtype], "{plain}", "{packed}"],
            [*script, "decompress", ZIPNN_TYPES[dtype], "{packed}", "{back}"],
        )
    lmz = str(VENV / "bin" / "lmz")
    yield ("lmzip", [lmz, "compress", "-q", "-f", "{plain}", "{packed}"], [lmz, "decompress", "-q", "-f", "{packed}", "{back}"])
    yield (
        "`zstd -3`",
        ["zstd", "-q", "-3", f"-T{threads}", "{plain}", "-o", "{packed}"],
        ["zstd", "-q", "-d", "{packed}", "-o", "{back}"],
    )
    yield (
        "`xz -1`",
        ["sh", "-c", f"xz -1 -T{threads} -c '{{plain}}' > '{{packed}}'"],
        ["sh", "-c", f"xz -d -T{threads} -c '{{packed}}' > '{{back}}'"],
    )


def timed(command):
    begin = time.monotonic()
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    seconds = time.monotonic() - begin
    inner = re.match(r"([0-9.e-]+)\n$", done.stdout)
    return seconds, float(inner[1]) if inner else None


def measure(path, zipwire, folder, turns):
    rows = {}
    for _ in range(turns):
        for name, compress, restore in programs(zipwire, dtype_of(path)):
            places = {"plain": str(path), "packed": str(folder / "packed"), "back": str(folder / "back")}
            packed, back = Path(places["packed"]), Path(places["back"])
            packed.unlink(missing_ok=True)
            back.unlink(missing_ok=True)
            fill = lambda command: [part.format(**places) if "{" in part else part for part in command]
            times = [timed(fill(compress)), timed(fill(restore))]
            assert filecmp.cmp(path, back, shallow=False), f"{name} gives other bytes of {path}"
            row = rows.setdefault(name, {"size": packed.stat().st_size, "times": []})
            row["times"].append(times)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("files", nargs="+", type=Path)
    arguments = parser.parse_args()
    zipwire = os.environ.get("ZIPWIRE")
    if not zipwire:
        subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=ROOT, check=True)
        zipwire = TARGET / "release" / "zipwire"
    zipwire = str(Path(zipwire).resolve())
    memory = Path("/dev/shm")
    parent = arguments.folder or (memory if memory.is_dir() else None)
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    print(f"{os.cpu_count()} processors, {model[1] if model else 'unknown'}, best of {arguments.turns} turns\n")
    print("| file | bytes | program | size, % | compress, s | restore, s | GB/s, compress | GB/s, restore |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        for path in arguments.files:
            raw = path.stat().st_size
            for name, row in measure(path, zipwire, Path(folder), arguments.turns).items():
                cells = []
                speeds = []
                for way in range(2):
                    best, inner = min(times[way] for times in row["times"])
                    library = min((times[way][1] for times in row["times"] if times[way][1]), default=None)
                    cells.append(f"{best:.2f}" + (f" ({library:.2f})" if library else ""))
                    speeds.append(f"{raw / 1e9 / best:.2f}" + (f" ({raw / 1e9 / library:.2f})" if library else ""))
                size = 100 * row["size"] / raw
                print(f"| {path.name} | {raw} | {name} | {size:.2f} | {' | '.join(cells)} | {' | '.join(speeds)} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--zipnn"]:
        zipnn_file(*sys.argv[2:])
    else:
        main()
