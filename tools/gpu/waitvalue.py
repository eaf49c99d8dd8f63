#!/usr/bin/env python3
"""Does a stream that waits for a word in memory (cuStreamWaitValue32) hold up work that other streams get later?

    waitvalue.py [SECONDS]

A drop-in for NCCL that lets the caller's stream wait for a word, which is written after more work has been done in other streams, hangs if it
does. Each case ends by itself: the host writes the word after so many seconds (0.5). Prints a line of JSON for each number and priority of the
other streams. Streams share the hardware's queues, whose number `CUDA_DEVICE_MAX_CONNECTIONS` sets, so run it with that unset, 1 and 32.
"""

import ctypes
import json
import os
import sys
import time

from driver import EQUAL, Driver

STREAMS = (1, 7, 8, 31, 32, 64)
BYTES = 1 << 20


def held_up(driver, number, priority, least, seconds):
    """How many of so many streams have not done their work while another stream waits."""
    host = driver.made("cuMemHostAlloc", ctypes.c_size_t(4), 0)
    address = driver.made("cuMemHostGetDevicePointer_v2", host, 0)
    word = ctypes.c_uint32.from_address(host.value)
    word.value = 0
    memory = driver.memory(BYTES)
    waiting, streams = driver.stream(least), [driver.stream(priority) for _ in range(number)]
    wait = "cuStreamWaitValue32_v2" if hasattr(driver.library, "cuStreamWaitValue32_v2") else "cuStreamWaitValue32"
    driver.call(wait, waiting, address, 1, EQUAL)
    driver.call("cuMemsetD8Async", memory, 1, ctypes.c_size_t(BYTES), waiting)
    events = []
    for stream in streams:
        driver.call("cuMemsetD8Async", memory, 2, ctypes.c_size_t(BYTES), stream)
        events.append(driver.recorded(stream))
    end = time.monotonic() + seconds
    while events and time.monotonic() < end:
        events = [event for event in events if not driver.has_passed(event)]
    word.value = 1
    driver.call("cuCtxSynchronize")
    for stream in [waiting, *streams]:
        driver.call("cuStreamDestroy_v2", stream)
    driver.call("cuMemFree_v2", memory)
    driver.call("cuMemFreeHost", host)
    return len(events)


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 0.5
    driver = Driver()
    least, greatest = ctypes.c_int(), ctypes.c_int()
    driver.call("cuCtxGetStreamPriorityRange", ctypes.byref(least), ctypes.byref(greatest))
    for number in STREAMS:
        for name, priority in (("equal", least.value), ("highest", greatest.value)):
            found = held_up(driver, number, priority, least.value, seconds)
            connections = os.environ.get("CUDA_DEVICE_MAX_CONNECTIONS")
            print(json.dumps({"max_connections": connections, "priority": name, "streams": number, "held_up": found}), flush=True)


if __name__ == "__main__":
    main()
