"""seawall: persistent-memory programs on simulated hardware, and every crash of a short run.

Each function is a command of the same name: its keyword arguments are the command's options, and
its result is a ``Table``, whose records are the lines of the command's ``--json``.

    >>> import seawall
    >>> table = seawall.compare(workloads="queue", designs=["lb", "lbpp"], ops=100)
    >>> table.columns[:2]
    ['workload', 'design']

Long work leaves the interpreter to other threads, shows progress (``progress=tqdm``), and ends with
Ctrl-C. What cannot be done raises ``Error``, whose message names the thing and the remedy.
"""

from ._call import Interrupted
from ._commands import (
    compare,
    corpus,
    explore,
    kernels,
    litmus,
    reproduce,
    run,
    validate,
    whisper,
)
from ._map import PoolMap
from ._names import Design, Machine, design, list, machine
from ._pool import Pool, Transaction, open
from ._seawall import Error, __version__, build
from ._sweep import sweep
from ._table import Records, Table, read
from ._typed import TypedMap

__all__ = [
    "Design",
    "Error",
    "Interrupted",
    "Machine",
    "Pool",
    "PoolMap",
    "Records",
    "Table",
    "Transaction",
    "TypedMap",
    "__version__",
    "build",
    "compare",
    "corpus",
    "design",
    "explore",
    "kernels",
    "list",
    "litmus",
    "machine",
    "open",
    "read",
    "reproduce",
    "run",
    "sweep",
    "validate",
    "whisper",
]
