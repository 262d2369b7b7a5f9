"""Timelines are what Perfetto's own package reads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_examples import MORE

SCRIPT = Path(__file__).parents[3] / "scripts" / "traces-in-perfetto.py"


def test_perfetto_reads_them_and_their_slices_sum_to_the_stalls_of_the_records() -> None:
    pytest.importorskip("perfetto", reason=MORE)
    command = os.environ.get("SEAWALL_COMMAND")
    if command is None:
        pytest.skip("SEAWALL_COMMAND names no command to run")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WRONG" not in done.stdout
