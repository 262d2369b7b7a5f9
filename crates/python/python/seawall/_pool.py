"""Pools: named maps of bytes to bytes, or to records, in a file; they change in transactions."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Literal, Optional, TypeVar
from weakref import WeakValueDictionary

from ._call import Path, check_types
from ._map import OfProcess, PoolMap
from ._said import check_number, path_of, shown, text_of
from ._seawall import Block, Error, PoolFile
from ._typed import TypedMap

V = TypeVar("V")
#: The pools that this process has opened, by their paths.
OPEN: WeakValueDictionary[str, Pool] = WeakValueDictionary()


def open(
    path: Path,
    /,
    *,
    bytes_max: Optional[int] = None,
    log_bytes: Optional[int] = None,
    domain: Optional[Literal["line", "page", "none"]] = None,
) -> Pool:
    """Opens the pool at ``path`` and recovers it after a crash; creates it if there is none.

    Raises ``Error`` if the file is no such pool, is damaged, or is open elsewhere.

    :param bytes_max: The most bytes of a new pool [default: 1 GiB; it costs no space before it is
        used]
    :param log_bytes: Bytes of each log of a new pool [default: 64 KiB]. A transaction that writes
        more takes space for its log that entries could have, until it is over.
    :param domain: What a committed change survives: ``line`` (a killed process; a power failure
        only on persistent memory), ``page`` (a power failure, by ``msync``), ``none`` [default:
        what fits the file; ``Pool.durability`` says it]
    """
    check_types(open, locals())
    check_number("bytes_max", bytes_max)
    check_number("log_bytes", log_bytes)
    path = path_of("path", path)
    place = os.path.realpath(path)
    domain_name = None if domain is None else text_of("domain", domain)
    try:
        pool = Pool(PoolFile(path, bytes_max, log_bytes, domain_name))
    except Error as error:
        other = OPEN.get(place)
        if other is not None and other._file.is_open():
            raise Error(
                f"{path} is open in this process already: go on with that pool, or close it"
            ) from error
        raise
    OPEN[place] = pool
    return pool


class Maps(OfProcess, Mapping[str, "PoolMap"]):
    """A mapping from names to maps, of a pool or of what it is in a transaction."""

    _file: PoolFile

    @property
    def _block(self) -> Optional[Block]:
        """The transaction that is seen and changed; if none, that whose block a call is in."""
        return None

    def typed(self, name: str, kind: type[V], /) -> TypedMap[V]:
        """The map of that name with records instead of bytes: of a dataclass, or single values.

        Fields are bool, int (of 64 bits), float, str or bytes. The pool remembers the type; a map
        that holds something else is refused, unless it is empty.
        """
        return TypedMap(self._file, self._block, self._name(name), kind)

    def _name(self, name: str) -> str:
        if not isinstance(name, str):
            raise TypeError(f"a map has a name, and {shown(name)} is no text")
        try:
            return self._file.name(name)
        except UnicodeEncodeError:
            raise Error(f"{shown(name)} is no text that UTF-8 has; name a map otherwise") from None

    def __getitem__(self, name: str) -> PoolMap:
        return PoolMap(self._file, self._block, self._name(name))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._file.names(self._block)

    def __iter__(self) -> Iterator[str]:
        return iter(self._file.names(self._block))

    def __len__(self) -> int:
        return len(self._file.names(self._block))


class Pool(Maps):
    """An open pool: a mapping from names to maps. A map is there while it has an entry.

    A change outside a transaction is one of its own: it is durable when the statement ends.
    Changes and transactions of several threads wait for each other; reads do not, and see what is
    committed.
    """

    def __init__(self, file: PoolFile) -> None:
        if not isinstance(file, PoolFile):
            raise TypeError("a pool is opened by seawall.open(path)")
        self._file = file

    def transaction(self) -> Transaction:
        """All changes in the block happen, or none of them: one that raises changes nothing.

        They are durable when the block ends. In the block they are seen by its own statements
        alone, with what these call, and other threads wait with theirs. Until it ends they are in
        memory, so it should be short::

            with pool.transaction() as tx:
                pool["users"]["ada"] = b"1815"  # a change of the transaction
                tx["visits"]["ada"] = b"1"  # another one

        ``tx`` is the pool as the transaction sees it, for whoever is handed it: other threads, and
        tasks and callbacks that the block does not call itself. It is over when the block is.

        A generator that yields in its block, or a task that awaits, leaves the transaction open. A
        change of the same thread that is not made in the block, nor by ``tx``, raises ``Error``
        then; a read sees what is committed. What a function of ``contextlib.contextmanager``
        begins before its ``yield`` is the block of whoever enters it. A generator that is dropped
        in its block changes nothing. A block that waits for another thread which changes the pool
        waits forever, and a warning says so after five seconds.
        """
        return Transaction(self._file)

    @property
    def is_closed(self) -> bool:
        """Whether the pool was closed, or is that of another process."""
        return not self._file.is_open()

    @property
    def durability(self) -> str:
        """What a committed change survives, in words."""
        return self._file.durability()[0]

    @property
    def survives_power_failure(self) -> bool:
        """Whether a committed change survives a power failure."""
        return self._file.durability()[1]

    @property
    def bytes_used(self) -> int:
        """Bytes of the file that are in use."""
        return self._file.bytes_used()

    def close(self) -> None:
        """Closes the pool; what is committed stays, and an open transaction does not happen."""
        self._file.close()

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        try:
            return f"<seawall.Pool: {self.durability}>"
        except Error as error:
            return f"<seawall.Pool: {error}>"


class Transaction(Maps, Block):
    """The pool as a transaction sees it, from the beginning of its block to the end."""

    def __init__(self, file: PoolFile) -> None:
        self._file = file

    @property
    def _block(self) -> Block:
        return self

    def __repr__(self) -> str:
        try:
            return f"<seawall.Transaction: {len(self)} maps>"
        except Error as error:
            return f"<seawall.Transaction: {error}>"
