#!/usr/bin/env python3
"""Speed of a copy on the device, the ceiling of everything that reads and writes its memory: `devicecopy.py BYTES`.

Prints a line of JSON: GB/s read and written, the median of 21 copies after half a second of warm-up.
"""

import ctypes
import json
import sys
import time

from driver import Driver

COPIES, WARM_UP_S = 21, 0.5


def main():
    size = int(sys.argv[1])
    driver = Driver()
    stream, source, target = driver.stream(), driver.memory(size), driver.memory(size)

    def copy_s():
        begin = driver.recorded(stream)
        driver.call("cuMemcpyDtoDAsync_v2", target, source, ctypes.c_size_t(size), stream)
        return driver.seconds_between(begin, driver.recorded(stream))

    end = time.monotonic() + WARM_UP_S
    while time.monotonic() < end:
        copy_s()
    seconds = sorted(copy_s() for _ in range(COPIES))
    print(json.dumps({"bytes": size, "read_and_written_gbps": 2 * size / max(seconds[COPIES // 2], 1e-9) / 1e9}))


if __name__ == "__main__":
    main()
