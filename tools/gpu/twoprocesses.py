#!/usr/bin/env python3
"""NCCL between two processes on one GPU: `twoprocesses.py [COMMAND...]`, where each runs the command, or else All-to-Alls by PyTorch of several sizes.

NCCL refuses two ranks of one host on one device. With names of hosts that differ (`NCCL_HOSTID`) each believes to be a node of its own, and the
wire is a socket of the loopback interface: proof of function on a slow wire, no speed of NCCL. They meet as torchrun has processes meet. Exit code
1 if one fails or other bytes arrive than were sent, 77 where there is no PyTorch.
"""

import importlib.util
import json
import os
import socket
import subprocess
import sys
import time

SIZES, ITERATIONS = (2 << 20, 32 << 20, 128 << 20), 5


def all_to_alls():
    """One of the two processes; the first one prints."""
    import torch
    import torch.distributed as distributed

    torch.cuda.set_device(0)
    distributed.init_process_group("nccl")
    number = distributed.get_rank()

    def values_of(rank, size):
        torch.manual_seed(rank)
        return torch.randn(size // 2, device="cuda").bfloat16()

    for size in SIZES:
        values = values_of(number, size)
        received = torch.zeros_like(values)
        distributed.all_to_all_single(received, values)
        torch.cuda.synchronize()
        begin = time.monotonic()
        for _ in range(ITERATIONS):
            distributed.all_to_all_single(received, values)
        torch.cuda.synchronize()
        seconds = (time.monotonic() - begin) / ITERATIONS
        expected = torch.cat([values_of(rank, size).chunk(2)[number] for rank in range(2)])
        if not torch.equal(received.view(torch.int16), expected.view(torch.int16)):
            raise SystemExit(f"of {size} bytes others arrived than were sent")
        if number == 0:
            nccl = ".".join(map(str, torch.cuda.nccl.version()))
            print(json.dumps({"nccl": nccl, "bytes_per_rank": size, "ms": 1e3 * seconds, "gbps_to_peer": size / 2 / seconds / 1e9}), flush=True)
    distributed.destroy_process_group()


def main():
    command = sys.argv[1:]
    if command == ["rank"]:
        return all_to_alls()
    if not command and importlib.util.find_spec("torch") is None:
        print("there is no PyTorch", file=sys.stderr)
        return 77
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    meeting = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    # Standard output has results only.
    nccl = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_DEBUG": "WARN", "NCCL_DEBUG_FILE": "/dev/stderr"}
    command = command or [sys.executable, __file__, "rank"]
    ranks = [subprocess.Popen(command, env=dict(os.environ, **meeting, **nccl, RANK=str(number), NCCL_HOSTID=f"host{number}")) for number in range(2)]
    return max(process.wait() != 0 for process in ranks)


if __name__ == "__main__":
    sys.exit(main())
