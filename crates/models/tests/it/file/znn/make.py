"""Files of ZipNN 0.5.4 for `crates/files/tests/znn.rs`: each `NAME.znn` and `NAME_stream.znn` beside `NAME.raw`. Takes zipnn 0.5.4 and what that imports."""

import sys
from pathlib import Path

import numpy as np
from zipnn import ZipNN

rng = np.random.default_rng(1)


def normal(count):
    return rng.normal(0, 0.02, count).astype(np.float32)


def bf16(count):
    return (normal(count).view(np.uint32) >> 16).astype(np.uint16).tobytes()


fp8 = (rng.integers(0, 2, 5000) << 7 | np.clip(rng.normal(60, 8, 5000), 0, 127).astype(np.int64)).astype(np.uint8)
cases = {
    "bf16": ("bfloat16", bf16(3000)),
    "bf16_odd": ("bfloat16", bf16(1500) + b"\x07"),
    "f16": ("float16", normal(3001).astype(np.float16).tobytes()),
    "f32": ("float32", normal(1501).tobytes()),
    "f32_rest": ("float32", normal(1500).tobytes() + b"\1\2\3"),
    "fp8": ("float8_e4m3fn", fp8.tobytes()),
    "zeros": ("bfloat16", bytes(600001)),
    "noise": ("bfloat16", rng.bytes(3000)),
    "tiny": ("bfloat16", b"\1\2\3\4\5"),
}
for name, (dtype, data) in cases.items():
    if name != "zeros":
        (Path(sys.argv[1]) / f"{name}.raw").write_bytes(data)
    for is_streaming in (False, True):
        zipnn = ZipNN(bytearray_dtype=dtype, input_format="byte", is_streaming=is_streaming, streaming_chunk=4096, threads=1)
        path = Path(sys.argv[1]) / f"{name}{'_stream' if is_streaming else ''}.znn"
        # ZipNN turns the bits of what it is given, in place.
        path.write_bytes(bytes(zipnn.compress(bytearray(data))))
