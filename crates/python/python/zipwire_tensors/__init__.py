"""Lossless compression of tensors, model files and checkpoints, near the speed of memory.

    >>> import numpy, zipwire_tensors as zt
    >>> weights = numpy.random.default_rng(1).normal(0, 0.02, 100_000).astype(numpy.float32)
    >>> data = zt.compress(weights)
    >>> len(data) < weights.nbytes and numpy.array_equal(zt.decompress(data), weights)
    True

Submodules: `safetensors` (files that open as before), `hf` (snapshots of models), `store` (checkpoints), `sync` (weights as differences), `torch`
(distributed checkpoints, FSDP2), `kv` and `lmcache` (KV caches), `sim` (collectives of a cluster).
"""

from __future__ import annotations

import os as _os
from dataclasses import dataclass as _dataclass
from typing import Any

from . import _arrays, _native
from ._errors import (
    BaseError,
    CodecError,
    CommandError,
    Error,
    FileError,
    FileThereError,
    FormatError,
    MissingFileError,
    NotThereError,
    StoreError,
    TensorError,
    VersionError,
)

__version__: str = _native.__version__

__all__ = [
    "BaseError",
    "CodecError",
    "CommandError",
    "Error",
    "FileError",
    "FileThereError",
    "FormatError",
    "Info",
    "MissingFileError",
    "NotThereError",
    "StoreError",
    "TensorError",
    "VersionError",
    "bound",
    "compress",
    "compress_into",
    "decompress",
    "inspect",
]


def _base_of(values: _arrays.View, base: Any) -> Any:
    if base is None:
        return None
    view = _arrays.view(base, values.dtype if values.origin == "bytes" else None)
    if (view.dtype, view.shape) != (values.dtype, values.shape):
        raise BaseError(
            f"the base is {view.dtype} {list(view.shape)}, the tensor {values.dtype} {list(values.shape)}\n"
            "help: a base has the type and shape of the tensor"
        )
    return view.buffer


def compress(values: Any, codec: str = "auto", *, base: Any = None, dtype: str | None = None, threads: int | None = None) -> bytes:
    """Compresses an array, a tensor on the CPU or any buffer, without loss.

    Args:
        values: an array of NumPy (with the types of ml_dtypes), a tensor of PyTorch, or a buffer such as `bytes`. What lies in one piece of
            memory is not copied.
        codec: `auto` takes, of `rans`, `planes` and `dedup+planes`, the one that makes a sample of the values smallest; `tiered` is several times as fast and takes a
            little more; others are those of zipwire. Types that a codec does not know are coded by their bytes.
        base: values of the same type and shape that whoever decompresses has, too: then differences from them are coded.
        dtype: type of the values of a plain buffer, as safetensors calls it (`BF16`); by default that of its format (of `array.array("f")` F32), and `U8`.
        threads: threads that code; one for each core by default. The result does not depend on it.

    Returns:
        Bytes with type and shape, that `decompress` reads. Their format is frozen.

    Other threads of Python run meanwhile: they must not change the values, nor resize the storage of a tensor.

    Raises:
        TensorError: if the object is none of these.
        CodecError: if there is no such codec.
        BaseError: if the base has another type or shape.

    >>> import numpy
    >>> before = numpy.arange(30_000, dtype=numpy.float32)
    >>> after = before + 1
    >>> data = compress(after, base=before)
    >>> bool((decompress(data, base=before) == after).all())
    True
    >>> decompress(compress(b"bytes, too"))
    b'bytes, too'
    """
    view = _arrays.view(values, dtype)
    return _native.compress(view.buffer, view.dtype, view.shape, view.origin, codec, _base_of(view, base), threads)


def compress_into(
    values: Any, out: Any, codec: str = "auto", *, base: Any = None, dtype: str | None = None, threads: int | None = None
) -> int:
    """Compresses like `compress`, into the front of a writable buffer of `bound(values)` bytes or more.

    Returns:
        The number of bytes that were written.

    Raises:
        TensorError: also if the buffer is too short.

    >>> room = bytearray(bound(b"0123" * 1000))
    >>> size = compress_into(b"0123" * 1000, room)
    >>> decompress(room[:size]) == b"0123" * 1000
    True
    """
    view = _arrays.view(values, dtype)
    return _native.compress_into(
        view.buffer, view.dtype, view.shape, view.origin, codec, out, _base_of(view, base), threads
    )


def bound(values: Any, codec: str = "auto", *, dtype: str | None = None) -> int:
    """The most bytes that `compress` makes of values, with a base or without. Codecs are named without `delta+`.

    Args:
        values: what is to be compressed, or a number of bytes.
        codec: as in `compress`.
        dtype: type of the values of a plain buffer or number; `U8` by default.

    >>> bound(1_000_000) < 1_010_000
    True
    """
    if isinstance(values, int):
        name = dtype or "U8"
        width = _arrays._width(name)
        if values % width:
            raise TensorError(f"{values} bytes are no whole number of values of {name}, which take {width} each")
        return _native.bound(name, (values // width,), codec)
    view = _arrays.view(values, dtype)
    return _native.bound(view.dtype, view.shape, codec)


def decompress(data: Any, out: Any = None, *, base: Any = None, as_: str | None = None, threads: int | None = None) -> Any:
    """Restores what `compress` was given, bit for bit.

    Args:
        data: compressed bytes, also those of zipwire's libraries for C and Rust.
        out: array, tensor or writable buffer of as many bytes, which is filled and returned. After an error it has unspecified values.
        base: the values that were the base; it may be `out` itself, which then is brought up to date in place.
        as_: `numpy`, `torch` or `bytes`; by default what it was.
        threads: threads that decode; one for each core by default.

    Raises:
        FormatError: if the bytes are damaged or not zipwire's, VersionError if they are of a later version.
        BaseError: if the base is missing or has other values.
        TensorError: if the output does not fit.

    >>> import numpy
    >>> decompress(compress(numpy.zeros((2, 3), dtype=numpy.int16)), as_="bytes")
    b'\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00'
    """
    if as_ not in (None, "numpy", "torch", "bytes"):
        raise TensorError(f"`as_` is `numpy`, `torch` or `bytes`, and not `{as_}`")
    found = _native.describe(data)
    dtype, shape = found["dtype"], tuple(found["shape"])
    base_view = None
    if base is not None:
        described = _arrays.View(None, dtype, shape, found["origin"])
        base_view = _base_of(described, base)
    if out is not None:
        if as_ is not None:
            raise TensorError("give `out` or `as_`: an output is what it is")
        _native.decompress_into(data, _arrays.output(out, dtype, found["nbytes"]), base_view, threads)
        return out
    kind = as_ or {"array": "numpy", "torch": "torch"}.get(found["origin"], "bytes")
    if kind == "bytes":
        return _native.decompress(data, base_view, threads)
    try:
        result, memory = _arrays.empty(dtype, shape, kind)
    except (ValueError, OverflowError, RuntimeError) as error:
        if isinstance(error, Error):
            raise
        raise FormatError(f"there is no {dtype} {list(shape)} here: {error}") from error
    _native.decompress_into(data, memory, base_view, threads)
    return result


@_dataclass(frozen=True)
class Info:
    """What compressed bytes or a tensor of a file are of."""

    dtype: str
    """Type of the values, as safetensors calls it."""
    shape: tuple[int, ...]
    nbytes: int
    """Bytes of the values."""
    nbytes_compressed: int
    """Bytes that they take compressed, with everything."""
    codecs: dict[str, int]
    """Number of frames of each codec; of a file, not said."""
    needs_base: bool
    """Whether they are differences from a base; of a file, whether any of its tensors is."""

    @property
    def ratio(self) -> float:
        """Bytes before by bytes after."""
        return self.nbytes / self.nbytes_compressed if self.nbytes_compressed else 1.0


def inspect(data: Any) -> Info | dict[str, Info]:
    """What compressed bytes are of, or each tensor of a model file.

    Args:
        data: compressed bytes, or the path (`str` or `os.PathLike`) of a safetensors file, compressed or not.

    Returns:
        `Info`, or a dictionary of them by the names of tensors.

    >>> inspect(compress(b"0" * 1000)).nbytes
    1000
    """
    if isinstance(data, (str, _os.PathLike)):
        model = _native.Model.list(data)
        return {
            name: Info(dtype, tuple(shape), nbytes, model.kept(name), {}, model.needs_base)
            for name, dtype, shape, nbytes in model.tensors()
        }
    found = _native.describe(data)
    return Info(
        found["dtype"],
        tuple(found["shape"]),
        found["nbytes"],
        found["nbytes_compressed"],
        found["codecs"],
        found["needs_base"],
    )


if _os.environ.get("ZIPWIRE_PATCH") == "1":
    from .safetensors import patch as _patch

    try:
        _patch()
    except Error as _error:
        import warnings as _warnings

        _warnings.warn(f"ZIPWIRE_PATCH=1 had no effect: {_error}", stacklevel=2)
