"""Folders of models, as hubs keep them: compressed in place, and restored byte for byte.

    from zipwire_tensors import hf, safetensors
    hf.compress_snapshot(folder)          # every *.safetensors below it; the names stay
    safetensors.patch()                   # transformers reads the folder as before
    hf.restore_snapshot(folder)
"""

from __future__ import annotations

import os
import pathlib
from dataclasses import dataclass
from typing import Any

from . import _native
from ._errors import FileError

__all__ = ["Saved", "compress_snapshot", "restore_snapshot"]


@dataclass(frozen=True)
class Saved:
    """Files that were compressed or restored, and their bytes before and after."""

    files: list[pathlib.Path]
    bytes_before: int
    bytes_after: int


def compress_snapshot(folder: Any, codec: str = "auto", *, threads: int | None = None) -> Saved:
    """Compresses every `*.safetensors` file of a folder in place, so that it has the name that it had.

    Each file is compressed beside itself, decoded and compared with its digest, and then put in place of the original by one rename. Links, which are what
    caches of hubs have in their snapshots, stay links: what they lead to is replaced. Files that are compressed already are passed over, so a call that was interrupted
    goes on from there.

    Raises:
        FileError: if there is no such folder, or none of its files is a safetensors file.
    """

    def replace(path: str, staged: str) -> None:
        _native.compress_file(path, staged, codec, [], False, False, threads)
        _native.verify_file(staged, [], threads)

    return _each(folder, False, replace)


def restore_snapshot(folder: Any, *, threads: int | None = None) -> Saved:
    """Undoes `compress_snapshot`: every compressed file of a folder is again what it was, byte for byte."""

    def replace(path: str, staged: str) -> None:
        _native.decompress_file(path, staged, [], False, threads)

    return _each(folder, True, replace)


def _each(folder: Any, are_compressed: bool, replace: Any) -> Saved:
    root = pathlib.Path(folder)
    found = sorted(path for path in root.rglob("*.safetensors") if path.is_file())
    if not found:
        raise FileError(f"`{root}` has no safetensors files\nhelp: name the folder of a model or of a snapshot")
    files, before, after = [], 0, 0
    for path in found:
        target = path.resolve()
        if _native.begins_compressed(os.fspath(target)) != are_compressed:
            continue
        staged = target.with_name(f".{target.name}.zipwire-{os.getpid()}")
        bytes_before = target.stat().st_size
        try:
            replace(os.fspath(target), os.fspath(staged))
            os.replace(staged, target)
        finally:
            staged.unlink(missing_ok=True)
        files.append(path)
        before, after = before + bytes_before, after + target.stat().st_size
    return Saved(files, before, after)
