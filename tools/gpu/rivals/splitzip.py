"""SplitZip's public Triton codec. `codec_gpu.py` of the repository Intelligent-Microsystems-Lab/SplitZip (MIT) lies in `splitzip/` of the
rivals' folder. It checks no sum, and its times have the allocations of its results in them."""

import sys

from common import folder, median_s, report, values

folder("splitzip")
import torch
from codec_gpu import ChunkLocalSplitZipGPU


def main():
    raw = values(torch)
    raw = raw[: raw.numel() // 4096 * 4096].reshape(-1, 4096)
    codec = ChunkLocalSplitZipGPU(device="cuda", chunk_size=1024)
    coverage = codec.calibrate(raw[:1024])
    encode_s, coded = median_s(torch, lambda: codec.encode(raw))
    decode_s, decoded = median_s(torch, lambda: codec.decode(coded))
    is_same = torch.equal(raw.view(torch.int16), decoded.view(torch.int16).reshape(raw.shape))
    note = f"no checksum, allocations included, coverage {coverage}"
    return report("SplitZip", "Triton", 2 * raw.numel(), coded.compressed_bytes, encode_s, decode_s, is_same, note)


if __name__ == "__main__":
    sys.exit(main())
