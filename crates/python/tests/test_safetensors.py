"""Compressed safetensors files: they open as plain ones do, in this process and in those that it starts."""

import json
import multiprocessing
import os
import pathlib
import subprocess
import sys

import pytest

import zipwire_tensors as zt
from zipwire_tensors import _native, hf
from zipwire_tensors import safetensors as zs

numpy = pytest.importorskip("numpy")
ml_dtypes = pytest.importorskip("ml_dtypes")
safetensors = pytest.importorskip("safetensors")
import safetensors.numpy  # noqa: E402


def state() -> dict[str, object]:
    random = numpy.random.default_rng(1)
    return {
        "w": random.normal(0, 0.02, (120, 70, 3)).astype(ml_dtypes.bfloat16),
        "b": random.normal(size=50).astype(numpy.float32),
        "steps": numpy.array(7),
        "ids": numpy.arange(6000).reshape(-1, 2),
        "none": numpy.zeros((0, 4), numpy.float16),
        "fp8": random.normal(size=5000).astype(ml_dtypes.float8_e4m3fn),
    }


def same(found: dict[str, object], wanted: dict[str, object]) -> bool:
    return found.keys() == wanted.keys() and all(
        (found[name].dtype, found[name].shape, found[name].tobytes()) == (of.dtype, of.shape, of.tobytes()) for name, of in wanted.items()
    )


@pytest.fixture
def saved(tmp_path: pathlib.Path) -> str:
    path = str(tmp_path / "model.safetensors")
    assert zs.save_file(state(), path, {"format": "pt"}) == os.path.getsize(path)
    return path


@pytest.fixture
def patched() -> object:
    zs.patch()
    yield
    zs.unpatch()


def test_files_come_back(saved: str) -> None:
    assert same(zs.load_file(saved), state())
    assert os.path.getsize(saved) < 0.7 * sum(of.nbytes for of in state().values())
    assert os.listdir(os.path.dirname(saved)) == ["model.safetensors"]
    with zs.safe_open(saved, framework="np") as file:
        assert file.keys() == sorted(state())
        assert file.metadata() == {"format": "pt"}
        with pytest.raises(zt.NotThereError, match="no tensor `v`"):
            file.get_tensor("v")
        with pytest.raises(KeyError):
            file.get_slice("v")
    found = zt.inspect(saved)
    assert found["w"].dtype == "BF16" and found["w"].nbytes_compressed < found["w"].nbytes


INDICES = ["3", "-1", "3:7", ":0", "5:2", "::7", "::-1", "100:3:-9", "3:9, 5", "2:4, ::2, 1", ":, 3", "..., 0", "-5:", "7, 8, 2", "None", "[1, 5, 2]", "numpy.array([0, 1])", "numpy.int64(4)"]


@pytest.mark.parametrize("index", INDICES)
def test_slices_are_those_of_arrays(saved: str, index: str) -> None:
    wanted = state()["w"]
    with zs.safe_open(saved, framework="np") as file:
        part = file.get_slice("w")
        assert part.get_shape() == [120, 70, 3] and part.get_dtype() == "BF16"
        found, right = eval(f"part[{index}]"), eval(f"wanted[{index}]")
        assert found.shape == right.shape and found.tobytes() == right.tobytes()
        assert file.get_slice("steps")[()] == 7
        with pytest.raises(IndexError, match="120 rows"):
            part[120]


def test_plain_files_are_read_with_types_that_numpy_lacks(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "plain.safetensors")
    wanted = {name: of for name, of in state().items() if name in ("w", "fp8")}
    zs._write_plain(path, zt._arrays.views(wanted), None)
    code = f"from zipwire_tensors.safetensors import load_file; print({{n: str(t.dtype) for n, t in load_file({path!r}).items()}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert eval(done.stdout) == {"w": "bfloat16", "fp8": "float8_e4m3fn"}


def test_readers_that_were_not_patched_refuse_the_file(saved: str) -> None:
    with pytest.raises(Exception, match="ZIPWIRE"):
        safetensors.numpy.load_file(saved)


def test_patched_readers_read_both_kinds(saved: str, tmp_path: pathlib.Path, patched: None) -> None:
    plain = str(tmp_path / "plain.safetensors")
    safetensors.numpy.save_file({"x": numpy.ones(3, numpy.float32)}, plain)
    assert same(safetensors.numpy.load_file(saved), state())
    assert same(safetensors.numpy.load(pathlib.Path(saved).read_bytes()), state())
    assert safetensors.numpy.load(pathlib.Path(plain).read_bytes())["x"].sum() == 3
    assert safetensors.numpy.load_file(plain)["x"].sum() == 3
    with safetensors.safe_open(saved, framework="np") as file:
        assert file.get_tensor("steps") == 7
    with safetensors.safe_open(plain, framework="np") as file:
        assert not isinstance(file, zs.safe_open) and list(file.keys()) == ["x"]
    zs.patch()
    zs.unpatch()
    zs.unpatch()
    with pytest.raises(Exception, match="ZIPWIRE"):
        safetensors.numpy.load_file(saved)


def read_plainly(path: str) -> int:
    import safetensors

    with safetensors.safe_open(path, framework="np") as file:
        return int(file.get_tensor("steps"))


def test_who_imported_the_functions_of_this_package_keeps_them(saved: str, patched: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "own", zs.safe_open, raising=False)
    zs.unpatch()
    assert sys.modules[__name__].own is zs.safe_open and safetensors.safe_open is not zs.safe_open
    zs.patch()
    with pytest.raises(TypeError, match="bogus"):
        safetensors.numpy.load_file(saved, bogus=1)


SPAWNED = """
import multiprocessing, sys
if __name__ == "__main__":
    sys.path.insert(0, {path!r})
    import zipwire_tensors.safetensors
    zipwire_tensors.safetensors.patch()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map_async(abs, [-2]).get(60))
"""


def test_a_package_that_only_the_path_of_modules_has_is_found_by_processes(tmp_path: pathlib.Path) -> None:
    package = pathlib.Path(zt.__file__).parent
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "zipwire_tensors").symlink_to(package)
    for name in ("numpy", "ml_dtypes", "safetensors"):
        found = pathlib.Path(sys.modules[name].__file__).parent
        (modules / name).symlink_to(found)
        libraries = found.with_name(f"{name}.libs")
        if libraries.exists():
            (modules / libraries.name).symlink_to(libraries)
    script = tmp_path / "script.py"
    script.write_text(SPAWNED.format(path=str(modules)))
    # Without the packages of the environment.
    done = subprocess.run([sys.executable, "-S", str(script)], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[2]", done.stderr


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_of_multiprocessing_are_patched(saved: str, patched: None, method: str) -> None:
    with multiprocessing.get_context(method).Pool(1) as pool:
        assert pool.apply(read_plainly, (saved,)) == 7


def test_the_environment_patches_who_imports_the_package(saved: str) -> None:
    code = f"import zipwire_tensors, safetensors; print(safetensors.safe_open({saved!r}, 'np').get_tensor('steps'))"
    environment = os.environ | {"ZIPWIRE_PATCH": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "7"


def test_differences_from_a_base(saved: str, tmp_path: pathlib.Path) -> None:
    later = state()
    later["w"] = later["w"] * ml_dtypes.bfloat16(1.01)
    path = str(tmp_path / "later.safetensors")
    assert zs.save_file(later, path, base=saved) < os.path.getsize(saved)
    assert same(zs.load_file(path, base=saved), later)
    with pytest.raises(zt.BaseError, match="base=FILE"):
        zs.load_file(path)


def test_damage_and_foreign_files_are_errors(saved: str, tmp_path: pathlib.Path) -> None:
    data = bytearray(pathlib.Path(saved).read_bytes())
    data[-3000] ^= 1
    damaged = tmp_path / "damaged.safetensors"
    damaged.write_bytes(data)
    with pytest.raises(zt.FormatError, match="damaged"):
        zs.load_file(damaged)
    foreign = tmp_path / "foreign.safetensors"
    foreign.write_bytes(b"PK\x03\x04 something")
    with pytest.raises(zt.FileError, match="archive"):
        zs.load_file(foreign)
    with pytest.raises(zt.MissingFileError):
        zs.load_file(tmp_path / "absent.safetensors")
    with pytest.raises(FileNotFoundError, match="no folder"):
        zs.save_file(state(), tmp_path / "absent" / "m.safetensors")
    for tensors, metadata in (({1: state()["w"]}, None), ({"w": state()["w"]}, {"a": 1}), ({"__metadata__": state()["w"]}, None)):
        with pytest.raises(zt.TensorError, match="help: "):
            zs.save_file(tensors, tmp_path / "m.safetensors", metadata)
    with pytest.raises(zt.TensorError, match="framework"):
        zs.load_file(saved, "jax")


def test_snapshots_are_compressed_in_place_and_restored(tmp_path: pathlib.Path) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "main"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    for name in names:
        safetensors.numpy.save_file({name: state()["w"]}, str(blobs / name))
        (snapshot / name).symlink_to(blobs / name)
    (snapshot / "config.json").write_text(json.dumps({}))
    before = {path.name: path.read_bytes() for path in snapshot.iterdir()}
    made = hf.compress_snapshot(snapshot)
    assert [path.name for path in made.files] == names and made.bytes_after < made.bytes_before
    assert all((snapshot / name).is_symlink() and _native.begins_compressed(blobs / name) for name in names)
    assert hf.compress_snapshot(snapshot).files == []
    assert same(zs.load_file(snapshot / names[0]), {names[0]: state()["w"]})
    assert hf.restore_snapshot(snapshot).bytes_after == made.bytes_before
    assert {path.name: path.read_bytes() for path in snapshot.iterdir()} == before
    assert sorted(path.name for path in blobs.iterdir()) == names
    pointer = snapshot / "model-00003-of-00003.safetensors"
    pointer.write_text("version https://git-lfs.github.com/spec/v1\n")
    (blobs / f".{names[0]}.zipwire-staged").write_text("what a call that was killed left")
    made = hf.compress_snapshot(snapshot)
    assert len(made.files) == 2 and list(made.refused) == [pointer]
    assert sorted(path.name for path in blobs.iterdir()) == names
    with pytest.raises(zt.FileError, match="no safetensors"):
        hf.compress_snapshot(tmp_path / "nothing")


def test_torch_tensors(tmp_path: pathlib.Path) -> None:
    torch = pytest.importorskip("torch")
    tensors = {"w": torch.randn(40, 30).bfloat16(), "t": torch.randn(30, 40).T, "s": torch.tensor(True)}
    path = tmp_path / "m.safetensors"
    zs.save_file(tensors, path)
    found = zs.load_file(path, "pt")
    assert all(torch.equal(found[name], of) and found[name].dtype == of.dtype for name, of in tensors.items())
    with zs.safe_open(path, "pt", device="cpu") as file:
        assert torch.equal(file.get_slice("w")[5:9, ::2], tensors["w"][5:9, ::2])


def test_packed_four_bits_load_as_before(tmp_path: pathlib.Path) -> None:
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file, save_file

    if not hasattr(torch, "float4_e2m1fn_x2"):
        pytest.skip("PyTorch has no float4_e2m1fn_x2")
    packed = torch.randint(0, 256, (64, 40), dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    save_file({"q": packed, "w": torch.ones(5000)}, str(tmp_path / "m.safetensors"))
    wanted = load_file(str(tmp_path / "m.safetensors"))["q"]
    assert hf.compress_snapshot(tmp_path).files
    found = zs.load_file(tmp_path / "m.safetensors", "pt")["q"]
    assert found.dtype == wanted.dtype and found.shape == wanted.shape and torch.equal(found.view(torch.uint8), wanted.view(torch.uint8))


def test_transformers_reads_a_compressed_model(tmp_path: pathlib.Path) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=500
    )
    model = transformers.LlamaForCausalLM(config).bfloat16()
    model.save_pretrained(tmp_path, max_shard_size="100KB")
    plain = transformers.LlamaForCausalLM.from_pretrained(tmp_path, dtype=torch.bfloat16)
    hf.compress_snapshot(tmp_path)
    zs.patch()
    try:
        again = transformers.LlamaForCausalLM.from_pretrained(tmp_path, dtype=torch.bfloat16)
    finally:
        zs.unpatch()
    wanted, found = model.state_dict(), again.state_dict()
    assert wanted.keys() == found.keys() and all(torch.equal(found[name], of) for name, of in wanted.items())
    tokens = torch.arange(20).reshape(1, -1)
    assert torch.equal(plain(tokens).logits, again(tokens).logits)
