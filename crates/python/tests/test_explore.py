"""An exploration by workers finds what one process finds, with the same counts."""

from __future__ import annotations

import json
import multiprocessing
import os
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


def test_a_pool_whose_process_dies_is_made_again(whole: dict[bool, seawall.Table]) -> None:
    made: list[ProcessPoolExecutor] = []

    def make() -> ProcessPoolExecutor:
        made.append(processes())
        return made[-1]

    table = seawall.explore(**SOUND, executor=make, progress=kill_one_at(2))
    assert len(made) == 2
    assert without_times(table.to_json()) == without_times(whole[False].to_json())


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
