"""Names become addresses: in threads of our own, few of which slow names can hold.

`getaddrinfo` blocks, for half a minute where no resolver answers, and cannot be ended.  So it runs in no executor that
others wait for; one that nobody waits for any more goes on by itself, and whoever asks for the same name meanwhile
joins it.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

AT_ONCE: Final = 64
"""Lookups that run at the same time."""
SLOW_AT_ONCE: Final = 16
"""Those of them whose names were slow before."""
SLOW: Final = 2.0
"""Seconds after which a name is slow, until it is found faster."""
_MOST_SLOW: Final = 10_000
"""Names that are remembered as slow."""

Found = tuple[tuple[socket.AddressFamily, str], ...]
"""Addresses of a name, each once."""
Lookup = Callable[[str], Found]


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
    return tuple(dict.fromkeys((family, str(address[0])) for family, _, _, _, address in infos))


class Lookups:
    """The lookups of one pool of connections."""

    def __init__(self, ask: Lookup | None = None) -> None:
        """Needs a running event loop; `ask` (None: `look_up`) blocks, and is called in a thread."""
        self._look_up = ask or look_up
        self._loop = asyncio.get_running_loop()
        self._running: dict[str, asyncio.Future[Found]] = {}
        self._all, self._slow_ones = asyncio.Semaphore(AT_ONCE), asyncio.Semaphore(SLOW_AT_ONCE)
        self._slow: dict[str, None] = {}

    async def find(self, host: str) -> Found:
        """The addresses of a name: those of a lookup that already runs, or of a new one.

        Raises:
            OSError: there is none, or nobody who knows.
        """
        running = self._running.get(host) or await self._begin(host)
        return await asyncio.shield(running)

    async def _begin(self, host: str) -> asyncio.Future[Found]:
        """Waits for its turn, which lasts as long as the thread does, whoever still waits for that."""
        with ExitStack() as turn:
            for lane in (self._slow_ones, self._all) if host in self._slow else (self._all,):
                await lane.acquire()
                turn.callback(lane.release)
            running = self._running.get(host)  # somebody else may have had his turn before
            if running is None:
                running = self._start(host)
                running.add_done_callback(_let_go(turn.pop_all()))
            return running

    def _start(self, host: str) -> asyncio.Future[Found]:
        future: asyncio.Future[Found] = self._loop.create_future()
        begun = self._loop.time()

        def done(outcome: Found | Exception) -> None:
            del self._running[host]
            self._remember(host, self._loop.time() - begun)
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

        def run() -> None:
            outcome = self._outcome(host)
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(done, outcome)

        try:
            threading.Thread(target=run, name=f"lookup of {host}", daemon=True).start()
        except RuntimeError as error:
            raise OSError("there is no thread for a lookup") from error
        self._running[host] = future
        return future

    def _outcome(self, host: str) -> Found | Exception:
        try:
            return self._look_up(host)
        except Exception as error:  # noqa: BLE001 - it is raised where it is waited for
            return error

    def _remember(self, host: str, seconds: float) -> None:
        self._slow.pop(host, None)
        if seconds >= SLOW:
            self._slow[host] = None
            if len(self._slow) > _MOST_SLOW:
                del self._slow[next(iter(self._slow))]


def _let_go(turn: ExitStack) -> Callable[[asyncio.Future[Found]], None]:
    def ended(future: asyncio.Future[Found]) -> None:
        future.exception()  # seen, if nobody has waited for it
        turn.close()

    return ended
