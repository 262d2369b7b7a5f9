"""Functions give what the commands give, to the byte, and say what those say of mistakes."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import Any

import pytest
import seawall
from conftest import SWEEP, Command, without_times

import generate

#: Calls and what one would type for them.
SAME: list[tuple[Any, tuple[Any, ...], dict[str, Any], list[str]]] = [
    (
        seawall.compare,
        (),
        {"workloads": ["queue", "sps"], "designs": ["lb", seawall.design("lbpp", epochs=4)],
         "machine": seawall.machine("desktop", llc={"banks": 8}), "ops": 60, "crashes": 3},
        ["compare", "--workloads", "queue,sps", "--designs", "lb,lbpp:epochs=4",
         "--machine", "desktop:llc.banks=8", "--ops", "60", "--crashes", "3"],
    ),
    (
        seawall.kernels,
        (["lu:4", "radix:64"],),
        {"machine": "desktop", "designs": "bsp-lb", "crashes": 2, "threads": 2},
        ["kernels", "lu:4,radix:64", "--machine", "desktop", "--designs", "bsp-lb",
         "--crashes", "2", "--threads", "2"],
    ),
    (
        seawall.explore,
        ("queue",),
        {"ops": 3, "entries": 2, "seconds": 0, "model": ["px86"], "broken": True},
        ["explore", "queue", "--ops", "3", "--entries", "2", "--seconds", "0",
         "--model", "px86", "--broken"],
    ),
    (
        seawall.litmus,
        (["A01", "A02"],),
        {"crashes": 20},
        ["litmus", "A01", "A02", "--crashes", "20"],
    ),
    (
        seawall.reproduce,
        ("figure.toml",),
        {"quick": True},
        ["reproduce", "figure.toml", "--quick"],
    ),
]  # fmt: skip

FIGURE = """
title = "A test"
source = "no paper"
machine = "desktop"
metric = "throughput"
baseline = "lbpp"
tolerance = 0.5
workloads = ["queue", "sps"]
operations = 200

[[series]]
name = "LB"
design = "lb"
paper = 0.70
"""


@pytest.mark.parametrize("call, args, options, words", SAME, ids=[row[3][0] for row in SAME])
def test_a_function_finds_what_its_command_finds(
    call: Any,
    args: tuple[Any, ...],
    options: dict[str, Any],
    words: list[str],
    seawall_command: Command,
    here: Path,
) -> None:
    Path("figure.toml").write_text(FIGURE)
    code = 1 if "--broken" in words else 0
    printed = seawall_command(*words, "--json", "command.json", code=code)
    table = call(*args, **options, json="function.json")
    written = Path("command.json").read_text()
    assert without_times(table.to_json()) == without_times(written)
    assert table.found == bool(code) and table.complete
    if words[0] != "explore":
        assert table.to_json() == written
        assert Path("function.json").read_text() == written
        assert repr(table) == printed.rstrip("\n")


def test_the_functions_are_what_the_commands_say_of_themselves() -> None:
    if "SEAWALL_PYTHON_WRITE" in os.environ:
        generate.MODULE.write_text(generate.module())
    assert generate.MODULE.read_text() == generate.module(), (
        "an option of a command has changed: SEAWALL_PYTHON_WRITE=1 cargo run -p seawall-xtask -- "
        "python"
    )


def test_what_is_written_by_hand_has_the_options_of_its_command() -> None:
    (sweep,) = [command for command in generate.commands() if command["name"] == "sweep"]
    parameters = inspect.signature(seawall.sweep).parameters
    for option in sweep["options"]:
        assert generate.name_of(option) in parameters
        if option["flag"] not in (None, "jobs"):
            said = " ".join((seawall.sweep.__doc__ or "").split())
            assert option["help"] in said, option["help"]


def swept(**changes: Any) -> seawall.Table:
    return seawall.sweep({**SWEEP, **changes})


def factor(design: str) -> list[dict[str, object]]:
    return [{"name": "a factor", "design": design, "values": [50]}]


@pytest.mark.parametrize(
    "call, named",
    [
        (lambda: seawall.compare(workloads=["hsah"]), "hash, queue"),
        (lambda: seawall.compare(workloads=["queu"]), "tip: a similar name exists: 'queue'"),
        (lambda: seawall.reproduce("micro15-fig1"), "tip: a similar name exists: 'micro15-fig1"),
        (lambda: seawall.compare(workloads=[]), "workloads is empty"),
        (lambda: seawall.compare(designs=["lbpp:epocs=4"]), "epochs"),
        (lambda: seawall.compare(designs="lbpp:epocs=4"), "tip: a similar name exists: 'epochs'"),
        (lambda: seawall.compare(threads=0), "threads is 0"),
        (lambda: seawall.compare(ops=1 << 70), "for 'ops': give a smaller number"),
        (lambda: seawall.compare(workloads="queue,"), "for 'workloads': a name is missing"),
        (lambda: seawall.compare(trace_window="5"), "'5' for 'trace_window': trace_window is 5"),
        (lambda: seawall.compare(trace_window="5..6"), "not provided:\n  trace"),
        (lambda: seawall.compare(check="./x {pool}", workloads="queue"), "check is for programs of"),
        (lambda: seawall.explore("queue", check="./x"), "check is for programs of others; name one"),
        (lambda: seawall.explore(), "not provided:\n  workload"),
        (lambda: seawall.explore("queue", model="px86,"), "for 'model': a name is missing"),
        (lambda: seawall.corpus("zz"), "see `seawall.list('corpus')`"),
        (lambda: seawall.compare(program=[]), "a command has no words"),
        (lambda: seawall.compare(trace="run.json"), "trace is run.json"),
        (lambda: seawall.compare(mix="ycsb-z"), "ycsb-a"),
        (lambda: seawall.compare(json="/no/such/folder/x.json"), "/no/such/folder/x.json"),
        (lambda: seawall.explore("queue", model="px87"), "tip: a similar name exists: 'px86'"),
        (lambda: seawall.litmus(long=True, crashes=3), "cannot be used with"),
        (lambda: seawall.kernels("lu", machine="micro14"), "micro15, desktop"),
        (lambda: seawall.validate(machine="desktop:core.count=1"), "two cores or more"),
        (lambda: seawall.reproduce("no-figure"), "no figure 'no-figure'"),
        (lambda: seawall.sweep("no-sweep"), "no experiment 'no-sweep'"),
        (lambda: seawall.sweep("bsp-swep"), "tip: a similar name exists: 'bsp-sweep'"),
        (lambda: seawall.sweep({"title": "x"}), "missing field `machine`; `help(seawall.sweep)` has"),
        (lambda: swept(kernels="lu:8"), 'kernels: string "lu:8", expected a list'),
        (lambda: swept(factor={}), "factor: a table, expected a list"),
        (lambda: swept(factors=["all"]), "factors: list, expected a string"),
        (lambda: swept(crashes="2"), 'crashes: string "2", expected a whole number from 0'),
        (lambda: swept(designs=["bsp-lbp"]), "tip: a similar name exists: 'bsp-lbpp'"),
        (lambda: swept(kernels=["lu", "oceans"]), "tip: a similar name exists: 'ocean'"),
        (lambda: swept(factor=factor("stors")), "tip: a similar name exists: 'stores'"),
        (lambda: seawall.sweep(SWEEP, out="x.parquet", plot="x.parquet"), "out and plot name the"),
        (lambda: seawall.sweep("bsp-sweep-quick", jobs=0), "jobs is 0"),
    ],
)
def test_a_mistake_is_an_error_that_names_the_thing_and_the_remedy(
    call: Any, named: str, here: Path
) -> None:
    with pytest.raises(seawall.Error) as raised:
        call()
    message = str(raised.value)
    assert named in message, message
    assert not message.startswith(("error:", "--")) and "--help" not in message, message


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda it: it.compare(designs=3), "designs is 3; give a name, or several"),
        (lambda it: it.compare(workloads=[3]), "workloads has 3, which is no name: give texts"),
        (lambda it: it.compare(ops=True), "ops is True; give a whole number"),
        (lambda it: it.compare(ops="many"), "ops is 'many'; give a whole number"),
        (lambda it: it.compare(cold="yes"), "cold is 'yes'; give True or False"),
        (lambda it: it.compare(ribbon=3), "ribbon is 3; give a text, True or False"),
        (lambda it: it.compare(html=3), "html is 3; give a path"),
        (lambda it: it.compare(program=3), "program is 3; give a command, as a text or a list"),
        (lambda it: it.compare(machine=3), "machine is 3; give a path, or a text"),
        (lambda it: it.kernels(3), "kernels is 3; give a name, or several"),
        (lambda it: it.run("hash", seconds="2"), "seconds is '2'; give a number"),
        (lambda it: it.run(3), "workload is 3; give a text"),
        (lambda it: it.sweep(3), "experiment is 3; give a name, a path or a dictionary"),
        (lambda it: it.sweep("bsp-sweep-quick", jobs=1.5), "jobs is 1.5; give a whole number"),
        (lambda it: it.sweep({"a": [1, object]}), "experiment['a'][1] is <class 'object'>; give a"),
        (lambda it: it.sweep({"a": float("nan")}), "experiment['a'] is nan; give a number"),
        (lambda it: it.sweep({"a": None}), "experiment['a'] is None; give a number, a text"),
        (lambda it: it.sweep(SWEEP, executor=lambda: 3), "for executor gave 3; give one that makes"),
        (lambda it: it.compare(program=["a", 2.5]), "a command has 2.5; give texts"),
        (lambda it: it.compare(program=b"./x"), "program is b'./x'; give a command"),
        (lambda it: it.design(3), "3 is no name; give a text"),
        (lambda it: it.machine(3), "3 is no name; give a text"),
        (lambda it: it.open("x.pool", domain=3), "domain is 3; give a text"),
        (lambda it: it.open("x.pool", bytes_max="1"), "bytes_max is '1'; give a whole number"),
        (lambda it: it.open(3), "path is 3; give a path, or a text"),
        (lambda it: it.compare(progress={}), "progress is {}; give tqdm, one of its bars"),
        (lambda it: it.list(10**5000), "an int that is too long is no list"),
        (lambda it: it.compare(machine=10**5000), "machine is an int that is too long; give a"),
        (lambda it: it.list(3), "3 is no list; give a text, as 'designs'"),
    ],
)
def test_a_value_of_another_type_is_a_type_error_that_says_what_to_give(
    call: Any, message: str, here: Path
) -> None:
    with pytest.raises(TypeError) as raised:
        call(seawall)
    assert message in str(raised.value)
    assert not list(here.iterdir())


class OfBytes:
    """A path in bytes."""

    def __fspath__(self) -> bytes:
        return b"out.json"


WITHOUT_END: dict[str, Any] = {"a": {}}
WITHOUT_END["a"]["a"] = WITHOUT_END


@pytest.mark.parametrize(
    "call, named",
    [
        (lambda it: it.compare(machine="\ud800"), "machine is '\\ud800', which is no text"),
        (lambda it: it.kernels(["lu:4", "\ud800"]), "kernels is '\\ud800', which is no text"),
        (lambda it: it.compare(program=["a", "\ud800"]), "a word of the command is '\\ud800'"),
        (lambda it: it.compare(json="\ud800"), "json is '\\ud800', which is no text"),
        (lambda it: it.sweep("\ud800"), "experiment is '\\ud800', which is no text"),
        (lambda it: it.design("lbpp", epochs="\ud800"), "epochs is \"'\\ud800'\", which is no"),
        (lambda it: it.list("\ud800"), "what is '\\ud800', which is no text"),
        (lambda it: it.read("\ud800"), "path is '\\ud800', which is no text"),
        (lambda it: it.open("\ud800"), "path is '\\ud800', which is no text"),
        (lambda it: it.open("a\0b"), "no path has a zero in it"),
        (lambda it: it.read("a\0b"), "no path has a zero in it"),
        (lambda it: it.compare(ops=10**5000), "ops is an int that is too long"),
        (lambda it: it.machine("micro15", ghz=10**5000), "that is too long"),
        (lambda it: it.sweep({"a": 10**5000}), "experiment has what is no number"),
        (lambda it: it.sweep(WITHOUT_END), "experiment is a dictionary without an end"),
        (lambda it: it.machine("micro15", **WITHOUT_END), "micro15 are tables without an end"),
        (lambda it: it.sweep(SWEEP, jobs=-1), "jobs is -1; give a number from 0"),
        (lambda it: it.open("x.pool", log_bytes=1 << 64), "log_bytes is 18446744073709551616; give"),
        (lambda it: it.read("/dev/zero"), "it is a device"),
    ],
)
def test_what_no_command_can_be_given_is_an_error_that_names_it(
    call: Any, named: str, here: Path
) -> None:
    with pytest.raises(seawall.Error) as raised:
        call(seawall)
    assert named in str(raised.value)
    assert not list(here.iterdir())


def test_paths_are_those_of_their_objects(here: Path) -> None:
    (here / "out.json").touch()
    (entry,) = os.scandir(".")
    one: dict[str, Any] = {"workloads": "queue", "designs": "lb", "ops": 2, "crashes": 0}
    for path in (entry, OfBytes()):
        table = seawall.compare(**one, json=path)  # type: ignore[arg-type]
        assert (here / "out.json").read_text() == table.to_json()
        (here / "out.json").write_text("")
    assert [it.name for it in here.iterdir()] == ["out.json"]


@pytest.mark.parametrize("kind", ["a pipe", "a device", "long"])
def test_a_description_is_an_ordinary_file_of_some_length(kind: str, here: Path) -> None:
    path = here / "x.toml"
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a device":
        path.symlink_to("/dev/zero")
    else:
        path.touch()
        os.truncate(path, 1 << 33)
    calls: list[Any] = [
        lambda: seawall.machine("x.toml"),
        lambda: seawall.compare(machine="x.toml"),
        lambda: seawall.sweep("x.toml"),
        lambda: seawall.reproduce("x.toml"),
        lambda: seawall.machine("micro15").__class__("x.toml").show(),
    ]
    for call in calls:
        with pytest.raises(seawall.Error, match="no ordinary file|more than 16777216 bytes"):
            call()
    # What is read is looked at for machines that it names.
    with pytest.raises(seawall.Error, match="nope"):
        seawall.compare(program="./nope", input="x.toml")


def test_an_exploration_may_have_all_the_time_that_there_is() -> None:
    assert seawall.explore("queue", ops=1, entries=1, seconds=(1 << 64) - 1).complete


def test_the_message_is_that_of_the_command(seawall_command: Command) -> None:
    said = seawall_command("compare", "--machine", "micro15:core.count=99", code=2)
    with pytest.raises(seawall.Error) as raised:
        seawall.compare(machine="micro15:core.count=99")
    assert said == f"error: {raised.value}\n"


def test_an_option_that_does_not_exist_is_refused_by_python() -> None:
    with pytest.raises(TypeError, match="desings"):
        seawall.compare(desings="lb")  # type: ignore[call-arg]
