"""Machines and designs with other numbers, and the lists of names."""

from __future__ import annotations

from pathlib import Path

import pytest
import seawall


def test_changes_become_the_text_that_commands_take() -> None:
    machine = seawall.machine("micro15", ghz=2.5, llc={"banks": 16}, memory={"nvm": {"read": 300}})
    assert machine == "micro15:ghz=2.5:llc.banks=16:memory.nvm.read=300"
    assert machine.parameters["memory"]["nvm"]["read"] == 300
    assert machine.parameters["core"] == seawall.machine("micro15").parameters["core"]
    assert seawall.machine("micro15", **{"core.count": 8}, cold=True).parameters["cold"] is True
    assert "banks = 16 " in machine.show() and "KiB" in machine.show()


def test_numbers_may_be_those_of_numpy_and_machines_paths(here: Path) -> None:
    class Scalar:
        """As NumPy has them."""

        def __init__(self, value: object) -> None:
            self.item = lambda: value

    assert seawall.machine("desktop", cold=Scalar(True)) == "desktop:cold=true"
    assert seawall.design("lbpp", epochs=Scalar(4)) == "lbpp:epochs=4"
    (here / "mine.toml").write_text(seawall.machine("desktop").show())
    mine = seawall.machine(Path("mine.toml"), ghz=1)
    assert mine == "mine.toml:ghz=1" and mine.parameters["ghz"] == 1
    table = seawall.compare(
        workloads="queue", designs="lb", machine=Path("mine.toml"), ops=5, crashes=0
    )
    assert len(table) == 1


def test_a_design_says_what_it_is_and_promises() -> None:
    design = seawall.design("lbpp", epochs=4)
    assert design == "lbpp:epochs=4" and design.parameters["epochs"] == 4
    assert design.model == "bep" and design.about and "epochs" in design.show()
    flawed = seawall.design("lbpp", flaw="acknowledges-early")
    assert flawed.parameters["flaw"] == "acknowledges-early"


@pytest.mark.parametrize(
    "call, named",
    [
        (lambda: seawall.machine("micro14"), "micro15, desktop"),
        (lambda: seawall.machine("micro15", core={"counts": 8}), "core.counts"),
        (lambda: seawall.machine("micro15", core={"count": 65}), "1 to 64"),
        (lambda: seawall.machine("micro15", core={"count": 2.5}), "count = 2.5; give a whole number"),
        (lambda: seawall.machine("micro15", ghz="x"), "ghz = x; give a number"),
        (lambda: seawall.machine("desktop", llc=3), "llc has several numbers; name one: llc.banks"),
        (lambda: seawall.machine("deskto"), "tip: a similar name exists: 'desktop'"),
        (lambda: seawall.design("lbqq"), "lb-idt"),
        (lambda: seawall.design("lbppp"), "tip: a similar name exists: 'lbpp'"),
        (lambda: seawall.design("lbpp", epochs=0), "epochs"),
        (lambda: seawall.design("lbpp", epochs="4"), "epochs=4 is a text; give a whole number"),
        (lambda: seawall.machine("desktop", llc={"banks": 10**30}), "give a smaller number"),
        (lambda: seawall.list("desings"), "designs, workloads"),  # type: ignore[arg-type]
    ],
)
def test_what_does_not_exist_is_named_at_once(call: object, named: str) -> None:
    assert callable(call)
    with pytest.raises(seawall.Error) as raised:
        call()
    assert named in str(raised.value)


def test_every_list_has_names_that_can_be_used() -> None:
    for name in seawall.list("designs"):
        assert seawall.design(name).about
    for name in seawall.list("machines"):
        assert seawall.machine(name).parameters["core"]["count"] >= 1
    assert {"queue", "hash"} <= set(seawall.list("workloads"))
    assert "radix" in seawall.list("kernels") and "px86" in seawall.list("models")
    assert "ycsb-a" in seawall.list("mixes") and seawall.list("corpus")
    assert "micro15-fig11" in seawall.list("figures")
    assert "bsp-sweep-quick" in seawall.list("experiments")
    assert "A01" in seawall.list("litmus") and "ctree" in seawall.list("applications")
