#!/usr/bin/env python3
"""Links and prompts for which compressing KV caches pays: `zipwire run` of one request alone.

    tools/benchmarks/serving.py [--program target/release/zipwire] [--picture docs/images/serving-break-even.svg]

Prints tables for docs/serving.md: the gain in the time to the first token by link and prompt, and the link above which each codec gains
nothing, for the GPUs of two presets. The picture takes matplotlib.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = ROOT / "scenarios/serving/one-request.toml"
CODECS = ["tiered", "codebook16", "window7"]
PRESETS = ["h100-8x", "h200-8x"]
LINKS = [3.125, 12.5, 25.0, 50.0, 100.0]
LENGTHS = [256, 1024, 4096, 16384, 65536]


def ttft(program, out, preset, link, length, moves):
    """Seconds to the first token by variant."""
    sets = {
        "cluster.preset": preset,
        "cluster.nic_bandwidth": f"{link:.6f} GB/s",
        "cluster.gpu_bandwidth": f"{max(450.0, link):.6f} GB/s",
        "workload.requests.0.input": length,
        "workload.transfer": moves,
        # H200: 4.8 TB/s of memory, where H100 has 3.35.
        "compute.memory": "2.7 TB/s" if preset == "h100-8x" else "3.87 TB/s",
    }
    command = [program, "run", str(SCENARIO), "--json", "--out", str(out)]
    for path, value in sets.items():
        command += ["--set", f"{path}={value}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    variants = json.loads(done.stdout)["executors"]["sim"]
    return {name: result["requests"]["ttft_s"]["mean"] for name, result in variants.items()}


def break_even(run, preset, length, codec):
    """The link in GB/s above which a codec does not bring the first token earlier; infinite above 3200, None below 0.1."""
    gains = lambda link: (lambda by: by["native"] > by[codec])(run(preset, link, length, "pull"))
    low, high = 0.1, 3200.0
    if not gains(low):
        return None
    if gains(high):
        return float("inf")
    while high / low > 1.01:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if gains(middle) else (low, middle)
    return (low * high) ** 0.5


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "target/release/zipwire"))
    parser.add_argument("--picture", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = lambda *case: ttft(args.program, Path(folder) / "out", *case)
        curves = {}
        for preset in PRESETS:
            print(f"\nTime to the first token of a request alone on `{preset}`, native over `tiered`, `pull` (`push`)\n")
            print("| tokens | " + " | ".join(f"{link} GB/s" for link in LINKS) + " |")
            print("|---|" + "---|" * len(LINKS))
            for length in LENGTHS:
                cells = []
                for link in LINKS:
                    pull, push = (run(preset, link, length, moves) for moves in ("pull", "push"))
                    cells.append(
                        f"{pull['native'] / pull['tiered']:.3f} ({push['native'] / push['tiered']:.3f})"
                    )
                    curves.setdefault((preset, link), []).append(pull["native"] / pull["tiered"])
                print(f"| {length} | " + " | ".join(cells) + " |")
        print("\nLink above which a codec gains nothing, GB/s, `pull`\n")
        print("| tokens | " + " | ".join(f"{codec}, {preset}" for preset in PRESETS for codec in CODECS) + " |")
        print("|---|" + "---|" * len(CODECS) * len(PRESETS))
        for length in LENGTHS:
            found = [break_even(run, preset, length, codec) for preset in PRESETS for codec in CODECS]
            text = ["never gains" if at is None else "gains on all" if at == float("inf") else f"{at:.0f}" for at in found]
            print(f"| {length} | " + " | ".join(text) + " |")
    if args.picture:
        draw(curves, args.picture)


def draw(curves, path):
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "zipwire"
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(PRESETS), figsize=(9, 3.6), sharey=True)
    for axis, preset in zip(axes, PRESETS):
        for link in LINKS:
            axis.plot(LENGTHS, curves[preset, link], marker="o", markersize=3, label=f"{link:g} GB/s")
        axis.axhline(1.0, color="black", linewidth=0.6)
        axis.set_xscale("log", base=2)
        axis.set_xlabel("tokens of the prompt")
        axis.set_xticks(LENGTHS, [f"{length:,}".replace(",", " ") for length in LENGTHS])
        axis.set_title(preset)
    axes[0].set_ylabel("time to first token,\nnative over tiered, x")
    axes[-1].legend(title="link of a GPU", fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
