"""The cheapest LB++ that is nearly as fast as the best: Optuna searches, seawall measures.

    pip install optuna
    python examples/cheapest_lbpp.py [--trials 60] [--workloads hash,queue] [--ops 400]

Three numbers are varied: the epochs that a core may have in flight, the dependence and inform
registers of each, and the write queue of the memory controller. Two things are wanted: few cycles,
and few entries of hardware, by the price in `entries`, which is yours to change. Of all designs that
were tried, and that no crash broke, the cheapest within 2 % of the fastest is named.
"""

from __future__ import annotations

import argparse
import math
from typing import NamedTuple, Optional

import optuna
import seawall

CORES = 4


class Tried(NamedTuple):
    """A design on a machine, its price, and the geometric mean of the cycles of all workloads."""

    epochs: int
    registers: int
    queue: int
    entries: int
    cycles: float


def entries(epochs: int, registers: int, queue: int) -> int:
    """The price: a state and two kinds of registers for each epoch of each core, and the queue."""
    return CORES * epochs * (1 + 2 * registers) + queue


class Measure:
    """Runs each combination once, whoever asks for it again."""

    def __init__(self, workloads: str, ops: int, crashes: int) -> None:
        self._workloads, self._ops, self._crashes = workloads, ops, crashes
        self.known: dict[tuple[int, int, int], Tried] = {}

    def __call__(self, trial: optuna.Trial) -> tuple[float, float]:
        epochs = trial.suggest_int("epochs", 2, 16)
        registers = trial.suggest_int("registers", 0, 8)
        queue = trial.suggest_categorical("queue", [8, 16, 32, 64])
        tried = self.known.get((epochs, registers, queue))
        if tried is None:
            tried = self.known[epochs, registers, queue] = self._run(epochs, registers, queue)
        return tried.cycles, tried.entries

    def _run(self, epochs: int, registers: int, queue: int) -> Tried:
        table = seawall.compare(
            workloads=self._workloads,
            designs=seawall.design("lbpp", epochs=epochs, registers=registers),
            machine=seawall.machine("desktop", memory={"write_queue": queue}),
            ops=self._ops,
            crashes=self._crashes,
            progress=False,
        )
        if table.found:
            raise RuntimeError(f"a crash broke it:\n{table}")
        cycles = math.exp(sum(math.log(it["cycles"]) for it in table) / len(table))
        return Tried(epochs, registers, queue, entries(epochs, registers, queue), cycles)


def search(workloads: str, trials: int, ops: int, crashes: int) -> list[Tried]:
    """All combinations that were measured, the fastest first."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        directions=["minimize", "minimize"], sampler=optuna.samplers.TPESampler(seed=1)
    )
    measure = Measure(workloads, ops, crashes)
    # The most that there is of everything is what the others are held to.
    study.enqueue_trial({"epochs": 16, "registers": 8, "queue": 64})
    study.optimize(measure, n_trials=trials)
    return sorted(measure.known.values(), key=lambda tried: (tried.cycles, tried.entries))


def main(words: Optional[list[str]] = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workloads", default="hash,queue")
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--ops", type=int, default=400)
    parser.add_argument("--crashes", type=int, default=3)
    parser.add_argument("--within", type=float, default=2.0, help="per cent")
    options = parser.parse_args(words)
    tried = search(options.workloads, options.trials, options.ops, options.crashes)
    fastest = tried[0]
    near = [it for it in tried if it.cycles <= fastest.cycles * (1 + options.within / 100)]
    cheapest = min(near, key=lambda it: (it.entries, it.cycles))
    print(f"{len(tried)} combinations were measured")
    print("                epochs  registers  write queue  entries   cycles")
    for name, it in (("fastest", fastest), ("cheapest", cheapest)):
        print(
            f"{name:<14}{it.epochs:>8}{it.registers:>11}{it.queue:>13}{it.entries:>9}"
            f"{it.cycles / fastest.cycles:>9.3f}"
        )


if __name__ == "__main__":
    main()
