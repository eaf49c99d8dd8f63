#!/usr/bin/env python3
"""Holds zipwire's simulator against SimGrid: finish times of the same flows, and the seconds that both take.

    tools/benchmarks/simgrid.py agree            every flow of all cases, to 1e-6; fails beyond
    tools/benchmarks/simgrid.py speed [RANKS...] all pairs with unequal sizes [64 128]; SimGrid takes minutes from 200 ranks on
    tools/benchmarks/simgrid.py activities       SimGrid's ends of flows and activities as sim/tests has them, to 1e-6; fails beyond
    tools/benchmarks/simgrid.py activities --write   draws these cases anew, always the same ones

SimGrid (Debian's libsimgrid-dev) runs simgrid/flows.cpp: max-min fairness, factors of 1, no weights, no TCP window, no
cross-traffic, latency as a delay. It is given the links and routes that `zipwire scenario routes` prints, so it knows
nothing of topologies. Both run one after the other on this machine, and seconds are those of one core, of user and
system, so other load disturbs them little.

For activities it runs simgrid/activities.cpp: parallel tasks under bottleneck fairness, where each is held back by a full link of
which nobody takes more than it does. Ours is that fairness when everybody is held back at the link that would be full first if it were
alone and nobody takes more there, so only such cases are kept.
"""

import argparse
import csv
import json
import math
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
ZIPWIRE = TARGET / "release" / "zipwire"
ACTIVITIES = ROOT / "sim" / "tests" / "it" / "network" / "simgrid-activities.txt"
LIMIT = 1e-6
# Where times are compared SimGrid must tell events apart that are less than its default of 1e-9 s apart. Where seconds are
# compared it has its defaults.
PRECISE = ["--cfg=surf/precision:1e-13", "--cfg=maxmin/precision:1e-9"]
MIB = 1 << 20

FABRICS = {
    "flat-nodes": 'topology = "flat"',
    "rail-spine": 'topology = { kind = "rail", oversubscription = 2.5 }',
    "rail-pxn": 'topology = { kind = "rail", cross_rail = "pxn" }',
    "fat-tree": 'topology = { kind = "fat-tree", nodes_per_leaf = 2, oversubscription = 1.7 }',
    "fat-tree-pods": (
        'topology = { kind = "fat-tree", nodes_per_leaf = 1, leaves_per_pod = 2, '
        'uplink_bandwidth = "30 GB/s", pod_oversubscription = 3.0 }'
    ),
}


class Case:
    """Flows (src, dst, bytes, start_us) on a cluster."""

    def __init__(self, name, cluster, ranks, flows, order="burst", start="given"):
        self.name, self.cluster, self.ranks = name, cluster, ranks
        self.flows, self.order, self.start = flows, order, start

    def write(self, folder):
        """The scenario file."""
        with open(folder / "flows.csv", "w") as out:
            out.write("src,dst,bytes,start_us\n")
            out.writelines(f"{src},{dst},{size},{start_us!r}\n" for src, dst, size, start_us in self.flows)
        path = folder / "scenario.toml"
        workload = f'kind = "transfers"\nfile = "flows.csv"\norder = "{self.order}"\nstart = "{self.start}"\n'
        path.write_text(f'name = "{self.name}"\n[cluster]\n{self.cluster}\n[workload]\n{workload}')
        return path

    def not_before_s(self):
        """When each flow can start: a rank is ready at the start of its own rows, or at 0."""
        if self.start == "given":
            return [start_us / 1e6 for *_, start_us in self.flows]
        ready_us = {src: start_us for src, _, _, start_us in self.flows}
        return [max(ready_us.get(src, 0), ready_us.get(dst, 0)) / 1e6 for src, dst, *_ in self.flows]


def flat(gpus):
    return (f'nodes = 1\ngpus_per_node = {gpus}\ngpu_bandwidth = "25 GB/s"\nlatency_intra = "5 us"', gpus)


def nodes(count, gpus, nics=1, gpu="25 GB/s", nic="25 GB/s", links=""):
    text = (
        f'nodes = {count}\ngpus_per_node = {gpus}\nnics_per_node = {nics}\ngpu_bandwidth = "{gpu}"\n'
        f'nic_bandwidth = "{nic}"\nlatency_intra = "5 us"\nlatency_inter = "10 us"'
    )
    return (f"{text}\n{links}", count * gpus)


def pairs(ranks, size, start_us=lambda src: 0.0):
    """All pairs in shifted rounds: row by row, every rank sends one and receives one."""
    rounds = ((src, (src + step) % ranks) for step in range(1, ranks) for src in range(ranks))
    return [(src, dst, size(dst), start_us(src)) for src, dst in rounds]


def cases():
    draw = random.Random(1)
    unequal = lambda _: draw.randrange(MIB // 2, 3 * MIB // 2)

    def zipf(ranks):
        weights = [1 / position**0.8 for position in range(1, ranks + 1)]
        draw.shuffle(weights)
        mean = sum(weights) / ranks
        return lambda dst: int(unequal(dst) * weights[dst] / mean)

    def staggered(ranks, span_us):
        ready = [draw.uniform(0, span_us) for _ in range(ranks)]
        return lambda src: ready[src]

    def case(name, cluster, size=unequal, start_us=lambda src: 0.0, **more):
        text, ranks = cluster
        return Case(name, text, ranks, pairs(ranks, size, start_us), **more)

    links = 'links = { "nic 0 up" = "11 GB/s", "nic 2 down" = "7 GB/s", "gpu 5 up" = "3 GB/s" }'
    fast = {"gpu": "150 GB/s", "nic": "25 GB/s"}
    yield case("flat-equal", flat(16), lambda _: MIB)
    yield case("flat-unequal", flat(32))
    yield case("flat-unequal", flat(64))
    yield case("flat-zipf", flat(32), zipf(32))
    yield case("flat-staggered", flat(24), start_us=staggered(24, 300))
    yield case("flat-rank-ready", flat(24), start_us=staggered(24, 300), start="rank-ready")
    yield case("nodes-unequal", nodes(4, 8))
    yield case("nodes-unequal", nodes(8, 8))
    yield case("nodes-fast-gpus", nodes(4, 8, **fast))
    yield case("nodes-2-nics", nodes(4, 6, 2, **fast))
    yield case("nodes-3-nics-zipf", nodes(4, 8, 3, **fast), zipf(32))
    yield case("nodes-odd-links", nodes(3, 4, links=links), start_us=staggered(12, 500))
    for name, topology in FABRICS.items():
        yield case(name, nodes(6, 4, 2, links=topology), start_us=staggered(24, 200))
    yield case("chain-flat", flat(16), order="chain")
    yield case("chain-nodes-late", nodes(3, 4, 2), start_us=staggered(12, 500), order="chain", start="rank-ready")
    yield case("sendrecv-flat", flat(16), order="sendrecv")
    yield case("sendrecv-nodes", nodes(4, 4), order="sendrecv")
    yield case("sendrecv-late", nodes(2, 8, 4), zipf(16), staggered(16, 500), order="sendrecv", start="rank-ready")


def run(command, **options):
    """The output of a command and the seconds of a core that it took."""
    before = os.times()
    result = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True, **options)
    after = os.times()
    if result.returncode != 0:
        sys.exit(f"{command[0]} ended with {result.returncode}")
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    return result.stdout, cpu_s


def program(name):
    """A program of ours that simulates with SimGrid, built where it is missing or old."""
    source = ROOT / "tools" / "benchmarks" / "simgrid" / f"{name}.cpp"
    built = TARGET / f"simgrid-{name}"
    if not built.exists() or built.stat().st_mtime < source.stat().st_mtime:
        TARGET.mkdir(parents=True, exist_ok=True)
        run(["c++", "-O2", "-std=c++17", "-o", built, source, "-lsimgrid"])
    return built


def simgrid(case, scenario, settings=()):
    """(start, finish) of each flow in seconds, seconds of the simulation itself, and of the whole process."""
    graph = json.loads(run([ZIPWIRE, "scenario", "routes", scenario, "--json"])[0])
    lines = [str(len(graph["links"]))]
    lines += [repr(link["bytes_per_s"]) for link in graph["links"]]
    lines.append(f"{graph['ranks']} {len(graph['routes'])}")
    for route in graph["routes"]:
        links = " ".join(map(str, route["links"]))
        lines.append(f"{route['src']} {route['dst']} {route['latency_s']!r} {len(route['links'])} {links}")
    lines.append(f"{case.order} {len(case.flows)}")
    for (src, dst, size, _), start_s in zip(case.flows, case.not_before_s()):
        lines.append(f"{src} {dst} {size} {start_s!r}")
    output, cpu_s = run([program("flows"), "--log=root.thresh:error", *settings], input="\n".join(lines))
    *times, (_, busy_s) = [line.split() for line in output.splitlines()]
    return [tuple(map(float, pair)) for pair in times], float(busy_s), cpu_s


def zipwire(scenario, folder):
    """(start, finish) of each flow in seconds."""
    run([ZIPWIRE, "run", scenario, "--out", folder / "out", "--json"])
    with open(folder / "out" / "transfers.csv") as rows:
        return [(float(row["start_s"]), float(row["finish_s"])) for row in csv.DictReader(rows)]


def in_folder(function, *arguments):
    with tempfile.TemporaryDirectory() as folder:
        return function(Path(folder), *arguments)


def compare(folder, case):
    """The worst relative difference of the starts and finishes of all flows."""
    scenario = case.write(folder)
    ours, (theirs, _, _) = zipwire(scenario, folder), simgrid(case, scenario, PRECISE)
    if len(ours) != len(case.flows) or len(theirs) != len(case.flows):
        sys.exit(f"{case.name}: {len(ours)} and {len(theirs)} of {len(case.flows)} flows have ended")
    # A start is held against the finish: both are points on one clock, and the first starts are at 0.
    ends = [max(abs(a[0] - b[0]), abs(a[1] - b[1])) / b[1] for a, b in zip(ours, theirs)]
    return max(ends), len({finish for _, finish in ours})


def agree():
    print("| case | order | ranks | flows | distinct ends | worst relative difference |\n|---|---|---|---|---|---|")
    failed = []
    for case in cases():
        worst, ends = in_folder(compare, case)
        columns = [f"`{case.name}`", case.order, case.ranks, len(case.flows), ends, f"{worst:.1e}"]
        print("| " + " | ".join(map(str, columns)) + " |", flush=True)
        if not worst <= LIMIT:
            failed.append(case.name)
    if failed:
        sys.exit(f"differences above {LIMIT:g}: {', '.join(failed)}")


def race(folder, case):
    """Both on one case, as a row."""
    scenario = case.write(folder)
    rows = json.loads(run([ZIPWIRE, "bench", "sim", scenario, "--json"])[0])["rows"]
    network, simulator = (next(row for row in rows if row["level"] == level) for level in ("network", "simulator"))
    whole_s = simulator["prepare_s"] + simulator["cpu_s"]
    _, busy_s, cpu_s = simgrid(case, scenario)
    seconds = [busy_s, network["cpu_s"], busy_s / network["cpu_s"], cpu_s, whole_s, cpu_s / whole_s]
    texts = ["{:.2f} s", "{:.4f} s", "{:.0f} x", "{:.2f} s", "{:.4f} s", "{:.0f} x"]
    return [text.format(value) for text, value in zip(texts, seconds)]


def speed(rank_counts):
    print("| all pairs, unequal | SimGrid, its run | zipwire, network | | SimGrid, process | zipwire, scenario to timeline | |")
    print("|---|---|---|---|---|---|---|")
    for ranks in rank_counts:
        for name, (text, _) in (("flat", flat(ranks)), ("nodes of 8", nodes(ranks // 8, 8))):
            draw = random.Random(ranks)
            flows = pairs(ranks, lambda _: draw.randrange(MIB // 2, 3 * MIB // 2))
            row = in_folder(race, Case("race", text, ranks, flows))
            print("| " + " | ".join([f"{ranks} ranks, {name}", *row]) + " |", flush=True)


class Load:
    """A flow or an activity: bytes on each link, all moved at one pace; of a flow, or without a bound of its own, `moving_s` is 0."""

    def __init__(self, kind, start_s, moving_s, links, end_s=None):
        self.kind, self.start_s, self.moving_s, self.links, self.end_s = kind, start_s, moving_s, links, end_s

    @staticmethod
    def read(line):
        kind, end_s, start_s, moving_s, *links = line.split()
        parts = (part.split(":") for part in links)
        return Load(kind, float(start_s), float(moving_s), {int(link): float(size) for link, size in parts}, float(end_s))

    def written(self, end_s):
        links = " ".join(f"{link}:{size:g}" for link, size in self.links.items())
        return f"{self.kind} {end_s!r} {self.start_s:g} {self.moving_s:g} {links}\n"


def fullest(capacities, demand):
    """Bytes on the link that would be full first if a load were alone: of equals the least."""
    most = max(size / capacities[link] for link, size in demand.items())
    return min(size for link, size in demand.items() if size / capacities[link] == most)


def with_bounds(capacities, loads):
    """Capacities, and bytes by link of each load, where the bound of an activity is a link of its own."""
    capacities, demands = list(capacities), [dict(load.links) for load in loads]
    for load, demand in zip(loads, demands):
        if load.moving_s > 0:
            demand[len(capacities)] = fullest(capacities, demand)
            capacities.append(demand[len(capacities)] / load.moving_s)
    return capacities, demands


def shares(capacities, demands):
    """Progress of each in 1/s, by weighted max-min, or nothing where SimGrid's fairness is another."""
    units = [fullest(capacities, demand) for demand in demands]
    weights = [{link: size / unit for link, size in demand.items()} for demand, unit in zip(demands, units)]
    levels, stops = {}, {}
    while len(levels) < len(demands):
        rising = [i for i in range(len(demands)) if i not in levels]
        full = {}
        for link in {link for i in rising for link in weights[i]}:
            taken = sum(level * weights[i].get(link, 0) for i, level in levels.items())
            full[link] = (capacities[link] - taken) / sum(weights[i].get(link, 0) for i in rising)
        first = min(full.values())
        for i in rising:
            stops[i] = [link for link in weights[i] if full[link] <= first * (1 + 1e-12)]
            if stops[i]:
                levels[i] = first

    def holds_back(link, i):
        most = max(level * weights[other].get(link, 0) for other, level in levels.items())
        return weights[i][link] == 1 and most <= levels[i] * (1 + 1e-9)

    if all(any(holds_back(link, i) for link in at) for i, at in stops.items()):
        return [levels[i] / unit for i, unit in enumerate(units)]


def is_kept(capacities, loads):
    """Whether SimGrid's fairness is ours until the last one has ended."""
    capacities, demands = with_bounds(capacities, loads)
    left, now_s = dict.fromkeys(range(len(loads)), 1.0), 0.0
    while left:
        moving = [i for i in left if loads[i].start_s <= now_s]
        speeds = shares(capacities, [demands[i] for i in moving])
        if speeds is None:
            return False
        starts = [loads[i].start_s - now_s for i in left if i not in moving]
        step_s = min(starts + [left[i] / speed for i, speed in zip(moving, speeds)])
        now_s += step_s
        for i, speed in zip(moving, speeds):
            left[i] -= speed * step_s
        left = {i: part for i, part in left.items() if part > 1e-12}
    return True


def draw_loads(draw):
    """Capacities in bytes per second of 2 to 8 links, and 3 to 12 loads on them."""

    def log_uniform(low, high):
        return float(f"{low * math.exp(draw.uniform(0, math.log(high / low))):.3g}")

    capacities = [log_uniform(1e9, 1e10) for _ in range(draw.randint(2, 8))]
    loads = []
    for _ in range(draw.randint(3, 12)):
        kind = draw.choice(["flow", "activity"])
        hops = draw.randint(1, min(6, len(capacities)))
        links, size = sorted(draw.sample(range(len(capacities)), hops)), log_uniform(1e8, 1e10)
        demand = dict.fromkeys(links, size)
        if kind == "activity":
            # As much as the link can carry in the mean, or as much on each.
            size = draw.choice([{link: size * capacities[link] / 1e10 for link in links}, demand])
            demand = {link: log_uniform(0.05 * size[link], size[link]) for link in links}
            earlier = [load.links for load in loads if load.kind == kind]
            if earlier and draw.random() < 0.2:
                demand = draw.choice(earlier)
        least_s = max(size / capacities[link] for link, size in demand.items())
        moving_s = log_uniform(0.5 * least_s, 4 * least_s) if kind == "activity" and draw.random() < 0.5 else 0.0
        start_s = draw.choice([0.0, float(f"{draw.uniform(0, 2 * least_s):.3g}")])
        loads.append(Load(kind, start_s, moving_s, demand))
    return capacities, loads


def simgrid_ends_s(capacities, loads):
    """When each load ends in SimGrid: a flow has one route over its links, an activity one for each link and one for its bound."""
    all_capacities, demands = with_bounds(capacities, loads)
    lines = [str(len(all_capacities)), *map(repr, all_capacities), str(len(loads))]
    for load, demand in zip(loads, demands):
        routes = [(size, [link]) for link, size in demand.items()]
        if load.kind == "flow":
            routes = [(routes[0][0], list(demand))]
        lines.append(f"{load.start_s!r} {len(routes)}")
        lines += [f"{size!r} {len(links)} {' '.join(map(str, links))}" for size, links in routes]
    output, _ = run([program("activities"), "--log=root.thresh:error", PRECISE[0]], input="\n".join(lines))
    return list(map(float, output.split()))


def write_activities(count=50):
    """Draws cases that are kept and writes them with SimGrid's times."""
    draw, kept = random.Random(1), []
    while len(kept) < count:
        capacities, loads = draw_loads(draw)
        if sum(load.kind == "activity" for load in loads) >= 2 and is_kept(capacities, loads):
            kept.append((capacities, loads))
    head = """\
# Flows and activities in SimGrid 3.32: parallel tasks, ptask_L07 with host/solver:bmf, no latency. Random cases in which everybody is
# always held back by its fullest link, or its bound, and nobody takes more there. tools/benchmarks/simgrid.py activities --write
#
#     links BYTES_PER_S...
#     flow|activity END_S START_S MOVING_S LINK:BYTES...
#
# A flow's bytes are the same on all its links. MOVING_S is what an activity takes where no link holds it back.
"""
    with open(ACTIVITIES, "w") as out:
        out.write(head)
        for capacities, loads in kept:
            out.write("\nlinks " + " ".join(f"{capacity:g}" for capacity in capacities) + "\n")
            ends_s = simgrid_ends_s(capacities, loads)
            out.writelines(load.written(end_s) for load, end_s in zip(loads, ends_s, strict=True))


def activities(write):
    if write:
        write_activities()
    count, found, worst = 0, [], 0.0
    for case in ACTIVITIES.read_text().split("\n\n")[1:]:
        links, *lines = case.splitlines()
        capacities, loads = list(map(float, links.split()[1:])), list(map(Load.read, lines))
        found += loads
        for load, end_s in zip(loads, simgrid_ends_s(capacities, loads), strict=True):
            worst = max(worst, abs(load.end_s - end_s) / (end_s - load.start_s))
        count += 1
    kinds = [load.kind for load in found]
    print("| cases | flows | activities | worst relative difference |\n|---|---|---|---|")
    print(f"| {count} | {kinds.count('flow')} | {kinds.count('activity')} | {worst:.1e} |")
    if not (count and worst <= LIMIT):
        sys.exit(f"{ACTIVITIES}: SimGrid's times differ by more than {LIMIT:g}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True)
    parts.add_parser("agree")
    parts.add_parser("speed").add_argument("ranks", nargs="*", type=int, default=[64, 128])
    parts.add_parser("activities").add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    if arguments.part == "agree":
        agree()
    elif arguments.part == "activities":
        activities(arguments.write)
    else:
        speed(arguments.ranks)


if __name__ == "__main__":
    main()
