"""The documentation: what it shows runs.

Blocks of Python of a page share their names, and run in a process and a folder of their own. A block that cannot run here has a line `<!-- not run: REASON -->` in front.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
from typing import NamedTuple

import pytest

ROOT = pathlib.Path(__file__).parents[3]
README = ROOT / "crates" / "python" / "README.md"
PAGES = [README, *sorted((ROOT / "docs" / "python").glob("*.md"))]
NOTEBOOK = ROOT / "docs" / "python" / "my-cluster.ipynb"
REPOSITORY = "https://github.com/zipwire/zipwire/blob/main/"

# What blocks of a page take as given.
GIVEN = {
    README: """
import os
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.fsdp import FSDPModule, fully_shard
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

dist.init_process_group("gloo", init_method=f"file://{os.getcwd()}/ranks", rank=0, world_size=1)
tensor = torch.randn(1000, 1000).mul(0.02).bfloat16()
keys, values = torch.randn(2, 100, 8, 128).bfloat16()
sharded = fully_shard(torch.nn.Linear(64, 64))
small = LlamaConfig(vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4)
LlamaForCausalLM(small).bfloat16().save_pretrained("Llama-3-8B")
saved = os.path.getsize("Llama-3-8B/model.safetensors")
"""
}
# What is true after them.
THEN = {
    README: """
assert torch.equal(again, tensor) and zt.inspect(data).ratio > 1.4
assert os.path.getsize("Llama-3-8B/model.safetensors") < 0.75 * saved
assert all(torch.equal(state[name], value) for name, value in model.state_dict().items())
assert torch.equal(restored.keys, keys) and torch.equal(restored.values, values)
assert result.best.seconds and sharded(torch.zeros(1, 64)).shape == (1, 64)
dist.destroy_process_group()
"""
}


class Block(NamedTuple):
    line: int
    code: str
    reason: str | None
    """Why it is not run."""


def blocks_of(page: pathlib.Path) -> list[Block]:
    lines = page.read_text().splitlines()
    starts = [number for number, line in enumerate(lines) if line.strip() == "```python"]
    blocks = []
    for start in starts:
        end = lines.index("```", start + 1)
        comment = re.fullmatch(r"<!-- not run:(.*)-->", lines[start - 1].strip()) if start else None
        blocks.append(Block(start + 2, "\n".join(lines[start + 1 : end]), comment and comment[1].strip()))
    return blocks


def name_of(page: pathlib.Path) -> str:
    return page.relative_to(ROOT).as_posix()


def missing(code: str) -> set[str]:
    """Packages that code imports and that are not here."""
    names = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return {name for name in {name.partition(".")[0] for name in names} if importlib.util.find_spec(name) is None}


def runnable(page: pathlib.Path) -> list[Block]:
    return [block for block in blocks_of(page) if block.reason is None]


@pytest.mark.parametrize("page", [page for page in PAGES if runnable(page)], ids=name_of)
def test_blocks_run(page: pathlib.Path, tmp_path: pathlib.Path) -> None:
    blocks = runnable(page)
    program = [(0, GIVEN.get(page, "")), *((block.line, block.code) for block in blocks), (0, THEN.get(page, ""))]
    absent = missing("\n".join(code for _, code in program))
    if absent:
        pytest.skip(f"not installed: {', '.join(sorted(absent))}")
    for name in ("scenarios", "traces"):
        os.symlink(ROOT / name, tmp_path / name)
    # Lines of the page, for messages.
    script = f"names = {{'__name__': '__main__'}}\nfor line, code in {program!r}:\n    exec(compile('\\n' * max(line - 1, 0) + code, {name_of(page)!r}, 'exec'), names)\n"
    environment = {name: value for name, value in os.environ.items() if name != "ZIPWIRE_PATCH"} | {"HF_HUB_OFFLINE": "1", "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_blocks_are_python_and_those_not_run_say_why(page: pathlib.Path) -> None:
    for block in blocks_of(page):
        compile(block.code, f"{name_of(page)}:{block.line}", "exec")
        assert block.reason is None or len(block.reason.split()) >= 2, f"{name_of(page)}:{block.line} has no reason"
    comments = re.findall(r"^\s*<!-- *not run", page.read_text(), re.MULTILINE)
    assert len(comments) == sum(block.reason is not None for block in blocks_of(page)), "a comment is not in front of a block"


def test_uses_of_the_readme_are_short() -> None:
    assert len(README.read_text().splitlines()) <= 120
    for block in blocks_of(README):
        assert len(block.code.splitlines()) <= 4, f"line {block.line} begins a use of more than four lines"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: pathlib.Path) -> None:
    text = page.read_text()
    targets = [target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text)]
    for target in targets:
        if target.startswith(REPOSITORY):
            assert (ROOT / target.removeprefix(REPOSITORY)).exists(), target
        elif target and "://" not in target:
            assert (page.parent / target).exists(), target
    if page == README:
        assert all("://" in target for target in targets if target), "the package index knows no relative links"


def test_the_notebook_is_stored_without_outputs() -> None:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    for cell in cells:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None


def test_the_notebook_runs(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    for name in ("ipykernel", "pandas", "ml_dtypes", "safetensors"):
        pytest.importorskip(name)
    for name in ("TMPDIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    metadata = {"metadata": {"path": str(NOTEBOOK.parent)}}
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", resources=metadata).execute()
    said = "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", []))
    assert "nodes: compress, by " in said and "do not compress" in said
    for number in map(float, re.findall(r"(\d+\.\d+) times as", said)):
        assert 0.5 < number < 3
