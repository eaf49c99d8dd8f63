"""Distributed checkpoints and the all-gather of FSDP2: what comes back is what was given, bit for bit, or an error."""

from __future__ import annotations

import io
import os
import pickle
import random
import signal
import tempfile
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

import zipwire_tensors as zt
import zipwire_tensors.torch as zt_torch
from zipwire_tensors.torch import AllGather, DcpReader, DcpWriter, StreamTransform

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")

# One process imports PyTorch, and the others are forks of it.
CONTEXT = mp.get_context("forkserver" if "forkserver" in mp.get_all_start_methods() else "spawn")
if CONTEXT.get_start_method() == "forkserver":
    CONTEXT.set_forkserver_preload(["torch.distributed.checkpoint", "torch.distributed.fsdp", "zipwire_tensors.torch"])


def weights(*shape: int, seed: int = 0, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=generator) * 0.02).to(dtype)


def mixed() -> dict:
    """One of everything that a state dict may have."""
    special = torch.tensor([0x7FC1, 0xFF80, 0x8000, 0x0001], dtype=torch.uint16).view(torch.bfloat16)
    return {
        "bf16": weights(300, 500),
        "special": special,
        "f32": weights(70_000, seed=1, dtype=torch.float32),
        "i64": torch.arange(10_000).reshape(10, 1000),
        "bool": torch.arange(99) % 3 == 0,
        "f8": weights(5000).to(torch.float8_e4m3fn),
        "c128": torch.complex(weights(5, 7, dtype=torch.float64), weights(5, 7, seed=1, dtype=torch.float64)),
        "scalar": torch.tensor(3.25),
        "complex_scalar": torch.tensor(1 + 2j, dtype=torch.complex128),
        "empty": torch.empty(0, 4),
        "transposed": weights(64, 48).t(),
        "strided": weights(1000)[::3],
        "object": {"step": 7, "names": ["a", "b"]},
        "bytes": io.BytesIO(b"raw bytes " * 100),
    }


def emptied(state: dict) -> dict:
    def empty(value: object) -> object:
        if isinstance(value, torch.Tensor):
            return torch.zeros_like(value, memory_format=torch.contiguous_format)
        return dict.fromkeys(value) if isinstance(value, dict) else None

    return {name: empty(value) for name, value in state.items()}


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def assert_same(found: dict, wanted: dict) -> None:
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        if isinstance(value, torch.Tensor):
            assert (found[name].dtype, found[name].shape) == (value.dtype, value.shape), name
            assert torch.equal(as_bytes(found[name]), as_bytes(value)), name
        elif isinstance(value, io.BytesIO):
            assert found[name].getvalue() == value.getvalue(), name
        else:
            assert found[name] == value, name


def save(path: Path, state: dict, **options: object) -> None:
    dcp.save(state, storage_writer=DcpWriter(path, **options), no_dist=True)


def load(path: Path, like: dict) -> dict:
    state = emptied(like)
    dcp.load(state, storage_reader=DcpReader(path), no_dist=True)
    return state


def spawn(worker: object, processes: int, *args: object) -> None:
    with tempfile.TemporaryDirectory() as folder:
        arguments = (worker, f"{folder}/store", processes, *args)
        mp.start_processes(_join_group, arguments, nprocs=processes, start_method=CONTEXT.get_start_method())


def _join_group(rank: int, worker: object, store: str, processes: int, *args: object) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=processes)
    try:
        worker(rank, *args)
    finally:
        dist.destroy_process_group()


# Checkpoints


def test_everything_comes_back_and_takes_less(tmp_path: Path) -> None:
    state = mixed()
    save(tmp_path / "one" / "deep", state)
    assert_same(load(tmp_path / "one" / "deep", state), state)
    (file,) = (tmp_path / "one" / "deep").glob("*.zipwire")
    assert file.stat().st_size < 0.85 * sum(value.nbytes for value in state.values() if isinstance(value, torch.Tensor))


def test_values_are_converted_and_shapes_are_not(tmp_path: Path) -> None:
    save(tmp_path, {"w": weights(100)})
    state = {"w": torch.zeros(100)}
    dcp.load(state, storage_reader=DcpReader(tmp_path), no_dist=True)
    assert torch.equal(state["w"], weights(100).float())
    with pytest.raises((CheckpointException, ValueError), match=r"[Ss]ize"):
        dcp.load({"w": torch.zeros(50)}, storage_reader=DcpReader(tmp_path), no_dist=True)


def test_reset_takes_another_folder(tmp_path: Path) -> None:
    writer, reader = DcpWriter(tmp_path / "a"), DcpReader(tmp_path / "a")
    dcp.save({"w": weights(10)}, checkpoint_id=tmp_path / "b", storage_writer=writer, no_dist=True)
    state = {"w": torch.zeros(10)}
    dcp.load(state, checkpoint_id=tmp_path / "b", storage_reader=reader, no_dist=True)
    assert torch.equal(state["w"], weights(10).float()) and not (tmp_path / "a").exists()


def test_overwrite_replaces_and_clears_up(tmp_path: Path) -> None:
    for seed in range(3):
        save(tmp_path, {"w": weights(1000, seed=seed)})
        assert len(list(tmp_path.glob("*.zipwire"))) == 1
    with pytest.raises(CheckpointException, match="help: save into another folder, or give `overwrite=True`"):
        save(tmp_path, {"w": weights(1000)}, overwrite=False)
    wanted = {"w": weights(1000, seed=2)}
    assert_same(load(tmp_path, wanted), wanted)


def test_a_failed_save_leaves_no_file_and_the_earlier_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = {"a": weights(1000), "b": weights(1000, seed=1)}
    save(tmp_path, wanted)
    files = sorted(tmp_path.iterdir())

    def fail(*args: object, **kwargs: object) -> bytes:
        raise OSError("no space left")

    monkeypatch.setattr(zt_torch, "compress", fail)
    with pytest.raises(CheckpointException, match="no space left"):
        save(tmp_path, {"a": weights(1000, seed=3), "b": weights(1000, seed=4)})
    assert sorted(tmp_path.iterdir()) == files
    assert_same(load(tmp_path, wanted), wanted)


def test_async_save_keeps_the_values_of_the_call(tmp_path: Path) -> None:
    state = {"w": weights(2_000_000), "step": 1}
    # To save in another process, PyTorch sends the writer there.
    writer = pickle.loads(pickle.dumps(DcpWriter(tmp_path)))
    future = dcp.async_save(state, storage_writer=writer, no_dist=True)
    state["w"].zero_()
    getattr(future, "upload_completion", future).result()
    wanted = {"w": weights(2_000_000), "step": 1}
    assert_same(load(tmp_path, wanted), wanted)


def _save_killed(path: str, at: str) -> None:
    def kill(*args: object, **kwargs: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    if at == "write":
        calls = iter([zt.compress, zt.compress, kill])
        zt_torch.compress = lambda *args, **kwargs: next(calls)(*args, **kwargs)
    else:
        os.replace = kill
    save(Path(path), {name: torch.full((200_000,), 9.0) for name in "abcd"})


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_a_killed_save_is_no_checkpoint_and_spoils_none(tmp_path: Path) -> None:
    earlier, half = tmp_path / "earlier", tmp_path / "half"
    wanted = {name: weights(2000, seed=seed, dtype=torch.float32) for seed, name in enumerate("abcd")}
    save(earlier, wanted)
    cases = [(earlier, "write"), (earlier, "commit"), (half, "write")]
    for path, at in cases:
        run = CONTEXT.Process(target=_save_killed, args=(str(path), at))
        run.start()
        run.join()
        assert run.exitcode == -signal.SIGKILL
    assert len(list(earlier.glob("*.zipwire"))) == 3 and len(list(half.glob("*.zipwire"))) == 1
    assert_same(load(earlier, wanted), wanted)
    with pytest.raises(CheckpointException, match="no whole checkpoint is in .*half.*\nhelp: load another checkpoint"):
        load(half, wanted)
    save(earlier, wanted)
    assert len(list(earlier.glob("*.zipwire"))) == 1


def test_damage_is_an_error(tmp_path: Path) -> None:
    wanted = {"w": weights(20_000), "object": list(range(1000))}
    save(tmp_path, wanted)
    (data,) = tmp_path.glob("*.zipwire")
    rng = random.Random(1)
    for path in (data, tmp_path / ".metadata"):
        intact = path.read_bytes()
        for _ in range(40):
            damaged = bytearray(intact)
            damaged[rng.randrange(len(intact))] ^= 1 << rng.randrange(8)
            for content in (damaged, intact[: rng.randrange(len(intact))]):
                path.write_bytes(content)
                with pytest.raises(CheckpointException, match="Error: "):
                    load(tmp_path, wanted)
        path.write_bytes(intact)
    assert_same(load(tmp_path, wanted), wanted)
    data.unlink()
    with pytest.raises(CheckpointException, match="is missing from the checkpoint"):
        load(tmp_path, wanted)


def test_a_checkpoint_of_pytorch_is_told_apart(tmp_path: Path) -> None:
    dcp.save({"w": weights(10)}, storage_writer=dcp.FileSystemWriter(tmp_path), no_dist=True)
    with pytest.raises(CheckpointException, match="help: load what PyTorch's own writer saved by `FileSystemReader`"):
        load(tmp_path, {"w": weights(10)})


def test_unknown_codecs_and_types_are_refused_at_once(tmp_path: Path) -> None:
    for make in (lambda: DcpWriter(tmp_path, "gzip"), lambda: StreamTransform(codec="gzip"), lambda: AllGather("gzip")):
        with pytest.raises(zt.CodecError):
            make()
    for make in (lambda: StreamTransform("BF17"), lambda: AllGather(dtype="BF17")):
        with pytest.raises(zt.TensorError):
            make()


# Other numbers of ranks


def _whole() -> dict[str, torch.Tensor]:
    return {"rows": weights(37, 50), "columns": weights(16, 41, seed=1, dtype=torch.float32), "replica": weights(99, seed=2)}


PLACEMENTS = {"rows": Shard(0), "columns": Shard(1), "replica": Replicate()}


def _save_sharded(rank: int, path: str) -> None:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    state = {name: distribute_tensor(tensor, mesh, [PLACEMENTS[name]]) for name, tensor in _whole().items()}
    dcp.save({**state, "step": 5}, storage_writer=DcpWriter(path))
    future = dcp.async_save({**state, "step": 6}, storage_writer=DcpWriter(f"{path}-async"))
    getattr(future, "upload_completion", future).result()
    dcp.save({"mine": torch.full((10,), float(rank))}, storage_writer=DcpWriter(f"{path}-own"), use_collectives=False)
    mine = {"mine": torch.zeros(10)}
    dcp.load(mine, storage_reader=DcpReader(f"{path}-own"))
    assert mine["mine"].tolist() == [rank] * 10


def _load_sharded(rank: int, path: str) -> None:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    # Rows were saved by rows and are loaded by columns, and the other way round.
    placements = {"rows": Shard(1), "columns": Shard(0), "replica": Shard(0)}
    for folder, step in ((path, 5), (f"{path}-async", 6)):
        state = {
            name: distribute_tensor(torch.zeros_like(tensor), mesh, [placements[name]]) for name, tensor in _whole().items()
        }
        state["step"] = 0
        dcp.load(state, storage_reader=DcpReader(folder))
        found = {name: value.full_tensor() for name, value in state.items() if isinstance(value, DTensor)}
        assert_same(found, _whole())
        assert state["step"] == step


def test_other_numbers_of_ranks(tmp_path: Path) -> None:
    path = tmp_path / "sharded"
    spawn(_save_sharded, 2, str(path))
    assert len(list(path.glob("*.zipwire"))) == 2
    for folder in (path, tmp_path / "sharded-async"):
        assert_same(load(folder, _whole()), _whole())
    spawn(_load_sharded, 3, str(path))


# Streams of PyTorch's own writer


def test_stream_of_file_system_writer(tmp_path: Path) -> None:
    extension = pytest.importorskip("torch.distributed.checkpoint._extension")
    state = mixed()
    writer = dcp.FileSystemWriter(tmp_path, _extensions=[StreamTransform()])
    dcp.save(state, storage_writer=writer, no_dist=True)
    registry = extension.ExtensionRegistry()
    registry.register(StreamTransform)
    found = emptied(state)
    dcp.load(found, storage_reader=dcp.FileSystemReader(tmp_path, _extension_registry=registry), no_dist=True)
    assert_same(found, state)
    big = {"w": weights(5_000_000)}
    dcp.save(big, storage_writer=dcp.FileSystemWriter(tmp_path / "big", _extensions=[StreamTransform()]), no_dist=True)
    assert (tmp_path / "big" / "__0_0.distcp").stat().st_size < 0.7 * big["w"].nbytes


class Sink(io.BytesIO):
    """Keeps what was written when it is closed."""

    def close(self) -> None:
        self.kept = self.getvalue()
        super().close()


class Source(io.RawIOBase):
    """Gives fewer bytes than are asked for, as a socket does."""

    def __init__(self, data: bytes, rng: random.Random) -> None:
        self._file, self._rng = io.BytesIO(data), rng

    def read(self, size: int = -1) -> bytes:
        return self._file.read(self._rng.randint(1, size))


def transformed(data: bytes, rng: random.Random, dtype: str) -> bytes:
    sink = Sink()
    stream = StreamTransform(dtype).transform_to(sink)
    start = 0
    while start < len(data):
        size = rng.choice([0, 1, 3, 60, 64, 65, 300])
        assert stream.write(memoryview(data)[start : start + size]) == len(data[start : start + size])
        start += size
    stream.close()
    stream.close()
    return sink.kept


def test_stream_of_any_bytes_in_any_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zt_torch, "_BLOCK", 64)
    rng = random.Random(7)
    for length in [0, 1, 2, 3, 63, 64, 65, 127, 128, 129, *(rng.randrange(2000) for _ in range(40))]:
        data = rng.randbytes(length)
        packed = transformed(data, rng, rng.choice(["BF16", "F32", "I64", "U8", "F8_E4M3"]))
        assert StreamTransform.from_descriptor("1").transform_from(io.BytesIO(packed)).read() == data
        stream = StreamTransform.from_descriptor("1.2").transform_from(Source(packed, rng))
        parts = [stream.read(rng.choice([1, 5, 64, 100])) for _ in range(3)]
        assert b"".join(parts) + stream.read() == data
        assert stream.read() == stream.read(10) == b""


def test_damaged_streams_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zt_torch, "_BLOCK", 64)
    rng = random.Random(8)
    packed = transformed(rng.randbytes(333), rng, "BF16")
    for at in range(len(packed)):
        damaged = bytearray(packed)
        damaged[at] ^= 1 << rng.randrange(8)
        for content in (bytes(damaged), packed[:at]):
            with pytest.raises(zt.Error):
                StreamTransform().transform_from(io.BytesIO(content)).read()
    with pytest.raises(zt.VersionError, match="help: install a later version"):
        StreamTransform.from_descriptor("2")


# FSDP2


def _model(dtype: torch.dtype, gather: AllGather | None) -> torch.nn.Module:
    from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(61, 130), torch.nn.ReLU(), torch.nn.Linear(130, 61)).to(dtype)
    mixed_precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    policy = mixed_precision if dtype == torch.float32 else MixedPrecisionPolicy()
    for module in (model[0], model[2], model):
        fully_shard(module, mp_policy=policy)
    for module in model.modules() if gather else ():
        if isinstance(module, FSDPModule):
            module.set_custom_all_gather(gather)
    return model


def _losses(dtype: torch.dtype, gather: AllGather | None) -> tuple[list[float], torch.nn.Module]:
    model = _model(dtype, gather)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    inputs = weights(8, 61, seed=10 + dist.get_rank(), dtype=dtype) * 50
    losses = []
    for _ in range(10):
        loss = (model(inputs).float() - 1).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses, model


def _train(rank: int, path: str) -> None:
    for dtype in (torch.bfloat16, torch.float32):
        gather = AllGather(threads=1)
        losses, model = _losses(dtype, gather)
        wanted, plain = _losses(dtype, None)
        assert losses == wanted and losses[-1] < losses[0]
        assert_same(_full(model), _full(plain))
        assert 0 < gather.bytes_sent < 0.9 * gather.bytes_raw
    _gather_bytes(rank)
    dcp.save(get_model_state_dict(model), storage_writer=DcpWriter(path))
    other = _model(dtype, None)
    state = {name: torch.zeros_like(value) for name, value in get_model_state_dict(other).items()}
    dcp.load(state, storage_reader=DcpReader(path))
    set_model_state_dict(other, state)
    assert_same(_full(other), _full(model))


def _full(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().full_tensor() for name, parameter in model.named_parameters()}


def _gather_bytes(rank: int) -> None:
    """Calls of the protocol itself: bytes with and without a type, an input of its own memory, no values, and a number that is no whole one."""
    group = dist.group.WORLD
    shards = [weights(999, seed=seed).view(torch.uint8) for seed in range(group.size())]
    for numel, dtype in ((1998, "BF16"), (1998, "U8"), (1997, "F32"), (0, "BF16")):
        gather = AllGather(dtype=dtype, threads=1)
        output = gather.allocate((numel * group.size(),), dtype=torch.uint8, device=torch.device("cpu"))
        assert gather(output, shards[rank][:numel], group, async_op=True) is None
        assert torch.equal(output, torch.cat([shard[:numel] for shard in shards]))
        assert gather.bytes_raw == numel
        assert gather.bytes_sent < (0.9 * numel if (numel, dtype) == (1998, "BF16") else numel + 200)
    with pytest.raises(zt.TensorError, match="on the CPU for now\nhelp: "):
        gather(torch.empty(8, device="meta"), torch.empty(2, device="meta"), group)


def test_training_is_the_same_with_compressed_all_gather(tmp_path: Path) -> None:
    fsdp = pytest.importorskip("torch.distributed.fsdp")
    if not hasattr(getattr(fsdp, "FSDPModule", None), "set_custom_all_gather"):
        pytest.skip("FSDP2 of this PyTorch has no custom all-gather")
    spawn(_train, 4, str(tmp_path / "model"))
