"""The notebooks run, give what they show, and show nothing of the machine that ran them.

After a change of one, or of what it finds: SEAWALL_PYTHON_WRITE=1 keeps what it gives now.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from test_examples import MORE

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
BYTES_MAX = 60_000


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_a_notebook_gives_what_it_shows(
    path: Path,
    here: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nbclient = pytest.importorskip("nbclient", reason=MORE)
    pytest.importorskip("ipykernel", reason=MORE)
    nbformat = pytest.importorskip("nbformat", reason=MORE)
    if path.stem == "find-a-crash-bug" and shutil.which("gcc") is None:
        pytest.skip("there is no gcc, which `seawall cc` compiles with")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    book = nbformat.read(path, as_version=4)
    shown = outputs(book)
    client = nbclient.NotebookClient(
        book,
        timeout=300,
        kernel_name="python3",
        record_timing=False,
        # A kernel sends what is printed in one piece or in several: it depends on the moment.
        coalesce_streams=True,
        resources={"metadata": {"path": str(here)}},
    )
    client.execute()
    given = outputs(book)
    if "SEAWALL_PYTHON_WRITE" in os.environ:
        # Which Python it was does not matter.
        book.metadata["language_info"] = {"name": "python"}
        nbformat.write(book, path)
        shown = given
    assert given == shown
    text = path.read_text()
    assert len(text) <= BYTES_MAX
    assert not any(place in text for place in ("/tmp", "/home", "/root", "site-packages", str(here)))


def outputs(book: Any) -> list[tuple[str, list[Any]]]:
    """What the cells of code have given, each with its text."""
    cells = [cell for cell in book.cells if cell.cell_type == "code"]
    return [(cell.source, [output_of(it) for it in cell.outputs]) for cell in cells]


def output_of(output: Any) -> Any:
    return {key: value for key, value in output.items() if key not in ("metadata", "execution_count")}


def test_there_are_three() -> None:
    assert len(NOTEBOOKS) == 3
