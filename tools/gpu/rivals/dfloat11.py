"""DFloat11's decoder: `decode.ptx` of the PyPI package `dfloat11` 0.5.0 lies in `dfloat11/` of the rivals' folder, and CuPy launches it.

Its encoder is a loop in Python over values, so the stream is made here, by operations of PyTorch that are no measurement: Huffman words of
exponents, for each 8 bytes the bit at which a word begins first (5 bits), for each 4096 bytes the number of the value there.
"""

import heapq
import os
import sys

from common import folder, median_s, report, values

PTX = folder("dfloat11") / "decode.ptx"
os.environ.setdefault("CUPY_CACHE_IN_MEMORY", "1")
import cupy
import torch

BYTES_PER_THREAD, THREADS, END = 8, 512, 256
CHUNK = 1 << 24


def words(counts):
    """Length and bits of the word of each symbol; `END` is one of them."""
    heap = [(count, symbol, [symbol]) for symbol, count in counts.items()] + [(1, END, [END])]
    heapq.heapify(heap)
    lengths = dict.fromkeys([*counts, END], 0)
    while len(heap) > 1:
        (first, _, some), (second, order, others) = heapq.heappop(heap), heapq.heappop(heap)
        for symbol in some + others:
            lengths[symbol] += 1
        heapq.heappush(heap, (first + second, order, some + others))
    found, code, before = {}, 0, 0
    for symbol, length in sorted(lengths.items(), key=lambda item: (item[1], item[0])):
        code <<= length - before
        found[symbol], before = (length, code), length
        code += 1
    return found


def tables(found):
    """Tables of 256 entries by bytes of a word: a symbol, or 256 less the number of the next table; and behind them the lengths."""
    own = {symbol: format(code, f"0{length}b") for symbol, (length, code) in found.items() if symbol != END}
    prefixes = sorted({bits[: (len(bits) - 1) // 8 * 8] for bits in own.values()} | {""}, key=lambda prefix: (len(prefix), prefix))
    # Prefixes of prefixes are on the way to them.
    for prefix in list(prefixes):
        prefixes += [prefix[:i] for i in range(8, len(prefix), 8) if prefix[:i] not in prefixes]
    prefixes.sort(key=lambda prefix: (len(prefix), prefix))
    rows = []
    for prefix in prefixes:
        entries, at = {}, len(prefix)
        for symbol, bits in own.items():
            if bits.startswith(prefix) and len(bits) > at:
                is_last = len(bits) <= at + 8
                entries[int(bits[at : at + 8].ljust(8, "0"), 2)] = symbol if is_last else 256 - prefixes.index(bits[: at + 8])
        row, entry = [], 0
        for byte in range(256):
            entry = entries.get(byte, entry)
            row.append(entry)
        rows.append(row)
    rows.append([found.get(symbol, (0, 0))[0] for symbol in range(256)])
    return torch.tensor(rows, dtype=torch.uint8, device="cuda")


def encode(exponents, found):
    """Stream, gaps and positions of values."""
    lengths, codes = torch.zeros((2, 257), dtype=torch.int64, device="cuda")
    for symbol, (length, code) in found.items():
        lengths[symbol], codes[symbol] = length, code
    ends = torch.cumsum(lengths[:256].to(torch.uint8)[exponents.int()], 0, dtype=torch.int64)
    total, end = int(ends[-1]), found[END]
    stream_len = -(-total // 8)
    stream = torch.zeros(total // 32 + 2, dtype=torch.int64, device="cuda")
    for first in range(0, exponents.numel(), CHUNK):
        symbols, of_chunk = exponents[first : first + CHUNK].int(), ends[first : first + CHUNK]
        length = lengths[symbols]
        begin = of_chunk - length
        word, room = begin // 32, 64 - begin % 32 - length
        bits = codes[symbols] << room
        stream.index_add_(0, word, bits >> 32 & 0xFFFFFFFF)
        stream.index_add_(0, word + 1, bits & 0xFFFFFFFF)
    if rest := 8 * stream_len - total:
        # The last byte ends as if the end's word followed.
        code = end[1] >> max(end[0] - rest, 0) << max(rest - end[0], 0)
        stream[total // 32] += code << (32 - total % 32 - rest)
    parts = torch.stack([stream >> shift & 0xFF for shift in (24, 16, 8, 0)], 1)
    blocks = -(-stream_len // (BYTES_PER_THREAD * THREADS))
    begins = torch.cat([torch.zeros(1, dtype=torch.int64, device="cuda"), ends])
    chunks = torch.arange(blocks * THREADS, device="cuda") * 8 * BYTES_PER_THREAD
    at = torch.searchsorted(begins, chunks).clamp(max=exponents.numel())
    gaps = (begins[at] - chunks).clamp(0, 31)
    bits = torch.stack([gaps >> shift & 1 for shift in (4, 3, 2, 1, 0)], 1).reshape(-1, 8)
    packed = (bits << torch.arange(7, -1, -1, device="cuda")).sum(1).to(torch.uint8)
    positions = torch.cat([at[::THREADS], torch.tensor([exponents.numel()], device="cuda")]).to(torch.int32)
    return parts.reshape(-1)[:stream_len].to(torch.uint8).contiguous(), packed, positions


def main():
    raw = values(torch)
    bits = raw.view(torch.int16).int()
    exponents, others = (bits >> 7 & 0xFF).to(torch.uint8), ((bits >> 8 & 0x80) | (bits & 0x7F)).to(torch.uint8)
    del bits
    symbols, counts = torch.unique(exponents, return_counts=True)
    found = words(dict(zip(symbols.tolist(), counts.tolist())))
    table = tables(found)
    stream, gaps, positions = encode(exponents, found)
    decoded = torch.empty_like(raw)
    most = int((positions[1:] - positions[:-1]).max())
    blocks = -(-stream.numel() // (BYTES_PER_THREAD * THREADS))
    kernel = cupy.RawModule(path=str(PTX)).get_function("decode")
    arguments = [tensor.data_ptr() for tensor in (table, stream, others, positions, gaps, decoded)]
    arguments += [cupy.int32(number) for number in (table.shape[0], stream.numel(), raw.numel())]
    queue = cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)

    def decode():
        with queue:
            kernel((blocks,), (THREADS,), arguments, shared_mem=THREADS * 4 + 4 + 2 * most)

    decode_s, _ = median_s(torch, decode)
    is_same = torch.equal(raw.view(torch.int16), decoded.view(torch.int16))
    coded = sum(tensor.numel() * tensor.element_size() for tensor in (table, stream, others, positions, gaps))
    return report("DFloat11", "0.5.0", 2 * raw.numel(), coded, None, decode_s, is_same, "no checksum, decoder only")


if __name__ == "__main__":
    sys.exit(main())
