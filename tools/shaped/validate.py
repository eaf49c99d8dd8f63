#!/usr/bin/env python3
"""Holds predictions against runs on shaped hosts: `zipwire validate --on mpi`, three times for each scenario.

    validate.py [--zipwire PATH] [--mpirun PATH] [--only NAME,...]      a table in Markdown on stdout

Constants come from probes on the same hosts, just before. Fails if an error of a mean is above its limit, or a ranking is
wrong; ends with 77 where hosts cannot be made. It takes about ten minutes; nothing else should run on the machine.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
RATE = "100mbit"
REPETITIONS = 3
# Limits of an error in percent, set before anything was measured: rounds and single bottlenecks, and symmetric bursts.
SINGLE, BURST = 10, 25
# Scenario: hosts, options of these, limit. Variants that go in rounds have the limit of these everywhere.
CASES = {
    "incast": (4, [], SINGLE),
    "ring": (4, [], SINGLE),
    "slow-link": (4, ["--slow", "2=50mbit"], SINGLE),
    "late-rank": (4, ["--slow", "0=50mbit"], SINGLE),
    "all-to-all": (4, [], BURST),
    "racks": (8, ["--racks", "2", "--uplink", "200mbit"], BURST),
    "moe": (4, [], BURST),
}
# Design 2 of ZipCCL against design 1 with a late rank: measured by what is predicted, within so many percent.
DESIGNS, DESIGNS_LIMIT = ("late-rank", "size-first", "static-first"), 10


def limit(name, variant):
    return SINGLE if variant.endswith("-shifted") else CASES[name][2]


def measure(name, options, folder):
    """Probes the hosts of a scenario, and validates it on them several times."""
    hosts, flags, _ = CASES[name]
    leaves = ["--nodes-per-leaf", str(hosts // 2)] if "--racks" in flags else []
    cluster, scenario = folder / f"{name}.toml", HERE / "scenarios" / f"{name}.toml"
    zipwire = [options.zipwire]
    probe = zipwire + ["calibrate", "probe", "--nodes", str(hosts), "--gpus-per-node", "1", *leaves]
    commands = [" ".join([*probe, "--codec", "window7", "-o", str(cluster)])]
    for run in range(REPETITIONS):
        validate = zipwire + ["validate", str(scenario), "--on", "mpi", "--cluster", str(cluster), "--json"]
        commands.append(" ".join(validate) + f" > {folder}/{name}-{run}.json")
    shell = ["sh", "-ec", "\n".join(commands)]
    words = [str(HERE / "hosts.py"), "--hosts", str(hosts), "--rate", RATE, *flags, "--timeout", "900", "--", *shell]
    status = subprocess.run(words, stdout=sys.stderr).returncode
    if status == 77:
        sys.exit(77)
    if status != 0:
        sys.exit(f"validate.py: `{name}` has ended with {status}")
    return [json.loads((folder / f"{name}-{run}.json").read_text()) for run in range(REPETITIONS)]


def mean(values):
    return sum(values) / len(values)


def rows(name, runs):
    """Lines of the table for a scenario, and whether each is within its limit."""
    for variant, first in runs[0]["variants"].items():
        measured = [run["variants"][variant]["measured_s"] for run in runs]
        error = 100 * (mean(measured) / first["predicted_s"] - 1)
        is_right = abs(error) <= limit(name, variant)
        times = ", ".join(f"{seconds:.3f}" for seconds in measured)
        verdict = f"{limit(name, variant)} %" if is_right else f"**{limit(name, variant)} %**"
        yield f"| {name} | {variant} | {first['predicted_s']:.3f} | {times} | {error:+.1f} % | {verdict} |", is_right


def designs(runs):
    """How many times as fast one design is as the other, predicted and measured; whether that is as predicted."""
    _, first, second = DESIGNS
    ratio = lambda run, key: run["variants"][first][key] / run["variants"][second][key]
    predicted, measured = ratio(runs[0], "predicted_s"), [ratio(run, "measured_s") for run in runs]
    error = 100 * (mean(measured) / predicted - 1)
    times = ", ".join(f"{each:.3f}" for each in measured)
    line = f"`{second}` is {predicted:.3f} times as fast as `{first}` with a late rank as predicted, {times} as measured: {error:+.1f} %"
    return line, abs(error) <= DESIGNS_LIMIT and mean(measured) > 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--zipwire", default="target/release/zipwire", metavar="PATH")
    parser.add_argument("--mpirun", metavar="PATH", help="that of the MPI to use [found in PATH]")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(CASES), metavar="NAME,...")
    options = parser.parse_args()
    if unknown := [name for name in options.only if name not in CASES]:
        parser.error(f"no scenario is called `{unknown[0]}`: {', '.join(CASES)}")
    if options.mpirun:
        os.environ["PATH"] = f"{Path(options.mpirun).resolve().parent}{os.pathsep}{os.environ['PATH']}"
    right, lines, notes = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.only:
            runs = measure(name, options, Path(folder))
            for line, is_right in rows(name, runs):
                lines.append(line)
                right.append(is_right)
            if wrong := sum(not run["ranking_agrees"] for run in runs):
                notes.append(f"{name}: the ranking is wrong in {wrong} of {REPETITIONS} runs")
                right.append(False)
            if name == DESIGNS[0]:
                line, is_right = designs(runs)
                notes.append(line)
                right.append(is_right)
    print("| scenario | variant | predicted (s) | measured (s) | error of the mean | limit |\n|---|---|---|---|---|---|")
    print("\n".join([*lines, "", *notes]))
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
