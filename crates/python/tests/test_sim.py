"""Simulations and the command line from Python."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

import zipwire_tensors as zt
from zipwire_tensors.sim import calibrate, command, simulate, sweep

ROOT = pathlib.Path(__file__).parents[3]


def test_a_scenario_is_simulated() -> None:
    path = ROOT / "scenarios" / "quickstart.toml"
    result = simulate(path, {"cluster.nodes": 2})
    assert result.scenario == "quickstart" and result["native"].speedup == 1.0
    assert result.best.seconds == min(one.seconds for one in result.variants)
    assert result.best.bound_by in result.best.values["critical_path_s"]
    assert result.best.split["compression"] * result.best.split["algorithm"] == pytest.approx(result.best.speedup)
    assert result.verdict["binds"].keys() <= {one.name for one in result.variants} and result.warnings == []
    with pytest.raises(KeyError, match="there are `native`"):
        result["coded"]
    assert simulate(path, cluster__nodes=2).summary == result.summary
    slower = simulate(path, {"cluster.nic_bandwidth": "5 GB/s"}, seed=3)
    assert slower.seed == 3 and slower["native"].seconds > result["native"].seconds


def test_mistakes_have_place_and_remedy(tmp_path: pathlib.Path) -> None:
    with pytest.raises(zt.CommandError, match="did you mean `nodes`"):
        simulate(ROOT / "scenarios" / "quickstart.toml", {"cluster.nodez": 2})
    with pytest.raises(zt.CommandError, match="call `sweep`"):
        simulate(ROOT / "scenarios" / "sweeps" / "bandwidth-ratio.toml")
    with pytest.raises(zt.CommandError, match="call `simulate`"):
        sweep(ROOT / "scenarios" / "quickstart.toml")
    with pytest.raises(zt.CommandError, match="absent.toml"):
        simulate(tmp_path / "absent.toml")


def test_a_run_for_real_leaves_its_timelines(tmp_path: pathlib.Path) -> None:
    result = simulate(ROOT / "scenarios" / "quickstart.toml", on="sim,threads", out=tmp_path / "out")
    assert {one.executor for one in result.variants} == {"sim", "threads"}
    assert (tmp_path / "out" / "summary.json").exists()
    assert all(one.values["verified"] for one in result.variants if one.executor == "threads")


def test_ranks_are_processes_that_the_package_starts() -> None:
    if "ZIPWIRE_MPI_LIB" not in os.environ:
        pytest.skip("ZIPWIRE_MPI_LIB names no MPI")
    result = simulate(ROOT / "scenarios" / "smoke" / "transfers-burst-2x2.toml", on="sim,mpi")
    assert {one.executor for one in result.variants} == {"sim", "mpi"}


def test_a_sweep_has_its_points() -> None:
    result = sweep(ROOT / "scenarios" / "sweeps" / "bandwidth-ratio.toml")
    assert len(result.points) == 20
    pandas = pytest.importorskip("pandas")
    frame = result.to_pandas()
    assert isinstance(frame, pandas.DataFrame) and {"cluster.nic_bandwidth", "variant", "speedup"} <= set(frame.columns)


def test_logs_make_a_cluster(tmp_path: pathlib.Path) -> None:
    logs = sorted((ROOT / "traces" / "samples" / "nccl-tests").glob("*"))
    with pytest.raises(zt.CommandError):
        calibrate([tmp_path / "absent.log"], tmp_path / "cluster.toml")
    made = calibrate(logs[:1], tmp_path / "cluster.toml")
    assert made.file.exists() and made.report["constants"]


def test_the_command_line_is_there() -> None:
    assert command("--version") == f"zipwire {zt.__version__}\n"
    done = subprocess.run([sys.executable, "-m", "zipwire_tensors", "run", "absent.toml"], capture_output=True, text=True)
    assert done.returncode == 2 and "absent.toml" in done.stderr


def test_ctrl_c_ends_a_command() -> None:
    words = [sys.executable, "-m", "zipwire_tensors", "bench", "codec", "--codec", "rans"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130 and "stopped" in said and "Traceback" not in said
