"""Compressed safetensors files, which open as plain ones do.

`safe_open`, `load_file` and `save_file` have the calls of the package `safetensors` and read its files, too. `patch` puts them in place of those, so that
libraries which load models read compressed files without a change. A program that was not patched refuses a compressed file: its header has a type that no
reader of safetensors knows.
"""

from __future__ import annotations

import math
import operator
import os
import pathlib
import sys
import tempfile
from typing import Any

from . import _arrays, _native
from ._errors import Error, MissingFileError, NotThereError, TensorError

__all__ = ["load_file", "patch", "safe_open", "save_file", "unpatch"]

_NUMPY = ("np", "numpy")
_TORCH = ("pt", "torch", "pytorch")
ENVIRONMENT = "ZIPWIRE_PATCH"


def _kind(framework: str) -> str:
    if framework in _NUMPY:
        return "numpy"
    if framework in _TORCH:
        return "torch"
    raise TensorError(f'compressed files are opened with framework "np" or "pt", and not "{framework}"\nhelp: open it with "np" and convert')


class safe_open:
    """A safetensors file, compressed or not, of which tensors are read one by one.

    Args:
        filename: the file.
        framework: `np` or `pt`, as in `safetensors.safe_open`.
        device: device that tensors of PyTorch are put on; they are decoded in the memory of the CPU.
        base: the file or files that the compressed one is differences from.

    Other arguments of `safetensors.safe_open` are passed on where the file is not compressed.

    Raises:
        FormatError: if the file is damaged, BaseError if it needs a base, FileError if it is no safetensors file.
    """

    def __new__(cls, filename: Any, framework: str, device: Any = "cpu", *, base: Any = None, **others: Any) -> Any:
        # What `safetensors` does not give to NumPy (FP8, and BF16 without ml_dtypes) is read here.
        is_own = base is not None or (framework in _NUMPY and not others and not _ORIGINALS)
        if not is_own and not _native.begins_compressed(os.fspath(filename)):
            import safetensors

            return _ORIGINALS.get("safetensors.safe_open", safetensors.safe_open)(filename, framework, device, **others)
        return super().__new__(cls)

    def __init__(self, filename: Any, framework: str, device: Any = "cpu", *, base: Any = None, **others: Any) -> None:
        _check_options(others)
        self._kind, self._device = _kind(framework), device
        self._model = _native.Model(os.fspath(filename), _paths(base))
        self._tensors = {name: (dtype, tuple(shape), nbytes) for name, dtype, shape, nbytes in self._model.tensors()}

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, *_error: Any) -> None:
        """Nothing: the file is closed when nobody has this any more."""

    def keys(self) -> list[str]:
        """Names of all tensors, sorted."""
        return sorted(self._tensors)

    def offset_keys(self) -> list[str]:
        """Names of all tensors, in the order of the file."""
        return list(self._tensors)

    def metadata(self) -> dict[str, str] | None:
        """Metadata of the file before it was compressed."""
        return self._model.metadata() or None

    def get_tensor(self, name: str) -> Any:
        """A tensor.

        Raises:
            NotThereError: if the file has none of this name.
        """
        dtype, shape, _ = self._found(name)
        return self._read(name, dtype, shape, 0)

    def get_tensors(self) -> dict[str, Any]:
        """All tensors, by name."""
        return {name: self.get_tensor(name) for name in self._tensors}

    def get_slice(self, name: str) -> SafeSlice:
        """A tensor of which parts are read by indexing it."""
        return SafeSlice(self, name)

    def _found(self, name: str) -> tuple[str, tuple[int, ...], int]:
        if name not in self._tensors:
            self._model.kept(name)
            raise NotThereError(f"there is no tensor `{name}`")
        return self._tensors[name]

    def _read(self, name: str, dtype: str, shape: tuple[int, ...], start: int) -> Any:
        if dtype == "F4" and self._kind == "torch" and shape and shape[-1] % 2 == 0:
            import torch

            # As `safetensors` does: two values are a byte.
            pairs = self._read(name, "U8", (*shape[:-1], shape[-1] // 2), start)
            return pairs.view(torch.float4_e2m1fn_x2)
        tensor, memory = _arrays.empty(dtype, shape, self._kind)
        self._model.read_into(name, start, memory)
        if self._kind == "torch" and str(self._device) != "cpu":
            return tensor.to(self._device if not isinstance(self._device, int) else f"cuda:{self._device}")
        return tensor


class SafeSlice:
    """A tensor of a compressed file. Only chunks with rows that are asked for are decoded."""

    def __init__(self, file: safe_open, name: str) -> None:
        self._file, self._name = file, name
        self._dtype, self._shape, self._nbytes = file._found(name)

    def get_shape(self) -> list[int]:
        """Values along each dimension."""
        return list(self._shape)

    def get_dtype(self) -> str:
        """Type of the values, as safetensors calls it."""
        return self._dtype

    def __getitem__(self, index: Any) -> Any:
        indices = index if isinstance(index, tuple) else (index,)
        if not self._shape or not indices or indices[0] is Ellipsis or self._shape[0] == 0 or self._nbytes % self._shape[0]:
            return self._file.get_tensor(self._name)[index]
        rows, first = self._shape[0], indices[0]
        if isinstance(first, slice):
            wanted = range(rows)[first]
            low, high = (min(wanted[0], wanted[-1]), max(wanted[0], wanted[-1]) + 1) if wanted else (0, 0)
            # Indices of the same rows among those that are read, from the last to the first one if the step says so.
            start, step = (wanted.start - low if wanted else 0), wanted.step
            stop = start + step * len(wanted)
            within: Any = slice(start, stop if stop >= 0 else None, step)
        elif (number := _number(first)) is not None:
            if not -rows <= number < rows:
                raise IndexError(f"`{self._name}` has {rows} rows, and no row {number}")
            low, within = number % rows, 0
            high = low + 1
        else:
            return self._file.get_tensor(self._name)[index]
        row = self._nbytes // rows
        part = self._file._read(self._name, self._dtype, (high - low, *self._shape[1:]), low * row)
        return part[(within, *indices[1:])]


def _number(index: Any) -> int | None:
    """An index that is a number; arrays of several have `__index__`, too."""
    try:
        return None if isinstance(index, bool) else operator.index(index)
    except TypeError:
        return None


def _paths(base: Any) -> list[str]:
    if base is None:
        return []
    return [os.fspath(path) for path in (base if isinstance(base, (list, tuple)) else [base])]


def load_file(filename: Any, framework: str = "np", device: Any = "cpu", *, base: Any = None) -> dict[str, Any]:
    """All tensors of a safetensors file, compressed or not, by name.

    Args: those of `safe_open`; `framework` is `np` (NumPy) or `pt` (PyTorch).
    """
    with safe_open(filename, framework, device, **({} if base is None else {"base": base})) as file:
        return {name: file.get_tensor(name) for name in file.offset_keys()}


def save_file(
    tensors: dict[str, Any],
    filename: Any,
    metadata: dict[str, str] | None = None,
    *,
    codec: str = "auto",
    base: Any = None,
    threads: int | None = None,
) -> int:
    """Writes tensors as a compressed safetensors file, in place of the file of that name, or that the link of that name leads to, if there is one.

    The file is complete or, where this fails or is killed, what was there before. A plain copy lies beside it meanwhile.

    Args:
        tensors: arrays of NumPy or tensors of PyTorch, by name.
        filename: the file.
        metadata: texts by name, as in `safetensors`.
        codec: for files `auto` chooses what is smallest for each tensor; `tiered` is the fastest.
        base: file or files with earlier values of the same tensors, which whoever reads the file needs, too.

    Returns:
        Bytes of the file.
    """
    path = pathlib.Path(filename)
    path = path.resolve() if path.is_symlink() else path
    if not path.parent.is_dir():
        raise MissingFileError(f"there is no folder `{path.parent}`\nhelp: make it first")
    views = _arrays.views(tensors)
    texts = [text for pair in (metadata or {}).items() for text in pair]
    if "__metadata__" in views or not all(isinstance(text, str) for text in texts):
        raise TensorError("metadata are texts by name, and no tensor is called `__metadata__`\nhelp: give texts, as `str(...)` makes them")
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
        plain = os.path.join(folder, "plain.safetensors")
        _write_plain(plain, views, metadata)
        made = _native.compress_file(plain, os.fspath(path), codec, _paths(base), True, False, threads)
    return made["bytes_coded"]


def _write_plain(path: str, views: dict[str, _arrays.View], metadata: dict[str, str] | None) -> None:
    """Writes a plain safetensors file, the tensors with the widest values first, so that all of them are aligned."""
    import json

    header: dict[str, Any] = {} if not metadata else {"__metadata__": dict(metadata)}
    order = sorted(views, key=lambda name: (-_arrays.WIDTHS[views[name].dtype], name))
    end = 0
    for name in order:
        view = views[name]
        start, end = end, end + math.prod(view.shape) * _arrays.WIDTHS[view.dtype]
        header[name] = {"dtype": view.dtype, "shape": list(view.shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            file.write(views[name].buffer)


_ORIGINALS: dict[str, Any] = {}
"""Functions of `safetensors` that were replaced, by their names, and what else `unpatch` puts back."""
_EXCHANGED: list[tuple[str, Any, str, Any]] = []
"""Attributes of modules that were replaced: name of the function, module, attribute, and what is there now."""


def _torch_load_file(filename: Any, device: Any = "cpu", **others: Any) -> dict[str, Any]:
    """`safetensors.torch.load_file`, of compressed files, too."""
    if _native.begins_compressed(os.fspath(filename)):
        _check_options(others)
        return load_file(filename, "pt", device)
    return _ORIGINALS["safetensors.torch.load_file"](filename, device, **others)


def _check_options(others: dict[str, Any]) -> None:
    """Refuses what `safetensors` does not know either. How files are read is no matter of compressed ones."""
    unknown = others.keys() - {"backend"}
    if unknown:
        raise TypeError(f"unexpected keyword argument `{min(unknown)}`")


def _numpy_load_file(filename: Any, **others: Any) -> dict[str, Any]:
    """`safetensors.numpy.load_file`, of compressed files, too."""
    if _native.begins_compressed(os.fspath(filename)):
        _check_options(others)
        return load_file(filename, "np")
    return _ORIGINALS["safetensors.numpy.load_file"](filename, **others)


def _load(data: bytes, framework: str) -> dict[str, Any]:
    with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
        file.write(data)
        file.flush()
        return load_file(file.name, framework)


def _begins_compressed(data: bytes) -> bool:
    return data.startswith(b'{"zipwire":{"dtype":"ZIPWIRE",', 8)


def _torch_load(data: bytes) -> dict[str, Any]:
    return _load(data, "pt") if _begins_compressed(data) else _ORIGINALS["safetensors.torch.load"](data)


def _numpy_load(data: bytes) -> dict[str, Any]:
    return _load(data, "np") if _begins_compressed(data) else _ORIGINALS["safetensors.numpy.load"](data)


def _replacements() -> dict[str, Any]:
    replacements = {
        "safetensors.safe_open": safe_open,
        "safetensors.numpy.load_file": _numpy_load_file,
        "safetensors.numpy.load": _numpy_load,
    }
    try:
        import torch  # noqa: F401
    except ImportError:
        return replacements
    return replacements | {"safetensors.torch.load_file": _torch_load_file, "safetensors.torch.load": _torch_load}


def patch(children: bool = True) -> None:
    """Has all programs of this process that use `safetensors` read compressed files as well.

    Modules that have taken `safe_open` or `load_file` already get the new ones, too. Nothing is written to the disk.

    Args:
        children: whether processes that `multiprocessing` starts by `spawn` or `forkserver` are patched as well, and, by the environment variable `ZIPWIRE_PATCH=1`, other
            processes that import `zipwire_tensors`.

    Raises:
        Error: if `safetensors` is not installed.
    """
    import importlib

    try:
        replacements = _replacements()
        for name, new in replacements.items():
            module_name, _, attribute = name.rpartition(".")
            module = importlib.import_module(module_name)
            _ORIGINALS.setdefault(name, getattr(module, attribute))
            _exchange(name, new)
    except ImportError as error:
        raise Error(f"`safetensors` cannot be imported: {error}\nhelp: `pip install safetensors`") from None
    if children:
        _ORIGINALS.setdefault("environment", os.environ.get(ENVIRONMENT))
        os.environ[ENVIRONMENT] = "1"
        _patch_spawned()


def unpatch() -> None:
    """Undoes `patch`."""
    while _EXCHANGED:
        name, module, attribute, new = _EXCHANGED.pop()
        if getattr(module, attribute, None) is new:
            setattr(module, attribute, _ORIGINALS[name])
    if "environment" in _ORIGINALS and _ORIGINALS["environment"] is None:
        os.environ.pop(ENVIRONMENT, None)
    spawn: Any = sys.modules.get("multiprocessing.spawn")
    if spawn is not None and "spawn" in _ORIGINALS:
        spawn.get_preparation_data = _ORIGINALS.pop("spawn")
    _ORIGINALS.clear()


def _exchange(name: str, new: Any) -> None:
    """Puts a function in place of the original in all modules that have it, but those of this package."""
    old = _ORIGINALS[name]
    for module_name, module in list(sys.modules.items()):
        if module_name.startswith(__package__ or "zipwire_tensors"):
            continue
        names = getattr(module, "__dict__", None) or {}
        for attribute in [attribute for attribute, value in list(names.items()) if value is old]:
            setattr(module, attribute, new)
            _EXCHANGED.append((name, module, attribute, new))


_IN_CHILD = """
import sys
sys.path[:] = {path!r}
try:
    from zipwire_tensors.safetensors import patch
    patch()
except Exception as error:
    import warnings
    warnings.warn(f"this process reads no compressed files: {{error}}")
"""


class _PatchWhenLoaded:
    """An object whose unpickling patches the process that reads it. That has not been told yet where modules are."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return exec, (_IN_CHILD.format(path=[os.getcwd() if path == "" else path for path in sys.path]),)


def _patch_spawned() -> None:
    from multiprocessing import spawn as module

    spawn: Any = module
    if "spawn" in _ORIGINALS:
        return
    original = _ORIGINALS["spawn"] = spawn.get_preparation_data

    def with_patch(name: str) -> dict[str, Any]:
        # A process that is spawned unpickles this before anything else, and passes over entries that it does not know.
        return {"zipwire": _PatchWhenLoaded(), **original(name)}

    spawn.get_preparation_data = with_patch
