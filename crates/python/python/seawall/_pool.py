"""Pools: named maps of bytes to bytes, or to records, in a file; they change in transactions."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from types import TracebackType
from typing import Literal, Optional, TypeVar, Union
from weakref import WeakValueDictionary

from ._seawall import Error, PoolFile
from ._typed import TypedMap, article

Key = Union[bytes, str]
V = TypeVar("V")
#: The map that says of what type the records of other maps are.
TYPES = "seawall.types"
Changes = dict[tuple[str, bytes], Optional[bytes]]
#: The pools that this process has opened, by their paths.
OPEN: WeakValueDictionary[str, Pool] = WeakValueDictionary()


def open(
    path: Union[str, os.PathLike[str]],
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
    if domain is not None and not isinstance(domain, str):
        raise TypeError(f"domain is {domain!r}; give 'line', 'page' or 'none'")
    place = os.path.realpath(path)
    try:
        pool = Pool(PoolFile(path, bytes_max, log_bytes, domain))
    except Error as error:
        if place in OPEN and not OPEN[place].is_closed:
            raise Error(
                f"{os.fspath(path)} is open in this process already: go on with that pool, or close it"
            ) from error
        raise
    OPEN[place] = pool
    return pool


class Pool(Mapping[str, "PoolMap"]):
    """An open pool: a mapping from names to maps. A map is there while it has an entry.

    A change outside a transaction is one of its own: it is durable when the statement ends.
    Transactions of several threads wait for each other; reads do not, and see what is committed.
    """

    def __init__(self, file: PoolFile) -> None:
        if not isinstance(file, PoolFile):
            raise TypeError("a pool is opened by seawall.open(path)")
        self._file = file
        #: Whether `close` was called.
        self.is_closed = False
        self._turn = threading.Lock()
        self._open: Optional[Changes] = None
        self._owner: Optional[int] = None
        self._has_types = file.count(TYPES) > 0

    @contextmanager
    def transaction(self) -> Iterator[Pool]:
        """All changes in the block happen, or none of them: one that raises changes nothing.

        They are durable when the block ends. In the block they are seen by this thread alone, and
        other threads wait with theirs. Until it ends they are in memory, so it should be short.
        """
        if self._owner == threading.get_ident():
            raise Error("this thread is in a transaction of the pool already; end that first")
        with self._turn:
            self._open, self._owner = {}, threading.get_ident()
            try:
                yield self
                changes = self._open
            finally:
                self._open, self._owner = None, None
            self._apply(changes)

    def _apply(self, changes: Changes) -> None:
        if changes:
            self._file.apply([(name, key, value) for (name, key), value in changes.items()])

    def _mine(self) -> Changes:
        """What this thread has changed in its transaction."""
        mine = self._open if self._owner == threading.get_ident() else None
        return {} if mine is None else mine

    def _change(self, name: str, key: bytes, value: Optional[bytes]) -> None:
        if self._owner == threading.get_ident() and self._open is not None:
            self._open[name, key] = value
            return
        with self._turn:
            self._apply({(name, key): value})

    def typed(self, name: str, kind: type[V], /) -> TypedMap[V]:
        """The map of that name with records instead of bytes: of a dataclass, or single values.

        Fields are bool, int (of 64 bits), float, str or bytes. The pool remembers the type; a map
        that holds something else is refused, unless it is empty.
        """
        return TypedMap(self, name, kind)

    @contextmanager
    def _in_transaction(self) -> Iterator[None]:
        """That of this thread, or one for this block alone."""
        if self._owner == threading.get_ident():
            yield
        else:
            with self.transaction():
                yield

    def _noted_type(self, name: str) -> Optional[str]:
        noted = PoolMap(self, TYPES).get(name)
        return None if noted is None else noted.decode()

    def _note_type(self, name: str, text: str) -> None:
        self._has_types = True
        PoolMap(self, TYPES)._put(name, text.encode())

    def __getitem__(self, name: str) -> PoolMap:
        if not isinstance(name, str):
            raise TypeError(f"a map has a name, and {name!r} is no text")
        if "\0" in name:
            raise Error(f"{name!r} has a zero in it; name a map without one")
        if name == TYPES:
            raise Error(f"{name!r} is the map of the types of the others; name a map otherwise")
        return PoolMap(self, name)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name != TYPES and len(self[name]) > 0

    def __iter__(self) -> Iterator[str]:
        names = dict.fromkeys(name for name, _ in self._file.counts())
        names.update(dict.fromkeys(name for name, _ in self._mine()))
        return iter([name for name in names if name != TYPES and len(self[name]) > 0])

    def __len__(self) -> int:
        return sum(1 for _ in self)

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
        self.is_closed = True
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
        return f"<seawall.Pool: {'closed' if self.is_closed else self.durability}>"


class PoolMap(MutableMapping[Key, bytes]):
    """A map of a pool. Keys and values are bytes; a key that is text is its UTF-8.

    Keys come in the order of their bytes.
    """

    def __init__(self, pool: Pool, name: str) -> None:
        self._pool = pool
        self._name = name

    def __getitem__(self, key: Key) -> bytes:
        wanted = _bytes_of(key)
        mine = self._pool._mine()
        if (self._name, wanted) in mine:
            value = mine[self._name, wanted]
        else:
            value = self._pool._file.get(self._name, wanted)
        if value is None:
            raise KeyError(key)
        return value

    def __setitem__(self, key: Key, value: bytes) -> None:
        if not isinstance(value, (bytes, bytearray, memoryview)):
            remedy = "; encode it" if isinstance(value, str) else ""
            raise TypeError(f"a value is bytes, not {article(type(value))}{remedy}")
        noted = self._pool._noted_type(self._name) if self._pool._has_types else None
        if noted is not None and len(self) > 0:
            raise Error(
                f"the map {self._name!r} holds {noted}, and bytes are none: change it by "
                "Pool.typed, or empty it first"
            )
        self._put(key, bytes(value))

    def _put(self, key: Key, value: bytes) -> None:
        self._pool._change(self._name, _bytes_of(key), value)

    def __delitem__(self, key: Key) -> None:
        wanted = _bytes_of(key)
        self[wanted]
        self._pool._change(self._name, wanted, None)

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, (bytes, str)):
            return False
        try:
            self[key]
        except KeyError:
            return False
        return True

    def _entries(self) -> dict[bytes, bytes]:
        """All entries, in order, with what this thread has changed."""
        mine = self._pool._mine()
        entries: dict[bytes, Optional[bytes]] = dict(self._pool._file.items(self._name))
        changed = {key: value for (name, key), value in mine.items() if name == self._name}
        if not changed:
            return {key: value for key, value in entries.items() if value is not None}
        entries.update(changed)
        return {key: value for key, value in sorted(entries.items()) if value is not None}

    def __iter__(self) -> Iterator[Key]:
        return iter(self._entries())

    def __len__(self) -> int:
        if not self._pool._mine():
            return self._pool._file.count(self._name)
        return len(self._entries())

    def clear(self) -> None:
        """Removes all entries, in one transaction."""
        if self._pool._owner == threading.get_ident():
            for key in self._entries():
                self._pool._change(self._name, key, None)
        else:
            with self._pool.transaction():
                self.clear()

    def __repr__(self) -> str:
        holds = "of a closed pool" if self._pool.is_closed else f"{len(self)} entries"
        return f"<seawall.PoolMap {self._name!r}: {holds}>"


def _bytes_of(key: Key) -> bytes:
    if isinstance(key, str):
        return key.encode()
    if isinstance(key, bytes):
        return key
    raise TypeError(f"a key is bytes or text, and {key!r} is neither")
