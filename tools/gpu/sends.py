#!/usr/bin/env python3
"""Sends of a rank to itself, by NCCL's calls: `sends.py COUNT BYTES,... [LIBRARY]`, with the library in front of NCCL or without one.

Prints a line of JSON for each size: microseconds that the host is in a group of a send and a receive, and microseconds for each until the stream
has done all. `ZIPWIRE_VALUES` names a file of values to send. Exit code 1 if other bytes arrive than were sent.
"""

import ctypes
import json
import os
import sys
import time

from driver import Driver

# ncclBfloat16 of nccl.h, and groups that are queued before the stream is waited for.
BF16, QUEUED = 9, 50


class UniqueId(ctypes.Structure):
    """ncclUniqueId, which goes by value."""

    _fields_ = [("bytes", ctypes.c_char * 128)]


class Rank:
    """The only rank of a communicator."""

    def __init__(self, real, front):
        self.real, self.front = real, front
        unique, self.communicator = UniqueId(), ctypes.c_void_p()
        self.call(real, "ncclGetUniqueId", ctypes.byref(unique))
        self.call(front, "ncclCommInitRank", ctypes.byref(self.communicator), 1, unique, 0)

    def call(self, library, name, *arguments):
        if result := getattr(library, name)(*arguments):
            raise SystemExit(f"{name} returns {result}")

    def version(self):
        number = ctypes.c_int()
        self.call(self.real, "ncclGetVersion", ctypes.byref(number))
        return f"{number.value // 10000}.{number.value // 100 % 100}.{number.value % 100}"

    def exchange(self, source, target, count, stream):
        """A group of a send to itself and its receive."""
        count = ctypes.c_size_t(count)
        self.call(self.front, "ncclGroupStart")
        self.call(self.front, "ncclSend", source, count, BF16, 0, self.communicator, stream)
        self.call(self.front, "ncclRecv", target, count, BF16, 0, self.communicator, stream)
        self.call(self.front, "ncclGroupEnd")


def measure(driver, rank, size, count):
    """Seconds of the host, and of all, in so many groups."""
    with open(os.environ["ZIPWIRE_VALUES"], "rb") as file:
        values = file.read()
    sent = (values * -(-size // len(values)))[:size]
    received = ctypes.create_string_buffer(size)
    stream, source, target = driver.stream(), driver.memory(size), driver.memory(size)
    driver.call("cuMemcpyHtoD_v2", source, sent, ctypes.c_size_t(size))
    driver.call("cuMemcpyHtoD_v2", target, received, ctypes.c_size_t(size))
    host_s, begin = 0.0, None
    # The groups in front are not timed.
    for number in range(-QUEUED, count):
        if number % QUEUED == 0:
            driver.call("cuStreamSynchronize", stream)
        if number == 0:
            host_s, begin = 0.0, time.monotonic()
        called = time.monotonic()
        rank.exchange(source, target, size // 2, stream)
        host_s += time.monotonic() - called
    driver.call("cuStreamSynchronize", stream)
    all_s = time.monotonic() - begin
    driver.call("cuMemcpyDtoH_v2", received, target, ctypes.c_size_t(size))
    if received.raw != sent:
        raise SystemExit(f"of {size} bytes others arrived than were sent")
    return host_s, all_s


def main():
    count, sizes = int(sys.argv[1]), [int(size) for size in sys.argv[2].split(",")]
    driver = Driver()
    name = os.environ.get("ZIPWIRE_NCCL_LIB") or "libnccl.so.2"
    try:
        real = ctypes.CDLL(name)
    except OSError as error:
        print(error, file=sys.stderr)
        return 77
    os.environ["ZIPWIRE_NCCL_LIB"] = name
    front = ctypes.CDLL(sys.argv[3]) if len(sys.argv) > 3 else real
    rank = Rank(real, front)
    for size in sizes:
        host_s, all_s = measure(driver, rank, size, count)
        line = {"nccl": rank.version(), "shim": "none", "bytes": size, "host_us": 1e6 * host_s / count, "total_us": 1e6 * all_s / count}
        print(json.dumps(line), flush=True)
    rank.call(front, "ncclCommDestroy", rank.communicator)
    return 0


if __name__ == "__main__":
    sys.exit(main())
