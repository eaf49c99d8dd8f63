#!/usr/bin/env python3
"""Wall time and most memory of `zipwire run` by the number of GPUs, for jobs in which ranks are alike and one in which they are not.

    tools/benchmarks/scale.py [--program target/release/zipwire] [--most 65536] [--picture docs/images/scale.svg]

Prints the table of docs/benchmarks/sim.md. The picture takes matplotlib.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CODEC = ["codec={ id = 'window7', ratio = 1.4 }"]
TRAINING = "scenarios/training/"
ALL_TO_ALL = "{ kind = 'collective', collective = 'all-to-all', bytes_per_rank = '256 MiB' }"


def nodes(gpus):
    return f"cluster={{ preset = 'h100-8x', nodes = {gpus // 8} }}"


def data_parallel(gpus):
    model = "{ kind = 'dp', model = 'llama3-8b', sequence = 4096, bucket = '100 MiB', gradient_dtype = 'BF16' }"
    return [nodes(gpus), f"workload={model}", "compute.dense='400 TFLOP/s'"] + CODEC


def of_replicas(size):
    return lambda gpus: [f"cluster.nodes={gpus // 8}", f"workload.parallel.dp={gpus // size}"]


# Job: scenario, variants, numbers of GPUs, keys that are set for one of them.
JOBS = {
    "FSDP, Llama 3 70B": (
        TRAINING + "llama3-70b-fsdp-64.toml", [], [64, 128, 512, 1024, 4096], lambda gpus: [f"cluster.nodes={gpus // 8}"],
    ),
    "DP, Llama 3 8B": ("scenarios/smoke/dp-2x2.toml", ["native", "size-first"], [64, 128, 512, 1024], data_parallel),
    "4D, Llama 3 405B": (
        TRAINING + "llama3-405b-16384.toml", ["native", "gathers"], [256, 1024, 4096, 16384, 65536], of_replicas(128),
    ),
    "5D, experts": (
        TRAINING + "experts-65536.toml", [], [1024, 4096, 16384, 65536], of_replicas(128),
    ),
    "All-to-All, equal": (
        "scenarios/smoke/all-to-all-equal-2x4.toml", ["native", "static-first"], [64, 256, 1024, 2048, 4096],
        lambda gpus: [nodes(gpus), "workload=" + ALL_TO_ALL] + CODEC,
    ),
    "dispatch and combine, unequal": (
        "scenarios/smoke/moe-zipf-1x4.toml", ["native"], [64, 256, 1024, 2048, 4096],
        lambda gpus: ["iterations=1", nodes(gpus), f"workload.model={{ experts = {gpus}, top_k = 8, hidden = 4096, tokens_per_rank = 8192 }}"]
        + CODEC,
    ),
}


def measure(program, out, scenario, variants, sets):
    """Seconds and bytes of one run, as the kernel counts them for the process."""
    command = [program, "run", str(ROOT / scenario), "--out", str(out)]
    command += ["--variant", ",".join(variants)] if variants else []
    for value in sets:
        command += ["--set", value]
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    message = process.stderr.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"{' '.join(command)}\n{message}")
    return time.monotonic() - begin, usage.ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "target/release/zipwire"))
    parser.add_argument("--most", type=int, default=65536, help="GPUs of the largest run")
    parser.add_argument("--picture", type=Path)
    args = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (scenario, variants, sizes, sets) in JOBS.items():
            for gpus in [gpus for gpus in sizes if gpus <= args.most]:
                print(f"{name}, {gpus} GPUs", file=sys.stderr)
                found[name, gpus] = measure(args.program, Path(folder) / "out", scenario, variants, sets(gpus))
    columns = sorted({gpus for _, gpus in found})
    print("| job | " + " | ".join(f"{gpus} GPUs" for gpus in columns) + " |\n|---|" + "---|" * len(columns))
    for name in JOBS:
        cells = [found.get((name, gpus)) for gpus in columns]
        text = [f"{cell[0]:.1f} s, {cell[1] / 1e9:.2f} GB" if cell else "" for cell in cells]
        print(f"| {name} | " + " | ".join(text) + " |")
    if args.picture:
        draw(found, args.picture)


def draw(found, path):
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "zipwire", "svg.fonttype": "none"})
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6))
    ticks = [64, 256, 1024, 4096, 16384, 65536]
    for axis, part, label in zip(axes, [0, 1], ["wall time of the command, s", "most memory, GB"]):
        for name in JOBS:
            points = sorted((gpus, cell[part] / [1, 1e9][part]) for (job, gpus), cell in found.items() if job == name)
            axis.plot(*zip(*points), marker="o", markersize=3, label=name)
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xticks(ticks, [str(tick) for tick in ticks])
        axis.set_xlabel("GPUs")
        axis.set_title(label, fontsize=10)
        axis.grid(linewidth=0.3)
    axes[-1].legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
