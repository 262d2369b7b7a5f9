"""What the tests share: the command, to hold the package to, and small experiments."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable

import pytest

#: Eighteen points that take a second or two on one core.
SWEEP: dict[str, Any] = {
    "title": "A test",
    "machine": "desktop",
    "kernels": ["lu:4", "radix:64"],
    "designs": ["bsp-lb", "bsp-lbpp"],
    "crashes": 1,
    "factor": [
        {"name": "stores", "design": "stores", "values": [50, 100]},
        {"name": "cores", "machine": "core.count", "values": [1, 2]},
    ],
}

SWEEP_TOML = """
title = "A test"
machine = "desktop"
kernels = ["lu:4", "radix:64"]
designs = ["bsp-lb", "bsp-lbpp"]
crashes = 1

[[factor]]
name = "stores"
design = "stores"
values = [50, 100]

[[factor]]
name = "cores"
machine = "core.count"
values = [1, 2]
"""

Command = Callable[..., str]

#: What takes time and no part in what is found.
TIMES = {"seconds", "wall_seconds", "states_per_second", "runs_per_second"}


def without_times(lines: str) -> Any:
    """The records of lines of JSON, without what differs from run to run."""

    def without(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: without(it) for key, it in value.items() if key not in TIMES}
        return [without(it) for it in value] if isinstance(value, list) else value

    return [without(json.loads(line)) for line in lines.splitlines()]


def killed(program: str, here: Path, lines: int, seconds: float) -> list[int]:
    """Runs a program that prints numbers, and kills it some time after so many; all that it printed."""
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=here
    )
    assert process.stdout is not None
    printed = [int(process.stdout.readline()) for _ in range(lines)]
    time.sleep(seconds)
    os.kill(process.pid, signal.SIGKILL)
    printed += map(int, process.stdout.read().split("\n")[:-1])
    process.wait()
    return printed


@pytest.fixture(scope="session")
def seawall_command() -> Command:
    """Runs the command `seawall`, and returns what it prints."""
    path = os.environ["SEAWALL_COMMAND"]

    def run(*words: object, code: int = 0) -> str:
        done = subprocess.run(
            [path, *map(str, words)], capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == code, done.stderr
        return done.stdout if code != 2 else done.stderr

    return run


@pytest.fixture(scope="session")
def swept(seawall_command: Command, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of `seawall sweep` for the experiment of the tests."""
    folder = tmp_path_factory.mktemp("swept")
    experiment, out = folder / "sweep.toml", folder / "out.jsonl"
    experiment.write_text(SWEEP_TOML)
    seawall_command("sweep", experiment, "--out", out)
    return out.read_bytes()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that the test runs in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
