#!/usr/bin/env python3
"""NCCL between two processes on one GPU, by PyTorch: All-to-Alls of several sizes.

NCCL refuses two ranks of one host on one device. With names of hosts that differ (`NCCL_HOSTID`) each believes to be a node of its own, and the
wire is a socket of the loopback interface: proof of function on a slow wire, no speed of NCCL. Exit code 77 where there is no PyTorch.
"""

import json
import os
import subprocess
import sys
import time

SIZES, ITERATIONS = (2 << 20, 32 << 20, 128 << 20), 5


def rank(number):
    """One of the two processes; the first one prints."""
    import torch
    import torch.distributed as distributed

    torch.cuda.set_device(0)
    distributed.init_process_group("nccl", rank=number, world_size=2)
    for size in SIZES:
        values = torch.randn(size // 2, device="cuda").bfloat16()
        received = torch.empty_like(values)
        distributed.all_to_all_single(received, values)
        torch.cuda.synchronize()
        begin = time.monotonic()
        for _ in range(ITERATIONS):
            distributed.all_to_all_single(received, values)
        torch.cuda.synchronize()
        seconds = (time.monotonic() - begin) / ITERATIONS
        if number == 0:
            nccl = ".".join(map(str, torch.cuda.nccl.version()))
            print(json.dumps({"nccl": nccl, "bytes_per_rank": size, "ms": 1e3 * seconds, "gbps_to_peer": size / 2 / seconds / 1e9}), flush=True)
    distributed.destroy_process_group()


def main():
    if len(sys.argv) > 1:
        return rank(int(sys.argv[1]))
    try:
        import torch.distributed  # noqa: F401
    except ImportError as error:
        print(f"absent: {error}", file=sys.stderr)
        return 77
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511", "NCCL_SOCKET_IFNAME": "lo", "NCCL_DEBUG": "WARN"}
    ranks = [
        subprocess.Popen([sys.executable, __file__, str(number)], env=dict(os.environ, **common, NCCL_HOSTID=f"host{number}"))
        for number in range(2)
    ]
    return max(process.wait() != 0 for process in ranks)


if __name__ == "__main__":
    sys.exit(main())
