"""Weights from a trainer to inference engines, version by version, byte exact: only what changed travels, as differences.

    >>> import numpy, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> publisher, receiver, weights = Publisher(folder), Receiver(folder), {}
    >>> for step in range(3):
    ...     _ = publisher.publish({"w": numpy.full((4, 4), step, numpy.float32)}, version=step)
    ...     _ = receiver.apply(weights)
    >>> receiver.version, float(weights["w"][0, 0])
    (2, 2.0)

A version is a manifest (`zipwire-<version>.json`) and one payload (`zipwire-<version>-<random>.bin`), which has one part or both:

- `delta`: each tensor that changed since the version before, as differences from it, or piece by piece whole where that is smaller;
- `whole`: all tensors, in the first version, in every `keyframe_every`-th, and when names, shapes or types changed.

Receivers that have a version take the differences after it, those that have none the newest whole one and the differences after that. The manifest is
written last and at once, so a publisher that is killed leaves the versions before. Publish into a folder from one place at a time. Whoever can write
it is trusted with the weights: digests find damage, not forgery.
"""

from __future__ import annotations

import hashlib
import operator
import os
import secrets
import sys
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

from . import _arrays, compress, decompress
from ._errors import BaseError, Error, FileError, FileThereError, FormatError, NotThereError, StoreError, TensorError
from ._sync_files import PAYLOAD, Folder, Http, Manifest, Part, Piece, Server, Tensor, digest, manifest_name, serve

__all__ = ["Published", "Publisher", "Receiver", "Server", "WaitError", "apply", "publish", "serve"]

class WaitError(Error, TimeoutError):
    """A version that did not come in time."""


@dataclass(frozen=True)
class Published:
    """Sizes of a version that was published, in bytes."""

    version: int
    nbytes: int
    """Of the values."""
    nbytes_delta: int | None
    """Of the differences from the version before; None if the version has none."""
    nbytes_whole: int | None
    """Of the tensors whole; None if the version has only differences."""


def _digests(buffers: Iterable[Any], threads: int | None) -> list[str]:
    with ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool:
        return list(pool.map(digest, buffers))


def _view(values: Any) -> _arrays.View:
    if _arrays.is_torch(values):
        values = values.detach().cpu()
    view = _arrays.view(values)
    return view._replace(buffer=memoryview(view.buffer))


def _copy(values: Any) -> _arrays.View:
    view = _view(values)
    return view._replace(buffer=bytes(view.buffer))


class Publisher:
    """Writes versions of weights into a folder. It keeps a copy of the newest in memory, to take differences from.

    A new publisher for a folder that has versions reads the newest from there first.

    Args:
        folder: where versions are written; it is made if it is not there. Other files in it are left alone.
        codec: one that codes differences: `rans` takes less, `tiered` is faster.
        keyframe_every: number of versions from one that has all tensors whole to the next. Receivers that are up to date take differences there, too.
        keep: newest versions that stay, with those that they need; older ones are removed. All stay by default.
        threads: threads that code; one for each core by default.

    Raises:
        CodecError: if the codec cannot code differences.
        FileError: if the folder cannot be made.
    """

    def __init__(
        self, folder: str | os.PathLike[str], codec: str = "rans", keyframe_every: int = 16, keep: int | None = None, threads: int | None = None
    ) -> None:
        if keyframe_every < 1 or (keep is not None and keep < 1):
            raise StoreError("`keyframe_every` and `keep` count versions\nhelp: give 1 or more")
        compress(b"", codec, base=b"", dtype="BF16")
        self._folder, self._source = Path(folder), Folder(Path(folder))
        self._codec, self._keyframe_every, self._keep, self._threads = codec, keyframe_every, keep, threads
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(f"{self._folder} cannot be made: {error}\nhelp: give a folder that can be written") from error
        self._last: Manifest | None = None
        self._values: Mapping[str, Any] = {}

    def publish(self, state_dict: Mapping[str, Any], version: int) -> Published:
        """Writes a version. When this returns it is on disk, and receivers find it.

        The values are copied first, which is when they must not change.

        Args:
            state_dict: arrays of NumPy or tensors of PyTorch, of any shapes, by their names. Equal ones are written once.
            version: a number that grows, such as that of the training step.

        Raises:
            FileThereError: if the version is there.
            StoreError: if a later one is there.
            TensorError: if a value cannot be compressed.
            FileError: if the folder cannot be written.
        """
        version = operator.index(version)
        self._prepare(version)
        if not all(isinstance(name, str) for name in state_dict):
            raise TensorError("names of tensors are texts\nhelp: give the `state_dict` of a module, or names by `str(...)`")
        views = {name: _copy(values) for name, values in state_dict.items()}
        digests = _digests((view.buffer for view in views.values()), self._threads)
        tensors = {
            name: Tensor(view.dtype, list(view.shape), found, view.origin)
            for (name, view), found in zip(views.items(), digests, strict=True)
        }
        payload = f"zipwire-{version:012d}-{secrets.token_hex(4)}.bin"
        path = self._folder / payload
        try:
            with open(path, "xb") as file:
                manifest = self._write_payload(file, payload, version, tensors, views)
                file.flush()
                os.fsync(file.fileno())
            self._write_manifest(manifest)
        # Interrupts are left out: the manifest may be there already, which needs the payload.
        except Exception as error:
            path.unlink(missing_ok=True)
            if isinstance(error, OSError) and not isinstance(error, Error):
                raise FileError(f"version {version} was not written: {error}\nhelp: see to room and permissions of {self._folder}") from error
            raise
        _sync_folder(self._folder)
        self._values = {name: view.buffer for name, view in views.items()}
        self._last = manifest
        self._prune()
        sizes = [None if part is None else part.length for part in (manifest.delta, manifest.whole)]
        return Published(version, sum(tensor.nbytes for tensor in tensors.values()), *sizes)

    def _prepare(self, version: int) -> None:
        there = self._source.versions()
        if not 0 <= version < 10**18:
            raise StoreError(f"{version} is no version\nhelp: give a number from 0 on that grows, such as that of the training step")
        if version in there:
            raise FileThereError(f"version {version} is there: {self._folder / manifest_name(version)}\nhelp: publish under a later number")
        if there and version < there[-1]:
            raise StoreError(f"version {version} would come after {there[-1]}\nhelp: publish under a later number, or into another folder")
        if there and (self._last is None or self._last.version != there[-1]):
            reader = Receiver(self._folder, threads=self._threads)
            try:
                self._last, self._values = reader._read(there[-1])
            except Error:
                # A version before that is damaged is no reason not to train on: this one is whole.
                self._last, self._values = None, {}
        elif not there:
            self._last, self._values = None, {}

    def _write_payload(
        self, file: BinaryIO, payload: str, version: int, tensors: dict[str, Tensor], views: Mapping[str, _arrays.View]
    ) -> Manifest:
        base = self._last
        if base is not None and base.layout() != {name: (tensor.dtype, tensor.shape) for name, tensor in tensors.items()}:
            base = None
        since = 0 if base is None else base.since + 1
        delta = whole = None
        if base is not None:
            delta = self._write_part(file, tensors, views, base)
        if base is None or since >= self._keyframe_every:
            since, whole = 0, self._write_part(file, tensors, views, None)
        return Manifest(version, None if base is None else base.version, since, payload, tensors, delta, whole)

    def _write_part(
        self, file: BinaryIO, tensors: dict[str, Tensor], views: Mapping[str, _arrays.View], base: Manifest | None
    ) -> Part:
        begin, offset, hashed = file.tell(), 0, hashlib.sha256()
        pieces: dict[str, Piece] = {}
        written: dict[tuple[str, tuple[int, ...], str], str] = {}
        for name, tensor in tensors.items():
            if base is not None and base.tensors[name].digest == tensor.digest:
                pieces[name] = Piece("same")
                continue
            first = written.setdefault((tensor.dtype, tuple(tensor.shape), tensor.digest), name)
            if first != name:
                pieces[name] = Piece("copy", of=first)
                continue
            view, before = views[name], None if base is None else self._values[name]
            # Where whole values take less than differences, that is what codecs of differences write.
            data = compress(view.buffer, self._codec, base=before, dtype=view.dtype, threads=self._threads)
            pieces[name] = Piece("full" if base is None else "delta", offset, len(data))
            file.write(data)
            hashed.update(data)
            offset += len(data)
        return Part(begin, offset, hashed.hexdigest()[:32], pieces)

    def _write_manifest(self, manifest: Manifest) -> None:
        path = self._folder / manifest_name(manifest.version)
        staged = self._folder / manifest.payload.replace(".bin", ".tmp")
        try:
            with open(staged, "xb") as file:
                file.write(manifest.to_bytes())
                file.flush()
                os.fsync(file.fileno())
            _sync_folder(self._folder)
            try:
                # Unlike a rename, a link never replaces what another publisher has written meanwhile.
                os.link(staged, path)
            except FileExistsError:
                raise FileThereError(f"version {manifest.version} is there: {path}\nhelp: publish from one place at a time") from None
            except OSError:
                # Some network file systems have no links.
                os.rename(staged, path)
        finally:
            staged.unlink(missing_ok=True)

    def _prune(self) -> None:
        """Removes versions that neither the newest `keep` nor the differences in front of them need, and what killed publishers left."""
        if self._keep is None or self._last is None:
            return
        there = self._source.versions()
        needed: dict[int, Manifest] = {}
        try:
            for newest in there[-self._keep :]:
                version: int | None = newest
                while version is not None and version not in needed:
                    manifest = needed[version] = self._source.manifest(version)
                    version = manifest.base if manifest.whole is None else None
        except Error:
            # Who knows what a manifest that cannot be read needs.
            return
        for version in there:
            if version not in needed:
                (self._folder / manifest_name(version)).unlink(missing_ok=True)
        used = {manifest.payload for manifest in needed.values()}
        for name in os.listdir(self._folder):
            match = PAYLOAD.fullmatch(name)
            if match and name not in used and int(match[1]) <= self._last.version:
                (self._folder / name).unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Receiver:
    """Brings weights to versions that a publisher has written, and remembers which one they are: make one for each model or dictionary.

    Before differences are applied, all weights are compared with the digests of the version that they are said to be: if somebody else changed them,
    that is a `BaseError`, and `forget` makes the next `apply` begin at whole weights. What is read is decoded and compared with its digests in memory
    of its own, as much as the tensors that changed take, and only then written: errors of any kind before that leave the weights untouched.

    Args:
        source: folder of a publisher, or the URL of `serve`. Proxies are not used.
        have: version that the weights are already, if they were loaded from one.
        threads: threads that decode; one for each core by default.

    Raises:
        NotThereError: if there is no such version.
    """

    def __init__(self, source: str | os.PathLike[str], have: int | None = None, threads: int | None = None) -> None:
        text = os.fspath(source)
        self._source: Folder | Http = Http(text) if text.startswith(("http://", "https://")) else Folder(Path(text))
        self._threads = threads
        self._have: Manifest | None = None if have is None else self._source.manifest(have)

    @property
    def version(self) -> int | None:
        """Version that the weights are; None if it is not known."""
        return None if self._have is None else self._have.version

    def forget(self) -> None:
        """Makes the next `apply` begin at whole weights."""
        self._have = None

    def latest(self) -> int | None:
        """The newest version there is, or None."""
        return max(self._source.versions(), default=None)

    def wait(self, version: int, timeout: float, poll: float = 0.2) -> int:
        """Waits until a version or a later one is there.

        Args:
            version: the version.
            timeout: seconds to wait. A source that cannot be reached yet is waited for, too.
            poll: seconds from one look to the next.

        Returns:
            The newest version.

        Raises:
            WaitError: if it does not come in time.
        """
        end = time.monotonic() + timeout
        while True:
            problem = ""
            try:
                latest = self.latest()
                if latest is not None and latest >= version:
                    return latest
            except FileError as error:
                latest, problem = None, f" ({error})"
            left = end - time.monotonic()
            if left <= 0:
                found = "none is there" if latest is None else f"the newest is {latest}"
                raise WaitError(f"version {version} did not come in {timeout} s: {found}{problem}\nhelp: see whether the trainer publishes")
            time.sleep(min(poll, left))

    def apply(self, model_or_dict: Any, version: int | None = None) -> int:
        """Brings weights to a version. Either all of its tensors are written, or none.

        Args:
            model_or_dict: a module of PyTorch, whose parameters and buffers are written in place; or a dictionary of arrays or tensors by their
                names, which are written in place if they have the type and shape, and else replaced. What the version does not have is left alone.
            version: the version, also one before that of the weights; the newest by default.

        Returns:
            The version.

        Raises:
            NotThereError: if the version, or the module's tensor of a name, is not there.
            BaseError: if the weights are not as the last version left them.
            FormatError: if what was read is damaged.
            TensorError: if a tensor of the module has another type or shape.
            FileError: if the source cannot be read.
        """
        if version is None:
            version = self.latest()
            if version is None:
                raise NotThereError(f"no version is published in {self._source}\nhelp: `wait` for the first")
        if self._have is not None and self._have.version == version:
            return version
        is_module = hasattr(model_or_dict, "named_parameters")
        targets = _tensors_of(model_or_dict) if is_module else model_or_dict
        steps = self._plan(version)
        target = steps[-1][0]
        if is_module:
            _check_module(targets, target)
        if steps[0][1] is steps[0][0].whole:
            base, current = None, {}
        else:
            base = self._have
            current = self._checked(targets)
        decoded = self._decode(steps, current)
        self._check(decoded, target, base)
        # Should writing be interrupted, the next call begins at whole weights.
        self._have = None
        _write(decoded, target, targets)
        self._have = target
        return version

    def _read(self, version: int) -> tuple[Manifest, Mapping[str, Any]]:
        """A version and its values as buffers."""
        steps = self._plan(version)
        decoded = self._decode(steps, {})
        self._check(decoded, steps[-1][0], None)
        return steps[-1][0], decoded

    def _plan(self, version: int) -> list[tuple[Manifest, Part]]:
        """The parts to read, in order: of differences from the version that the weights are, or of the newest whole one before, whichever is less."""
        have = None if self._have is None else self._have.version
        later: list[tuple[Manifest, Part]] = []
        best: tuple[int, list[tuple[Manifest, Part]]] | None = None
        length, at = 0, version
        while True:
            try:
                manifest = self._source.manifest(at)
            except NotThereError:
                if at == version:
                    raise
                break
            if manifest.whole is not None and best is None:
                best = (length + manifest.whole.length, [(manifest, manifest.whole), *later])
            if manifest.delta is None or manifest.base is None:
                break
            length += manifest.delta.length
            later.insert(0, (manifest, manifest.delta))
            if manifest.base == have:
                if best is None or length <= best[0]:
                    best = (length, later)
                break
            at = manifest.base
            if best is not None and (have is None or at < have or length >= best[0]):
                break
        if best is None:
            raise NotThereError(
                f"what version {version} is a difference from is not there\nhelp: take the newest version, or publish one that is whole"
            )
        return best[1]

    def _checked(self, targets: Mapping[str, Any]) -> dict[str, Any]:
        """Buffers of the weights, which are as their version has them."""
        assert self._have is not None
        wanted = self._have.tensors
        views = {name: _target_view(targets.get(name), tensor) for name, tensor in wanted.items()}
        known = {name: view.buffer for name, view in views.items() if view is not None}
        found = dict(zip(known, _digests(known.values(), self._threads), strict=True))
        changed = [name for name, tensor in wanted.items() if found.get(name) != tensor.digest]
        if changed:
            raise BaseError(
                f"{_some(changed)} changed since version {self._have.version} was applied\n"
                "help: call `forget()` and apply again, which takes whole weights"
            )
        return known

    def _decode(self, steps: list[tuple[Manifest, Part]], current: Mapping[str, Any]) -> dict[str, bytearray]:
        decoded: dict[str, bytearray] = {}
        for manifest, part in steps:
            data = memoryview(self._source.read(manifest.payload, part.offset, part.length))
            if len(data) != part.length or digest(data) != part.digest:
                raise FormatError(
                    f"the payload of version {manifest.version} is damaged: {manifest.payload}\n"
                    "help: take another version, or have the trainer publish a new one"
                )
            for name, piece in part.pieces.items():
                if piece.form == "same":
                    continue
                if piece.of is not None:
                    decoded[name] = bytearray(decoded[piece.of])
                    continue
                values = bytearray(manifest.tensors[name].nbytes)
                base = decoded.get(name, current.get(name)) if piece.form == "delta" else None
                decompress(data[piece.offset : piece.offset + piece.length], values, base=base, threads=self._threads)
                decoded[name] = values
        return decoded

    def _check(self, decoded: Mapping[str, bytearray], target: Manifest, base: Manifest | None) -> None:
        found = {name: tensor.digest for name, tensor in base.tensors.items()} if base is not None else {}
        found.update(zip(decoded, _digests(decoded.values(), self._threads), strict=True))
        wrong = [name for name, tensor in target.tensors.items() if found.get(name) != tensor.digest]
        if wrong:
            raise FormatError(f"{_some(wrong)} of version {target.version} came out otherwise than published\nhelp: take another version")


def _some(names: list[str]) -> str:
    return f"`{names[0]}`" + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def _tensors_of(module: Any) -> dict[str, Any]:
    return {**dict(module.named_parameters(remove_duplicate=False)), **dict(module.named_buffers(remove_duplicate=False))}


def _target_view(value: Any, tensor: Tensor) -> _arrays.View | None:
    """The values of a target; None if it has another type or shape."""
    if value is None:
        return None
    try:
        view = _view(value)
    except TensorError:
        return None
    return view if (view.dtype, list(view.shape)) == (tensor.dtype, tensor.shape) else None


def _fits(value: Any, tensor: Tensor) -> bool:
    """Whether values of a tensor can be written into an array or tensor."""
    numpy = sys.modules.get("numpy")
    if _arrays.is_torch(value):
        return value.dtype == _arrays.torch_dtype(tensor.dtype) and list(value.shape) == tensor.shape
    if numpy is not None and isinstance(value, numpy.ndarray):
        return value.flags.writeable and _target_view(value, tensor) is not None
    return False


def _check_module(targets: Mapping[str, Any], manifest: Manifest) -> None:
    missing = [name for name in manifest.tensors if name not in targets]
    if missing:
        raise NotThereError(f"the module has no {_some(missing)}\nhelp: publish the `state_dict` of a module of the same kind")
    for name, tensor in manifest.tensors.items():
        value = targets[name]
        if not _fits(value, tensor):
            raise TensorError(
                f"`{name}` is {value.dtype} {list(value.shape)} in the module, and {tensor.dtype} {tensor.shape} in version {manifest.version}\n"
                "help: publish tensors of the types and shapes that the receiver has"
            )


def _write(decoded: Mapping[str, bytearray], manifest: Manifest, targets: Any) -> None:
    """Writes values into arrays and tensors that they fit, and puts new ones in the place of others, which only dictionaries have."""
    values: dict[str, Any] = {}
    # All of them first: types may be missing here.
    for name, memory in decoded.items():
        tensor, old = manifest.tensors[name], targets.get(name)
        if old is None:
            as_torch = tensor.kind == "torch" and find_spec("torch") is not None
        else:
            as_torch = _arrays.is_torch(old)
        values[name] = _value(memory, tensor, as_torch)
    for name, value in values.items():
        old = targets.get(name)
        if not _fits(old, manifest.tensors[name]):
            targets[name] = value
        elif _arrays.is_torch(old):
            import torch

            # Leaving inference mode turns gradients on, so this order.
            with torch.inference_mode(old.is_inference()), torch.no_grad():
                old.copy_(value)
        else:
            old[...] = value


def _value(memory: bytearray, tensor: Tensor, as_torch: bool) -> Any:
    if not memory:
        return _arrays.empty(tensor.dtype, tuple(tensor.shape), "torch" if as_torch else "numpy")[0]
    if as_torch:
        import torch

        return torch.frombuffer(memory, dtype=_arrays.torch_dtype(tensor.dtype)).reshape(tensor.shape)
    import numpy

    return numpy.frombuffer(memory, dtype=_arrays.numpy_dtype(tensor.dtype)).reshape(tensor.shape)


def publish(state_dict: Mapping[str, Any], version: int, to: str | os.PathLike[str], codec: str = "rans") -> Published:
    """Writes one version, as `Publisher.publish` does. It reads the version before from the folder first, for which a `Publisher` keeps a copy."""
    return Publisher(to, codec).publish(state_dict, version)


def apply(model_or_dict: Any, version: int | None, source: str | os.PathLike[str], have: int | None = None) -> int:
    """Brings weights to a version, the newest if it is None, as `Receiver.apply` does. Without `have` it begins at whole weights."""
    return Receiver(source, have).apply(model_or_dict, version)
