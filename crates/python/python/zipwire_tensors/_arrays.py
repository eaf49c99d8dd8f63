"""Arrays, tensors and buffers as bytes with a type and a shape, and back.

Nothing here imports NumPy, ml_dtypes or PyTorch before a value or a caller asks for it.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _native
from ._errors import TensorError

if TYPE_CHECKING:
    import numpy
    import torch

# Names of types as safetensors has them, with the names that NumPy (or ml_dtypes) and PyTorch have for them, and bytes of a value.
_DTYPES = [
    ("BOOL", "bool", "bool", 1),
    ("U8", "uint8", "uint8", 1),
    ("I8", "int8", "int8", 1),
    ("U16", "uint16", "uint16", 2),
    ("I16", "int16", "int16", 2),
    ("U32", "uint32", "uint32", 4),
    ("I32", "int32", "int32", 4),
    ("U64", "uint64", "uint64", 8),
    ("I64", "int64", "int64", 8),
    ("F16", "float16", "float16", 2),
    ("BF16", "bfloat16", "bfloat16", 2),
    ("F32", "float32", "float32", 4),
    ("F64", "float64", "float64", 8),
    ("C64", "complex64", "complex64", 8),
    ("F8_E4M3", "float8_e4m3fn", "float8_e4m3fn", 1),
    ("F8_E5M2", "float8_e5m2", "float8_e5m2", 1),
    ("F8_E4M3FNUZ", "float8_e4m3fnuz", "float8_e4m3fnuz", 1),
    ("F8_E5M2FNUZ", "float8_e5m2fnuz", "float8_e5m2fnuz", 1),
    ("F8_E8M0", "float8_e8m0fnu", "float8_e8m0fnu", 1),
]
WIDTHS = {name: width for name, _, _, width in _DTYPES}
_TO_NUMPY = {name: numpy_name for name, numpy_name, _, _ in _DTYPES}
_FROM_NUMPY = {numpy_name: name for name, numpy_name, _, _ in _DTYPES}
_TO_TORCH = {name: torch_name for name, _, torch_name, _ in _DTYPES}
_FROM_TORCH = {f"torch.{torch_name}": name for name, _, torch_name, _ in _DTYPES}


_SIGNED = {1: "I8", 2: "I16", 4: "I32", 8: "I64"}
_UNSIGNED = {width: name.replace("I", "U") for width, name in _SIGNED.items()}
_OF_FORMAT = {"e": {2: "F16"}, "f": {4: "F32"}, "d": {8: "F64"}} | dict.fromkeys("hilq", _SIGNED) | dict.fromkeys("HILQ", _UNSIGNED)
"""Types of buffers by their format, as the module `struct` has it, and their width. Others are bytes."""


class View(NamedTuple):
    """Values of an object, without a copy where they lie in one piece of memory."""

    buffer: Any
    """C-contiguous buffer of the bytes, which keeps the object alive."""
    dtype: str
    """Name of the type, as safetensors has it."""
    shape: tuple[int, ...]
    origin: str
    """`array`, `torch` or `bytes`."""


def views(tensors: Mapping[str, Any]) -> dict[str, View]:
    """The values of tensors by name.

    Raises:
        TensorError: with the name of the one that has none.
    """
    found = {}
    for name, tensor in tensors.items():
        if not isinstance(name, str):
            raise TensorError(f"`{name!r}` is no name of a tensor\nhelp: give texts")
        try:
            found[name] = view(tensor)
        except TensorError as error:
            flat = "\nhelp: names lead to tensors: flatten dictionaries in dictionaries first" if isinstance(tensor, dict) else ""
            raise TensorError(f"`{name}`: {str(error).partition(chr(10))[0] if flat else error}{flat}") from None
    return found


def is_torch(values: Any) -> bool:
    """Whether this is a tensor of PyTorch, which is not imported for that."""
    kind = getattr(sys.modules.get("torch"), "Tensor", None)
    return isinstance(kind, type) and isinstance(values, kind)


def view(values: Any, dtype: str | None = None) -> View:
    """The values of an array, a tensor on the CPU or any buffer, in C order, little-endian.

    `dtype` is the type of the values of a plain buffer (`bytes` by default); arrays and tensors know theirs.

    Raises:
        TensorError: for other objects, and types that safetensors does not have.
    """
    if is_torch(values):
        return _view_of_torch(values, dtype)
    numpy = sys.modules.get("numpy")
    if numpy is None and hasattr(values, "__array__"):
        import numpy
    if numpy is not None:
        if isinstance(values, (numpy.ndarray, numpy.generic)):
            return _view_of_numpy(numpy.asanyarray(values), dtype)
        if hasattr(values, "__array__") and not isinstance(values, (bytes, bytearray, memoryview)):
            return _view_of_numpy(numpy.asanyarray(values), dtype)
    return _view_of_buffer(values, dtype)


def _view_of_buffer(values: Any, dtype: str | None) -> View:
    try:
        buffer = memoryview(values)
    except TypeError:
        kind = type(values).__name__
        remedy = "give an array of NumPy, a tensor of PyTorch, or bytes"
        raise TensorError(f"`{kind}` has no buffer of values\nhelp: {remedy}") from None
    if not buffer.c_contiguous:
        raise TensorError("the buffer is not in one piece of memory\nhelp: copy it first, as `bytes(...)` does")
    name = dtype or _OF_FORMAT.get(buffer.format, {}).get(buffer.itemsize, "U8")
    width = _width(name)
    if buffer.nbytes % width:
        raise TensorError(f"{buffer.nbytes} bytes are no whole number of values of {name}, which take {width} each")
    return View(buffer, name, (buffer.nbytes // width,), "bytes")


def _width(dtype: str) -> int:
    width = WIDTHS.get(dtype)
    if width is None:
        raise TensorError(f"no type is called `{dtype}`\nhelp: types are {', '.join(WIDTHS)}")
    return width


def _check_dtype(asked: str | None, found: str) -> None:
    if asked not in (None, found):
        raise TensorError(f"the values are of type {found}, and not {asked}\nhelp: leave `dtype` out, it is for plain buffers")


_REMEDIES = {
    "complex128": "view it as `float64`, which is real and imaginary parts in turn",
    "M": "view it as `int64`",
    "m": "view it as `int64`",
    "fields": "compress its fields one by one, or view it as `uint8`",
    "O": "objects have no values of their own: convert it to numbers",
}
"""What to do with arrays that are not compressed, by the name of their type or its kind."""


def _view_of_numpy(array: numpy.ndarray[Any, Any], dtype: str | None) -> View:
    import numpy

    if isinstance(array, numpy.ma.MaskedArray):
        raise TensorError("a masked array would lose its mask\nhelp: compress its `data` and its `mask`")
    name = _FROM_NUMPY.get(array.dtype.name)
    # Types that NumPy swaps have no name of their own.
    if name is None or (array.dtype.kind == "V" and array.dtype.fields is not None):
        kind = "fields" if array.dtype.fields is not None else array.dtype.kind
        remedy = _REMEDIES.get(array.dtype.name, _REMEDIES.get(kind, "convert it to a type that safetensors has"))
        raise TensorError(f"arrays of {array.dtype} are not compressed\nhelp: {remedy}")
    if array.dtype.byteorder == ">" or (array.dtype.byteorder == "=" and sys.byteorder == "big"):
        raise TensorError('the array is big-endian\nhelp: convert it by `array.astype(array.dtype.newbyteorder("<"))`')
    _check_dtype(dtype, name)
    flat = numpy.ascontiguousarray(numpy.asarray(array)).reshape(-1)
    return View(flat.view(numpy.uint8), name, array.shape, "array")


def _view_of_torch(tensor: torch.Tensor, dtype: str | None) -> View:
    import torch

    name = _FROM_TORCH.get(str(tensor.dtype))
    if name is None:
        remedy = "give `torch.view_as_real(tensor)`" if tensor.is_complex() else "view it as a type of the same width"
        raise TensorError(f"tensors of {tensor.dtype} are not compressed\nhelp: {remedy}")
    if tensor.layout != torch.strided:
        raise TensorError(f"tensors of layout {tensor.layout} are not compressed\nhelp: compress their indices and values")
    if tensor.device.type != "cpu":
        raise TensorError(f"the tensor is on `{tensor.device}`\nhelp: give `tensor.cpu()`")
    _check_dtype(dtype, name)
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
    end = (plain.storage_offset() + plain.numel()) * plain.element_size()
    if plain.numel() and (plain.data_ptr() == 0 or plain.untyped_storage().nbytes() < end):
        remedy = "compress the tensors that it is made of, or what its storage was before it was resized"
        raise TensorError(f"`{type(tensor).__name__}` has no memory of its values\nhelp: {remedy}")
    return View(_memory_of(plain), name, tuple(tensor.shape), "torch")


def _memory_of(tensor: torch.Tensor) -> Any:
    """Memory of a contiguous tensor as a writable buffer, which keeps the tensor alive. It takes no NumPy."""
    nbytes = tensor.numel() * tensor.element_size()
    if nbytes == 0:
        return bytearray()
    memory: Any = (ctypes.c_ubyte * nbytes).from_address(tensor.data_ptr())
    memory._tensor = tensor
    return memoryview(memory)


def empty(dtype: str, shape: tuple[int, ...], kind: str) -> tuple[Any, Any]:
    """A new array (`numpy`) or tensor (`torch`), and its memory as a writable buffer."""
    _width(dtype)
    if kind == "torch":
        import torch

        tensor = torch.empty(shape, dtype=getattr(torch, _TO_TORCH[dtype]))
        memory = _memory_of(tensor)
        # NumPy does so itself.
        _native.advise(memory)
        return tensor, memory
    import numpy

    array = numpy.empty(shape, dtype=numpy_dtype(dtype))
    return array, array.reshape(-1).view(numpy.uint8)


def numpy_dtype(dtype: str) -> numpy.dtype[Any]:
    """The type of NumPy, or of ml_dtypes where NumPy has none, of this name of safetensors."""
    import numpy

    name = _TO_NUMPY[dtype]
    if dtype.startswith("F8") or dtype == "BF16":
        try:
            import ml_dtypes
        except ImportError:
            raise TensorError(f"NumPy has no {name}\nhelp: `pip install ml_dtypes`, or give `as_=\"torch\"`") from None
        return numpy.dtype(getattr(ml_dtypes, name))
    return numpy.dtype(name)


def torch_dtype(dtype: str) -> torch.dtype:
    """The type of PyTorch of this name of safetensors."""
    import torch

    _width(dtype)
    return getattr(torch, _TO_TORCH[dtype])


def output(out: Any, dtype: str, nbytes: int) -> Any:
    """Memory of an output as a writable buffer of `nbytes` bytes.

    Raises:
        TensorError: if it is read-only, not in one piece, of another type, or of another length.
    """
    if is_torch(out):
        if not out.is_contiguous() or out.is_conj() or out.is_neg():
            raise TensorError("the output is not in one piece of memory, or a view that changes values\nhelp: give a contiguous tensor of its own")
        found = _view_of_torch(out, None)
    else:
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(out, numpy.ndarray):
            if not out.flags.c_contiguous or not out.flags.writeable:
                raise TensorError("the output is read-only or not in one piece of memory\nhelp: give a writable array in C order")
            found = _view_of_numpy(out, None)
        else:
            found = _view_of_buffer(out, None)
            if found.buffer.readonly:
                raise TensorError("the output is read-only\nhelp: give a `bytearray` or a writable array")
            found = found._replace(dtype=dtype)
    length = math.prod(found.shape) * _width(found.dtype) if found.origin != "bytes" else found.buffer.nbytes
    if found.dtype != dtype or length != nbytes:
        remedy = "give one of the type and number of values that were compressed, which `inspect` says"
        raise TensorError(f"the output has {length} bytes of {found.dtype}, and {nbytes} of {dtype} are needed\nhelp: {remedy}")
    return found.buffer
