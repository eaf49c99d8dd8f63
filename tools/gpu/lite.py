#!/usr/bin/env python3
"""Zeroes the machine code of other architectures in a CUDA library: `lite.py IN OUT ARCH`, where ARCH is 90 for sm_90.

What is left compresses to what one architecture takes: `libnccl.so.2` of 2.30.7 from 252 MB to 38 MB of xz, nvCOMP 6.0 to 4 MB.
"""

import struct
import sys

FAT_BINARY, MACHINE_CODE = 0xBA55ED50, 2


def sections(data):
    """Name, offset and length of each section of an ELF file."""
    table = struct.unpack_from("<Q", data, 0x28)[0]
    entry_len, count, of_names = struct.unpack_from("<HHH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", data, table + i * entry_len) for i in range(count)]
    names = headers[of_names][4]
    for header in headers:
        begin = names + header[0]
        yield bytes(data[begin : data.index(b"\0", begin)]).decode(), header[4], header[5]


def strip(data, arch):
    """Zeroes in place; bytes that are kept and zeroed."""
    kept = zeroed = 0
    for name, begin, length in sections(data):
        if name not in (".nv_fatbin", "__nv_relfatbin"):
            continue
        at, end = begin, begin + length
        while at < end:
            magic, _, header_len, size = struct.unpack_from("<IHHQ", data, at)
            if magic != FAT_BINARY:
                at += 8
                continue
            part, last = at + header_len, at + header_len + size
            while part < last:
                kind, _, part_header_len, part_len = struct.unpack_from("<HHIQ", data, part)
                if kind == MACHINE_CODE and struct.unpack_from("<I", data, part + 28)[0] == arch:
                    kept += part_len
                else:
                    data[part + part_header_len : part + part_header_len + part_len] = bytes(part_len)
                    zeroed += part_len
                part += part_header_len + part_len
            at = last
    return kept, zeroed


def main():
    source, target, arch = sys.argv[1:]
    with open(source, "rb") as file:
        data = bytearray(file.read())
    kept, zeroed = strip(data, int(arch))
    with open(target, "wb") as file:
        file.write(data)
    print(f"kept {kept / 2**20:.1f} MiB, zeroed {zeroed / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
