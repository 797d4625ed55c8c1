"""The program under demonstration: its process, which never outlives this one, its ports and its prober file."""

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import yaml

import app
from app.cli.kubectl import tied_to
from app.core.config.flags import ENV_PREFIX, flag_name
from app.core.config.settings import DemoSettings
from app.core.config.values import ListenAddress
from app.core.errors import WatchdogError
from app.core.web.serving import AddressUnavailable, listening
from app.simulation.manifests import EXTERNAL_SECRET_NAME, SECRET_NAME
from app.simulation.scenarios.scenario import DemoMode, Scenario

# Seconds from SIGTERM to SIGKILL.
_PATIENCE: Final = 0.5
_LAST_LINES: Final = 15


class ChildDied(WatchdogError):
    """The program has terminated unexpectedly; the message contains the end of its log."""


class Child:
    """A process of `dwd` with its output in a log file."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self._log = log

    @classmethod
    async def start(cls, argv: Sequence[str], environ: Mapping[str, str], log: Path) -> Self:
        """Starts the program in its own session, so that Ctrl-C reaches only this process.

        Args:
            argv: the arguments.
            environ: the environment; `DWD_*` variables are removed, so that only the flags apply.
            log: the file to which its output is appended.

        Raises:
            ChildDied: the program cannot be started.
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
        """The process id."""
        return self._process.pid

    async def died(self) -> None:
        """Waits until the process has terminated.

        Raises:
            ChildDied: always.
        """
        code = await self._process.wait()
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        log = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        end = (f"    {line}" for line in log[-_LAST_LINES:])
        raise ChildDied("\n".join((f"the program has ended {how}; its log ends:", *end)))

    async def stop(self) -> None:
        """Terminates the process; kills it if that takes too long."""
        if self._process.returncode is not None:
            return
        self._process.terminate()
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    # PYTHONPATH makes the child run the same code, whatever the working directory.
    kept = {name: value for name, value in environ.items() if not name.startswith(ENV_PREFIX)}
    root = str(Path(app.__file__).parent.parent)
    return {**kept, "PYTHONPATH": os.pathsep.join(filter(None, (root, kept.get("PYTHONPATH"))))}


# The addresses that the program serves on; the demo does not start unless all are free.


# Each server of the program, and the setting of its address.
_SERVERS: Final = {
    "API": "api_bind_addr",
    "metrics": "metrics_bind_addr",
    "health": "health_bind_addr",
}


@dataclass(frozen=True, slots=True)
class Addresses:
    """The program's addresses with actual ports, reserved until the program starts."""

    api: ListenAddress
    flags: tuple[str, ...]
    """The program's flags for the addresses."""
    _held: ExitStack

    def release(self) -> None:
        """Releases the addresses; further calls have no effect."""
        self._held.close()


def claim(settings: DemoSettings) -> Addresses:
    """Reserves the addresses in the flags, with a free port in place of 0.

    Raises:
        AddressUnavailable: an address cannot be listened on; the message names the flag.
    """
    found: dict[str, ListenAddress] = {}
    with ExitStack() as held:
        for name, field in _SERVERS.items():
            wanted: ListenAddress = getattr(settings, field)
            try:
                socket = held.enter_context(listening(name, wanted.host, wanted.port))
            except AddressUnavailable as error:
                hint = f"--{flag_name(field)} takes another address"
                raise AddressUnavailable(f"{error}; {hint}") from error
            found[field] = ListenAddress(wanted.host, socket.getsockname()[1])
        flags = tuple(f"--{flag_name(field)}={address}" for field, address in found.items())
        return Addresses(found["api_bind_addr"], flags, held.pop_all())


# The prober file: the shipped one, adapted to the scenario.


# The keys to remove in endpoint mode, which has its own defaults for the thresholds.
_OF_LEASE_MODE: Final = frozenset(
    {"kubeConfigSecretName", "nodeLeaseFailureFraction", "failureThreshold", "successThreshold"}
)
_ROUTES: Final = {
    "internalKubeConfigSecretName": SECRET_NAME,
    "externalKubeConfigSecretName": EXTERNAL_SECRET_NAME,
}
CANARY: Final = "outside-of-the-seed"
# The gate closes within 5 s; a verdict needs three failed probes, which take at least 10 s. It opens after 6 s.
_FASTER_THAN_A_VERDICT: Final = {
    "periodSeconds": 2,
    "timeoutSeconds": 1,
    "failureThreshold": 2,
    "successThreshold": 3,
}


def is_as_shipped(scenario: Scenario) -> bool:
    """Returns whether the shipped prober file suits a scenario."""
    return scenario.mode is DemoMode.LEASE and not scenario.canary


def prober_file(shipped: str, mode: DemoMode, canary: tuple[str, int] | None) -> str:
    """Returns the text of the prober file.

    Args:
        shipped: the text of the shipped file.
        mode: lease mode or endpoint mode.
        canary: host and port of the target of the gate; None for no gate.
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
