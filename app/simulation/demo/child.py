"""The program under demonstration: a process of its own that never outlives this one."""

import asyncio
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import yaml

import app
from app.cli.portforward import tied_to
from app.core.config.environment import ENV_PREFIX
from app.core.config.flag_values import ListenAddress
from app.core.config.flags import flag_name
from app.core.config.settings import DemoSettings
from app.core.errors import WatchdogError
from app.core.web.serving import AddressUnavailable, listening
from app.simulation.manifests import EXTERNAL_SECRET_NAME, SECRET_NAME
from app.simulation.scenarios.model import DemoMode, Scenario

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


# The addresses that the program is told to serve on: each is free, or the demo does not start.


_SERVERS: Final = {
    "API": "api_bind_addr",
    "metrics": "metrics_bind_addr",
    "health": "health_bind_addr",
}
"""What is served, and the setting that says where."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the program serves, with ports that are no longer 0; held until it starts, so that nobody takes one."""

    api: ListenAddress
    flags: tuple[str, ...]
    """For the program."""
    _held: ExitStack

    def release(self) -> None:
        """Gives them back; a second time changes nothing."""
        self._held.close()


def claim(settings: DemoSettings) -> Addresses:
    """Takes the addresses of the flags, and a free port where one is 0.

    Raises:
        AddressUnavailable: one of them cannot be listened on; names the flag.
    """
    found: dict[str, ListenAddress] = {}
    with ExitStack() as held:
        for name, field in _SERVERS.items():
            wanted: ListenAddress = getattr(settings, field)
            port = held.enter_context(_listening(name, field, wanted)).getsockname()[1]
            found[field] = ListenAddress(wanted.host, port)
        flags = tuple(f"--{flag_name(field)}={address}" for field, address in found.items())
        return Addresses(found["api_bind_addr"], flags, held.pop_all())


def _listening(name: str, field: str, wanted: ListenAddress) -> socket.socket:
    try:
        return listening(name, wanted.host, wanted.port)
    except AddressUnavailable as error:
        hint = f"--{flag_name(field)} takes another address"
        raise AddressUnavailable(f"{error}; {hint}") from error


# The prober file that a scenario wants: the shipped one, changed where that is not enough; pure.


_OF_LEASE_MODE: Final = frozenset(
    {"kubeConfigSecretName", "nodeLeaseFailureFraction", "failureThreshold", "successThreshold"}
)
"""Of the thresholds each mode has its own defaults."""
_ROUTES: Final = {
    "internalKubeConfigSecretName": SECRET_NAME,
    "externalKubeConfigSecretName": EXTERNAL_SECRET_NAME,
}
CANARY: Final = "outside-of-the-seed"
_FASTER_THAN_A_VERDICT: Final = {
    "periodSeconds": 2,
    "timeoutSeconds": 1,
    "failureThreshold": 2,
    "successThreshold": 3,
}
"""It is closed within 5 s; three failures in a row take 10 s at least.  It opens when all has been well for 6 s."""


def is_as_shipped(scenario: Scenario) -> bool:
    """Whether the file that comes with the program will do."""
    return scenario.mode is DemoMode.LEASE and not scenario.canary


def prober_file(shipped: str, mode: DemoMode, canary: tuple[str, int] | None) -> str:
    """The text of the file.

    Args:
        shipped: the text of the one that comes with the program.
        mode: how shoots are to be looked at.
        canary: host and port of what closes the gate while it does not answer; None: there is no gate.
    """
    given: dict[str, Any] = yaml.safe_load(shipped)
    if mode is DemoMode.ENDPOINT:
        given = {key: value for key, value in given.items() if key not in _OF_LEASE_MODE}
        given = {**_ROUTES, **given}
    if canary is not None:
        given["endpointProbes"] = [_gate(*canary)]
    return yaml.safe_dump(given, sort_keys=False)


def _gate(host: str, port: int) -> dict[str, Any]:
    return {
        "name": CANARY,
        "host": host,
        "httpGet": {"port": port},
        "effect": "GateScaleDown",
        **_FASTER_THAN_A_VERDICT,
    }
