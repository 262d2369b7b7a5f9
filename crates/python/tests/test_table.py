"""A table is a sequence of records, what the command prints, and a table of other libraries."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import pytest
import seawall


@pytest.fixture(scope="module")
def table() -> seawall.Table:
    return seawall.compare(
        workloads="queue", designs=["lb", "lbpp"], machine="desktop", ops=40, crashes=2
    )


def test_it_is_a_sequence_of_records_by_the_names_of_the_json(table: seawall.Table) -> None:
    assert isinstance(table, Sequence) and len(table) == 2
    assert [record["design"] for record in table] == ["lb", "lbpp"]
    assert table[-1]["design"] == "lbpp" and len(table[:1]) == 1
    assert table.columns == list(table[0])
    again = seawall.compare(
        workloads="queue", designs=["lb", "lbpp"], machine="desktop", ops=40, crashes=2
    )
    assert again == table
    assert again != seawall.compare(
        workloads="queue", designs=["lb"], machine="desktop", ops=40, crashes=2
    )


def test_dictionaries_are_the_callers_to_change(table: seawall.Table) -> None:
    table.to_dicts()[0].clear()
    assert table[0]["design"] == "lb"


def test_in_a_notebook_it_is_what_the_command_prints(table: seawall.Table) -> None:
    html = table._repr_html_()
    assert html.startswith("<pre>") and "lbpp" in html and "queue" in html
    assert repr(table).splitlines()[0].startswith("4 threads on desktop") or "desktop" in repr(
        table
    )


def test_its_plot_is_a_picture(table: seawall.Table) -> None:
    (svg,) = table.plots().values()
    assert svg.startswith("<svg") and "lbpp" in svg


def test_polars_has_the_same_rows_and_columns(table: seawall.Table) -> None:
    pytest.importorskip("polars")
    frame = table.to_polars()
    assert frame.columns == table.columns
    assert frame["design"].to_list() == ["lb", "lbpp"]


def test_pandas_has_the_same_rows_and_columns(table: seawall.Table) -> None:
    pytest.importorskip("pandas", reason="it needs NumPy, which the tests do without")
    assert list(table.to_pandas().columns) == table.columns
    flat = table.to_pandas(flat=True)
    assert any("." in name for name in flat.columns), list(flat.columns)


def test_nothing_else_is_loaded_with_the_package() -> None:
    script = (
        "import sys, seawall; "
        "print(*[m for m in ('pandas', 'polars', 'numpy', 'distributed', 'tqdm') "
        "if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
