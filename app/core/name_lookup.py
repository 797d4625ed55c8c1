"""Names become addresses: in threads of our own, few of which slow names can hold.

`getaddrinfo` blocks, for half a minute where no resolver answers, and cannot be ended.  So it runs in no executor that
others wait for; one that nobody waits for any more goes on by itself, and whoever asks for the same name meanwhile
joins it.  Nothing is remembered of an answer.
"""

import asyncio
import contextlib
import itertools
import socket
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

AT_ONCE: Final = 256
"""Lookups that run at the same time: a thread each, and each shoot has a name of its own."""
SLOW_AT_ONCE: Final = 16
"""Those of them whose names were slow before."""
SLOW: Final = 4.5
"""Seconds after which a name is slow, until it is found faster."""
_MOST_SLOW: Final = 10_000
"""Names that are remembered as slow."""


class IpAddress(NamedTuple):
    """One address of a name."""

    family: socket.AddressFamily
    text: str


Found = tuple[IpAddress, ...]
"""Addresses of a name, each once."""
Ask = Callable[[str], Found]


def look_up(host: str) -> Found:
    """Asks the system; blocks.

    Raises:
        OSError: there is no address, or nobody who knows.
    """
    try:
        infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    except UnicodeError as error:  # a label that is too long for DNS
        raise socket.gaierror(socket.EAI_NONAME, "this is no name for DNS") from error
    # the scope of a link-local address is left out: they are of no use here
    found = (IpAddress(family, str(place[0])) for family, _, _, _, place in infos)
    return tuple(dict.fromkeys(found))


class _Lane:
    """Names of one kind, slow ones or others, that wait for their turn, and how many more may run."""

    def __init__(self, at_once: int) -> None:
        self.free = at_once
        self.queue: OrderedDict[str, _Lookup] = OrderedDict()


class _Lookup:
    """One name that is asked for."""

    def __init__(self, host: str, lane: _Lane, number: int, answer: asyncio.Future[Found]) -> None:
        self.host, self.lane, self.answer = host, lane, answer
        self.number = number
        """Who came first has the smallest."""
        self.begun = False
        self.begun_at = 0.0
        """As the event loop counts seconds."""
        self.waiting: list[Callable[[], None]] = []
        """Of each who waits, what tells him that it is begun."""

    def begins(self, now: float) -> None:
        self.begun, self.begun_at = True, now
        for tell in self.waiting:
            tell()

    def ends(self, outcome: Found | Exception) -> None:
        if isinstance(outcome, Exception):
            self.answer.set_exception(outcome)
            self.answer.exception()  # seen, if nobody waits for it
        else:
            self.answer.set_result(outcome)


def _tell_nobody() -> None:
    pass


class Lookups:
    """Lookups that share their threads."""

    def __init__(
        self, ask: Ask | None = None, *, at_once: int = AT_ONCE, slow_at_once: int = SLOW_AT_ONCE
    ) -> None:
        """Needs a running event loop; starts nothing.

        Args:
            ask: blocks, and is called in a thread; None: `look_up`.
            at_once: how many run at the same time.
            slow_at_once: how many of them, of names that were slow before.
        """
        self._ask = ask or look_up
        self._loop = asyncio.get_running_loop()
        self._free = at_once
        self._lanes = self._quick, self._slow = _Lane(at_once), _Lane(slow_at_once)
        self._numbers = itertools.count()
        self._running: dict[str, _Lookup] = {}
        self._known_slow: dict[str, None] = {}

    async def find(self, host: str, begun: Callable[[], None] = _tell_nobody) -> Found:
        """The addresses of a name: those of a lookup that already runs, or of a new one.

        Args:
            host: the name.
            begun: is called when a thread asks for the name, at once if one does; until then it waits for its turn.

        Raises:
            OSError: there is none, or nobody who knows.
        """
        lookup = self._running.get(host) or self._queued(host)
        lookup.waiting.append(begun)
        if lookup.begun:
            begun()
        else:
            self._begin_more()
        try:
            return await asyncio.shield(lookup.answer)
        finally:
            lookup.waiting.remove(begun)
            if not lookup.waiting and lookup.lane.queue.get(host) is lookup:
                del lookup.lane.queue[host]

    def _queued(self, host: str) -> _Lookup:
        for lane in self._lanes:
            if host in lane.queue:
                return lane.queue[host]
        lane = self._slow if host in self._known_slow else self._quick
        lookup = _Lookup(host, lane, next(self._numbers), self._loop.create_future())
        lane.queue[host] = lookup
        return lookup

    def _begin_more(self) -> None:
        while self._free and (lane := self._lane_in_turn()):
            _, lookup = lane.queue.popitem(last=False)
            try:
                self._start(lookup)
            except OSError as error:
                lookup.ends(error)

    def _lane_in_turn(self) -> _Lane | None:
        """That of who came first, of those that may run."""
        lanes = [lane for lane in self._lanes if lane.free and lane.queue]
        return min(lanes, key=lambda lane: next(iter(lane.queue.values())).number, default=None)

    def _start(self, lookup: _Lookup) -> None:
        def run() -> None:
            outcome = self._outcome(lookup.host)
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(self._ended, lookup, outcome)

        # a daemon: the end of the process does not wait for a resolver that is silent
        thread = threading.Thread(target=run, name=f"lookup of {lookup.host}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            raise OSError("there is no thread for a lookup") from error
        self._free -= 1
        lookup.lane.free -= 1
        self._running[lookup.host] = lookup
        lookup.begins(self._loop.time())

    def _outcome(self, host: str) -> Found | Exception:
        try:
            return self._ask(host)
        except Exception as error:  # noqa: BLE001 - it is raised where it is waited for
            return error

    def _ended(self, lookup: _Lookup, outcome: Found | Exception) -> None:
        self._free += 1
        lookup.lane.free += 1
        del self._running[lookup.host]
        self._remember(lookup.host, self._loop.time() - lookup.begun_at)
        lookup.ends(outcome)
        self._begin_more()

    def _remember(self, host: str, seconds: float) -> None:
        self._known_slow.pop(host, None)
        if seconds >= SLOW:
            self._known_slow[host] = None
            if len(self._known_slow) > _MOST_SLOW:
                del self._known_slow[next(iter(self._known_slow))]
