"""A table is a sequence of records, what the command prints, and a table of other libraries."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import seawall
from test_examples import MORE


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
    pytest.importorskip("pandas", reason=MORE)
    assert list(table.to_pandas().columns) == table.columns
    flat = table.to_pandas(flat=True)
    assert any("." in name for name in flat.columns), list(flat.columns)


def test_a_table_and_an_interruption_can_go_to_another_process(table: seawall.Table) -> None:
    there = pickle.loads(pickle.dumps(table))
    assert there == table and there.to_json() == table.to_json() and type(there) is seawall.Table
    assert (there.text, there.notes, there.plots()) == (table.text, table.notes, table.plots())
    assert (there.found, there.complete, repr(there)) == (False, True, repr(table))
    assert copy.deepcopy(there) == table
    stopped = pickle.loads(pickle.dumps(seawall.Interrupted("stopped", table)))
    assert stopped.partial == table and str(stopped) == "stopped"


def test_records_of_which_none_is_left_keep_their_columns(table: seawall.Table) -> None:
    nothing = table.where(lambda it: False)
    assert len(nothing) == 0 and nothing.columns == table.columns
    with pytest.raises(seawall.Error, match="there are no records to draw"):
        nothing.plot("design", "cycles")
    with pytest.raises(TypeError, match="keep is .*; give a function of a record"):
        table.where("design == 'lb'")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="3 is no column"):
        table.plot(3, "cycles")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="ax is 3; give axes"):
        table.plot("design", "cycles", ax=cast(Any, 3))
    polars = pytest.importorskip("polars")
    assert nothing.to_polars().columns == table.columns and polars


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(it) for key, it in value.items() if it is not None}
    return [without_nulls(it) for it in value] if isinstance(value, list) else value


@pytest.mark.parametrize("other", ["pyarrow", "polars"])
def test_a_parquet_file_has_the_records(
    other: str, table: seawall.Table, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By each of the two packages, without the other one."""
    pytest.importorskip({"pyarrow": "polars", "polars": "pyarrow"}[other])
    monkeypatch.setitem(sys.modules, other, None)
    table.to_parquet("x.parquet")
    read = seawall.read("x.parquet")
    assert without_nulls(read.to_dicts()) == without_nulls(table.to_dicts())
    assert read.columns == table.columns and len(read) == 2
    assert [path.name for path in here.iterdir()] == ["x.parquet"]
    with pytest.raises(seawall.Error, match="no/such/folder"):
        table.to_parquet("no/such/folder/x.parquet")


def test_json_lines_are_read_as_they_were_written(table: seawall.Table, here: Path) -> None:
    (here / "x.jsonl").write_text(table.to_json())
    read = seawall.read("x.jsonl")
    assert read == table and read.to_json() == table.to_json()
    (here / "x.jsonl").write_text('{"a": 1}\n[]\n')
    with pytest.raises(seawall.Error, match="x.jsonl .line 2 is no record.: give a file of"):
        seawall.read("x.jsonl")
    for missing in ("no.jsonl", "no.parquet"):
        with pytest.raises(seawall.Error, match=missing):
            seawall.read(missing)


def test_printed_on_a_narrow_terminal_it_leaves_columns_out_and_says_so(
    table: seawall.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert repr(table) == table.text.rstrip("\n"), "standard output is no terminal here"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    lines = repr(table).splitlines()
    head = next(line for line in lines if line.startswith("workload"))
    assert len(head) <= 60 and "mostly" not in head
    assert "left out" in repr(table) and "or `.text`" in " ".join(lines)
    assert "mostly" in table.text and "left out" not in table.text


def test_a_chart_has_a_curve_or_bars_for_each_value_of_a_column(table: seawall.Table) -> None:
    matplotlib = pytest.importorskip("matplotlib", reason=MORE)
    matplotlib.use("svg")
    curves = table.plot("seed", "stalls.idle", by="design")
    assert [line.get_label() for line in curves.get_lines()] == ["lb", "lbpp"]
    assert curves.get_lines()[1].get_ydata() == [table[1]["stalls"]["idle"]]
    bars: Any = table.plot("workload", "relative", by="design")
    assert [bar.get_height() for bar in bars.patches] == [row["relative"] for row in table]
    assert [label.get_text() for label in bars.get_xticklabels()] == ["queue"]
    assert table.plot("design", "cycles", ax=bars) is bars
    with pytest.raises(seawall.Error, match="no record has a number 'design' beside 'seed'"):
        table.plot("seed", "design")


def test_a_chart_of_a_wrong_column_or_of_two_records_at_one_place_is_refused(
    table: seawall.Table,
) -> None:
    for columns, named in (
        (("sed", "cycles", None), "'sed'; known: .*tip: a similar name exists: 'seed'"),
        (("seed", "cycels", None), "'cycels'; known: .*similar name exists: 'cycles'"),
        (("seed", "cycles", "desgn"), "'desgn'; known: .*similar name exists: 'design'"),
        (("workload", "cycles", None), "several records have workload=queue; .* differ in design"),
    ):
        x, y, by = columns
        with pytest.raises(seawall.Error, match=f"(?s){named}"):
            table.plot(x, y, by=by)


def test_some_of_the_records_are_chosen_with_their_lines(table: seawall.Table) -> None:
    some = table.where(lambda record: record["design"] == "lbpp")
    assert [record["design"] for record in some] == ["lbpp"]
    assert some.to_json() == table.to_json().splitlines(keepends=True)[1]


@pytest.mark.parametrize("call, package", [("to_pandas", "pandas"), ("to_polars", "polars")])
def test_without_their_package_tables_and_charts_are_refused_by_a_remedy(
    table: seawall.Table, monkeypatch: pytest.MonkeyPatch, call: str, package: str
) -> None:
    for name in ("pandas", "polars", "matplotlib"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(seawall.Error, match=f"{call} needs {package}: pip install {package}"):
        getattr(table, call)()
    with pytest.raises(seawall.Error, match="plot needs matplotlib: pip install matplotlib"):
        table.plot("design", "cycles")


def test_without_a_package_for_it_parquet_is_refused_by_a_remedy(
    table: seawall.Table, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("polars", "pyarrow"):
        monkeypatch.setitem(sys.modules, name, None)
    for call in (
        lambda: table.to_parquet("x.parquet"),
        lambda: seawall.read("x.parquet"),
        lambda: seawall.sweep("bsp-sweep-quick", out="x.parquet"),
    ):
        with pytest.raises(seawall.Error, match="needs polars or pyarrow: pip install polars"):
            call()
    assert not list(here.iterdir())


def test_nothing_else_is_loaded_with_the_package() -> None:
    script = (
        "import sys, seawall; "
        "print(*[m for m in ('pandas', 'polars', 'pyarrow', 'numpy', 'distributed', 'tqdm', "
        "'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
