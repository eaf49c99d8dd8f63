"""The serializer for LMCache: against LMCache 0.5.6 itself where it can be imported, and else against objects with the attributes that it uses."""

from __future__ import annotations

import json
import select
import struct
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import zipwire_tensors as zt  # noqa: E402
from zipwire_tensors import lmcache as zlm  # noqa: E402

SHAPE = (2, 4, 256, 128)
SAMPLE = Path(__file__).parents[3] / "traces/samples/train_late_kv.bf16.safetensors"


class Memory:
    """What of a memory object of LMCache the serializer uses."""

    def __init__(self, shapes: list[tuple[int, ...]], dtypes: list[Any], size: int | None = None) -> None:
        sizes = [torch.Size(shape).numel() * dtype.itemsize for shape, dtype in zip(shapes, dtypes, strict=True)]
        self.raw = torch.zeros(sum(sizes) if size is None else size, dtype=torch.uint8)
        self.shapes, self.dtypes, self.sizes = [torch.Size(shape) for shape in shapes], dtypes, sizes

    def get_shapes(self) -> list[Any]:
        return self.shapes

    def get_tensor(self, index: int) -> Any:
        begin = sum(self.sizes[:index])
        return self.raw[begin : begin + self.sizes[index]].view(self.dtypes[index]).view(self.shapes[index])

    @property
    def byte_array(self) -> memoryview:
        return memoryview(self.raw.numpy())


def cache(shape: tuple[int, ...] = SHAPE, seed: int = 1) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(torch.bfloat16)


def layout(shapes: list[tuple[int, ...]], dtypes: list[Any]) -> Any:
    return types.SimpleNamespace(shapes=[torch.Size(shape) for shape in shapes], dtypes=dtypes)


def serialized(memory: Memory, shapes: list[tuple[int, ...]], dtypes: list[Any], codec: str = "tiered") -> tuple[Memory, int]:
    serializer = zlm.Serializer(codec)
    out = Memory([], [], serializer.estimate_serialized_size(layout(shapes, dtypes)))
    return out, serializer.serialize(memory, out, None)


@pytest.mark.parametrize("codec", ["tiered", "rans", "auto"])
def test_objects_like_those_of_lmcache_come_back_bit_for_bit(codec: str) -> None:
    shapes, dtypes = [SHAPE, (256, 7), (0, 3), ()], [torch.bfloat16, torch.float8_e4m3fn, torch.float16, torch.int64]
    source, target = Memory(shapes, dtypes), Memory(shapes, dtypes)
    source.raw.copy_(torch.randint(0, 256, source.raw.shape, dtype=torch.uint8))
    source.get_tensor(0).copy_(cache())
    packed, size = serialized(source, shapes, dtypes, codec)
    assert size < len(packed.raw)
    zlm.Deserializer().deserialize(packed, target, None)
    assert torch.equal(source.raw, target.raw)


def test_any_reader_of_zipwire_opens_the_tensors_of_a_payload() -> None:
    source = Memory([SHAPE], [torch.bfloat16])
    source.get_tensor(0).copy_(cache())
    packed, size = serialized(source, [SHAPE], [torch.bfloat16])
    data = bytes(packed.raw[:size].numpy())
    magic, count, length = struct.unpack_from("<6sHQ", data)
    assert (magic, count, length) == (b"ZWLM\x01\x00", 1, size - 16)
    assert torch.equal(zt.decompress(data[16:]), source.get_tensor(0))
    assert size < 0.8 * source.raw.numel()


def test_recorded_caches_take_less() -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    for tensor in safetensors.load_file(SAMPLE).values():
        source = Memory([tuple(tensor.shape)], [tensor.dtype])
        source.get_tensor(0).copy_(tensor)
        _, size = serialized(source, [tuple(tensor.shape)], [tensor.dtype])
        assert size < 0.85 * source.raw.numel()


def test_random_bits_fit_what_is_estimated() -> None:
    source = Memory([SHAPE], [torch.bfloat16])
    source.raw.copy_(torch.randint(0, 256, source.raw.shape, dtype=torch.uint8))
    for codec in ("tiered", "rans"):
        packed, size = serialized(source, [SHAPE], [torch.bfloat16], codec)
        assert size <= len(packed.raw)


def test_damaged_payloads_are_errors() -> None:
    source = Memory([SHAPE], [torch.bfloat16])
    source.get_tensor(0).copy_(cache())
    packed, size = serialized(source, [SHAPE], [torch.bfloat16])
    target = Memory([SHAPE], [torch.bfloat16])
    for at in (0, 4, 6, 9, 20, size // 2, size - 1):
        packed.raw[at] ^= 0x10
        with pytest.raises(zt.Error):
            zlm.Deserializer().deserialize(packed, target, None)
        packed.raw[at] ^= 0x10
    for end in (0, 7, 12, size - 1):
        cut = Memory([], [], end)
        cut.raw.copy_(packed.raw[:end])
        with pytest.raises(zt.FormatError):
            zlm.Deserializer().deserialize(cut, target, None)


def test_other_shapes_types_and_numbers_of_tensors_are_refused_before_anything_is_written() -> None:
    source = Memory([SHAPE], [torch.bfloat16])
    source.get_tensor(0).copy_(cache())
    packed, _ = serialized(source, [SHAPE], [torch.bfloat16])
    half = (2, 2, 256, 128)
    for shapes, dtypes in (
        ([(2, 4, 128, 256)], [torch.bfloat16]),
        ([SHAPE], [torch.float16]),
        ([half, half], [torch.bfloat16] * 2),
    ):
        target = Memory(shapes, dtypes)
        with pytest.raises(zt.TensorError, match="help: "):
            zlm.Deserializer().deserialize(packed, target, None)
        assert not target.raw.any()


def test_short_buffers_and_unknown_codecs_are_errors() -> None:
    source = Memory([SHAPE], [torch.bfloat16])
    with pytest.raises(zt.TensorError):
        zlm.Serializer().serialize(source, Memory([], [], 100), None)
    with pytest.raises(zt.CodecError):
        zlm.Serializer("none-such")


def test_nothing_of_lmcache_is_imported_before_it_is_registered() -> None:
    code = "import sys, zipwire_tensors.lmcache; assert not any(name.split('.')[0] in ('lmcache', 'torch') for name in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_where_lmcache_is_missing_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lmcache", None)
    monkeypatch.setitem(sys.modules, "lmcache.v1.distributed", None)
    with pytest.raises(zlm.NotInstalledError, match="help: `pip install"):
        zlm.register()


# What follows takes LMCache itself, without a GPU.


@pytest.fixture
def lmcache() -> Any:
    return pytest.importorskip("lmcache.v1.distributed.serde", exc_type=ImportError)


def test_lmcache_makes_a_processor_of_the_registered_type(lmcache: Any) -> None:
    zlm.register()
    zlm.register()
    processor = lmcache.create_serde_processor(lmcache.SerdeConfig("zipwire", {"codec": "rans", "threads": 2, "max_workers": 2}))
    processor.close()
    assert isinstance(zlm.Serializer(), lmcache.Serializer) and isinstance(zlm.Deserializer(), lmcache.Deserializer)
    with pytest.raises(zt.CodecError, match="help: keys are"):
        lmcache.create_serde_processor(lmcache.SerdeConfig("zipwire", {"codecs": "rans"}))


def wait(descriptor: int) -> None:
    from lmcache.v1.platform import consume_fd

    assert select.select([descriptor], [], [], 20)[0], "LMCache did not answer"
    consume_fd(descriptor)


class Storage:
    """An L2 adapter of LMCache with the serializer, and the L1 memory it takes buffers from, as its storage manager builds them."""

    def __init__(self, spec: dict[str, Any]) -> None:
        import argparse

        from lmcache.v1.distributed.config import L1ManagerConfig, L1MemoryManagerConfig
        from lmcache.v1.distributed.l1_manager import L1Manager
        from lmcache.v1.distributed.l2_adapters import create_l2_adapter
        from lmcache.v1.distributed.l2_adapters.config import parse_args_to_l2_adapters_config
        from lmcache.v1.distributed.l2_adapters.serde_wrapper import SerdeL2AdapterWrapper
        from lmcache.v1.distributed.serde import create_serde_processor

        config = parse_args_to_l2_adapters_config(argparse.Namespace(l2_adapter=[json.dumps(spec)])).adapters[0]
        self.l1 = L1Manager(L1ManagerConfig(L1MemoryManagerConfig(64 << 20, use_lazy=False, shm_name="")))
        inner = create_l2_adapter(config, self.l1.get_l1_memory_desc())
        assert config.serde_config is not None
        self.adapter = SerdeL2AdapterWrapper(inner, create_serde_processor(config.serde_config), self.l1)

    def reserve(self, name: bytes) -> tuple[Any, Any]:
        from lmcache.v1.distributed.api import MemoryLayoutDesc, ObjectKey

        key = ObjectKey(name.ljust(32, b"_"), "model", 0)
        reserved = self.l1.reserve_write([key], [False], MemoryLayoutDesc([torch.Size(SHAPE)], [torch.bfloat16]))
        return key, reserved[key][1]

    def store(self, keys: list[Any], objects: list[Any]) -> bool:
        task = self.adapter.submit_store_task(keys, objects)
        wait(self.adapter.get_store_event_fd())
        return bool(self.adapter.pop_completed_store_tasks()[task].is_successful())

    def load(self, keys: list[Any], objects: list[Any]) -> list[bool]:
        task = self.adapter.submit_load_task(keys, objects)
        wait(self.adapter.get_load_event_fd())
        found = self.adapter.query_load_result(task)
        return [found.test(index) for index in range(len(keys))]

    def close(self) -> None:
        self.adapter.close()
        self.l1.close()


def spec(folder: Path, **serde: Any) -> dict[str, Any]:
    return {
        "type": "plugin",
        "module_path": "zipwire_tensors.lmcache",
        "class_name": "FolderAdapter",
        "adapter_params": {"base_path": str(folder)},
        "serde": {"type": "zipwire", **serde},
    }


def test_lmcache_stores_and_loads_chunks_through_its_own_wrapper(lmcache: Any, tmp_path: Path) -> None:
    storage = Storage(spec(tmp_path, codec="rans"))
    try:
        stored = [storage.reserve(b"a"), storage.reserve(b"b")]
        for seed, (_, memory) in enumerate(stored):
            memory.tensor.copy_(cache(seed=seed))
        keys = [key for key, _ in stored]
        assert storage.store(keys, [memory for _, memory in stored])
        sizes = [path.stat().st_size for path in tmp_path.iterdir()]
        assert len(sizes) == 2 and max(sizes) < 0.8 * cache().nbytes
        loaded = [storage.reserve(b"c")[1], storage.reserve(b"d")[1], storage.reserve(b"e")[1]]
        missing = storage.reserve(b"missing")[0]
        assert storage.load([*keys, missing], loaded) == [True, True, False]
        assert all(torch.equal(memory.tensor, cache(seed=seed)) for seed, memory in enumerate(loaded[:2]))
        victim = next(tmp_path.iterdir())
        victim.write_bytes(victim.read_bytes()[:-3] + b"???")
        assert storage.load(keys, loaded[:2]) == [False, False]
    finally:
        storage.close()


def test_the_folder_of_lmcache_itself_does_not_load_what_is_shorter(lmcache: Any, tmp_path: Path) -> None:
    zlm.register()
    storage = Storage({"type": "fs", "base_path": str(tmp_path), "serde": {"type": "zipwire"}})
    try:
        key, memory = storage.reserve(b"a")
        memory.tensor.copy_(cache())
        assert storage.store([key], [memory])
        # Once this fails, LMCache takes lengths that differ, and `FolderAdapter` is not needed any more.
        assert storage.load([key], [storage.reserve(b"b")[1]]) == [False]
    finally:
        storage.close()
