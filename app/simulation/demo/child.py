"""The program under demonstration: a process of its own that never outlives this one."""

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Self

import app
from app.core.config.environment import ENV_PREFIX
from app.core.errors import WatchdogError
from app.core.runtime.children import tied_to

_PATIENCE: Final = 0.5
"""Seconds from the signal to end until it is killed."""
_LAST_LINES: Final = 15


class ChildDied(WatchdogError):
    """The program has ended by itself; the message has the end of its log."""


class Child:
    """`dwd` with some arguments, its output in a log file."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self._log = log

    @classmethod
    async def start(cls, argv: Sequence[str], environ: Mapping[str, str], log: Path) -> Self:
        """Starts it in a session of its own, so that Ctrl-C reaches this process alone.

        Args:
            argv: its arguments.
            environ: the environment; `DWD_*` is left out, as its flags say all.
            log: the file for what it says, after what is there.

        Raises:
            ChildDied: it cannot be started.
        """
        try:
            with log.open("ab") as output:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-P", "-m", app.__name__, *argv),
                    env=_environment(environ),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                    preexec_fn=tied_to(os.getpid()),
                )
        except OSError as error:
            raise ChildDied(f"the program cannot be started: {error}") from error
        return cls(process, log)

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    async def died(self) -> None:
        """Waits until it has ended.

        Raises:
            ChildDied: always.
        """
        code = await self._process.wait()
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        raise ChildDied("\n".join((f"the program has ended {how}; its log ends:", *self._end())))

    async def stop(self) -> None:
        """Ends it: it is asked first, and killed where that takes too long."""
        if self._process.returncode is not None:
            return
        self._process.terminate()
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    def _end(self) -> list[str]:
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        return [f"    {line}" for line in lines[-_LAST_LINES:]]


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Ours, so that it is the same code that runs, wherever we were started."""
    kept = {name: value for name, value in environ.items() if not name.startswith(ENV_PREFIX)}
    root = str(Path(app.__file__).parent.parent)
    return {**kept, "PYTHONPATH": os.pathsep.join(filter(None, (root, kept.get("PYTHONPATH"))))}
