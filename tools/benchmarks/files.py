#!/usr/bin/env python3
"""Seconds of `zipwire compress` and `decompress`, beside `cp` of the same bytes to the disk: the table of docs/files.md.

    tools/benchmarks/files.py [--gb SIZE] [--turns N] [FOLDER]

Makes a safetensors file of BF16 matrices, N(0, 0.02^2), of about SIZE GB (1.9) in FOLDER (a new one below target/). In each turn every command
comes right behind a `cp` of the original, and both write a new file, all of it to the disk; what was there before is removed, and the disk
has three seconds of rest, before a time begins. What is printed is the middle of the pairs' ratios: disks are as fast as they like from one
minute to the next. A FOLDER in memory, such as one in /dev/shm, leaves the disk out. What comes back is compared with the original.
`ZIPWIRE=PROGRAM` names a program that was built elsewhere.
"""

import argparse
import filecmp
import json
import multiprocessing
import os
import re
import statistics
import struct
import subprocess
import tempfile
import time
from pathlib import Path

from environment import ROOT, TARGET, set_up

if __name__ == "__main__":
    set_up(__file__)

ROWS, COLUMNS = 4096, 14336
REST_S = 3


def make(path, gb):
    """Runs in a process of its own, because peak memory of a parent counts as that of its children."""
    import numpy as np

    count = max(1, round(gb * 1e9 / (2 * ROWS * COLUMNS)))
    length = 2 * ROWS * COLUMNS
    header = {
        f"layers.{i}.weight": {"dtype": "BF16", "shape": [ROWS, COLUMNS], "data_offsets": [i * length, (i + 1) * length]}
        for i in range(count)
    }
    text = json.dumps(header).encode()
    random = np.random.default_rng(1)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _ in range(count):
            values = random.standard_normal(ROWS * COLUMNS, dtype=np.float32) * np.float32(0.02)
            file.write((values.view(np.uint32) >> 16).astype(np.uint16).tobytes())


def timed(folder, output, command):
    """Seconds, and peak memory in KiB."""
    Path(folder, output).unlink(missing_ok=True)
    os.sync()
    time.sleep(REST_S)
    begin = time.monotonic()
    child = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if command[0] == "cp":
        descriptor = os.open(Path(folder, output), os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
    assert status == 0, command
    return time.monotonic() - begin, usage.ru_maxrss


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gb", type=float, default=1.9)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("folder", nargs="?", type=Path)
    arguments = parser.parse_args()
    program = os.environ.get("ZIPWIRE")
    if not program:
        subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=ROOT, check=True)
        program = TARGET / "release" / "zipwire"
    program = str(Path(program).resolve())
    (arguments.folder or TARGET).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=arguments.folder or TARGET) as folder:
        original = Path(folder, "m.safetensors")
        maker = multiprocessing.get_context("spawn").Process(target=make, args=(original, arguments.gb))
        maker.start()
        maker.join()
        assert maker.exitcode == 0
        rows = []
        for codec in ["tiered", "rans"]:
            packed, back = f"{codec}.zw", f"{codec}.back"
            compress = ["compress", "m.safetensors", "--codec", codec, "-o", packed]
            rows.append((f"compress --codec {codec}", packed, [program, *compress]))
            rows.append((f"decompress ({codec})", back, [program, "decompress", packed, "-o", back]))
            rows.append((f"verify ({codec}), without a disk", "", [program, "verify", packed]))
        times = {name: [] for name, _, _ in rows}
        memory = dict.fromkeys(times, 0)
        for _ in range(arguments.turns):
            for name, output, command in rows:
                copying, _ = timed(folder, "copy", ["cp", "m.safetensors", "copy"])
                Path(folder, "copy").unlink()
                seconds, kib = timed(folder, output or "none", command)
                times[name].append((seconds, copying))
                memory[name] = max(memory[name], kib)
                if output.endswith(".back"):
                    assert filecmp.cmp(original, Path(folder, output), shallow=False), f"{name} gives other bytes"
                    Path(folder, output).unlink()
        raw = original.stat().st_size
        model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
        print(f"{raw / 1e9:.2f} GB, {os.cpu_count()} processors, {model[1] if model else 'unknown'}, {arguments.turns} turns\n")
        for codec in ["tiered", "rans"]:
            print(f"{codec}: {100 * Path(folder, codec + '.zw').stat().st_size / raw:.2f} %")
        print("\n| | seconds | `cp` before it | middle ratio | memory, MiB |\n|---|---|---|---|---|")
        for name, pairs in times.items():
            ratio = statistics.median(seconds / copying for seconds, copying in pairs)
            of = lambda column: f"{min(pair[column] for pair in pairs):.2f} to {max(pair[column] for pair in pairs):.2f}"
            print(f"| {name} | {of(0)} | {of(1)} | {ratio:.2f} | {memory[name] / 1024:.0f} |")


if __name__ == "__main__":
    main()
