"""Groups of tokens of KV caches."""

import pathlib

import pytest

import zipwire_tensors as zt
from zipwire_tensors.kv import KvCodec
from zipwire_tensors.safetensors import load_file

numpy = pytest.importorskip("numpy")
ml_dtypes = pytest.importorskip("ml_dtypes")


def planes(shape: tuple[int, ...], dtype: object) -> list[object]:
    random = numpy.random.default_rng(1)
    return [random.normal(size=shape).astype(dtype) for _ in range(2)]


@pytest.mark.parametrize("order", ["NHD", "HND"])
@pytest.mark.parametrize("dtype, name", [(ml_dtypes.bfloat16, "BF16"), (numpy.float16, "F16"), (ml_dtypes.float8_e4m3fn, "F8_E4M3")])
def test_groups_come_back(order: str, dtype: object, name: str) -> None:
    codec = KvCodec(4, 2, 64, name, order=order)
    for tokens in (1, 100, 256):
        keys, values = planes((tokens, 2, 64) if order == "NHD" else (2, tokens, 64), dtype)
        group = codec.encode(3, 512, keys, values)
        assert len(group) <= codec.bound(tokens)
        found = codec.decode(group)
        assert (found.layer, found.token) == (3, 512)
        assert found.keys.tobytes() == keys.tobytes() and found.values.tobytes() == values.tobytes() and found.keys.shape == keys.shape


def test_latents_have_one_plane() -> None:
    codec = KvCodec(4, 1, 576, latent=True, codec="rans")
    (latent, _) = planes((77, 576), ml_dtypes.bfloat16)
    found = codec.decode(codec.encode(0, 0, latent))
    assert found.keys.tobytes() == latent.tobytes() and found.values is None


def test_other_caches_and_damage_are_refused() -> None:
    codec = KvCodec(4, 2, 64)
    keys, values = planes((100, 2, 64), ml_dtypes.bfloat16)
    group = codec.encode(0, 0, keys, values)
    for other in (KvCodec(5, 2, 64), KvCodec(4, 2, 64, "F16"), KvCodec(4, 2, 64, codec="rans"), KvCodec(4, 2, 64, order="HND")):
        assert other.compatibility != codec.compatibility
        with pytest.raises(zt.BaseError, match="compatibility"):
            other.decode(group)
    for at in range(0, len(group), 101):
        damaged = bytearray(group)
        damaged[at] ^= 4
        with pytest.raises(zt.Error):
            codec.decode(damaged)
    with pytest.raises(zt.FormatError):
        codec.decode(group[:-1])


def test_planes_that_are_not_of_the_cache_are_refused() -> None:
    codec = KvCodec(4, 2, 64)
    keys, values = planes((100, 2, 64), ml_dtypes.bfloat16)
    for wrong in ((keys, values[:99]), (keys.astype(numpy.float32), values), (keys[:, :1], values[:, :1]), (keys, None), (keys.reshape(100, 128), values)):
        with pytest.raises(zt.TensorError):
            codec.encode(0, 0, *wrong)
    with pytest.raises(zt.TensorError, match="layer 4"):
        codec.encode(4, 0, keys, values)
    with pytest.raises(zt.TensorError):
        codec.encode(0, 0, numpy.concatenate([keys] * 3), numpy.concatenate([values] * 3))
    for wrong in ({"dtype": "I32"}, {"order": "DHN"}, {"head_size": 0}):
        with pytest.raises(zt.TensorError):
            KvCodec(**{"layers": 4, "heads": 2, "head_size": 64} | wrong)


def test_recorded_caches_take_two_thirds() -> None:
    path = pathlib.Path(__file__).parents[3] / "traces" / "samples" / "train_late_kv.bf16.safetensors"
    keys = next(tensor for name, tensor in load_file(path).items() if tensor.ndim >= 2 and tensor.dtype == ml_dtypes.bfloat16)
    plane = keys.reshape(-1, 1, keys.shape[-1])[:256]
    codec = KvCodec(1, 1, keys.shape[-1])
    assert len(codec.encode(0, 0, plane, plane)) < 0.72 * 2 * plane.nbytes


def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    codec = KvCodec(4, 2, 64)
    keys, values = torch.randn(50, 2, 64).bfloat16(), torch.randn(50, 2, 64).bfloat16()
    found = codec.decode(codec.encode(1, 0, keys, values), as_="torch")
    assert torch.equal(found.keys, keys) and torch.equal(found.values, values)
