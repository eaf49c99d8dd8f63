"""nvCOMP's ANS and Bitcomp, over bytes and over words of 16 bits. The wheels `nvidia-nvcomp-cu13` and `nvidia-libnvcomp-cu13` 6.0.0.12 of PyPI
lie unpacked in `nvcomp/` of the rivals' folder."""

import sys

from common import folder, median_s, report, values

folder("nvcomp")
import torch
from nvidia import nvcomp

OPTIONS = {
    "ANS, bytes": {"algorithm": "ANS"},
    "ANS, float16": {"algorithm": "ANS", "data_type": "<f2"},
    "Bitcomp, bytes": {"algorithm": "Bitcomp", "data_type": "|u1"},
    "Bitcomp, words": {"algorithm": "Bitcomp", "data_type": "<u2"},
}


def measure(name, options, raw):
    """Names of options may differ by version: what one of them says against it is no end of the others."""
    # On the stream whose events are the clock.
    codec, array = nvcomp.Codec(**options, cuda_stream=torch.cuda.current_stream().cuda_stream), nvcomp.as_array(raw)
    encode_s, coded = median_s(torch, lambda: codec.encode(array))
    decode_s, decoded = median_s(torch, lambda: codec.decode(coded))
    decoded = torch.as_tensor(decoded, device="cuda").view(torch.uint8).reshape(-1)
    size = getattr(coded, "buffer_size", coded.size)
    return report(f"nvCOMP {name}", nvcomp.__version__, raw.numel(), size, encode_s, decode_s, torch.equal(decoded, raw), "allocations included")


def main():
    raw, worst = values(torch).view(torch.uint8), 0
    for name, options in OPTIONS.items():
        try:
            worst = max(worst, measure(name, options, raw))
        except Exception as error:  # what a library that is not ours may raise
            print(f"nvCOMP {name}: {type(error).__name__}: {error}", file=sys.stderr)
            worst = 1
    return worst


if __name__ == "__main__":
    sys.exit(main())
