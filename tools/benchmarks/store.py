#!/usr/bin/env python3
"""Size of a store of checkpoints and speed of restoring them: the tables of docs/files.md.

    tools/benchmarks/store.py run [--steps N] [--first STEP] [FOLDER]    a training run whose last N steps (50) are stored, one by one
    tools/benchmarks/store.py state [--steps N] [--first STEP] [FOLDER]  the same run, with all that training goes on from, every tenth step
    tools/benchmarks/store.py files BEFORE.safetensors AFTER...          these files, stored one after the other
    tools/benchmarks/store.py walk [--mb SIZE] [--steps N] [FOLDER]      weights that walk, for times: SIZE MB (256) and N steps (8) of them

`run` trains a multi-layer perceptron to do as another one does, by AdamW in numpy: FP32 weights, learning rate 3e-4 with 50 steps of warm-up and a
cosine to a tenth over 500 steps, weight decay 0.1. Weights are stored as BF16, as the steps from STEP (450) on have them.

`state` stores N checkpoints (30) ten steps apart, from STEP (150) on: BF16 weights, and FP32 masters and both moments of AdamW.

Beside what the store takes for each checkpoint is what ZipNN takes for the same differences: of the bits that differ from the checkpoint before
(XOR), tensor by tensor. Everything is restored and compared. The program is target/release/zipwire, or the one that ZIPWIRE names.
Uses the environment of `tools/benchmarks/codec.py`.
"""

import argparse
import filecmp
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from environment import TARGET, set_up

if __name__ == "__main__":
    set_up(__file__)

import codec
import numpy as np
from deltas import tensors

ZIPWIRE = os.environ.get("ZIPWIRE") or str(TARGET / "release" / "zipwire")
WIDTHS = [256, 1024, 1024, 256]
TOTAL, WARM_UP, RATE, DECAY, BATCH = 500, 50, 3e-4, 0.1, 256


def zipwire(*args):
    return json.loads(subprocess.run([ZIPWIRE, "store", *map(str, args), "--json"], check=True, capture_output=True).stdout)


def bf16(values):
    """Rounded to the nearest, ties to even."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def save(path, weights, others=()):
    """Weights as BF16, and other tensors, by name, as FP32."""
    parts = [(name, "BF16", bf16(values)) for name, values in weights.items()]
    parts += [(name, "F32", values) for name, values in others]
    header, at = {}, 0
    for name, dtype, values in parts:
        header[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": [at, at + values.nbytes]}
        at += values.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, _, values in parts:
            file.write(values.tobytes())


def train(first, steps):
    """Yields the weights after each of the last steps, the learning rate, the loss, and the moments."""
    random = np.random.default_rng(7)
    layers = list(zip(WIDTHS, WIDTHS[1:]))

    def fresh(scale):
        return [random.standard_normal(shape, dtype=np.float32) * np.float32(scale / np.sqrt(shape[0])) for shape in layers]

    def forward(weights, inputs):
        activations = [inputs]
        for number, matrix in enumerate(weights):
            out = activations[-1] @ matrix
            activations.append(out if number == len(weights) - 1 else np.maximum(out, 0))
        return activations

    teacher, weights = fresh(1.4), fresh(0.5)
    means, squares = [[np.zeros_like(matrix) for matrix in weights] for _ in range(2)]
    for step in range(first + steps):
        inputs = random.standard_normal((BATCH, WIDTHS[0]), dtype=np.float32)
        wanted = forward(teacher, inputs)[-1]
        activations = forward(weights, inputs)
        gradient = (activations[-1] - wanted) * np.float32(2 / wanted.size)
        loss = float(np.mean((activations[-1] - wanted) ** 2))
        progress = max(0, step - WARM_UP) / (TOTAL - WARM_UP)
        rate = RATE * min(1, (step + 1) / WARM_UP) * (0.1 + 0.9 * 0.5 * (1 + np.cos(np.pi * min(1, progress))))
        for number in reversed(range(len(weights))):
            change = activations[number].T @ gradient
            if number:
                gradient = (gradient @ weights[number].T) * (activations[number] > 0)
            means[number] = 0.9 * means[number] + 0.1 * change
            squares[number] = 0.95 * squares[number] + 0.05 * change**2
            mean, square = means[number] / (1 - 0.9 ** (step + 1)), squares[number] / (1 - 0.95 ** (step + 1))
            weights[number] = (weights[number] * (1 - rate * DECAY) - rate * mean / (np.sqrt(square) + 1e-8)).astype(np.float32)
        if step >= first:
            named = lambda matrices: {f"layers.{number}.weight": matrix for number, matrix in enumerate(matrices)}
            yield named(weights), rate, loss, {"exp_avg": named(means), "exp_avg_sq": named(squares)}


def walk(megabytes, steps):
    """Normal weights; each step adds a random direction times 1e-4, about a step of AdamW."""
    random = np.random.default_rng(3)
    shape = (4096, 2048)
    count = max(1, round(megabytes * 1e6 / (2 * shape[0] * shape[1])))
    weights = {f"layers.{i}.weight": random.standard_normal(shape, dtype=np.float32) * np.float32(0.02) for i in range(count)}
    for _ in range(steps):
        yield weights, 1e-4, 0.0, {}
        for values in weights.values():
            values += np.float32(1e-4) * np.tanh(random.standard_normal(shape, dtype=np.float32))


def zipnn_bytes(before, after):
    """Size of the XOR of two checkpoints by ZipNN."""
    bases, size = {name: data for name, _, data in tensors(before)}, 0
    for name, dtype, data in tensors(after):
        base = bases.get(name, b"")
        if len(base) == len(data):
            data = np.bitwise_xor(np.frombuffer(data, np.uint8), np.frombuffer(base, np.uint8)).tobytes()
        coder = codec.ZipNN(dtype)
        frame = coder.encode(bytearray(data))
        if bytes(coder.decode(frame)) != data:
            sys.exit("ZipNN is not lossless")
        size += len(frame)
    return size


def store_all(folder, paths, against_zipnn):
    """Adds files one by one, restores and compares them, and prints a table."""
    store, rows, before = folder / "store", [], None
    subprocess.run([ZIPWIRE, "store", "init", store], check=True)
    print("| checkpoint | raw, kB | stored, kB | % | chain | ZipNN of XOR, % | ratio |\n|---|---|---|---|---|---|---|")
    kept = []
    for number, path in enumerate(paths):
        added = zipwire("add", store, path, "--id", f"s{number:03}")
        copy = folder / f"kept-{number}{path.suffix}"
        shutil.copy(path, copy)
        kept.append((f"s{number:03}", path.name, copy))
        raw = added["bytes_raw"]
        other = zipnn_bytes(before, copy) if against_zipnn and before else None
        rows.append((added, other))
        ratio = f"{100 * other / raw:.2f} | {added['bytes_stored'] / other:.2f}" if other else "- | -"
        print(f"| {added['id']} | {raw / 1e3:.1f} | {added['bytes_stored'] / 1e3:.1f} | {added['size_pct']:.2f} | {added['chain']} | {ratio} |", flush=True)
        before = copy
    for name, file, copy in kept:
        with tempfile.TemporaryDirectory(dir=folder) as out:
            zipwire("restore", store, name, "-o", f"{out}/x")
            if not filecmp.cmp(f"{out}/x/{file}", copy, shallow=False):
                sys.exit(f"{name} comes back with other bytes")
    raw, stored = (sum(row[key] for row, _ in rows) for key in ("bytes_raw", "bytes_stored"))
    print(f"\nall {len(rows)}: {100 * stored / raw:.2f} % of raw; the store says {zipwire('stats', store)['size_pct']:.2f} %; longest chain {max(row['chain'] for row, _ in rows)}")
    deltas = [(row["bytes_stored"], other) for row, other in rows if other]
    if deltas:
        print(f"differences: {sum(a for a, _ in deltas) / sum(b for _, b in deltas):.3f} of what ZipNN takes")


def steps_of(generator, path):
    for number, (weights, rate, loss, _) in enumerate(generator):
        if number == 0:
            print(f"learning rate {rate:.2e}, loss {loss:.3e}")
        save(path, weights)
        yield path


def states_of(generator, path, every):
    for number, (weights, rate, loss, moments) in enumerate(generator):
        if number == 0:
            print(f"learning rate {rate:.2e}, loss {loss:.3e}")
        if number % every == 0:
            kinds = {"master": weights, **moments}
            save(path, weights, [(f"{kind}.{name}", values) for kind, all in kinds.items() for name, values in all.items()])
            yield path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "state", "files", "walk"])
    parser.add_argument("rest", nargs="*")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--first", type=int)
    parser.add_argument("--mb", type=float, default=256)
    args = parser.parse_intermixed_args()
    with tempfile.TemporaryDirectory(dir=TARGET) as made:
        folder = Path(args.rest[0] if args.rest and args.what != "files" else made)
        folder.mkdir(exist_ok=True)
        if args.what == "files":
            store_all(folder, [Path(path) for path in args.rest], True)
        elif args.what == "run":
            store_all(folder, steps_of(train(args.first or TOTAL - 50, args.steps or 50), folder / "model.safetensors"), True)
        elif args.what == "state":
            steps = train(args.first or 150, 10 * (args.steps or 30) - 9)
            store_all(folder, states_of(steps, folder / "model.safetensors", 10), False)
        else:
            store_all(folder, steps_of(walk(args.mb, args.steps or 8), folder / "model.safetensors"), False)


if __name__ == "__main__":
    main()
