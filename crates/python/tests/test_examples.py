"""The examples run; what they print is what their page shows."""

from __future__ import annotations

import os
import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
MORE = "cargo run -p seawall-xtask -- python --more"


def test_optuna_finds_the_cheapest_design(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("optuna", reason=MORE)
    words = ["--trials", "12", "--ops", "60", "--crashes", "1", "--within", "5"]
    monkeypatch.setattr("sys.argv", ["cheapest_lbpp.py", *words])
    printed = []
    for _ in range(2):
        runpy.run_path(str(EXAMPLES / "cheapest_lbpp.py"), run_name="__main__")
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1], "the same seed has led to something else"
    rows = re.findall(r"^(fastest|cheapest) +(\d+) +(\d+) +(\d+) +(\d+) +([\d.]+)$", printed[0], re.M)
    (_, *_, most, fastest), (_, *_, least, cheapest) = rows
    assert int(least) < int(most) and float(fastest) == 1.0 and float(cheapest) <= 1.05
    assert os.listdir(here) == []
