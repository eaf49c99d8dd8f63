"""Lossless compression of KV caches that LMCache stores: a serializer (`serde`) for its L2 adapters, written for LMCache 0.5.6.

LMCache finds it without a line of code, as the folder of a plugin adapter:

    --l2-adapter '{"type": "plugin", "module_path": "zipwire_tensors.lmcache", "class_name": "FolderAdapter",
                   "adapter_params": {"base_path": "/cache"}, "serde": {"type": "zipwire", "codec": "tiered"}}'

or under the adapters of LMCache after `register()`, with `"serde": {"type": "zipwire"}` in their configuration. Compressed chunks differ in length,
which not all adapters of 0.5.6 take: `fs`, `hfbucket`, `bigtable` and `valkey` ask for a chunk as long as the longest there can be, and report a
shorter one as not there. `FolderAdapter` is `fs` without that: it asks for what the file has.

A payload is `ZWLM`, a byte 1, a byte 0, the number of tensors as two bytes, the length of each as eight (little-endian), and each tensor as
`zipwire_tensors.compress` makes it. The lengths are there because adapters may hand buffers back that are longer than what was stored. Each chunk of
LMCache (256 tokens by default) is coded by itself; its key has the model, and type and shape of each tensor are compared before it is decoded.
"""

from __future__ import annotations

import functools
import struct
from typing import TYPE_CHECKING, Any, cast

from . import Info, _arrays, bound, compress_into, decompress, inspect
from ._errors import CodecError, Error, FormatError, TensorError

if TYPE_CHECKING:
    import torch

__all__ = ["Deserializer", "NotInstalledError", "Serializer", "register"]

_MAGIC = b"ZWLM\x01\x00"
_FRONT = struct.Struct("<6sH")
_KEYS = {"codec", "threads", "max_workers"}


class NotInstalledError(Error, ImportError):
    """A package that is needed and is not installed, or is of a version without what is needed."""


class Serializer:
    """Compresses the tensors of a memory object. It is registered as a `Serializer` of LMCache by `register`.

    Args:
        codec: `tiered` is the fastest, `rans` takes less.
        threads: threads that code a tensor; one for each core by default.

    Raises:
        CodecError: if there is no such codec.
    """

    def __init__(self, codec: str = "tiered", threads: int | None = None) -> None:
        bound(0, codec)
        self._codec, self._threads = codec, threads

    def serialize(self, src: Any, dst: Any, key: Any) -> int:
        """Compresses tensors into the front of a buffer.

        Args:
            src: memory object with the tensors, on the CPU.
            dst: memory object of at least `estimate_serialized_size` bytes.
            key: not used.

        Returns:
            The number of bytes that were written.

        Raises:
            TensorError: if the buffer is too short, or a tensor cannot be compressed.
        """
        tensors = _tensors_of(src)
        room = memoryview(dst.byte_array).cast("B")
        lengths: list[int] = []
        at = _front_len(len(tensors))
        for tensor in tensors:
            size = compress_into(tensor, room[at:], self._codec, threads=self._threads)
            lengths.append(size)
            at += size
        front = _FRONT.pack(_MAGIC, len(tensors)) + struct.pack(f"<{len(lengths)}Q", *lengths)
        room[: len(front)] = front
        return at

    def estimate_serialized_size(self, layout_desc: Any) -> int:
        """The most bytes that tensors of these shapes and types take."""
        import torch

        # Memory that nobody touches costs nothing.
        tensors = [torch.empty(shape, dtype=dtype) for shape, dtype in zip(layout_desc.shapes, layout_desc.dtypes, strict=True)]
        return _front_len(len(tensors)) + sum(bound(tensor, self._codec) for tensor in tensors)


class Deserializer:
    """Restores what `Serializer` has compressed with any codec. It is registered as a `Deserializer` of LMCache by `register`.

    Args:
        threads: threads that decode a tensor; one for each core by default.
    """

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads

    def deserialize(self, src: Any, dst: Any, key: Any) -> None:
        """Restores tensors, bit for bit.

        Args:
            src: memory object that begins with the payload; what is behind it is not looked at.
            dst: memory object whose tensors are filled.
            key: not used.

        Raises:
            FormatError: if the payload is damaged or not zipwire's.
            TensorError: if it is of tensors of other types or shapes. Nothing is written then.
        """
        tensors = _tensors_of(dst)
        pieces = _pieces_of(memoryview(src.byte_array).cast("B"))
        infos = [cast(Info, inspect(piece)) for piece in pieces]
        found = [(_arrays.torch_dtype(info.dtype), info.shape) for info in infos]
        wanted = [(tensor.dtype, tuple(tensor.shape)) for tensor in tensors]
        if found != wanted:
            raise TensorError(f"the cache has {found}, and {wanted} are asked for\nhelp: clear the cache of the model and layout before")
        for piece, tensor in zip(pieces, tensors, strict=True):
            decompress(piece, tensor, threads=self._threads)


def _tensors_of(memory: Any) -> list[torch.Tensor]:
    tensors = [memory.get_tensor(index) for index in range(len(memory.get_shapes()))]
    if any(tensor is None for tensor in tensors):
        raise TensorError("the memory object is no longer valid\nhelp: hold it until it is coded")
    return tensors


def _front_len(count: int) -> int:
    return _FRONT.size + 8 * count


def _pieces_of(data: memoryview) -> list[memoryview]:
    if len(data) < _FRONT.size:
        raise FormatError("the payload ends in its header")
    magic, count = _FRONT.unpack_from(data)
    if magic != _MAGIC:
        raise FormatError("the payload is not zipwire's, or of a later version\nhelp: clear the cache, or update zipwire")
    at = _front_len(count)
    if len(data) < at:
        raise FormatError("the payload ends in its header")
    pieces = []
    for length in struct.unpack_from(f"<{count}Q", data, _FRONT.size):
        if length > len(data) - at:
            raise FormatError("the payload is cut")
        pieces.append(data[at : at + length])
        at += length
    return pieces


def register(name: str = "zipwire") -> None:
    """Makes LMCache know the serializer under a name; a second call does nothing. Nothing of LMCache is imported before.

    In the configuration beside `type` there may be `codec`, `threads` (as `Serializer` has them) and `max_workers` (objects at a time; 1 by default).

    Raises:
        NotInstalledError: if LMCache is not there, or has no such serializers.
    """
    serde = _serde()
    if name in serde.get_registered_serde_types():
        return
    # `isinstance` of their base classes holds, and this module imports without them.
    serde.Serializer.register(Serializer)
    serde.Deserializer.register(Deserializer)
    serde.register_serde_factory(name, _processor)


def _serde() -> Any:
    try:
        from lmcache.v1.distributed import serde  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise NotInstalledError(f"LMCache has no serializers here: {error}\nhelp: `pip install 'lmcache>=0.5.6'`") from error
    return serde


def _processor(kwargs: dict[str, object]) -> Any:
    unknown = sorted(set(kwargs) - _KEYS)
    if unknown:
        raise CodecError(f"`serde` has no `{unknown[0]}`\nhelp: keys are {', '.join(sorted(_KEYS))}")
    threads = kwargs.get("threads")
    count = None if threads is None else int(str(threads))
    codec = str(kwargs.get("codec", "tiered"))
    workers = int(str(kwargs.get("max_workers", 1)))
    return _serde().AsyncSerdeProcessor(Serializer(codec, count), Deserializer(count), max_workers=workers)


@functools.cache
def _adapter() -> type:
    register()
    from lmcache.v1.distributed.l2_adapters.fs_l2_adapter import FSL2Adapter  # type: ignore[import-not-found, unused-ignore]

    class FolderAdapter(FSL2Adapter):  # type: ignore[misc, unused-ignore]
        """LMCache's `fs`, for objects that differ in length."""

        def __init__(self, config: Any, l1_memory_desc: Any = None) -> None:
            super().__init__(config)

        async def _execute_load(self, keys: list[Any], objects: list[Any], task_id: Any) -> None:
            for key, memory in zip(keys, objects, strict=True):
                try:
                    memory.set_used_size(self._key_to_path(key).stat().st_size)
                except (OSError, ValueError):
                    # What is not there, or longer than there is room, is reported as not loaded below.
                    continue
            await super()._execute_load(keys, objects, task_id)

    return FolderAdapter


def __getattr__(name: str) -> Any:
    # LMCache looks for the names of its plugin adapters here. Its own classes are not imported before.
    if name == "FolderAdapter":
        return _adapter()
    if name == "FolderAdapterConfig":
        from lmcache.v1.distributed.l2_adapters.fs_l2_adapter import FSL2AdapterConfig

        return FSL2AdapterConfig
    raise AttributeError(f"module `{__name__}` has no `{name}`")
