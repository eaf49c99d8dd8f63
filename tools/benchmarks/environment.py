"""The Python environment of the other codecs, which the first script that needs it sets up in the target folder."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
VENV = TARGET / "bench-venv"
PACKAGES = ["numpy==2.4.6", "ml_dtypes==0.5.4", "zstandard==0.25.0", "lz4==4.4.5", "lmzip==1.3.0", "openzl==0.3.0"]
# Without its dependencies: it would install PyTorch with CUDA for functions that are not called here.
ALONE = ["zipnn==0.5.4"]


def set_up(script):
    """Runs the script again in the environment, unless it is there already."""
    if Path(sys.prefix) == VENV.resolve():
        return
    python = VENV / "bin" / "python"
    if not (VENV / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", VENV], check=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *PACKAGES], check=True)
        subprocess.run([*pip, "--no-deps", *ALONE], check=True)
        (VENV / "ready").touch()
    os.execv(python, [python, script, *sys.argv[1:]])
