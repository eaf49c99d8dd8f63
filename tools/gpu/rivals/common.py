"""What adapters of rivals share: the values, the clock, and the line that each prints."""

import json
import os
import pathlib
import sys


def folder(name):
    """Folder of what was brought of a rival; ends with 77 where it is not there."""
    path = pathlib.Path(os.environ["ZIPWIRE_RIVALS"], name)
    if not path.is_dir():
        print(f"absent: {path}", file=sys.stderr)
        sys.exit(77)
    sys.path.insert(0, str(path))
    return path


def values(torch):
    """The values that zipwire's kernels are measured with, repeated up to `ZIPWIRE_BYTES` bytes, on the device."""
    some = torch.frombuffer(bytearray(pathlib.Path(os.environ["ZIPWIRE_VALUES"]).read_bytes()), dtype=torch.bfloat16)
    count = int(os.environ["ZIPWIRE_BYTES"]) // 2
    return some.cuda().repeat(-(-count // some.numel()))[:count].contiguous()


def median_s(torch, work, rounds=20, warm=5):
    """Seconds of the device for `work`, and what it returns last."""
    for _ in range(warm):
        result = work()
    torch.cuda.synchronize()
    times = []
    for _ in range(rounds):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        result = work()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3)
    return sorted(times)[rounds // 2], result


def report(name, version, bytes_raw, bytes_coded, encode_s, decode_s, is_same, note=""):
    """Prints the result as a line of JSON; a rival whose values do not come back has none."""
    speed = lambda seconds: None if seconds is None else bytes_raw / seconds / 1e9
    print(
        json.dumps(
            {
                "rival": name,
                "version": version,
                "bytes_raw": bytes_raw,
                "size_pct": 100 * bytes_coded / bytes_raw,
                "encode_gbps": speed(encode_s),
                "decode_gbps": speed(decode_s),
                "is_same": bool(is_same),
                "note": note,
            }
        ),
        flush=True,
    )
    return 0 if is_same else 1
