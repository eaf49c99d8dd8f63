"""Steps of FSDP2 with PyTorch's all-gather and with a compressed one, side by side, over gloo on this machine.

    python examples/fsdp_all_gather.py [--processes 2] [--steps 5] [--megabytes 50]

Prints bytes that a rank gives to all-gathers and the median time of a step. Between processes of one machine gloo is a copy in memory: what
compression saves shows as bytes here, and as time only where the network is slower than the codec.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.fsdp import FSDPModule, fully_shard

from zipwire_tensors.torch import AllGather

WIDTH = 1024


def model_of(megabytes: int) -> nn.Module:
    """Layers of bf16 that take about as much, each gathered on its own."""
    torch.manual_seed(1)
    layers = max(1, megabytes * 1_000_000 // (2 * WIDTH * WIDTH))
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(layers))).bfloat16()
    for layer in model:
        fully_shard(layer)
    return fully_shard(model)


def train(megabytes: int, steps: int, gather: AllGather | None) -> tuple[list[float], list[float]]:
    """Losses and seconds of each step."""
    model = model_of(megabytes)
    for module in model.modules():
        if gather and isinstance(module, FSDPModule):
            module.set_custom_all_gather(gather)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = torch.randn(4, WIDTH, dtype=torch.bfloat16)
    losses, seconds = [], []
    for _ in range(steps):
        dist.barrier()
        start = time.perf_counter()
        loss = model(inputs).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - start)
    return losses, seconds


def run(rank: int, store: str, processes: int, megabytes: int, steps: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=processes)
    gather = AllGather(threads=1)
    plain, plain_seconds = train(megabytes, steps, None)
    packed, packed_seconds = train(megabytes, steps, gather)
    if rank == 0:
        raw, sent = gather.bytes_raw / steps, gather.bytes_sent / steps
        print(f"default:    {raw / 1e6:8.2f} MB a step, {statistics.median(plain_seconds):.3f} s")
        print(f"compressed: {sent / 1e6:8.2f} MB a step, {statistics.median(packed_seconds):.3f} s, {sent / raw:.1%} of the bytes")
        print(f"losses are {'the same, bit for bit' if plain == packed else 'DIFFERENT'}")
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=50)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        arguments = (f"{folder}/store", options.processes, options.megabytes, options.steps)
        mp.spawn(run, arguments, nprocs=options.processes)


if __name__ == "__main__":
    main()
