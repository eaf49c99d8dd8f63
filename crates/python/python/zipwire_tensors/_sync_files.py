"""Files of `sync` and where they are read from: manifests, folders of them, and HTTP."""

from __future__ import annotations

import hashlib
import json
import math
import operator
import os
import re
import threading
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO

from . import _arrays
from ._errors import Error, FileError, FormatError, NotThereError, VersionError

_FORMAT = 1
_MANIFEST = re.compile(r"zipwire-(\d{12,18})\.json", re.ASCII)
PAYLOAD = re.compile(r"zipwire-(\d{12,18})-[0-9a-f]{8}\.(?:bin|tmp)", re.ASCII)
_SECONDS = 60.0
"""Longest silence of a peer over HTTP."""


@dataclass(frozen=True)
class Tensor:
    dtype: str
    shape: list[int]
    digest: str
    kind: str
    """What it was: `array`, `torch` or `bytes`."""

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * _arrays.WIDTHS[self.dtype]


@dataclass(frozen=True)
class Piece:
    """What a part has of a tensor, `offset` and `length` within the part."""

    form: str
    """`same` as in the version before, `delta` from it, `full`, or `copy` of the tensor that `of` names, which comes before it in the part."""
    offset: int = 0
    length: int = 0
    of: str | None = None


@dataclass(frozen=True)
class Part:
    offset: int
    length: int
    digest: str
    pieces: dict[str, Piece]


@dataclass(frozen=True)
class Manifest:
    version: int
    base: int | None
    """Version that `delta` is from."""
    since: int
    """Versions since the last one with `whole`."""
    payload: str
    tensors: dict[str, Tensor]
    delta: Part | None
    whole: Part | None

    def layout(self) -> dict[str, tuple[str, list[int]]]:
        return {name: (tensor.dtype, tensor.shape) for name, tensor in self.tensors.items()}

    def to_bytes(self) -> bytes:
        body = _json(self)
        return f'{{"zipwire_sync": {_FORMAT}, "digest": "{digest(body.encode())}", "body": {body}}}\n'.encode()

    @classmethod
    def of(cls, data: bytes, version: int) -> Manifest:
        """Reads a manifest.

        Raises:
            FormatError: if it is damaged or of another version than asked for, VersionError if a later zipwire wrote it.
        """
        damaged = f"the manifest of version {version} is damaged\nhelp: take another version, or have the trainer publish a new one"
        try:
            found = json.loads(data)
            if found["zipwire_sync"] != _FORMAT:
                raise VersionError(f"the manifest has format {found['zipwire_sync']}, this zipwire reads {_FORMAT}\nhelp: update zipwire")
            body = found["body"]
            if found["digest"] != digest(_json(body).encode()) or body["version"] != version or not PAYLOAD.fullmatch(body["payload"]):
                raise FormatError(damaged)
            tensors = {name: Tensor(**tensor) for name, tensor in body.pop("tensors").items()}
            delta, whole = (_part_of(body.pop(part)) for part in ("delta", "whole"))
            return cls(tensors=tensors, delta=delta, whole=whole, **body)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, Error):
                raise
            raise FormatError(damaged) from error


def _part_of(found: dict[str, Any] | None) -> Part | None:
    if found is None:
        return None
    return Part(**{**found, "pieces": {name: Piece(**piece) for name, piece in found["pieces"].items()}})


def digest(data: Any) -> str:
    # SHA-256 has instructions on current CPUs, BLAKE2 has none.
    return hashlib.sha256(data).hexdigest()[:32]


def _json(value: Any) -> str:
    return json.dumps(value, default=vars, separators=(",", ":"))


def manifest_name(version: int) -> str:
    return f"zipwire-{version:012d}.json"


class Folder:
    """Versions in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __str__(self) -> str:
        return str(self._folder)

    def versions(self) -> list[int]:
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise FileError(f"{self._folder} cannot be read: {error}\nhelp: see to its permissions") from error
        return sorted(int(match[1]) for match in map(_MANIFEST.fullmatch, names) if match)

    def manifest(self, version: int) -> Manifest:
        return Manifest.of(self.read(manifest_name(version), 0, None), version)

    def read(self, name: str, offset: int, length: int | None) -> bytes:
        """Bytes of a file, to its end if there is no length."""
        if length == 0:
            return b""
        try:
            with open(self._folder / name, "rb") as file:
                file.seek(offset)
                return file.read(-1 if length is None else length)
        except FileNotFoundError:
            raise _gone(self._folder / name) from None
        except OSError as error:
            raise FileError(f"{self._folder / name} cannot be read: {error}\nhelp: see to its permissions") from error


class Http:
    """Versions that `serve` serves."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/") + "/"
        # What an environment has for the web outside is in the way between machines of a cluster.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def __str__(self) -> str:
        return self._url

    def versions(self) -> list[int]:
        data = self.read("versions", 0, None)
        try:
            return sorted(operator.index(version) for version in json.loads(data))
        except (ValueError, TypeError):
            raise FormatError(f"{self._url} is no server of versions\nhelp: give the URL of `zipwire_tensors.sync.serve`") from None

    def manifest(self, version: int) -> Manifest:
        return Manifest.of(self.read(manifest_name(version), 0, None), version)

    def read(self, name: str, offset: int, length: int | None) -> bytes:
        if length == 0:
            return b""
        headers = {} if length is None else {"Range": f"bytes={offset}-{offset + length - 1}"}
        try:
            with self._opener.open(urllib.request.Request(self._url + name, headers=headers), timeout=_SECONDS) as response:
                data: bytes = response.read()
                return data
        except urllib.error.HTTPError as error:
            if error.code == 404:
                raise _gone(self._url + name) from None
            raise FileError(f"{self._url}{name} cannot be read: {error}\nhelp: see what serves there") from error
        except (OSError, HTTPException) as error:
            raise FileError(f"{self._url}{name} cannot be read: {error}\nhelp: see whether `serve` runs there, and call again") from error


def _gone(name: object) -> NotThereError:
    return NotThereError(f"{name} is not there\nhelp: take the newest version; older ones are removed where the publisher has `keep`")


class Server:
    """Serves the versions of a folder in threads of its own until it is closed. Made by `serve`."""

    def __init__(self, folder: Path, host: str, port: int) -> None:
        handler = type("_FolderHandler", (_Handler,), {"folder": folder})
        try:
            self._server = ThreadingHTTPServer((host, port), handler)
        except OSError as error:
            raise FileError(f"{host}:{port} cannot be listened on: {error}\nhelp: give another port, or 0 for any that is free") from error
        self._server.daemon_threads = True
        self.url = f"http://{host}:{self._server.server_address[1]}/"
        """Where receivers find the versions, as seen from this host."""
        self._thread = threading.Thread(target=self._server.serve_forever, name="zipwire-sync", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Handler(BaseHTTPRequestHandler):
    folder: Path
    timeout = _SECONDS

    def do_GET(self) -> None:
        name = self.path.removeprefix("/")
        if name == "versions":
            body = json.dumps(Folder(self.folder).versions()).encode()
            self._start(200, len(body))
            self.wfile.write(body)
            return
        is_payload = PAYLOAD.fullmatch(name) is not None and name.endswith(".bin")
        # Names that match have no separators, so none leads out of the folder.
        if not is_payload and not _MANIFEST.fullmatch(name):
            self.send_error(404)
            return
        try:
            file = open(self.folder / name, "rb")  # noqa: SIM115
        except OSError:
            self.send_error(404)
            return
        with file:
            self._send(file)

    def _send(self, file: BinaryIO) -> None:
        size = os.fstat(file.fileno()).st_size
        first, last = 0, size - 1
        asked = self.headers.get("Range")
        if asked is not None:
            match = re.fullmatch(r"bytes=(\d{1,18})-(\d{0,18})", asked, re.ASCII)
            first, last = (int(match[1]), min(int(match[2] or last), last)) if match else (size, 0)
            if first > last:
                self.send_error(416)
                return
        content_range = None if asked is None else f"bytes {first}-{last}/{size}"
        self._start(200 if asked is None else 206, last - first + 1, content_range)
        file.seek(first)
        left = last - first + 1
        while left and (block := file.read(min(left, 1 << 20))):
            self.wfile.write(block)
            left -= len(block)

    def _start(self, status: int, length: int, content_range: str | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(length))
        if content_range is not None:
            self.send_header("Content-Range", content_range)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing: a library does not write to the terminal."""


def serve(folder: str | os.PathLike[str], host: str = "127.0.0.1", port: int = 0) -> Server:
    """Serves the versions of a folder over HTTP, for receivers that do not share a file system with the publisher.

    Only manifests and payloads are served, and nothing is written. There is no password and no encryption: listen where only receivers are.

    Args:
        folder: the publisher's.
        host: address to listen on; this host only by default, `0.0.0.0` for all.
        port: any that is free by default; `url` of the result has it.

    Raises:
        FileError: if the address cannot be listened on.
    """
    return Server(Path(folder), host, port)


