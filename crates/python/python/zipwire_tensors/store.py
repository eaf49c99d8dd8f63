"""A store of checkpoints: each tensor once, what training changed as differences, every checkpoint byte for byte.

    from zipwire_tensors.store import Store
    store = Store("checkpoints", create=True)
    store.add(model.state_dict(), "step-100")
    state = store.restore("step-100", framework="pt")
"""

from __future__ import annotations

import os
import pathlib
import tempfile
from dataclasses import dataclass
from typing import Any

from . import _arrays, _native
from . import safetensors as _safetensors
from ._errors import StoreError, TensorError

__all__ = ["Added", "Checkpoint", "Store"]


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint of a store."""

    id: str
    parent: str | None
    """Checkpoint that differences were taken from when it was added."""
    created: int
    """Seconds since 1970."""
    pinned: bool
    bytes_raw: int
    bytes_stored: int
    """Bytes of what it needs and no older one does."""


# In the class, `list` is a method.
_Checkpoints = list[Checkpoint]
_Lines = list[str]


@dataclass(frozen=True)
class Added:
    """What adding a checkpoint took."""

    id: str
    bytes_stored: int
    same: int
    """Tensors, and headers of files, that the store had already."""
    delta: int
    """Tensors that are kept as differences."""
    full: int
    """Tensors, and headers of files, that are kept by themselves."""
    troubles: _Lines
    """Files that are not what their names say, and parents that are damaged."""


class Store:
    """A folder of checkpoints. One process writes at a time, any number read; a kill at any time leaves whole checkpoints.

    Args:
        path: the folder.
        create: make the store if the folder is new or empty.

    Raises:
        StoreError: if it is not a store.
    """

    def __init__(self, path: Any, create: bool = False) -> None:
        self.path = pathlib.Path(path)
        is_new = create and not (self.path / "zipwire-store.json").exists()
        self._store = (_native.Store.init if is_new else _native.Store.open)(os.fspath(self.path))

    def add(
        self,
        state: Any,
        id: str,
        *,
        parent: str | None = "auto",
        codec: str = "rans",
        chain: int = 8,
        metadata: dict[str, str] | None = None,
        threads: int | None = None,
    ) -> Added:
        """Adds a checkpoint.

        Args:
            state: arrays or tensors by name, or a file or folder, or a list of these, which are stored as they are.
            id: its name, 1 to 128 letters, digits, `.`, `-` and `_`.
            parent: the checkpoint that differences are taken from; `auto` is the newest like it, None is none.
            codec: codec of what is not kept as differences.
            chain: most objects that are decoded to restore a tensor.
            metadata: texts by name, of `state` by name only.

        Raises:
            FileThereError: if there is a checkpoint of this name.
            TensorError: if `state` has something else than tensors.
        """
        if hasattr(state, "state_dict"):
            raise TensorError(f"`{type(state).__name__}` is no dictionary of tensors\nhelp: give its `state_dict()`")
        if not isinstance(state, dict):
            paths = state if isinstance(state, (list, tuple)) else [state]
            if not all(isinstance(path, (str, os.PathLike)) for path in paths):
                raise TensorError("a checkpoint is a dictionary of tensors, or paths of files and folders\nhelp: give `dict(...)` of it")
            return Added(**self._store.add([os.fspath(path) for path in paths], id, parent, codec, chain, threads))
        views = _arrays.views(state)
        with tempfile.TemporaryDirectory(dir=self.path.parent, prefix=f".{self.path.name}.") as folder:
            plain = os.path.join(folder, "model.safetensors")
            _safetensors._write_plain(plain, views, metadata)
            return Added(**self._store.add([plain], id, parent, codec, chain, threads))

    def list(self) -> _Checkpoints:
        """All checkpoints, oldest first."""
        return [Checkpoint(**row) for row in self._store.checkpoints()]

    def restore(self, id: str, framework: str = "np", *, threads: int | None = None) -> dict[str, Any]:
        """Tensors of a checkpoint by name, as arrays of NumPy (`np`) or tensors of PyTorch (`pt`).

        Raises:
            NotThereError: if there is no such checkpoint, FormatError or StoreError if it is damaged.
            StoreError: if it has files without tensors, or two files have a tensor of one name: those come back by `restore_files`.
        """
        _safetensors._kind(framework)
        remedy = "write its files by `restore_files`"
        with tempfile.TemporaryDirectory(dir=self.path.parent, prefix=f".{self.path.name}.") as folder:
            out = os.path.join(folder, "files")
            self.restore_files(id, out, threads=threads)
            tensors: dict[str, Any] = {}
            for path in sorted(path for path in pathlib.Path(out).rglob("*") if path.is_file()):
                if path.suffix == ".json":
                    continue
                if path.suffix != ".safetensors":
                    raise StoreError(f"`{path.name}` of `{id}` is no safetensors file\nhelp: {remedy}")
                found = _safetensors.load_file(path, framework)
                twice = tensors.keys() & found.keys()
                if twice:
                    raise StoreError(f"two files of `{id}` have a tensor `{min(twice)}`\nhelp: {remedy}")
                tensors |= found
            return tensors

    def restore_files(self, id: str, out: Any, *, force: bool = False, threads: int | None = None) -> None:
        """Writes the files of a checkpoint into a new folder, byte for byte; with `force`, into one that exists, where files of the same names are replaced."""
        self._store.restore(id, os.fspath(out), force, threads)

    def verify(self, *, threads: int | None = None) -> _Lines:
        """Decodes all checkpoints; returns a line for each that is damaged."""
        return self._store.verify(threads)

    def prune(
        self,
        keep: int | None = None,
        *,
        every: int | None = None,
        ids: _Lines | None = None,
        threads: int | None = None,
    ) -> tuple[_Lines, int]:
        """Removes checkpoints: all but the newest `keep` and, of the others, every n-th; or those of these names. Pinned ones stay.

        Returns:
            Names of those that were removed, and the bytes that this freed.
        """
        removed, freed = self._store.prune(keep, every, ids, threads)
        return removed, freed
