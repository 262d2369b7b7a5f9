"""Programs that `seawall cc` has compiled: they run here as the command runs them."""

from __future__ import annotations

import os
import shutil
import subprocess
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Callable

import pytest
import seawall
from conftest import Command, without_times

SOURCES = Path(__file__).parents[2]
Compile = Callable[..., None]


@pytest.fixture
def compiled(
    here: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Compile:
    """Compiles a program of the repository into this folder."""
    if shutil.which("gcc") is None:
        pytest.skip("there is no gcc, which `seawall cc` compiles with")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))

    def compile(source: str, *more: str) -> None:
        command = [os.environ["SEAWALL_COMMAND"], "cc", "-O2", "-g", "-pthread", "-o"]
        command += [Path(source).stem, str(SOURCES / source), *more]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    return compile


HASH = "program/tests/programs/hash.c"
ENTRY = "cli/tests/programs/entry.c"


def test_compare_gives_the_records_of_the_command(
    compiled: Compile, seawall_command: Command
) -> None:
    compiled(HASH)
    words = ["--program", "./hash run {pool} 2 30 0", "--check", "./hash check {pool} 0",
             "--designs", "clwb,lb", "--crashes", "5", "--fence", "drain"]  # fmt: skip
    printed = seawall_command("compare", *words, "--json", "command.json")
    table = seawall.compare(
        program=["./hash", "run", "{pool}", 2, 30, 0],
        check="./hash check {pool} 0",
        designs=["clwb", "lb"],
        crashes=5,
        fence="drain",
    )
    assert table.to_json() == Path("command.json").read_text()
    assert repr(table) == printed.rstrip("\n")
    assert [record["design"] for record in table] == ["clwb", "lb"]


def test_kernels_and_profiles_are_those_of_the_command(
    compiled: Compile, seawall_command: Command
) -> None:
    compiled("program/tests/programs/radix.c")
    program = "./radix -p2 -n2000"
    words = ["--program", program, "--designs", "bsp-lb", "--crashes", "2", "--profile"]
    seawall_command("kernels", *words, "--json", "command.json")
    table = seawall.kernels(program=program, designs="bsp-lb", crashes=2, profile=True)
    assert table.to_json() == Path("command.json").read_text()


def test_a_planted_bug_is_found_by_crashes_with_a_function_as_the_check(
    compiled: Compile,
) -> None:
    compiled(ENTRY, "-DFLAW")
    options: dict[str, Any] = {"designs": "clwb", "crashes": 60}
    table = seawall.compare(program="./entry {pool}", check_entry=True, **options)
    assert table.found and "the value is" in repr(table)
    compiled(ENTRY)
    table = seawall.compare(program="./entry {pool}", check_entry="seawall_check", **options)
    assert not table.found


def test_explorations_find_what_the_command_finds(
    compiled: Compile, seawall_command: Command
) -> None:
    compiled(HASH)
    words = ["--program", "./hash run {pool} 1 8 1", "--check", "./hash check {pool} 1",
             "--models", "px86", "--seconds", "120"]  # fmt: skip
    seawall_command("explore", *words, "--json", "command.json", code=1)
    table = seawall.explore(
        program="./hash run {pool} 1 8 1",
        check=["./hash", "check", "{pool}", 1],
        model="px86",
        seconds=120,
        json="function.json",
    )
    assert table.found and "hash.c:" in repr(table)
    one, other = (Path(name).read_text() for name in ("function.json", "command.json"))
    assert without_times(one) == without_times(other)


def run_entry() -> str:
    return seawall.compare(program="./entry {pool}", designs="clwb,lb").to_json()


def test_several_programs_are_given_by_their_names(compiled: Compile) -> None:
    compiled(HASH)
    table = seawall.compare(
        program={"four": "./hash run {pool} 4 20 0", "two": ["./hash", "run", "{pool}", 2, 20, 0]},
        check={"two": "./hash check {pool} 0"},
        designs="clwb",
        crashes=2,
    )
    assert [table[at]["name"] for at in range(2)] == ["four", "two"]
    # The last of them is at the end of the run.
    assert [table[at]["crashes"] for at in range(2)] == [None, 3]


def test_programs_run_from_processes_of_an_executor_too(compiled: Compile) -> None:
    import multiprocessing

    compiled(ENTRY)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as executor:
        assert executor.submit(run_entry).result() == run_entry()


def test_mistakes_are_named(compiled: Compile) -> None:
    compiled(ENTRY)
    with pytest.raises(seawall.Error, match="no-such-program"):
        seawall.compare(program="./no-such-program {pool}")
    with pytest.raises(seawall.Error, match="seawall cc"):
        seawall.compare(program="ls {pool}")
    with pytest.raises(seawall.Error, match="not provided:\n  .check.check_entry"):
        seawall.explore(program="./entry {pool}")
