"""Weights that are published and applied, over folders and HTTP, between processes, and after damage, kills and changes."""

from __future__ import annotations

import http.client
import json
import multiprocessing
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

numpy = pytest.importorskip("numpy")
ml_dtypes = pytest.importorskip("ml_dtypes")

import zipwire_tensors as zt  # noqa: E402
from zipwire_tensors import sync  # noqa: E402

Weights = dict[str, Any]


def weights(step: int, rows: int = 64) -> Weights:
    """Weights of a step: most values of the matrices stay from one step to the next, `frozen` stays for good."""
    matrix = numpy.random.default_rng(7).normal(0, 0.02, (rows, 96)).astype(numpy.float32)
    for seed in range(step):
        made = numpy.random.default_rng(seed)
        matrix += (made.random(matrix.shape) < 0.05) * made.normal(0, 1e-4, matrix.shape).astype(numpy.float32)
    return {
        "matrix": matrix,
        "half": matrix.astype(ml_dtypes.bfloat16),
        "tied": matrix.copy(),
        "frozen": numpy.random.default_rng(8).normal(0, 1, 3000).astype(numpy.float32),
        "ids": numpy.arange(5000, dtype=numpy.int64) + step,
        "mask": numpy.arange(1000) % 3 == step % 3,
        "step": numpy.float32(step),
        "count": numpy.array(step, numpy.int32),
        "empty": numpy.empty((0, 3), numpy.float16),
    }


def same(left: Weights, right: Weights) -> bool:
    return left.keys() == right.keys() and all(
        numpy.asarray(left[name]).tobytes() == numpy.asarray(right[name]).tobytes()
        and numpy.asarray(left[name]).dtype == numpy.asarray(right[name]).dtype
        and numpy.shape(left[name]) == numpy.shape(right[name])
        for name in left
    )


def manifest(folder: Path, version: int) -> dict[str, Any]:
    return json.loads((folder / f"zipwire-{version:012d}.json").read_text())["body"]


def payloads(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.bin"))


def publish_steps(folder: Path, steps: range, **options: Any) -> sync.Publisher:
    publisher = sync.Publisher(folder, **options)
    for step in steps:
        publisher.publish(weights(step), step)
    return publisher


@pytest.mark.parametrize("codec", ["rans", "tiered"])
def test_each_version_comes_out_bit_for_bit_in_place(tmp_path: Path, codec: str) -> None:
    publisher, receiver, held = sync.Publisher(tmp_path, codec, keyframe_every=3), sync.Receiver(tmp_path), {}
    for step in range(8):
        publisher.publish(weights(step), step)
        before = dict(held)
        assert receiver.apply(held) == step == receiver.version
        assert same(held, weights(step))
        if step:
            # `step` was a scalar of NumPy, which is an array here.
            assert all(held[name] is before[name] for name in held)
    assert receiver.apply(held) == 7


def test_differences_are_small_and_what_stays_takes_nothing(tmp_path: Path) -> None:
    publisher = publish_steps(tmp_path, range(1), keyframe_every=3)
    sizes = [publisher.publish(weights(step), step) for step in range(1, 4)]
    assert all(size.nbytes_delta is not None and size.nbytes_delta < size.nbytes / 4 for size in sizes)
    assert [size.nbytes_whole is not None for size in sizes] == [False, False, True]
    pieces = manifest(tmp_path, 1)["delta"]["pieces"]
    assert pieces["frozen"]["form"] == pieces["empty"]["form"] == "same" and pieces["matrix"]["form"] == "delta"
    assert pieces["tied"] == {"form": "copy", "offset": 0, "length": 0, "of": "matrix"}
    unchanged = publisher.publish(weights(3), 4)
    assert unchanged.nbytes_delta == 0


def test_a_tensor_whose_difference_would_be_larger_is_whole(tmp_path: Path) -> None:
    made = numpy.random.default_rng(1)
    first, second = (made.normal(0, 1, 50_000).astype(numpy.float32) for _ in range(2))
    publisher, held, receiver = sync.Publisher(tmp_path, keyframe_every=1), {}, sync.Receiver(tmp_path)
    for version, values in enumerate([first, second, numpy.zeros_like(first)]):
        size = publisher.publish({"w": values}, version)
        receiver.apply(held)
        assert version == 0 or (size.nbytes_delta is not None and size.nbytes_delta <= size.nbytes_whole)
    assert not held["w"].any()


def test_missed_versions_follow_differences_or_the_newest_whole_weights(tmp_path: Path) -> None:
    publisher, held, receiver = publish_steps(tmp_path, range(1), keyframe_every=4), {}, sync.Receiver(tmp_path)
    receiver.apply(held)
    for step in range(1, 7):
        publisher.publish(weights(step), step)
    steps = receiver._plan(6)
    assert [manifest.version for manifest, _ in steps] == [1, 2, 3, 4, 5, 6] and steps[0][1] is steps[0][0].delta
    receiver.apply(held)
    assert same(held, weights(6))

    late, fresh = sync.Receiver(tmp_path), {}
    steps = late._plan(6)
    assert [manifest.version for manifest, _ in steps] == [4, 5, 6] and steps[0][1] is steps[0][0].whole
    late.apply(fresh)
    assert same(fresh, weights(6))
    # Back to an earlier version there is no way but from whole weights.
    assert late.apply(fresh, 3) == 3
    assert same(fresh, weights(3))


def test_differences_that_are_more_than_whole_weights_are_not_read(tmp_path: Path) -> None:
    publisher, held, receiver = sync.Publisher(tmp_path, keyframe_every=4), {}, sync.Receiver(tmp_path)
    for step in range(5):
        publisher.publish({"w": numpy.random.default_rng(step).normal(0, 1, 20_000).astype(numpy.float32)}, step)
        if step == 0:
            receiver.apply(held)
    steps = receiver._plan(4)
    assert len(steps) == 1 and steps[0][1] is steps[0][0].whole


def test_changed_names_shapes_and_types_begin_anew(tmp_path: Path) -> None:
    publisher, held, receiver = publish_steps(tmp_path, range(2)), {}, sync.Receiver(tmp_path)
    receiver.apply(held)
    kept = held["matrix"]
    changed = {**weights(2, rows=80), "new": numpy.ones(3, numpy.int8), "ids": numpy.arange(5, dtype=numpy.int32)}
    sizes = publisher.publish(changed, 2)
    assert sizes.nbytes_delta is None and sizes.nbytes_whole is not None
    receiver.apply(held)
    assert same(held, changed) and held["matrix"] is not kept
    publisher.publish({**changed, "new": numpy.zeros(3, numpy.int8)}, 3)
    receiver.apply(held)
    assert not held["new"].any()


def test_weights_that_somebody_changed_are_an_error_until_they_are_forgotten(tmp_path: Path) -> None:
    publisher, held, receiver = publish_steps(tmp_path, range(1)), {}, sync.Receiver(tmp_path)
    receiver.apply(held)
    publisher.publish(weights(1), 1)
    held["frozen"][5] = 3
    touched = {name: numpy.copy(value) for name, value in held.items()}
    with pytest.raises(zt.BaseError, match=r"`frozen` changed since version 0 .*\nhelp: call `forget"):
        receiver.apply(held)
    assert same(held, touched) and receiver.version == 0
    receiver.forget()
    receiver.apply(held)
    assert same(held, weights(1))


@pytest.mark.parametrize("version", [0, 1])
def test_damaged_payloads_and_manifests_leave_the_weights_untouched(tmp_path: Path, version: int) -> None:
    publish_steps(tmp_path, range(version + 1))
    receiver, held = sync.Receiver(tmp_path, have=0 if version else None), weights(0) if version else {}
    before = {name: numpy.copy(value) for name, value in held.items()}
    payload = tmp_path / manifest(tmp_path, version)["payload"]
    whole = payload.read_bytes()
    for damaged in (whole[:-1], whole[: len(whole) // 2] + b"?" + whole[len(whole) // 2 + 1 :], b""):
        payload.write_bytes(damaged)
        with pytest.raises(zt.FormatError, match="help: "):
            receiver.apply(held, version)
        assert same(held, before)
    payload.unlink()
    with pytest.raises(zt.NotThereError):
        receiver.apply(held, version)
    payload.write_bytes(whole)
    file = tmp_path / f"zipwire-{version:012d}.json"
    text = file.read_bytes()
    for damaged in (text[:-9], text.replace(b"ids", b"odd"), b"[]", b"\xff", text.replace(payload.name.encode(), b"../../etc/passwd")):
        file.write_bytes(damaged)
        with pytest.raises(zt.FormatError):
            receiver.apply(held, version)
    file.write_bytes(text.replace(b'"zipwire_sync": 1', b'"zipwire_sync": 2'))
    with pytest.raises(zt.VersionError, match="help: update"):
        receiver.apply(held, version)
    file.write_bytes(text)
    assert same(held, before)
    receiver.apply(held, version)
    assert same(held, weights(version))


def test_an_interrupt_while_weights_are_written_leads_to_whole_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publisher, held, receiver = publish_steps(tmp_path, range(1)), {}, sync.Receiver(tmp_path)
    receiver.apply(held)
    publisher.publish(weights(1), 1)
    monkeypatch.setattr(sync, "_fits", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        receiver.apply(held)
    monkeypatch.undo()
    assert receiver.version is None
    receiver.apply(held)
    assert same(held, weights(1))


def test_versions_are_never_replaced_and_only_grow(tmp_path: Path) -> None:
    publisher = publish_steps(tmp_path, range(3, 5))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for version, error in ((4, zt.FileThereError), (3, zt.FileThereError), (2, zt.StoreError), (-1, zt.StoreError)):
        with pytest.raises(error, match="help: "):
            publisher.publish(weights(0), version)
    with pytest.raises(zt.TensorError):
        publisher.publish({"w": object()}, 9)
    with pytest.raises(zt.CodecError):
        sync.Publisher(tmp_path, "window7")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_two_publishers_of_a_version_do_not_replace_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publisher = publish_steps(tmp_path, range(1))
    write = sync.Publisher._write_manifest

    def late(self: sync.Publisher, made: Any) -> None:
        monkeypatch.undo()
        sync.publish(weights(2), 1, to=tmp_path)
        write(self, made)

    monkeypatch.setattr(sync.Publisher, "_write_manifest", late)
    with pytest.raises(zt.FileThereError):
        publisher.publish(weights(1), 1)
    held: Weights = {}
    assert sync.apply(held, None, source=tmp_path) == 1
    assert same(held, weights(2)) and len(payloads(tmp_path)) == 2
    publisher.publish(weights(3), 2)
    assert sync.apply(held, None, source=tmp_path, have=1) == 2
    assert same(held, weights(3))


def test_the_thin_forms_and_new_publishers_go_on_with_differences(tmp_path: Path) -> None:
    for step in range(3):
        sizes = sync.publish(weights(step), step, to=tmp_path)
        assert (sizes.nbytes_delta is None) == (step == 0)
    held: Weights = {}
    assert sync.apply(held, 1, source=tmp_path) == 1
    assert same(held, weights(1))
    # A version that is damaged is followed by a whole one.
    (tmp_path / manifest(tmp_path, 2)["payload"]).write_bytes(b"")
    assert sync.publish(weights(3), 3, to=tmp_path).nbytes_whole is not None
    assert sync.apply(held, None, source=tmp_path) == 3
    assert same(held, weights(3))


def test_old_versions_go_and_what_later_ones_need_stays(tmp_path: Path) -> None:
    (tmp_path / "zipwire-notes.json").write_text("mine")
    orphan = tmp_path / "zipwire-000000000003-0123abcd.bin"
    orphan.write_text("left by a publisher that was killed")
    publisher = sync.Publisher(tmp_path, keyframe_every=4, keep=2)
    for step in range(11):
        publisher.publish(weights(step), step)
        there = sync.Folder(tmp_path).versions()
        oldest = max(step - 1, 0) // 4 * 4
        assert there == list(range(oldest, step + 1))
        assert len(payloads(tmp_path)) == len(there) + orphan.exists()
        for version in there[-2:]:
            held: Weights = {}
            sync.apply(held, version, source=tmp_path)
            assert same(held, weights(version))
    assert not orphan.exists() and (tmp_path / "zipwire-notes.json").read_text() == "mine"
    behind, held = sync.Receiver(tmp_path, have=9), weights(9)
    behind.apply(held)
    assert same(held, weights(10))
    with pytest.raises(zt.NotThereError, match="help: take the newest"):
        behind.apply(held, 5)


KILLED = """
    import os, sys
    from pathlib import Path
    sys.path.insert(0, {tests!r})
    from test_sync import sync, weights
    calls = {{"left": {after}}}
    def counted(function):
        def wrapped(*args, **kwargs):
            calls["left"] -= 1
            if calls["left"] < 0:
                os._exit(9)
            return function(*args, **kwargs)
        return wrapped
    publisher = sync.Publisher({folder!r}, keep=1)
    for name in ("fsync", "link", "unlink", "listdir"):
        setattr(os, name, counted(getattr(os, name)))
    publisher.publish(weights(2), 2)
"""


def test_a_kill_at_any_step_leaves_the_versions_before(tmp_path: Path) -> None:
    for after in range(40):
        folder = tmp_path / str(after)
        publish_steps(folder, range(2))
        code = textwrap.dedent(KILLED.format(tests=str(Path(__file__).parent), after=after, folder=str(folder)))
        done = subprocess.run([sys.executable, "-c", code], check=False).returncode
        held: Weights = {}
        version = sync.apply(held, None, source=folder)
        assert same(held, weights(version)) and version in ((1, 2) if done else (2,))
        if version == 1:
            sync.apply(held, 0, source=folder)
            assert same(held, weights(0))
            assert sync.publish(weights(2), 2, to=folder).nbytes_delta is not None
        if done == 0:
            break
        assert done == 9
    assert after > 5 and done == 0


def train(folder: str, steps: int, go: Any) -> None:
    publisher = sync.Publisher(folder, keyframe_every=3)
    for step in range(steps):
        publisher.publish(weights(step), step)
        assert go.wait(30)
        go.clear()


@pytest.mark.parametrize("over", ["folder", "http"])
def test_two_processes_stay_equal(tmp_path: Path, over: str) -> None:
    context = multiprocessing.get_context("spawn")
    go = context.Event()
    trainer = context.Process(target=train, args=(str(tmp_path), 5, go))
    server = sync.serve(tmp_path) if over == "http" else None
    receiver, held = sync.Receiver(tmp_path if server is None else server.url), {}
    trainer.start()
    try:
        for step in range(5):
            assert receiver.wait(step, timeout=30) == step
            assert receiver.apply(held) == step
            assert same(held, weights(step))
            go.set()
        trainer.join(30)
        assert trainer.exitcode == 0
    finally:
        trainer.kill()
        if server is not None:
            server.close()


def test_waiting_ends(tmp_path: Path) -> None:
    with pytest.raises(sync.WaitError, match=r"none is there\nhelp: "):
        sync.Receiver(tmp_path / "later").wait(1, timeout=0.1)
    with pytest.raises(sync.WaitError, match="cannot be read"):
        sync.Receiver("http://127.0.0.1:9/").wait(1, timeout=0.1)
    with pytest.raises(zt.FileError, match="help: "):
        sync.Receiver("http://127.0.0.1:9/").apply({})
    with pytest.raises(zt.NotThereError, match="help: `wait`"):
        sync.Receiver(tmp_path).apply({})


def test_only_versions_are_served(tmp_path: Path) -> None:
    folder = tmp_path / "served"
    publish_steps(folder, range(1))
    (folder / "secret.txt").write_text("secret")
    (tmp_path / "zipwire-000000000001.json").write_text("outside")
    payload = payloads(folder)[0]
    (folder / payload.replace(".bin", ".tmp")).write_text("not yet")
    content = (folder / payload).read_bytes()
    with sync.serve(folder) as server:
        host = server.url.split("/")[2]

        def ask(path: str, method: str = "GET", span: str | None = None) -> tuple[int, bytes]:
            connection = http.client.HTTPConnection(host, timeout=10)
            connection.request(method, path, headers={} if span is None else {"Range": span})
            response = connection.getresponse()
            found = response.status, response.read()
            connection.close()
            return found

        assert ask("/versions") == (200, b"[0]")
        assert ask(f"/{payload}") == (200, content)
        assert ask(f"/{payload}", span="bytes=3-9") == (206, content[3:10])
        assert ask(f"/{payload}", span="bytes=7-") == (206, content[7:])
        assert ask(f"/{payload}", span="bytes=7-99999999") == (206, content[7:])
        for span in (f"bytes={len(content)}-", "bytes=9-3", "bytes=-5", "items=0-1", "bytes=0-1,3-4"):
            assert ask(f"/{payload}", span=span)[0] == 416
        for path in (
            "/", "/secret.txt", "/../zipwire-000000000001.json", "/%2e%2e/zipwire-000000000001.json",
            "/served/zipwire-000000000000.json", f"/{payload}/", f"/{payload}%00", f"/{payload.replace('.bin', '.tmp')}", f"/{'9' * 5000}",
        ):  # fmt: skip
            assert ask(path)[0] == 404, path
        assert [ask("/versions", method)[0] for method in ("POST", "PUT", "DELETE")] == [501] * 3


def test_modules_of_pytorch_are_written_in_place(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")

    def model(seed: int) -> Any:
        torch.manual_seed(seed)
        made = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.BatchNorm1d(64), torch.nn.Linear(64, 64).to(torch.bfloat16))
        made.append(torch.nn.Linear(64, 64))
        made[3].weight = made[0].weight
        return made

    trained, engine = model(1), model(2)
    publisher, receiver = sync.Publisher(tmp_path), sync.Receiver(tmp_path)
    optimizer = torch.optim.SGD(trained.parameters(), 1e-4)
    parameters = {name: (value, value.data_ptr()) for name, value in engine.named_parameters()}
    for step in range(3):
        (trained[0](torch.randn(8, 64)).square().sum() + trained[2](torch.randn(8, 64, dtype=torch.bfloat16)).square().sum()).backward()
        optimizer.step()
        trained[1].num_batches_tracked += 1
        publisher.publish(trained.state_dict(), step)
        assert receiver.apply(engine) == step
        assert all(torch.equal(value, engine.state_dict()[name]) for name, value in trained.state_dict().items())
    assert manifest(tmp_path, 2)["delta"]["pieces"]["3.weight"]["form"] == "copy"
    for name, value in engine.named_parameters():
        assert value is parameters[name][0] and value.data_ptr() == parameters[name][1] and value.requires_grad

    with torch.no_grad():
        engine[0].weight[0, 0] += 1
    publisher.publish(trained.state_dict() | {"0.bias": trained[0].bias + 1}, 3)
    with pytest.raises(zt.BaseError, match=r"`0.weight` and 1 more"):
        receiver.apply(engine)
    publisher.publish({**trained.state_dict(), "0.bias": torch.zeros(65)}, 4)
    before = {name: value.clone() for name, value in engine.state_dict().items()}
    with pytest.raises(zt.TensorError, match=r"`0.bias` .*\nhelp: "):
        receiver.apply(engine)
    publisher.publish({**trained.state_dict(), "more": torch.zeros(65)}, 5)
    with pytest.raises(zt.NotThereError, match="`more`"):
        receiver.apply(engine)
    assert all(torch.equal(value, before[name]) for name, value in engine.state_dict().items())


def test_modules_made_in_inference_mode_are_written_too(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    trained = torch.nn.Linear(8, 8)
    sync.publish(trained.state_dict(), 0, to=tmp_path)
    with torch.inference_mode():
        engine = torch.nn.Linear(8, 8)
    sync.apply(engine, None, source=tmp_path)
    assert torch.equal(engine.weight, trained.weight)
    with torch.inference_mode():
        sync.apply(engine, None, source=tmp_path)


def test_tensors_of_pytorch_and_arrays_can_be_at_either_end(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    publisher = sync.Publisher(tmp_path)
    values = torch.randn(30, 40).t()
    state = {"w": values, "half": values.to(torch.bfloat16), "small": values.to(torch.float8_e4m3fn)}
    state |= {"none": torch.empty(0, 2), "one": torch.tensor(3)}
    publisher.publish(state, 0)
    fresh: Weights = {}
    arrays: Weights = {"w": numpy.zeros((40, 30), numpy.float32), "half": numpy.zeros((40, 30), ml_dtypes.bfloat16), "one": [1]}
    strided: Weights = {"w": torch.zeros(30, 40).t(), "small": torch.zeros(3)}
    held = strided["w"]
    receivers = [(sync.Receiver(tmp_path), into) for into in (fresh, arrays, strided)]
    for version in range(2):
        for receiver, into in receivers:
            receiver.apply(into)
            assert all(zt._arrays.view(into[name]).shape == tuple(value.shape) for name, value in state.items())
            assert all(bytes(sync._view(into[name]).buffer) == bytes(sync._view(value).buffer) for name, value in state.items())
        if version == 0:
            values[3, 4] = 7
            publisher.publish({**state, "one": torch.tensor(9)}, 1)
            state["one"] = torch.tensor(9)
    assert strided["w"] is held and isinstance(fresh["small"], torch.Tensor) and isinstance(arrays["half"], numpy.ndarray)


def test_folders_that_cannot_be_written_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path.parent / "file").write_text("")
    with pytest.raises(zt.FileError, match="help: give a folder"):
        sync.Publisher(tmp_path.parent / "file")
    publisher = publish_steps(tmp_path, range(1))
    before = sorted(os.listdir(tmp_path))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(zt.FileError, match="No space left"):
        publisher.publish(weights(1), 1)
    monkeypatch.undo()
    assert sorted(os.listdir(tmp_path)) == before
    # Without links, as on some network file systems, it is a rename.
    monkeypatch.setattr(os, "link", full)
    publisher.publish(weights(1), 1)
    held: Weights = {}
    assert sync.apply(held, None, source=tmp_path) == 1
    assert same(held, weights(1))
