"""Simulations of a scenario: what compressed collectives would do on a cluster.

    from zipwire_tensors.sim import calibrate, simulate, sweep
    cluster = calibrate(["all_gather.log", "alltoall.log"], "my-cluster.toml")
    result = simulate("scenario.toml", {"cluster.file": "my-cluster.toml"})
    print(result.best.name, result.best.speedup, result.best.bound_by)

The command line of zipwire does the work in a process of its own; results are what it prints as JSON.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ._errors import CommandError, NotThereError

if TYPE_CHECKING:
    import pandas

__all__ = ["Calibration", "Point", "Result", "Sweep", "Variant", "calibrate", "command", "simulate", "sweep"]


@dataclass(frozen=True)
class Variant:
    """Times and bytes of a variant on an executor. Times are in seconds."""

    name: str
    executor: str
    values: dict[str, Any] = field(repr=False)
    """All that the summary has of it, as `docs/metrics.md` explains."""

    @property
    def seconds(self) -> float | None:
        """Mean time of an iteration; None where requests are served."""
        return (self.values.get("iteration_s") or {}).get("mean")

    @property
    def speedup(self) -> float | None:
        """Time of the first variant by that of this one."""
        return self.values.get("speedup")

    @property
    def ratio(self) -> float | None:
        """Bytes before compression by bytes on the wire."""
        return self.values.get("ratio")

    @property
    def split(self) -> dict[str, float]:
        """The speedup as a product: `compression` and `algorithm`."""
        return self.values.get("split") or {}

    @property
    def bound_by(self) -> str | None:
        """What the critical path spends most time on, such as `links` or `codec`."""
        path = self.values.get("critical_path_s") or {}
        return max(path, key=path.__getitem__) if path else None


def _variants(executors: dict[str, Any]) -> list[Variant]:
    return [
        Variant(name, executor, values)
        for executor, variants in executors.items()
        for name, values in variants.items()
        if isinstance(values, dict)
    ]


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dictionaries as one, whose keys have dots."""
    row: dict[str, Any] = {}
    for key, value in values.items():
        row |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return row


def _frame(rows: list[dict[str, Any]]) -> pandas.DataFrame:
    import pandas

    return pandas.DataFrame(rows)


@dataclass(frozen=True)
class Result:
    """Outcome of a run of a scenario."""

    scenario: str
    seed: int
    variants: list[Variant]
    summary: dict[str, Any] = field(repr=False)
    """`summary.json` of the run."""

    def __getitem__(self, name: str) -> Variant:
        """The variant of a name, on the first executor.

        Raises:
            NotThereError: if there is none.
        """
        for variant in self.variants:
            if variant.name == name:
                return variant
        names = ", ".join(f"`{variant.name}`" for variant in self.variants)
        raise NotThereError(f"there is no variant `{name}`\nhelp: there are {names}")

    @property
    def verdict(self) -> dict[str, Any]:
        """What iterations are bound by (`binds`), where coded variants break even (`break_even`), and what would change speedups (`sensitivity`)."""
        return self.summary.get("verdict") or {}

    @property
    def warnings(self) -> list[Any]:
        """Warnings of the run."""
        return self.verdict.get("warnings") or []

    @property
    def best(self) -> Variant:
        """The variant with the shortest iteration."""
        return min(self.variants, key=lambda variant: float("inf") if variant.seconds is None else variant.seconds)

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each variant and executor."""
        return _frame([{"executor": one.executor, "variant": one.name, **_flat(one.values)} for one in self.variants])


@dataclass(frozen=True)
class Point:
    """A point of a sweep."""

    set: dict[str, Any]
    """Values that were swept."""
    variants: list[Variant]


@dataclass(frozen=True)
class Sweep:
    """Outcome of a scenario with a `[sweep]`."""

    scenario: str
    points: list[Point]
    summary: dict[str, Any] = field(repr=False)

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each point, variant and executor."""
        rows = [(point, one) for point in self.points for one in point.variants]
        return _frame([{**point.set, "executor": one.executor, "variant": one.name, **_flat(one.values)} for point, one in rows])


@dataclass(frozen=True)
class Calibration:
    """A cluster whose constants were fitted to logs."""

    file: pathlib.Path
    """Cluster file for `[cluster] file = "..."` of scenarios."""
    report: dict[str, Any] = field(repr=False)
    """Constants, and errors of the fit by size."""


def command(*words: str) -> str:
    """Runs a command of `zipwire` and returns what it prints.

    Raises:
        CommandError: if it fails, with its message.

    >>> command("--version").split()[0]
    'zipwire'
    """
    program = [sys.executable, "-m", "zipwire_tensors", *words]
    done = subprocess.run(program, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=os.environ | {"NO_COLOR": "1"})
    if done.returncode:
        raise CommandError(done.stderr.strip().removeprefix("error: ") or f"exit code {done.returncode}")
    return done.stdout


def _text(value: Any) -> str:
    """A value as `--set` takes it."""
    return value if isinstance(value, str) else json.dumps(value, default=os.fspath)


def _run(scenario: Any, set: dict[str, Any] | None, others: dict[str, Any], on: str, seed: int | None, out: Any, flags: list[str]) -> Any:
    """Runs a scenario, given by its path or as text, and reads its summary."""
    with tempfile.TemporaryDirectory(prefix="zipwire-") as folder:
        if isinstance(scenario, str) and "\n" in scenario:
            path = os.path.join(folder, "scenario.toml")
            pathlib.Path(path).write_text(scenario)
        else:
            path = os.fspath(scenario)
        changes = {**(set or {}), **{name.replace("__", "."): value for name, value in others.items()}}
        words = ["run", path, "--json", "--on", on, "--out", os.fspath(out or os.path.join(folder, "out")), *flags]
        words += [word for name, value in changes.items() for word in ("--set", f"{name}={_text(value)}")]
        words += [] if seed is None else ["--seed", str(seed)]
        return json.loads(command(*words))


def simulate(
    scenario: Any, set: dict[str, Any] | None = None, *, on: str = "sim", seed: int | None = None, out: Any = None, **others: Any
) -> Result:
    """Runs a scenario: in simulation, or on other executors for real.

    Args:
        scenario: path of the scenario, or its text.
        set: values in place of those of the scenario, as `{"cluster.nodes": 4}`; `cluster__nodes=4` does the same.
        on: executors, separated by commas: `sim`, `threads`, `mpi`, `cuda`, `nccl`.
        seed: in place of the scenario's.
        out: folder for timelines and the summary; by default they are not kept.

    Raises:
        CommandError: with place and remedy, if the scenario is wrong or its run fails.
    """
    summary = _run(scenario, set, others, on, seed, out, [])
    if "executors" not in summary:
        raise CommandError("the scenario has a `[sweep]`\nhelp: call `sweep`")
    return Result(summary["scenario"], summary["seed"], _variants(summary["executors"]), summary)


def sweep(
    scenario: Any,
    set: dict[str, Any] | None = None,
    *,
    on: str = "sim",
    seed: int | None = None,
    out: Any = None,
    jobs: int | None = None,
    **others: Any,
) -> Sweep:
    """Runs all points of a scenario that has a `[sweep]`.

    Args: those of `simulate`; `jobs` is the number of points at the same time.

    Raises:
        CommandError: also if the scenario has no `[sweep]`.
    """
    summary = _run(scenario, set, others, on, seed, out, [] if jobs is None else ["--jobs", str(jobs)])
    if "rows" not in summary:
        raise CommandError("the scenario has no `[sweep]`\nhelp: call `simulate`")
    points = [Point(row["set"], _variants(row.get("executors") or {})) for row in summary["rows"]]
    return Sweep(summary["scenario"], points, summary)


def calibrate(
    logs: list[Any], out: Any, *, nodes: int | None = None, gpus_per_node: int | None = None, op: str | None = None, nics: str | None = None
) -> Calibration:
    """Fits the constants of a cluster to logs of nccl-tests.

    Args:
        logs: files of one cluster.
        out: cluster file that is written.
        nodes, gpus_per_node, op, nics: what the logs do not say.

    Raises:
        CommandError: if a log is not read, or they do not determine the cluster.
    """
    given = {"--nodes": nodes, "--gpus-per-node": gpus_per_node, "--op": op, "--nics": nics}
    words = [word for flag, value in given.items() if value is not None for word in (flag, str(value))]
    report = command("calibrate", "nccl-tests", "--json", "--out", os.fspath(out), *words, *(os.fspath(log) for log in logs))
    return Calibration(pathlib.Path(out), json.loads(report))
