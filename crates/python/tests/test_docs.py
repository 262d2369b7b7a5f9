"""The blocks of docs/python.md run, one after another."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "python.md"


def test_the_blocks_of_the_page_run(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) >= 4
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    said = capsys.readouterr().out
    assert "lbpp:epochs=4" in said and "epocs" in said
    assert "stores of an epoch" in said and "How the cost grows" in said
    assert "users.pool stands in its block at" in said and "b'2' b'1'" in said
    assert (here / "cost.jsonl").exists() and (here / "queue.svg").exists()


def test_the_blocks_that_do_not_run_here_can_be_compiled() -> None:
    blocks = re.findall(r"```python no-run\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) >= 2
    for block in blocks:
        compile(block, str(PAGE), "exec")
