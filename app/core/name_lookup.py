"""Resolves names in threads of its own, few of which slow names can occupy.

`getaddrinfo` blocks, for half a minute if no resolver answers, and cannot be cancelled. So it does not run in an
executor that anything else waits for. A lookup that nobody waits for any more goes on by itself, and a new caller for
the same name joins it. Answers are not cached.
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
"""Maximum concurrent lookups: a thread each, and each shoot has a name of its own."""
SLOW_AT_ONCE: Final = 16
"""Maximum concurrent lookups of names that were slow before."""
SLOW: Final = 4.5
"""Seconds after which a name counts as slow, until it is resolved faster."""
# Maximum number of names that are remembered as slow.
_MOST_SLOW: Final = 10_000


class IpAddress(NamedTuple):
    """One address of a name."""

    family: socket.AddressFamily
    text: str


Found = tuple[IpAddress, ...]
"""The addresses of a name, without duplicates."""
Ask = Callable[[str], Found]


def look_up(host: str) -> Found:
    """Asks the system's resolver; blocks.

    Raises:
        OSError: the name has no address, or no resolver answers.
    """
    try:
        infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    except UnicodeError as error:  # a label is too long for DNS
        raise socket.gaierror(socket.EAI_NONAME, "this is no name for DNS") from error
    # the scope of a link-local address is dropped: such addresses are of no use here
    found = (IpAddress(family, str(place[0])) for family, _, _, _, place in infos)
    return tuple(dict.fromkeys(found))


class _Lane:
    """The queue of slow names or that of the others, and how many more of them may run."""

    def __init__(self, at_once: int) -> None:
        self.free = at_once
        self.queue: OrderedDict[str, _Lookup] = OrderedDict()


class _Lookup:
    """The lookup of one name."""

    def __init__(self, host: str, lane: _Lane, number: int, answer: asyncio.Future[Found]) -> None:
        self.host, self.lane, self.answer = host, lane, answer
        self.number = number
        """Sequence number, for the order of arrival."""
        self.begun = False
        self.begun_at = 0.0
        """Start, in the event loop's time."""
        self.waiting: list[Callable[[], None]] = []
        """Callbacks of the waiting callers, called when the lookup begins."""

    def begins(self, now: float) -> None:
        self.begun, self.begun_at = True, now
        for tell in self.waiting:
            tell()

    def ends(self, outcome: Found | Exception) -> None:
        if isinstance(outcome, Exception):
            self.answer.set_exception(outcome)
            self.answer.exception()  # marks it as retrieved, in case nobody waits
        else:
            self.answer.set_result(outcome)


def _tell_nobody() -> None:
    pass


class Lookups:
    """Lookups with shared threads."""

    def __init__(
        self, ask: Ask | None = None, *, at_once: int = AT_ONCE, slow_at_once: int = SLOW_AT_ONCE
    ) -> None:
        """Starts nothing yet; needs a running event loop.

        Args:
            ask: blocks, and is called in a thread; None stands for `look_up`.
            at_once: maximum concurrent lookups.
            slow_at_once: maximum concurrent lookups of names that were slow before.
        """
        self._ask = ask or look_up
        self._loop = asyncio.get_running_loop()
        self._free = at_once
        self._lanes = self._quick, self._slow = _Lane(at_once), _Lane(slow_at_once)
        self._numbers = itertools.count()
        self._running: dict[str, _Lookup] = {}
        self._known_slow: dict[str, None] = {}

    async def find(self, host: str, begun: Callable[[], None] = _tell_nobody) -> Found:
        """Returns the addresses of a name, from a lookup in progress or a new one.

        Args:
            host: the name.
            begun: called when a thread starts to resolve the name, or at once if one already does.

        Raises:
            OSError: the name has no address, or no resolver answers.
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
        """Returns the lane whose first waiter came first, of those that may run another lookup."""
        lanes = [lane for lane in self._lanes if lane.free and lane.queue]
        return min(lanes, key=lambda lane: next(iter(lane.queue.values())).number, default=None)

    def _start(self, lookup: _Lookup) -> None:
        def run() -> None:
            outcome = self._outcome(lookup.host)
            with contextlib.suppress(RuntimeError):  # the loop is closed, so nobody waits any more
                self._loop.call_soon_threadsafe(self._ended, lookup, outcome)

        # a daemon, so that the process can end while a resolver is silent
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
        except Exception as error:  # noqa: BLE001 - raised to those who wait
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
