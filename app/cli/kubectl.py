"""The operator's kubectl: it forwards a port, and asks the seed in the operator's name.

kubectl knows how its user logs in to a cluster: kubeconfigs that are merged, certificates, login plugins with their
questions, proxies, acting as somebody else. None of that is done here.

It is a child process that does not outlive this one: if this process is killed, the kernel kills the child (on Linux).
Only a process that a wrapper of kubectl has started is left then; a regular `stop` ends that one, too.
"""

import asyncio
import contextlib
import ctypes
import json
import os
import re
import shutil
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final, Self

from app.cli.problems import CommandFailed, Exit, NoAnswer
from app.core.config.client_settings import ClientSettings
from app.core.config.flags import ENV_PREFIX
from app.core.errors import ConfigurationError, Mistake, trimmed

# PR_SET_PDEATHSIG of prctl(2).
_SET_DEATH_SIGNAL: Final = 1


def tied_to(parent: int) -> Callable[[], None] | None:
    """Make a `preexec_fn` that has the kernel kill the child when the process `parent` ends in any way.

    Returns:
        None on systems other than Linux, which have no such signal.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl

    def tie() -> None:
        prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:  # the parent ended before prctl: the signal would never come
            os._exit(1)

    return tie


class KubectlFailed(CommandFailed):
    """kubectl has failed at a request; the message is its own."""

    def __init__(self, message: str) -> None:
        found = _REASON.match(message)
        self.reason = "Unauthorized" if message.startswith(_UNKNOWN) else found and found[1]
        """As in a Status of Kubernetes, such as Forbidden; None where the API server has not answered."""
        self.said = trimmed(message[found.end() :] if found else message, 300)
        passing = self.reason in _PASSING or message.startswith(_AWAY)
        super().__init__(Exit.FAILED, self.said, passing=passing)


_REASON: Final = re.compile(r"Error from server \((\w+)\): ")
_UNKNOWN: Final = "error: You must be logged in to the server"
_AWAY: Final = ("Unable to connect to the server", "The connection to the server")
_ERRORS: Final = (
    *_AWAY,
    "Error from server",
    "error: ",
    "The request is invalid",
    "The ServiceAccount ",
)
"""How kubectl begins to say that it has failed; everything else on standard error is for the operator."""
_PASSING: Final = frozenset({"InternalError", "ServiceUnavailable", "Timeout", "TooManyRequests"})


@dataclass(frozen=True, slots=True)
class Kubectl:
    """How to call kubectl."""

    path: str
    environ: Mapping[str, str]
    kubeconfig: Path | None = None
    context: str | None = None

    @classmethod
    def chosen(cls, settings: ClientSettings, environ: Mapping[str, str], needs: str) -> Self:
        """The kubectl in PATH, with the kubeconfig and the context of the flags; `needs`: the flag that needs it.

        Raises:
            ConfigurationError: there is none.
        """
        path = shutil.which("kubectl", path=environ.get("PATH"))
        if path is None:
            missing = Mistake(None, needs, "needs kubectl, which is not in PATH")
            raise ConfigurationError("dwd", [missing])
        return cls(path, environ, settings.kubeconfig, settings.context)

    async def start(self, *words: str, **streams: Any) -> asyncio.subprocess.Process:  # noqa: ANN401 - as asyncio's
        """Start it with these arguments.

        Raises:
            NoAnswer: it cannot be started.
        """
        chosen = [] if self.kubeconfig is None else [f"--kubeconfig={self.kubeconfig}"]
        chosen += [] if self.context is None else [f"--context={self.context}"]
        try:
            return await asyncio.create_subprocess_exec(
                self.path,
                *chosen,
                *words,
                env={k: v for k, v in self.environ.items() if not k.startswith(ENV_PREFIX)},
                preexec_fn=tied_to(os.getpid()),
                **streams,
            )
        except OSError as error:
            trouble = f"{self.path} cannot be started: {error.strerror}"
            raise NoAnswer(trouble, sent=False) from error

    async def create(self, path: str, body: Mapping[str, Any], timeout: float) -> bytes:
        """POST an object to the API server; returns its answer. A login plugin may ask its questions meanwhile.

        Args:
            path: of the URL.
            body: the object.
            timeout: seconds for one answer of the API server.

        Raises:
            KubectlFailed: it was not created.
            NoAnswer: kubectl cannot be started.
        """
        interactive = sys.stdin is not None and sys.stdin.isatty()
        with NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(body, file)
            file.flush()
            process = await self.start(
                "create",
                f"--raw={path}",
                f"--filename={file.name}",
                f"--request-timeout={timeout:g}s",
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            assert process.stdout is not None  # noqa: S101 - it was asked for
            assert process.stderr is not None  # noqa: S101
            try:
                answer, error = await asyncio.gather(process.stdout.read(), _relay(process.stderr))
                await process.wait()
            finally:
                if process.returncode is None:
                    with contextlib.suppress(ProcessLookupError):
                        process.kill()
                    await process.wait()
        if process.returncode:
            raise KubectlFailed(error or f"kubectl failed with exit code {process.returncode}")
        return answer


async def _relay(stream: asyncio.StreamReader) -> str:
    """Pass on what a login plugin says, as it comes: it may be a question; returns kubectl's own error."""
    line, error = "", ""
    while some := await stream.read(_MAX_LINE):
        *whole, line = (line + some.decode("utf-8", "replace")).split("\n")
        for each in whole:
            if each.startswith(_ERRORS):
                error = error or each
            else:
                sys.stderr.write(f"{each}\n")
        if not any(each.startswith(line[: len(each)]) for each in _ERRORS):
            sys.stderr.write(line)
            line = ""
        sys.stderr.flush()
    return error or line


# Port forwarding.


# Seconds from SIGTERM to SIGKILL.
_PATIENCE: Final = 1.0
# Seconds within which kubectl must listen.
_LISTENING: Final = 20.0
_LAST_LINES: Final = 3
_MAX_LINE: Final = 4096
_FORWARDING: Final = re.compile(rb"Forwarding from 127\.0\.0\.1:([0-9]{1,5}) -> ")


class PortForward:
    """A running `kubectl port-forward`; create it with `start`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._draining: asyncio.Future[None] | None = None
        self.port = 0
        """The local port."""

    @classmethod
    async def start(cls, kubectl: Kubectl, namespace: str, target: str, port: int) -> Self:
        """Start kubectl and wait until it forwards to the port of the target.

        It gets a session of its own, so that Ctrl-C reaches this process alone, which then ends kubectl in order.

        Raises:
            NoAnswer: kubectl cannot be started, ends before it listens, or takes too long.
        """
        process = await kubectl.start(
            "port-forward",
            "--address=127.0.0.1",
            f"--namespace={namespace}",
            target,
            f":{port}",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            limit=_MAX_LINE,
            start_new_session=True,
        )
        found = cls(process)
        try:
            async with asyncio.timeout(_LISTENING):
                found.port = await found._listens(target)
        except BaseException as error:
            await found.stop()
            if isinstance(error, TimeoutError):
                trouble = f"kubectl port-forward to {target} takes too long"
                raise NoAnswer(trouble, sent=False) from error
            raise
        found._drain()
        return found

    async def _listens(self, target: str) -> int:
        """Read kubectl's output until it says on which port it listens."""
        assert self._process.stdout is not None  # noqa: S101 - it was asked for
        said: deque[str] = deque(maxlen=_LAST_LINES)
        while True:
            try:
                line = await self._process.stdout.readline()
            except ValueError:  # longer than any line of kubectl's own
                line = b"(a very long line)\n"
            if not line:
                break
            if (found := _FORWARDING.match(line)) is not None:
                return int(found[1])
            said.append(trimmed(line.decode("utf-8", "replace")))
        trouble = "; ".join(said) or "it has ended"
        raise NoAnswer(f"kubectl port-forward to {target} fails: {trouble}", sent=False)

    def _drain(self) -> None:
        """Read on until all who have kubectl's output have ended: it writes a line for each connection."""

        async def read(output: asyncio.StreamReader) -> None:
            while await output.read(_MAX_LINE):
                pass

        if self._draining is None and self._process.stdout is not None:
            self._draining = asyncio.ensure_future(read(self._process.stdout))

    @property
    def ended(self) -> bool:
        """Whether kubectl has ended."""
        return self._process.returncode is not None

    async def stop(self) -> None:
        """End kubectl and its own children, by SIGTERM, and after `_PATIENCE` by SIGKILL.

        The signals go to the whole process group: the kubectl in PATH may be a wrapper that runs the real one.
        """
        self._drain()
        self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._gone()
        except TimeoutError:
            self._signal(signal.SIGKILL)
            await self._gone()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    async def _gone(self) -> None:
        """Wait until kubectl has ended, and no process has its output open any more."""
        await self._process.wait()
        if self._draining is not None:
            await asyncio.wait([self._draining])
