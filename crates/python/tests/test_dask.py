"""Sweeps on real Dask clusters: workers are killed, come late, or have another build."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest
import seawall
from conftest import SWEEP, SWEEP_TOML, Command

distributed = pytest.importorskip("distributed")


def once_at(count: int, act: Callable[[], None]) -> Callable[[int, int, str], None]:
    """Does `act` when so many points are done."""
    acted: list[int] = []

    def follow(done: int, total: int, note: str) -> None:
        if done >= count and not acted:
            acted.append(done)
            act()

    return follow


def test_the_file_is_the_same_though_a_worker_is_killed(swept: bytes, here: Path) -> None:
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    )
    with cluster, distributed.Client(cluster) as client:
        killed: list[int] = []

        def kill() -> None:
            pid = next(iter(client.run(os.getpid).values()))
            killed.append(pid)
            os.kill(pid, signal.SIGKILL)

        table = seawall.sweep(SWEEP, out="out.jsonl", client=client, progress=once_at(4, kill))
        assert killed and table.complete
        assert (here / "out.jsonl").read_bytes() == swept
        deadline = time.monotonic() + 10
        while client.futures:
            assert time.monotonic() < deadline, "results stay in the memory of the cluster"
            time.sleep(0.05)


def test_a_worker_keeps_its_memory_from_point_to_point(here: Path) -> None:
    """Dask forbids that to the C library of its workers, which then asks for all anew."""
    points = 40
    small = {
        **SWEEP,
        "kernels": ["lu:2"],
        "designs": ["bsp-lbpp"],
        "crashes": 0,
        "factor": [{"name": "stores", "design": "stores", "values": list(range(50, 50 + points))}],
    }

    def faults() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

    cluster = distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None
    )
    with cluster, distributed.Client(cluster) as client:
        (setting,) = client.run(os.environ.get, "MALLOC_TRIM_THRESHOLD_").values()
        assert setting, "this version of Dask does not forbid it"
        seawall.sweep(small, out="first.jsonl", client=client)
        (before,) = client.run(faults).values()
        seawall.sweep(small, out="second.jsonl", client=client)
        (after,) = client.run(faults).values()
    assert (after - before) / points < 500, "pages that were mapped anew for each point"


class Cluster:
    """A scheduler and workers that are started one by one, as on several machines."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / "scheduler.json"
        self._processes: list[subprocess.Popen[bytes]] = []
        self._start("scheduler", "--port", "0", "--scheduler-file", str(self._file))
        deadline = time.monotonic() + 60
        while not self._file.exists():
            assert time.monotonic() < deadline, "no scheduler"
            time.sleep(0.05)

    def _start(self, what: str, *words: str, package: str = "") -> subprocess.Popen[bytes]:
        environment = {**os.environ, "PYTHONPATH": package} if package else dict(os.environ)
        module = f"distributed.cli.dask_{what}"
        process = subprocess.Popen(
            [sys.executable, "-m", module, *words, "--no-dashboard", "--host", "127.0.0.1"],
            cwd=self._folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._processes.append(process)
        return process

    def worker(self, package: str = "") -> subprocess.Popen[bytes]:
        words = ("--scheduler-file", str(self._file), "--nthreads", "1", "--no-nanny")
        return self._start("worker", *words, package=package)

    def address(self) -> str:
        address: str = json.loads(self._file.read_text())["address"]
        return address

    def client(self) -> Any:
        return distributed.Client(scheduler_file=str(self._file))

    def end(self) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.end()


@pytest.fixture(scope="session")
def other_build(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The package again, as another build: its module has a byte more."""
    folder = tmp_path_factory.mktemp("other")
    shutil.copytree(Path(seawall.__file__).parent, folder / "seawall")
    (module,) = (folder / "seawall").glob("_seawall*.so")
    with module.open("ab") as file:
        file.write(b"\0")
    return str(folder)


def test_workers_die_come_late_or_are_of_another_build(
    cluster: Cluster, other_build: str, swept: bytes, here: Path
) -> None:
    first = cluster.worker()
    cluster.worker(package=other_build)
    with cluster.client() as client:
        client.wait_for_workers(2, timeout=60)

        def replace() -> None:
            """The only worker of this build goes, with a point that it has done, and another comes."""
            time.sleep(1)
            first.kill()
            cluster.worker()

        with pytest.warns(UserWarning, match="worker tcp://.* has build .* gets nothing to do"):
            seawall.sweep(SWEEP, out="out.jsonl", client=client, progress=once_at(3, replace))
    assert (here / "out.jsonl").read_bytes() == swept


def test_a_cluster_of_another_build_alone_is_refused(
    cluster: Cluster, other_build: str, here: Path
) -> None:
    cluster.worker(package=other_build)
    with cluster.client() as client:
        client.wait_for_workers(1, timeout=60)
        with pytest.warns(UserWarning), pytest.raises(seawall.Error) as raised:
            seawall.sweep(SWEEP, out="out.jsonl", client=client)
    assert "worker tcp://" in str(raised.value) and seawall.build() in str(raised.value)
    assert "install the same package" in str(raised.value)


def test_workers_that_come_later_than_the_sweep_are_waited_for(
    cluster: Cluster, swept: bytes, here: Path
) -> None:
    with cluster.client() as client:
        timer = threading.Timer(1.5, cluster.worker)
        timer.start()
        seawall.sweep(SWEEP, out="out.jsonl", client=client)
        timer.join()
    assert (here / "out.jsonl").read_bytes() == swept


def test_the_executor_of_a_client_will_do_too(swept: bytes, here: Path) -> None:
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
        client.get_executor() as executor,
    ):
        seawall.sweep(SWEEP, out="out.jsonl", executor=executor)
    assert (here / "out.jsonl").read_bytes() == swept


def test_the_command_runs_a_sweep_on_a_cluster(
    cluster: Cluster,
    swept: bytes,
    here: Path,
    seawall_command: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (here / "x.toml").write_text(SWEEP_TOML)
    printed = seawall_command("sweep", "x.toml", "--out", "alone.jsonl", "--plot", "alone.svg")
    monkeypatch.setenv("SEAWALL_PYTHON", sys.executable)
    cluster.worker()
    words = ("sweep", "x.toml", "--dask", cluster.address(), "--out", "out.jsonl")
    assert seawall_command(*words, "--plot", "plot.svg") == printed
    assert (here / "out.jsonl").read_bytes() == swept
    assert (here / "plot.svg").read_bytes() == (here / "alone.svg").read_bytes()


def test_what_the_command_lacks_for_a_cluster_is_named(
    here: Path, seawall_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "x.toml").write_text(SWEEP_TOML)
    words = ("sweep", "x.toml", "--dask", "tcp://127.0.0.1:9")
    for name, named in [
        ("/no/such/python", "cannot run /no/such/python.*SEAWALL_PYTHON"),
        (os.path.realpath(sys.executable), "has no package .*: .*pip install"),
        (sys.executable, "no Dask scheduler answers at tcp://127.0.0.1:9 .*dask scheduler"),
    ]:
        monkeypatch.setenv("SEAWALL_PYTHON", name)
        said = seawall_command(*words, code=2)
        assert re.search(named, said.replace("\n", " ")), said
    assert "'lus'" in seawall_command("sweep", "lus", "--dask", "tcp://127.0.0.1:9", code=2)
    assert not (here / "x.jsonl").exists()
