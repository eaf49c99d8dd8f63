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
from ._errors import BaseError, FileError

__all__ = ["Saved", "compress_snapshot", "restore_snapshot"]


@dataclass(frozen=True)
class Saved:
    """Files that were compressed or restored, and their bytes before and after."""

    files: list[pathlib.Path]
    bytes_before: int
    bytes_after: int
    refused: dict[pathlib.Path, str]
    """Files that were left as they are, and why: placeholders of large files, damaged downloads, files that need a base."""


def compress_snapshot(folder: Any, codec: str = "auto", *, threads: int | None = None) -> Saved:
    """Compresses every `*.safetensors` file of a folder in place, so that it has the name that it had.

    Each file is compressed beside itself, decoded and compared with its digest, and then put in place of the original by one rename. Links, which are what
    caches of hubs have in their snapshots, stay links: what they lead to is replaced. Files that are compressed already are passed over, so a call that was interrupted
    goes on from there. What would not get smaller stays as it is. Times of files and their hard links are not kept: what another name leads to stays, and
    takes room.

    Raises:
        FileError: if there is no such folder, or it has no file of that name.
    """

    def replace(path: str, staged: str) -> None:
        made = _native.compress_file(path, staged, codec, [], True, False, threads)
        if made["bytes_coded"] < made["bytes_raw"]:
            _native.verify_file(staged, [], threads)
        else:
            os.unlink(staged)

    return _each(folder, False, replace)


def restore_snapshot(folder: Any, *, threads: int | None = None) -> Saved:
    """Undoes `compress_snapshot`: every compressed file of a folder is again what it was, byte for byte."""

    def replace(path: str, staged: str) -> None:
        _native.decompress_file(path, staged, [], True, threads)

    return _each(folder, True, replace)


def _each(folder: Any, are_compressed: bool, replace: Any) -> Saved:
    root = pathlib.Path(folder)
    found = sorted(path for path in root.rglob("*.safetensors") if path.is_file() and not path.name.startswith("."))
    if not found:
        raise FileError(f"`{root}` has no safetensors files\nhelp: name the folder of a model or of a snapshot")
    files, before, after = [], 0, 0
    refused: dict[pathlib.Path, str] = {}
    for path in found:
        target = path.resolve()
        if _native.begins_compressed(os.fspath(target)) != are_compressed:
            continue
        # One name, which the next call writes anew: a call that was killed leaves no more than one such file.
        staged = target.with_name(f".{target.name}.zipwire-staged")
        bytes_before = target.stat().st_size
        try:
            replace(os.fspath(target), os.fspath(staged))
            if not staged.exists():
                continue
            os.replace(staged, target)
        except (FileError, BaseError) as error:
            refused[path] = str(error)
            continue
        finally:
            staged.unlink(missing_ok=True)
        files.append(path)
        before, after = before + bytes_before, after + target.stat().st_size
    return Saved(files, before, after, refused)
