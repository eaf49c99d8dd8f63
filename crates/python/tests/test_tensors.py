"""Tensors in memory: every type, shape and input comes back, and errors say what is wrong."""

import array
import ctypes
import doctest
import mmap
import multiprocessing
import os
import signal
import subprocess
import sys
import threading

import pytest

import zipwire_tensors as zt

numpy = pytest.importorskip("numpy")
ml_dtypes = pytest.importorskip("ml_dtypes")

DTYPES = ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64", "complex64"]
FLOATS = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]
SHAPES = [(), (0,), (0, 3), (3, 0, 2), (1,), (7,), (33, 65), (2, 3, 5, 7), (300_001,)]


def random_array(dtype: numpy.dtype, shape: tuple[int, ...], seed: int = 1) -> numpy.ndarray:
    """Any bit pattern of the type; of `bool` those that there are."""
    count = int(numpy.prod(shape, dtype=numpy.int64))
    data = numpy.random.default_rng(seed).bytes(count * dtype.itemsize)
    if dtype == numpy.bool_:
        return (numpy.frombuffer(data, numpy.uint8) > 127).reshape(shape)
    return numpy.frombuffer(data, dtype).reshape(shape)


def same(a: numpy.ndarray, b: numpy.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("name", DTYPES + FLOATS)
def test_every_type_and_shape_comes_back(name: str) -> None:
    dtype = numpy.dtype(getattr(ml_dtypes, name) if name in FLOATS else name)
    for shape in SHAPES:
        values = random_array(dtype, shape)
        for codec in ("auto", "tiered", "rans"):
            data = zt.compress(values, codec)
            assert len(data) <= zt.bound(values, codec)
            assert same(zt.decompress(data), values)
            assert zt.decompress(data, as_="bytes") == values.tobytes()
        out = numpy.zeros(shape, dtype)
        assert zt.decompress(data, out) is out
        assert same(out, values)


def test_any_order_of_memory_comes_back_in_c_order() -> None:
    values = numpy.arange(2 * 30 * 50, dtype=numpy.float32).reshape(2, 30, 50)
    read_only = values.copy()
    read_only.setflags(write=False)
    for made in (values.T, values[:, ::3], values[::-1], numpy.asfortranarray(values), read_only, numpy.broadcast_to(values[0], (4, 30, 50))):
        assert same(zt.decompress(zt.compress(made)), numpy.ascontiguousarray(made))


@pytest.mark.parametrize("kind", ["bytes", "bytearray", "memoryview", "array", "ctypes", "mmap"])
def test_any_buffer_is_taken(kind: str, tmp_path: object) -> None:
    data = bytes(range(256)) * 64
    made = {
        "bytes": lambda: data,
        "bytearray": lambda: bytearray(data),
        "memoryview": lambda: memoryview(data)[0:],
        "array": lambda: array.array("d", data),
        "ctypes": lambda: (ctypes.c_ubyte * len(data)).from_buffer_copy(data),
        "mmap": lambda: mmap.mmap(-1, len(data)),
    }[kind]()
    if kind == "mmap":
        made.write(data)
    assert zt.decompress(zt.compress(made)) == data
    assert zt.inspect(zt.compress(made)).dtype == ("F64" if kind == "array" else "U8")
    assert zt.decompress(zt.compress(made, dtype="BF16"), as_="numpy").dtype == ml_dtypes.bfloat16


def test_scalars_and_objects_with_arrays_are_taken() -> None:
    assert same(zt.decompress(zt.compress(numpy.float32(3.5))), numpy.array(3.5, numpy.float32))

    class Array:
        def __array__(self, dtype: object = None, copy: object = None) -> numpy.ndarray:
            return numpy.ones(5, numpy.int16)

    assert same(zt.decompress(zt.compress(Array())), numpy.ones(5, numpy.int16))


def test_differences_need_their_base() -> None:
    base = numpy.random.default_rng(1).normal(0, 0.02, 200_000).astype(ml_dtypes.bfloat16)
    values = base.copy()
    values[::50] *= ml_dtypes.bfloat16(1.01)
    data = zt.compress(values, "rans", base=base)
    assert len(data) < len(zt.compress(values, "rans")) / 4
    assert same(zt.decompress(data, base=base), values)
    assert zt.inspect(data).needs_base
    with pytest.raises(zt.BaseError, match="help: give the values"):
        zt.decompress(data)
    with pytest.raises(zt.BaseError, match="other values"):
        zt.decompress(data, base=values)
    with pytest.raises(zt.BaseError, match="type and shape"):
        zt.decompress(data, base=base.reshape(2, -1))
    with pytest.raises(zt.BaseError, match="type and shape"):
        zt.compress(values, base=base[1:])


def test_outputs_that_do_not_fit_are_refused() -> None:
    values = numpy.arange(1000, dtype=numpy.float32)
    data = zt.compress(values)
    read_only = numpy.empty(1000, numpy.float32)
    read_only.setflags(write=False)
    for out in (numpy.empty(999, numpy.float32), numpy.empty(1000, numpy.int32), read_only, numpy.empty((1000, 2), numpy.float32)[:, 0], b"0" * 4000, bytearray(3999)):
        with pytest.raises(zt.TensorError):
            zt.decompress(data, out)
    room = bytearray(4000)
    assert zt.decompress(data, room) is room and bytes(room) == values.tobytes()
    with pytest.raises(zt.TensorError, match="are needed"):
        zt.compress_into(values, bytearray(100))


def test_outputs_that_share_memory_with_an_input_are_refused() -> None:
    room = bytearray(20_000)
    size = zt.compress_into(numpy.arange(1000, dtype=numpy.float32), room)
    with pytest.raises(zt.TensorError, match="shares memory"):
        zt.decompress(memoryview(room)[:size], memoryview(room)[size - 4 : size + 3996])
    base = numpy.arange(1000, dtype=numpy.float32)
    data = zt.compress(base + 1, base=base)
    with pytest.raises(zt.TensorError, match="shares memory"):
        zt.decompress(data, memoryview(room)[:4000], base=numpy.frombuffer(room, numpy.float32)[1:1001])
    # Over the base itself is another matter.
    assert zt.decompress(data, base, base=base) is base and base[0] == 1 and base[-1] == 1000


def test_objects_that_have_no_values_are_refused_with_a_remedy() -> None:
    structured = numpy.zeros(3, [("a", "f4")])
    masked = numpy.ma.array([1.0, 2.0], mask=[0, 1])
    for wrong in (masked, numpy.zeros(3, ml_dtypes.int4), [1, 2], "text", None, 3.5, numpy.zeros(3, "datetime64[s]"), numpy.array([object()]), structured, numpy.zeros(3, numpy.complex128), numpy.zeros(3, ">f4")):
        with pytest.raises(zt.TensorError, match="help: "):
            zt.compress(wrong)
    with pytest.raises(zt.CodecError, match="help: "):
        zt.compress(b"", "tired")
    with pytest.raises(zt.TensorError, match="types are"):
        zt.compress(b"", dtype="float32")
    with pytest.raises(zt.TensorError, match="whole number"):
        zt.compress(b"123", dtype="F32")


def test_damage_is_an_error_and_never_other_values() -> None:
    data = zt.compress(numpy.random.default_rng(1).normal(size=3000).astype(numpy.float32))
    for at in range(0, len(data), 37):
        damaged = bytearray(data)
        damaged[at] ^= 0x10
        with pytest.raises(zt.FormatError):
            zt.decompress(damaged)
    for wrong in (b"", b"ZPWT", data[:-1], data + b"0", b"PK\x03\x04" * 9):
        with pytest.raises(zt.FormatError):
            zt.decompress(wrong)
    later = bytearray(data)
    later[4] = 9
    with pytest.raises(zt.VersionError, match="update"):
        zt.decompress(later)


def test_tensors_of_torch_that_have_not_their_own_values() -> None:
    torch = pytest.importorskip("torch")
    data = zt.compress(torch.ones(1000, dtype=torch.complex64))
    assert torch.equal(zt.decompress(zt.compress(torch.full((3,), 2 + 1j).conj())), torch.full((3,), 2 - 1j))
    for out in (torch.zeros(1000, dtype=torch.complex64).conj(), torch._neg_view(torch.zeros(1000, dtype=torch.complex64))):
        with pytest.raises(zt.TensorError, match="of its own"):
            zt.decompress(data, out)
    shrunk = torch.ones(1_000_000)
    shrunk.untyped_storage().resize_(4096)
    with pytest.raises(zt.TensorError, match="no memory"):
        zt.compress(shrunk)
    with pytest.raises(zt.TensorError, match="view_as_real"):
        zt.compress(torch.zeros(3, dtype=torch.complex128))


def test_threads_do_not_change_the_bytes() -> None:
    values = numpy.random.default_rng(1).normal(size=2_000_000).astype(numpy.float32)
    data = zt.compress(values, threads=1)
    assert all(zt.compress(values, threads=threads) == data for threads in (2, 7, None))


def test_threads_of_python_work_at_the_same_time() -> None:
    values = [numpy.random.default_rng(seed).normal(size=300_000).astype(numpy.float32) for seed in range(8)]
    results: list[object] = [None] * 8

    def work(number: int) -> None:
        for _ in range(5):
            results[number] = zt.decompress(zt.compress(values[number]))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(same(result, value) for result, value in zip(results, values))


def round_trip(seed: int) -> bool:
    values = numpy.random.default_rng(seed).normal(size=1_000_000).astype(numpy.float32)
    return same(zt.decompress(zt.compress(values)), values)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_work(method: str) -> None:
    assert round_trip(0)
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(round_trip, range(4)) == [True] * 4


INTERRUPTED = """
import os, signal, sys, threading, time, numpy, zipwire_tensors as zt
values = numpy.random.default_rng(1).normal(size=48_000_000).astype(numpy.float32)
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
begin = time.perf_counter()
try:
    while True:
        zt.compress(values, "auto:goal=size", threads=int(sys.argv[1]))
except KeyboardInterrupt:
    print(time.perf_counter() - begin)
zt.decompress(zt.compress(values[:1000]))
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_ends_a_long_call(threads: int) -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED, str(threads)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    # Without a look at signals the call would take several seconds.
    assert float(done.stdout) < 3


def test_the_package_imports_neither_numpy_nor_torch() -> None:
    code = "import sys, zipwire_tensors; zipwire_tensors.decompress(zipwire_tensors.compress(b'1')); print([m for m in ('numpy', 'torch', 'ml_dtypes', 'safetensors') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_examples_in_docstrings_are_true() -> None:
    from zipwire_tensors import kv, sim, sync

    for module in (zt, kv, sim, sync):
        assert doctest.testmod(module).failed == 0


def test_frames_of_other_languages_are_read(tmp_path: object) -> None:
    # A frame as `docs/format.md` has it: `raw`, BF16, `compact`, three values, and a checksum that this test takes from the library's own container.
    data = zt.compress(b"\x01\x02\x03\x04\x05\x06", "raw", dtype="BF16")
    at = data.index(b"ZPWR")
    frame = data[at : at + 32 + 6]
    assert zt.decompress(frame) == b"\x01\x02\x03\x04\x05\x06"
    assert zt.decompress(frame, as_="numpy").dtype == ml_dtypes.bfloat16
    assert zt.inspect(frame).codecs == {"raw": 1}


@pytest.mark.large
def test_more_than_four_gibibytes_come_back() -> None:
    values = numpy.tile(numpy.random.default_rng(1).normal(0, 0.02, 1 << 20).astype(ml_dtypes.bfloat16), 2100)
    assert values.nbytes > 4 << 30
    data = zt.compress(values)
    assert numpy.array_equal(zt.decompress(data).view(numpy.uint16), values.view(numpy.uint16))


def test_signals_of_others_are_left_alone() -> None:
    before = signal.getsignal(signal.SIGINT)
    zt.compress(os.urandom(1000))
    assert signal.getsignal(signal.SIGINT) is before
