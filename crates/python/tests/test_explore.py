"""An exploration by workers finds what one process finds, with the same counts."""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import re
import signal
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import seawall
from conftest import without_times
from test_sweep import Altered, Backwards, kill_one_at

SPAWN = multiprocessing.get_context("spawn")

#: Explorations of some seconds on one core, and whether they find something.
SOUND: dict[str, Any] = {"workload": "hash", "ops": 4, "entries": 2, "searchers": 6}
BROKEN: dict[str, Any] = {
    "workload": "queue", "threads": 2, "ops": 2, "entries": 2, "broken": True, "searchers": 5,
}  # fmt: skip


@pytest.fixture(scope="module")
def whole() -> dict[bool, seawall.Table]:
    """What one process finds, by whether it finds something."""
    return {
        options is BROKEN: seawall.explore(**options, seconds=0) for options in (SOUND, BROKEN)
    }


def processes() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(2, mp_context=SPAWN)


@pytest.mark.parametrize("options", [SOUND, BROKEN], ids=["sound", "broken"])
@pytest.mark.parametrize(
    "make", [lambda: ThreadPoolExecutor(3), processes, Backwards],
    ids=["threads", "processes", "backwards"],
)  # fmt: skip
def test_parts_make_up_what_one_process_finds(
    options: dict[str, Any], make: Any, whole: dict[bool, seawall.Table], here: Path
) -> None:
    executor = make()
    table = seawall.explore(**options, executor=executor, json="x.json")
    assert without_times(table.to_json()) == without_times(whole[options is BROKEN].to_json())
    assert table.found == (options is BROKEN) and table.complete
    assert repr(table) == repr(whole[options is BROKEN])
    assert (here / "x.json").read_text() == table.to_json()
    executor.shutdown()


def test_a_pool_whose_process_dies_is_made_again() -> None:
    # Long enough that parts are left when one is done.
    options = {**SOUND, "ops": 8, "seconds": 0}
    made: list[ProcessPoolExecutor] = []

    def make() -> ProcessPoolExecutor:
        made.append(processes())
        return made[-1]

    table = seawall.explore(**options, executor=make, progress=kill_one_at(1))
    assert len(made) == 2
    assert without_times(table.to_json()) == without_times(seawall.explore(**options).to_json())


def test_what_is_done_is_kept_for_the_same_call(
    whole: dict[bool, seawall.Table], here: Path
) -> None:
    def stop(done: int, total: int, note: str) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(seawall.Interrupted, match="3 of 6 parts were done; .* not in x.jsonl"):
        seawall.explore(
            **SOUND, executor=ThreadPoolExecutor(1), resume="x.jsonl", progress=stop
        )
    with open("x.jsonl", "a") as file:
        file.write('{"part": 5, "found": {"wh')
    told: list[int] = []
    table = seawall.explore(
        **SOUND,
        executor=ThreadPoolExecutor(1),
        resume="x.jsonl",
        progress=lambda done, total, note: told.append(done),
    )
    assert told == [4, 5, 6]
    assert without_times(table.to_json()) == without_times(whole[False].to_json())
    with pytest.raises(seawall.Error, match="x.jsonl does not hold parts of this exploration"):
        seawall.explore(**BROKEN, executor=ThreadPoolExecutor(1), resume="x.jsonl")
    (here / "x.jsonl").write_text("a letter\n")
    with pytest.raises(seawall.Error, match="x.jsonl"):
        seawall.explore(**SOUND, executor=ThreadPoolExecutor(1), resume="x.jsonl")
    assert (here / "x.jsonl").read_text() == "a letter\n"


def test_a_file_that_is_damaged_or_of_others_is_left_alone(here: Path) -> None:
    path = here / "x.jsonl"
    few: dict[str, Any] = {"workload": "queue", "ops": 1, "entries": 1, "searchers": 2}

    def again() -> seawall.Table:
        with ThreadPoolExecutor(1) as executor:
            return seawall.explore(**few, executor=executor, resume=path)

    whole = again()
    head, *parts = path.read_text().splitlines(keepends=True)
    assert len(parts) == 2
    for text in (
        "a letter without an end",
        head + "[]\n",
        head + '{"part": 2, "found": {}}\n',
        head + '{"part": -1, "found": {}}\n',
        head + '{"part": true, "found": {}}\n',
        head + '{"part": "0", "found": {}}\n',
        head + '{"part": 0, "found": 3}\n',
        head + "[" * 100_000 + "\n",
        head + "\n" + parts[0],
        "\ufeff" + head,
        parts[0],
    ):
        path.write_text(text)
        with pytest.raises(seawall.Error, match="x.jsonl"):
            again()
        assert path.read_text() == text
    for text in ("", head[:20], head, head + parts[1] + parts[0][:9], head + parts[0] * 2):
        path.write_text(text)
        assert without_times(again().to_json()) == without_times(whole.to_json())
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(seawall.Error, match="another exploration has it"):
            again()


def test_a_file_of_units_with_numbers_that_no_run_has_ends_without_a_panic(here: Path) -> None:
    few: dict[str, Any] = {"workload": "queue", "ops": 1, "entries": 1, "seconds": 0}
    seawall.explore(**few, resume="x.jsonl", threads=2, schedules=3)
    text = (here / "x.jsonl").read_text()
    assert text.count('"states":') > 1
    (here / "x.jsonl").write_text(re.sub(r'("(?!unit)[a-z_]+":)\d+', rf"\g<1>{(1 << 64) - 1}", text))
    try:
        seawall.explore(**few, resume="x.jsonl", threads=2, schedules=3)
    except seawall.Error as error:
        assert "has failed" not in str(error)
    with open("x.jsonl", "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(seawall.Error, match="another seawall is writing x.jsonl"):
            seawall.explore(**few, resume="x.jsonl", threads=2, schedules=3)


def test_what_cannot_be_done_by_workers_is_named() -> None:
    with ThreadPoolExecutor(1) as pool:
        for options, named in [
            ({"seconds": 3}, "leave out seconds"),
            ({"shard": "1/2"}, "leave out shard"),
            ({"json": "/no/such/folder/x"}, "/no/such/folder/x"),
            ({"searchers": 0}, "searchers is 0"),
        ]:
            with pytest.raises(seawall.Error, match=named):
                seawall.explore("queue", executor=pool, **options)  # type: ignore[arg-type]
        with pytest.raises(seawall.Error, match="hsah"):
            seawall.explore("hsah", executor=pool)
    with pytest.raises(seawall.Error, match=f"process {os.getpid()}.*install the same package"):
        seawall.explore("queue", executor=Altered(seawall.build(), "0" * 16))


def test_a_dask_cluster_whose_worker_is_killed_finds_the_same(
    whole: dict[bool, seawall.Table],
) -> None:
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    )
    with cluster, distributed.Client(cluster) as client:
        killed: list[int] = []

        def follow(done: int, total: int, note: str) -> None:
            if done >= 2 and not killed:
                killed.append(next(iter(client.run(os.getpid).values())))
                os.kill(killed[0], signal.SIGKILL)

        table = seawall.explore(**SOUND, client=client, progress=follow)
    assert killed
    assert without_times(table.to_json()) == without_times(whole[False].to_json())


def test_the_parts_share_the_work(whole: dict[bool, seawall.Table]) -> None:
    """No part has all units, and all together have each once."""
    from seawall import _seawall

    words = ["--seconds=0", "--ops=4", "--entries=2", "--searchers=6", "--", "hash"]
    units = [
        set(json.loads(_seawall.explore_part(words, part, _seawall.Stop()))["units"])
        for part in range(_seawall.explore_parts(words))
    ]
    assert len(units) == 6 and sum(map(len, units)) == len(set().union(*units))
    assert sum(1 for part in units if part) > 1
