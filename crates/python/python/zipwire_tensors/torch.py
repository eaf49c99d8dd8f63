"""Distributed checkpoints and the all-gather of FSDP2, compressed without loss.

`DcpWriter` and `DcpReader` save and load checkpoints of `torch.distributed.checkpoint`, `StreamTransform` compresses those of its own
`FileSystemWriter`, and `AllGather` sends the shards of `fully_shard` compressed.
"""

from __future__ import annotations

import io
import os
import pickle
import struct
import uuid
from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import torch
import torch.distributed as dist
from torch.distributed.checkpoint import LoadPlan, LoadPlanner, Metadata, SavePlan, SavePlanner, StorageReader, StorageWriter
from torch.distributed.checkpoint.planner import LoadItemType, ReadItem
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from . import _arrays, bound, compress, compress_into, decompress
from ._errors import Error, FileError, FileThereError, FormatError, NotThereError, TensorError, VersionError

# PyTorch has these two since 2.7 and 2.9; the rest of this module needs neither.
try:
    from torch.distributed.checkpoint._extension import StreamTransformExtension as _StreamTransform
except ImportError:
    _StreamTransform = object
try:
    from torch.distributed.fsdp._fully_shard._fsdp_api import AllGather as _AllGather
except ImportError:
    _AllGather = object

__all__ = ["AllGather", "DcpReader", "DcpWriter", "StreamTransform"]

# Training waits while these code.
_CODEC = "tiered"
_SUFFIX = ".zipwire"

# Where an item lies: name of the file, offset and length in bytes; of tensors also type and shape. Checkpoints have it pickled: a plain tuple
# does not depend on names of this module.
_Place = tuple[str, int, int, torch.dtype | None, tuple[int, ...] | None]


def _metadata_path(folder: Path, rank: int | None) -> Path:
    """Path of the metadata of all ranks, or of one that was saved with `use_collectives=False`."""
    return folder / (".metadata" if rank is None else f"__{rank}.metadata")


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


class _InFolder:
    """A checkpoint in a local folder, for writers and readers alike."""

    path: Path

    @property
    def checkpoint_id(self) -> Path:
        """Folder of the checkpoint."""
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether this is a path of a local folder, and no address."""
        return "://" not in str(checkpoint_id)

    def prepare_global_plan(self, plans: list[Any]) -> list[Any]:
        """Changes nothing."""
        return plans


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor as a flat one of bytes."""
    return tensor.resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)


def _name_of(dtype: torch.dtype) -> str | None:
    return _arrays._FROM_TORCH.get(str(dtype))


class DcpWriter(_InFolder, StorageWriter):
    """Saves distributed checkpoints with each tensor compressed in its own type.

        dcp.save(state, storage_writer=DcpWriter("checkpoints/step-1000"))

    It writes one file for each rank and then, in one step, `.metadata`: a save that is cut off at any time leaves what was there before. Files
    of an earlier checkpoint in the same folder are removed only then, so that replacing one takes room for both. `dcp.async_save` works, too.

    Args:
        path: folder of the checkpoint, on a file system that all ranks share.
        codec: as in `zipwire_tensors.compress`; the default is the fastest.
        threads: threads that compress, of each rank; one for each core by default.
        overwrite: whether a checkpoint that is there may be replaced; the default is that of `FileSystemWriter`.
    """

    def __init__(
        self, path: str | os.PathLike[str], codec: str = _CODEC, *, threads: int | None = None, overwrite: bool = True
    ) -> None:
        bound(0, codec)  # raises if there is no such codec, before anything is saved
        self.path = Path(path)
        self._codec = codec
        self._threads = threads
        self._overwrite = overwrite
        self._rank = 0
        self._rank_of_metadata: int | None = None

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Begins a new checkpoint, in another folder if one is given."""
        if checkpoint_id is not None:
            self.path = Path(checkpoint_id)

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Takes note of the rank, and whether each rank writes metadata of its own (`use_collectives=False`)."""
        self._rank = kwargs.get("rank") or 0
        self._rank_of_metadata = None if kwargs.get("use_collectives", True) else self._rank

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Makes the folder.

        Raises:
            FileThereError: if it has a checkpoint that was not to be replaced.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        if not self._overwrite and _metadata_path(self.path, self._rank_of_metadata).exists():
            raise FileThereError(f"`{self.path}` has a checkpoint\nhelp: save into another folder, or give `overwrite=True`")
        return plan

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Writes the items of this rank into a file of its own, with a name that no other save has.

        Raises:
            TensorError: for tensors that have no memory of their own values.
        """
        path = self.path / f"__{self._rank}_{uuid.uuid4().hex}{_SUFFIX}"
        results = []
        try:
            with open(path, "xb") as file:
                for item in plan.items:
                    data, dtype, shape = self._encode(planner.resolve_data(item), item.index.fqn)
                    place: _Place = (path.name, file.tell(), len(data), dtype, shape)
                    file.write(data)
                    results.append(WriteResult(item.index, len(data), place))
                _sync(file)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        _sync_folder(self.path)
        done: Future[list[WriteResult]] = Future()
        done.set_result(results)
        return done

    def _encode(self, values: torch.Tensor | io.BytesIO, name: str) -> tuple[bytes, torch.dtype | None, tuple[int, ...] | None]:
        if not isinstance(values, torch.Tensor):
            return compress(values.getbuffer(), self._codec, threads=self._threads), None, None
        if is_traceable_wrapper_subclass(values):
            kind = type(values).__name__
            raise TensorError(f"`{name}` is a `{kind}`, which has no values of its own\nhelp: save the tensors that it is made of")
        tensor = values.detach().cpu()
        plain = tensor if _name_of(tensor.dtype) else _bytes_of(tensor)
        return compress(plain, self._codec, threads=self._threads), tensor.dtype, tuple(tensor.shape)

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Makes the checkpoint valid, and removes what earlier saves left in the folder."""
        metadata.storage_data = {result.index: result.storage_data for of_rank in results for result in of_rank}
        path = _metadata_path(self.path, self._rank_of_metadata)
        draft = path.with_name(f"{path.name}.tmp")
        with open(draft, "wb") as file:
            file.write(compress(pickle.dumps(metadata)))
            _sync(file)
        os.replace(draft, path)
        _sync_folder(self.path)
        _sync_folder(self.path.parent)
        kept = {place[0] for place in metadata.storage_data.values()}
        ranks = "*" if self._rank_of_metadata is None else self._rank_of_metadata
        for old in self.path.glob(f"__{ranks}_*{_SUFFIX}"):
            if old.name not in kept:
                old.unlink(missing_ok=True)


class DcpReader(_InFolder, StorageReader):
    """Loads checkpoints that `DcpWriter` saved, with any number of ranks.

        dcp.load(state, storage_reader=DcpReader("checkpoints/step-1000"))

    As with `FileSystemReader`, the metadata is a pickle: load only checkpoints that you trust.

    Args:
        path: folder of the checkpoint.
        threads: threads that decompress, of each rank; one for each core by default.
    """

    def __init__(self, path: str | os.PathLike[str], *, threads: int | None = None) -> None:
        self.path = Path(path)
        self._threads = threads
        self._places: dict[Any, _Place] = {}

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Begins to load, from another folder if one is given."""
        self._places = {}
        if checkpoint_id is not None:
            self.path = Path(checkpoint_id)

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """The metadata of all ranks, or of the one that is given as `rank`.

        Raises:
            NotThereError: if there is none, as where a save was cut off.
            FormatError: if it is damaged, or not of `DcpWriter`.
        """
        path = _metadata_path(self.path, kwargs.get("rank"))
        try:
            return pickle.loads(decompress(path.read_bytes(), as_="bytes"))
        except FileNotFoundError:
            remedy = "load another checkpoint, or save this one again"
            raise NotThereError(f"no whole checkpoint is in `{self.path}`: it has no `{path.name}`\nhelp: {remedy}") from None
        except VersionError:
            raise
        except Error as error:
            remedy = "load what PyTorch's own writer saved by `FileSystemReader`; if it is damaged, load another checkpoint"
            raise FormatError(f"`{path}` is damaged or not of `DcpWriter`: {error}\nhelp: {remedy}") from error

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Takes note of where items lie."""
        self._places = metadata.storage_data

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Changes nothing."""
        return plan

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Reads the items of the plan, each of those in storage once.

        Raises:
            FileError: if a file is missing.
            Error: of the kind that `zipwire_tensors.decompress` raises, with the name of the tensor, if one is damaged.
        """
        wanted: dict[_Place, list[ReadItem]] = defaultdict(list)
        for item in plan.items:
            wanted[self._places[item.storage_index]].append(item)
        for name, places in groupby(sorted(wanted, key=itemgetter(0, 1)), key=itemgetter(0)):
            path = self.path / name
            try:
                with open(path, "rb") as file:
                    for place in places:
                        self._load(file, place, wanted[place], planner)
            except FileNotFoundError as error:
                raise FileError(f"`{path}` is missing from the checkpoint\nhelp: load another checkpoint") from error
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def _load(self, file: BinaryIO, place: _Place, items: list[ReadItem], planner: LoadPlanner) -> None:
        _, offset, length, dtype, shape = place
        file.seek(offset)
        try:
            values = decompress(file.read(length), as_="bytes" if dtype is None else "torch", threads=self._threads)
        except Error as error:
            raise type(error)(f"`{items[0].storage_index.fqn}` in `{file.name}`: {error}") from error
        if dtype is not None:
            values = values.view(dtype).reshape(shape)
        for item in items:
            if item.type == LoadItemType.BYTE_IO:
                planner.load_bytes(item, io.BytesIO(values))
                continue
            part = values
            for dim, (start, size) in enumerate(zip(item.storage_offsets, item.lengths)):
                part = part.narrow(dim, start, size)
            target = planner.resolve_tensor(item).detach()
            if target.shape != part.shape:
                fqn = item.storage_index.fqn
                raise TensorError(f"`{fqn}` was saved as {list(part.shape)}, and {list(target.shape)} is to be loaded")
            target.copy_(part)
            planner.commit_tensor(item, target)


_BLOCK = 4 << 20  # bytes; a whole number of values of every type


class StreamTransform(_StreamTransform):
    """Compresses checkpoints of PyTorch's own `FileSystemWriter`; needs PyTorch 2.7. New jobs better use `DcpWriter`.

        dcp.save(state, storage_writer=FileSystemWriter(path, _extensions=[StreamTransform("BF16")]))

        registry = ExtensionRegistry()
        registry.register(StreamTransform)
        dcp.load(state, storage_reader=FileSystemReader(path, _extension_registry=registry))

    The streams do not say of what type their values are: those of another type than `dtype` come back bit for bit as well, but take more room.

    Args:
        dtype: type of most values, as safetensors calls it.
        codec: as in `zipwire_tensors.compress`; the default is the fastest.
        threads: threads that code; one for each core by default.

    Raises:
        TensorError: if there is no such type.
        CodecError: if there is no such codec.
    """

    def __init__(self, dtype: str = "BF16", codec: str = _CODEC, *, threads: int | None = None) -> None:
        bound(0, codec, dtype=dtype)
        self._dtype, self._codec, self._threads = dtype, codec, threads

    @staticmethod
    def registry_name() -> str:
        """Name by which readers find this class."""
        return "stream.zipwire"

    @staticmethod
    def from_descriptor(version: str) -> StreamTransform:
        """What reads streams of a version.

        Raises:
            VersionError: if they are of a later one.
        """
        if version.partition(".")[0] != "1":
            raise VersionError(f"streams of version {version} are not read\nhelp: install a later version of zipwire-tensors")
        return StreamTransform()

    def get_descriptor(self) -> str:
        """Name and version, which the metadata of the checkpoint keeps."""
        return f"{self.registry_name()}/1"

    def transform_to(self, output: IO[bytes]) -> IO[bytes]:
        """A stream that writes what is written to it, compressed, to the output, which it closes with itself."""
        return cast(IO[bytes], _Compressor(output, self._dtype, self._codec, self._threads))

    def transform_from(self, input: IO[bytes]) -> IO[bytes]:
        """A stream that reads what was compressed."""
        return cast(IO[bytes], _Decompressor(input, self._threads))


class _Compressor(io.RawIOBase):
    """Writes compressed blocks with their lengths (4 bytes) in front, and at the end a length of zero and that of all values (8 bytes)."""

    def __init__(self, output: IO[bytes], dtype: str, codec: str, threads: int | None) -> None:
        self._output = output
        self._dtype = dtype
        self._codec = codec
        self._threads = threads
        self._pending = bytearray()
        self._total = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if self.closed:
            raise ValueError("write to a closed stream")
        view = memoryview(data)
        size = view.nbytes
        view = view.cast("B") if size else view
        start = 0
        while start < size:
            if not self._pending and size - start >= _BLOCK:
                self._emit(view[start : start + _BLOCK], self._dtype)
                start += _BLOCK
                continue
            part = view[start : start + _BLOCK - len(self._pending)]
            self._pending += part
            start += len(part)
            if len(self._pending) == _BLOCK:
                self._emit(self._pending, self._dtype)
                self._pending.clear()
        return size

    def _emit(self, block: Any, dtype: str) -> None:
        data = compress(block, self._codec, dtype=dtype, threads=self._threads)
        self._output.write(struct.pack("<I", len(data)) + data)
        self._total += len(block)

    def close(self) -> None:
        if self.closed:
            return
        try:
            whole = len(self._pending) - len(self._pending) % _arrays.WIDTHS[self._dtype]
            for block, dtype in ((self._pending[:whole], self._dtype), (self._pending[whole:], "U8")):
                if block:
                    self._emit(block, dtype)
            self._output.write(struct.pack("<IQ", 0, self._total))
            self._output.close()
        finally:
            super().close()


class _Decompressor(io.RawIOBase):
    def __init__(self, input: IO[bytes], threads: int | None) -> None:
        self._input = input
        self._threads = threads
        self._rest = memoryview(b"")
        self._total = 0
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        if view and not self._rest:
            self._rest = memoryview(self._next())
        size = min(len(view), len(self._rest))
        view[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size

    def readall(self) -> bytes:
        data = b"".join([self._rest, *iter(self._next, b"")])
        self._rest = memoryview(b"")
        return data

    def _next(self) -> bytes:
        """The next block, empty at the end."""
        if self._ended:
            return b""
        (length,) = struct.unpack("<I", self._take(4))
        if length:
            block = decompress(self._take(length), as_="bytes", threads=self._threads)
            self._total += len(block)
            return block
        if struct.unpack("<Q", self._take(8)) != (self._total,):
            raise FormatError("the stream is damaged: blocks are missing\nhelp: load another checkpoint")
        self._ended = True
        return b""

    def _take(self, size: int) -> bytes:
        data = self._input.read(size)
        while len(data) < size:
            more = self._input.read(size - len(data))
            if not more:
                raise FormatError("the stream is cut off\nhelp: load another checkpoint")
            data += more
        return data


class AllGather(_AllGather):
    """All-gather of FSDP2 that sends compressed shards, bit for bit; needs PyTorch 2.9 and parameters on the CPU.

        gather = AllGather()
        for module in model.modules():
            if isinstance(module, FSDPModule):
                module.set_custom_all_gather(gather)

    Ranks exchange lengths and then compressed bytes, as many as the longest shard takes. It pays where the network is slower than the codec.
    The call returns when everything has arrived, also with `async_op=True`.

    Args:
        codec: as in `zipwire_tensors.compress`, the same on all ranks; the default is the fastest.
        dtype: type of most values, as safetensors calls it, where FSDP2 gathers bytes: it does so for modules with parameters of several types.
            Others are coded in their own type.
        threads: threads that code, of each rank; one for each core by default.

    Raises:
        TensorError: if there is no such type.
        CodecError: if there is no such codec.
    """

    def __init__(self, codec: str = _CODEC, *, dtype: str = "BF16", threads: int | None = None) -> None:
        bound(0, codec, dtype=dtype)
        self._codec = codec
        self._dtype = dtype
        self._threads = threads
        self.bytes_raw = 0
        """Bytes of the shards of this rank, of all calls."""
        self.bytes_sent = 0
        """Bytes that it gave to collectives instead, with lengths and padding."""

    def allocate(self, size: Sequence[int | torch.SymInt], *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """Memory for what is gathered."""
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(
        self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: dist.ProcessGroup, async_op: bool = False
    ) -> None:
        """Gathers the shards of all ranks.

        Args:
            output_tensor: contiguous, with as many values as all shards together; the input may be the part of this rank.
            input_tensor: shard of this rank, of as many values on each.
            group: ranks that take part.
            async_op: makes no difference.

        Raises:
            TensorError: if tensors are not on the CPU.
        """
        if input_tensor.device.type != "cpu":
            remedy = "leave out `set_custom_all_gather`, or train on the CPU, over gloo"
            raise TensorError(f"shards are on `{input_tensor.device}`, and `AllGather` gathers those on the CPU for now\nhelp: {remedy}")
        shard = input_tensor.contiguous()
        room, size = self._encode(shard)
        sizes = torch.empty(group.size(), dtype=torch.int64)
        dist.all_gather_into_tensor(sizes, torch.tensor([size]), group=group)
        longest = int(sizes.max())
        received = torch.empty(group.size() * longest, dtype=torch.uint8)
        dist.all_gather_into_tensor(received, room[:longest], group=group)
        self.bytes_raw += shard.nbytes
        self.bytes_sent += longest + sizes.itemsize
        memory = _arrays._memory_of(received)
        parts = output_tensor.view(-1).split(shard.numel()) if shard.numel() else ()
        for rank, (part, length) in enumerate(zip(parts, sizes.tolist())):
            if rank != group.rank():
                data = memory[rank * longest : rank * longest + length]
                decompress(data, out=_arrays._memory_of(part), threads=self._threads)
            elif part.data_ptr() != shard.data_ptr():
                part.copy_(shard.view(-1))

    def _encode(self, shard: torch.Tensor) -> tuple[torch.Tensor, int]:
        """Memory that begins with a compressed shard, and how many bytes that takes."""
        dtype = self._dtype if shard.dtype == torch.uint8 else _name_of(shard.dtype) or "U8"
        if shard.nbytes % _arrays.WIDTHS[dtype]:
            dtype = "U8"
        values = _arrays._memory_of(shard)
        room = torch.empty(bound(values, self._codec, dtype=dtype), dtype=torch.uint8)
        return room, compress_into(values, _arrays._memory_of(room), self._codec, dtype=dtype, threads=self._threads)
