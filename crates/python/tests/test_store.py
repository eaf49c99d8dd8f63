"""The store of checkpoints from Python."""

import pathlib

import pytest

import zipwire_tensors as zt
from zipwire_tensors import safetensors as zs
from zipwire_tensors.store import Store

numpy = pytest.importorskip("numpy")
ml_dtypes = pytest.importorskip("ml_dtypes")


def state(step: int) -> dict[str, object]:
    values = numpy.random.default_rng(1).normal(0, 0.02, 60_000).astype(ml_dtypes.bfloat16)
    values[:: 40 - step] *= ml_dtypes.bfloat16(1.01)
    return {"w": values, "frozen": numpy.arange(5000), "step": numpy.array(step)}


def same(found: dict[str, object], wanted: dict[str, object]) -> bool:
    return found.keys() == wanted.keys() and all((found[n].dtype, found[n].shape, found[n].tobytes()) == (w.dtype, w.shape, w.tobytes()) for n, w in wanted.items())


def test_checkpoints_come_back_and_take_what_changed(tmp_path: pathlib.Path) -> None:
    with pytest.raises(zt.StoreError, match="create=True"):
        Store(tmp_path / "store")
    store = Store(tmp_path / "store", create=True)
    added = [store.add(state(step), f"step-{step}", metadata={"step": str(step)}) for step in range(4)]
    assert added[0].full and added[1].delta and added[1].same and added[1].bytes_stored < added[0].bytes_stored / 3
    store = Store(tmp_path / "store", create=True)
    assert [row.id for row in store.list()] == [f"step-{step}" for step in range(4)]
    assert store.list()[1].parent == "step-0"
    for step in range(4):
        assert same(store.restore(f"step-{step}"), state(step))
    assert store.verify() == []
    with pytest.raises(zt.FileThereError, match="step-1"):
        store.add(state(1), "step-1")
    with pytest.raises(KeyError, match="help: it has"):
        store.restore("step-9")
    removed, freed = store.prune(1)
    assert removed == ["step-0", "step-1", "step-2"] and freed > 0
    assert same(store.restore("step-3"), state(3))
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_files_are_stored_byte_for_byte(tmp_path: pathlib.Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    model = tmp_path / "model"
    model.mkdir()
    safetensors.save_file({"w": state(0)["w"]}, str(model / "model.safetensors"), {"a": "b"})
    store = Store(tmp_path / "store", create=True)
    store.add(model, "first", parent=None, codec="tiered")
    out = tmp_path / "out"
    store.restore_files("first", out)
    assert (out / "model.safetensors").read_bytes() == (model / "model.safetensors").read_bytes()
    with pytest.raises(zt.FileThereError, match="force=True"):
        store.restore_files("first", out)
    store.restore_files("first", out, force=True)
    assert same(zs.load_file(out / "model.safetensors"), {"w": state(0)["w"]})


def test_files_that_are_no_states_are_not_restored_as_such(tmp_path: pathlib.Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    store = Store(tmp_path / "store", create=True)
    (tmp_path / "x.bin").write_bytes(b"0" * 5000)
    store.add(tmp_path / "x.bin", "bytes")
    with pytest.raises(zt.StoreError, match="restore_files"):
        store.restore("bytes")
    folder = tmp_path / "two"
    folder.mkdir()
    for name in ("a", "b"):
        safetensors.save_file({"w": state(0)["w"]}, str(folder / f"{name}.safetensors"))
    store.add(folder, "two")
    with pytest.raises(zt.StoreError, match="two files"):
        store.restore("two")
    with pytest.raises(zt.TensorError, match="help: "):
        store.add(5, "five")


def test_damage_is_said_and_never_restored(tmp_path: pathlib.Path) -> None:
    store = Store(tmp_path / "store", create=True)
    store.add(state(0), "first")
    largest = max((tmp_path / "store").rglob("*"), key=lambda path: path.stat().st_size if path.is_file() else 0)
    data = bytearray(largest.read_bytes())
    data[len(data) // 2] ^= 1
    largest.chmod(0o644)
    largest.write_bytes(data)
    assert "first" in store.verify()[0]
    with pytest.raises(zt.Error, match="damaged"):
        store.restore("first")


def test_torch_states(tmp_path: pathlib.Path) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(30, 40)
    store = Store(tmp_path / "store", create=True)
    with pytest.raises(zt.TensorError, match="state_dict"):
        store.add(model, "one")
    with pytest.raises(zt.TensorError, match="`model`.*\nhelp: .*flatten"):
        store.add({"model": model.state_dict()}, "one")
    store.add(model.state_dict(), "one")
    found = store.restore("one", "pt")
    assert all(torch.equal(found[name], of) for name, of in model.state_dict().items())
