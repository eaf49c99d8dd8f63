"""Publishes recorded checkpoints of a training run, applies each at a receiver, and prints what it takes.

    python weight_sync.py step00390.safetensors step00391.safetensors ...

Files are published in the order given. Sizes are bytes; whole weights are those that a keyframe has, which is written for every version here, so
`publish` is the time for both. Each version is compared with its file, bit for bit.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy
from safetensors.numpy import load_file

from zipwire_tensors.sync import Published, Publisher, Receiver, serve


def tensors_of(path: Path) -> dict[str, Any]:
    """Tensors of a file by their names."""
    import ml_dtypes  # noqa: F401  (types that NumPy has not)

    return load_file(path)


def repeated(weights: dict[str, Any], times: int) -> dict[str, Any]:
    """The weights several times under other names, each with its values in another order, as a larger model has them."""
    return {
        f"{name}.{copy}": numpy.roll(values.reshape(-1), copy * 1009).reshape(values.shape)
        for copy in range(times)
        for name, values in weights.items()
    }


def line(label: str, sizes: Published, publish: float, apply: float) -> str:
    """One version as a line of the table."""
    delta = "-" if sizes.nbytes_delta is None else f"{sizes.nbytes_delta} ({sizes.nbytes_delta / sizes.nbytes:.1%})"
    whole = "-" if sizes.nbytes_whole is None else f"{sizes.nbytes_whole} ({sizes.nbytes_whole / sizes.nbytes:.1%})"
    return f"{label:>44}  {sizes.nbytes:>12}  {whole:>18}  {delta:>18}  {publish:>9.4f} s  {apply:>9.4f} s"


def run(files: Sequence[Path], codec: str, http: bool, keyframe_every: int, times: int) -> None:
    """Publishes and applies all files."""
    with tempfile.TemporaryDirectory() as folder:
        publisher = Publisher(folder, codec, keyframe_every)
        server = serve(folder) if http else None
        receiver, held = Receiver(folder if server is None else server.url), {}
        print(f"{'file':>44}  {'raw':>12}  {'whole':>18}  {'differences':>18}  {'publish':>11}  {'apply':>11}")
        for version, path in enumerate(files):
            weights = repeated(tensors_of(path), times)
            start = time.perf_counter()
            sizes = publisher.publish(weights, version)
            published = time.perf_counter()
            receiver.apply(held)
            applied = time.perf_counter()
            assert all(held[name].tobytes() == values.tobytes() for name, values in weights.items()), "the weights differ"
            print(line(path.name, sizes, published - start, applied - published))
        if server is not None:
            server.close()


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, help="safetensors files, in the order of training")
    parser.add_argument("--codec", default="rans")
    parser.add_argument("--http", action="store_true", help="serve the folder and apply over HTTP")
    parser.add_argument("--keyframe-every", type=int, default=1)
    parser.add_argument("--times", type=int, default=1, help="publish the tensors so often under other names, for times of larger models")
    options = parser.parse_args()
    run(options.files, options.codec, options.http, options.keyframe_every, options.times)


if __name__ == "__main__":
    main()
