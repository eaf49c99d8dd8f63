"""Distributed checkpoints by PyTorch's writer and by `DcpWriter`: bytes on the disk, and seconds to save and to load.

    python examples/checkpoints.py [--megabytes 150] [--rounds 3]

The state is drawn: BF16 weights, and master weights and two moments in FP32. Writers take turns; times are medians.
"""

from __future__ import annotations

import argparse
import pathlib
import statistics
import tempfile
import time

import torch
import torch.distributed.checkpoint as dcp

from zipwire_tensors.torch import DcpReader, DcpWriter


def state_of(megabytes: int) -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    values = megabytes * 1_000_000 // (8 * 14)
    state = {}
    for layer in range(8):
        master = torch.randn(values) * 0.02
        state |= {f"{layer}.master": master, f"{layer}.weight": master.bfloat16()}
        state |= {f"{layer}.mean": torch.randn(values) * 1e-4, f"{layer}.square": torch.randn(values).square() * 1e-8}
    return state


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    state = state_of(arguments.megabytes)
    writers = {
        "PyTorch": (dcp.FileSystemWriter, dcp.FileSystemReader),
        "DcpWriter, tiered": (DcpWriter, DcpReader),
        "DcpWriter, rans": (lambda path: DcpWriter(path, "rans"), DcpReader),
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in writers}
    sizes = {}
    for _ in range(arguments.rounds):
        for name, (writer, reader) in writers.items():
            with tempfile.TemporaryDirectory() as folder:
                begin = time.perf_counter()
                dcp.save(state, storage_writer=writer(folder), no_dist=True)
                saved = time.perf_counter()
                found = {key: torch.empty_like(tensor) for key, tensor in state.items()}
                allocated = time.perf_counter()
                dcp.load(found, storage_reader=reader(folder), no_dist=True)
                times[name].append((saved - begin, time.perf_counter() - allocated))
                sizes[name] = sum(path.stat().st_size for path in pathlib.Path(folder).iterdir())
                assert all(torch.equal(found[key], tensor) for key, tensor in state.items())
    print("| writer | MB | save, s | load, s |\n|---|---|---|---|")
    for name, taken in times.items():
        save, load = (statistics.median(part) for part in zip(*taken))
        print(f"| {name} | {sizes[name] / 1e6:.1f} | {save:.2f} | {load:.2f} |")


if __name__ == "__main__":
    main()
