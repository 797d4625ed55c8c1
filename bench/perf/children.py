"""The processes of a measurement: each is started, asked, and ended with the `with` that it was made in."""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

from bench.perf import usage

ROOT: Final = Path(__file__).resolve().parent.parent.parent
"""The tree that this bench belongs to."""
_READY_WITHIN: Final = 120.0
_ANSWER_WITHIN: Final = 60.0
_END_WITHIN: Final = 10.0


class ChildFailed(Exception):
    """A process of the bench has ended, or does not answer; its last words are in the message."""


class Child:
    """One process that is measured, or that measures."""

    def __init__(self, name: str, process: subprocess.Popen[str], log: Path) -> None:
        self.name, self._process, self._log = name, process, log
        self.started = time.time()

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def usage(self) -> usage.Usage:
        """What it has used so far."""
        self.check()
        return usage.of(self.pid)

    def check(self) -> None:
        """Raises ChildFailed where it has ended."""
        if self._process.poll() is not None:
            raise ChildFailed(f"{self.name} has ended:\n{self._last_words()}")

    def ready(self) -> None:
        """Waits until it says so."""
        self._line(_READY_WITHIN)

    def ask(self, command: str) -> Any:  # noqa: ANN401 - whatever this command is answered with
        """One command, one answer."""
        pipe = self._pipe(self._process.stdin)
        pipe.write(command + "\n")
        pipe.flush()
        return json.loads(self._line(_ANSWER_WITHIN))

    def _line(self, within: float) -> str:
        pipe = self._pipe(self._process.stdout)
        readable, _, _ = select.select([pipe], [], [], within)
        line = pipe.readline() if readable else ""
        if not line:
            raise ChildFailed(f"{self.name} said nothing:\n{self._last_words()}")
        return line

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        if pipe is None:
            raise TypeError("this process has no pipe")
        return pipe

    def _last_words(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-8:])

    def end(self) -> None:
        """Ends it: politely, then not."""
        self._process.terminate()
        try:
            self._process.wait(_END_WITHIN)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


@contextmanager
def child(
    name: str, command: list[str], folder: Path, *, root: Path = ROOT, environ: dict[str, str]
) -> Iterator[Child]:
    """A process of this Python in the tree `root`; its log is in `folder`."""
    log = folder / f"{name}.log"
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(root), **environ}
    with log.open("w") as errors:
        process = subprocess.Popen(  # noqa: S603 - our own commands
            [sys.executable, "-P", *command],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    found = Child(name, process, log)
    try:
        yield found
    finally:
        found.end()


@contextmanager
def load(  # noqa: PLR0913 - what the load's command line has, each with its default
    folder: Path,
    shoots: int,
    nodes: int,
    *,
    odd: bool = False,
    services: int = 0,
    decided: int = 0,
    cut_every: int = 1,
    endpoint_mode: bool = False,
    events: bool = True,
    hostile: int = 0,
) -> Iterator[Child]:
    """The seed and its shoots; what clients need of them is in `folder`.

    Args:
        folder: where files go.
        shoots: how many there are.
        nodes: of each.
        odd: two odd shoots more.
        services: how many shoots have a service of their API server in the seed.
        decided: so many Pauses are in force, and so many ScaleRequests have ended.
        cut_every: each so manieth shoot loses its paths when all are told to.
        endpoint_mode: each shoot has an external address and a Secret for it, too.
        events: the program may write Events.
        hostile: so many shoots more, whose servers are not in this process.
    """
    command = ["-m", "bench.perf.load", f"--shoots={shoots}", f"--nodes={nodes}"]
    command += [f"--folder={folder}", f"--services={services}", f"--cut-every={cut_every}"]
    command += [f"--decided={decided}"]
    command += ["--odd"] if odd else []
    command += ["--endpoint-mode"] if endpoint_mode else []
    command += [] if events else ["--no-events"]
    command += [f"--hostile={hostile}"]
    with child("load", command, folder, environ={}) as found:
        found.ready()
        yield found


@contextmanager
def bare(folder: Path, interval: float) -> Iterator[Child]:
    """The bare loop over the shoots of `folder`."""
    command = ["-m", "bench.perf.bare", f"--folder={folder}", f"--interval={interval}"]
    with child("bare", command, folder, environ={}) as found:
        found.ready()
        yield found
