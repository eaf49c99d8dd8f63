"""Groups of tokens of a KV cache, each coded by itself, for engines that move or store them.

    >>> import numpy
    >>> codec = KvCodec(layers=32, heads=8, head_size=128, dtype="F16")
    >>> keys = numpy.full((100, 8, 128), 0.5, numpy.float16)
    >>> group = codec.encode(7, 512, keys, 2 * keys)
    >>> len(group) <= codec.bound(100)
    True
    >>> found = codec.decode(group)
    >>> found.layer, found.token, bool((found.values == 1).all())
    (7, 512, True)

Both ends make a codec of the same cache, and compare `compatibility` when a connection begins; a group of another cache or codec is refused before anything is
decoded. Groups may be decoded in any order and by any number of threads. They are those of the Rust crate `zipwire-kv`, byte for byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import _arrays, _native
from ._errors import TensorError

__all__ = ["Group", "KvCodec"]


@dataclass(frozen=True)
class Group:
    """A group that was decoded."""

    layer: int
    token: int
    """Its first token."""
    keys: Any
    """Array or tensor of `[tokens, heads, head_size]`, or `[heads, tokens, head_size]` with the order `HND`; of a latent `[tokens, head_size]`."""
    values: Any
    """As `keys`; None of a latent."""


class KvCodec:
    """Codes groups of one cache.

    Args:
        layers: layers of the model.
        heads: heads of keys and values on this device; 1 of a latent.
        head_size: values of a head, or of the latent.
        dtype: type of the values: `BF16`, `F16`, `F32`, `F8_E4M3` or `F8_E5M2`.
        order: `NHD`, token by token, or `HND`, head by head.
        latent: whether there is one plane in place of keys and values, as of multi-head latent attention.
        group_tokens: most tokens of a group.
        codec: `tiered` is the fastest, `rans` takes less.

    Raises:
        TensorError: if there is no such cache.
        CodecError: if the codec does not exist or does not code the type.
    """

    def __init__(
        self,
        layers: int,
        heads: int,
        head_size: int,
        dtype: str = "BF16",
        *,
        order: str = "NHD",
        latent: bool = False,
        group_tokens: int = 256,
        codec: str = "tiered",
    ) -> None:
        if order not in ("NHD", "HND"):
            raise TensorError(f"`order` is `NHD` or `HND`, and not `{order}`")
        self._native = _native.KvCodec(layers, heads, head_size, dtype, order == "HND", latent, group_tokens, codec)
        self._heads, self._head_size, self._dtype = heads, head_size, dtype
        self._heads_first, self._latent = order == "HND", latent

    @property
    def compatibility(self) -> int:
        """Hash of 64 bits of cache and codec, for a handshake."""
        return self._native.compatibility

    def bound(self, tokens: int) -> int:
        """The most bytes of a group of so many tokens."""
        return self._native.bound(tokens)

    def encode(self, layer: int, token: int, keys: Any, values: Any = None) -> bytes:
        """Codes the keys and values that one layer has for some successive tokens.

        Args:
            layer: the layer, from 0.
            token: the first token, as both ends count.
            keys: array or tensor on the CPU, of the shape that `Group.keys` has.
            values: as `keys`; None of a latent.

        Raises:
            TensorError: if type or shape are not those of the cache, or there are more tokens than a group has.
        """
        planes = [keys] if values is None else [keys, values]
        views = [_arrays.view(plane) for plane in planes]
        for view in views:
            if view.dtype != self._dtype or view.shape != self._shape(self._tokens(view.shape)) or view.shape != views[0].shape:
                wanted = "[heads, tokens, head_size]" if self._heads_first else "[tokens, heads, head_size]"
                sizes = f"{self._dtype}, {self._heads} heads of {self._head_size}"
                raise TensorError(f"a plane is {view.dtype} {list(view.shape)}, and the cache {sizes}\nhelp: give {wanted}")
        return self._native.encode(layer, token, [view.buffer for view in views])

    def decode(self, group: Any, as_: str = "numpy") -> Group:
        """Restores a group, as arrays (`numpy`) or tensors (`torch`).

        Raises:
            BaseError: if it is of another cache or codec.
            FormatError: if it is damaged, VersionError if it is of a later version.
        """
        layer, token, tokens, _ = self._native.peek(group)
        planes = [_arrays.empty(self._dtype, self._shape(tokens), as_) for _ in range(1 if self._latent else 2)]
        self._native.decode(group, [memory for _, memory in planes])
        return Group(layer, token, planes[0][0], None if self._latent else planes[1][0])

    def _tokens(self, shape: tuple[int, ...]) -> int:
        at = 1 if self._heads_first and not self._latent else 0
        return shape[at] if len(shape) > at else 0

    def _shape(self, tokens: int) -> tuple[int, ...]:
        if self._latent:
            return (tokens, self._head_size)
        return (self._heads, tokens, self._head_size) if self._heads_first else (tokens, self._heads, self._head_size)
