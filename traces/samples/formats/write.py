"""Writes the files of this folder, each by the library whose format it is: GGUF by `gguf`, archives by `torch.save`, checkpoints by
torch.distributed.checkpoint, of one process and of two that shard a model by FSDP. Values are those of ../train_late_weights.bf16.safetensors.

Usage: pip install torch numpy gguf; python3 write.py"""
import json
import os
import shutil
import socket
import struct
import sys
from pathlib import Path

import gguf
import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.fsdp import fully_shard

HERE = Path(__file__).resolve().parent
BLOCK = 256


def recorded():
    """The recorded tensors, by their names."""
    raw = (HERE.parent / "train_late_weights.bf16.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header, values = json.loads(raw[8 : 8 + length]), raw[8 + length :]
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        flat = torch.frombuffer(bytearray(values[begin:end]), dtype=torch.bfloat16)
        tensors[name] = flat.reshape(entry["shape"])
    return tensors


def write_gguf(router, norm):
    writer = gguf.GGUFWriter(HERE / "tiny.gguf", "llama")
    writer.add_block_count(1)
    writer.add_context_length(128)
    writer.add_rope_freq_base(10000.0)
    writer.add_token_list(["<s>", "</s>", "\u00e9"])
    writer.add_token_scores([0.0, -1.0, -2.5])
    writer.add_custom_alignment(64)
    kinds = gguf.GGMLQuantizationType
    values = router.float().numpy()
    writer.add_tensor("output_norm.weight", norm.float().numpy())
    writer.add_tensor("blk.0.attn_q.weight", values.astype(np.float16))
    for name, kind in [("blk.0.ffn_up.weight", kinds.BF16), ("blk.0.ffn_down.weight", kinds.Q8_0)]:
        writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_archives(router, norm):
    torch.save({"model": {"router": router, "norm": norm}, "step": 390}, HERE / "tiny.pt")
    state = {
        "model": {"router": router, "norm": norm},
        "master": {"router": router.float()},
        "step": torch.tensor(390.0),
    }
    folder = HERE / "dcp"
    shutil.rmtree(folder, ignore_errors=True)
    dcp.save(state, checkpoint_id=folder)


def fsdp(rank, port, router):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    model = torch.nn.Linear(BLOCK, 12)
    with torch.no_grad():
        model.weight.copy_(router[:12].float())
        model.bias.zero_()
    fully_shard(model, mesh=dist.device_mesh.init_device_mesh("cpu", (2,)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model(router.float()).square().mean().backward()
    optimizer.step()
    weights, moments = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": moments}, checkpoint_id=HERE / "fsdp")
    dist.destroy_process_group()


def main():
    tensors = recorded()
    router, norm = tensors["L2.ffn.router"], tensors["L2.n1.w"]
    write_gguf(router, norm)
    write_archives(router, norm)
    shutil.rmtree(HERE / "fsdp", ignore_errors=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(fsdp, args=(port, router), nprocs=2)
    print("written by", f"gguf and torch {torch.__version__}, Python {sys.version.split()[0]}")


if __name__ == "__main__":
    main()
