"""Runs `dwd demo`: builds the worlds, starts the program, plays the scenario, and prints the summary."""

import asyncio
import gc
import io
import resource
import tempfile
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self, TextIO, TypeVar

from rich.console import Console

from app.core.clock import Clock
from app.core.config.settings import DemoSettings
from app.core.config.yaml_file import read_text
from app.core.errors import ConfigurationError, Mistake, WatchdogError
from app.core.log import configure_logs
from app.core.model.durations import format_duration
from app.core.tasks import Tasks
from app.simulation.demo.child import Child, claim, is_as_shipped, prober_file
from app.simulation.demo.program_api import DemoClient
from app.simulation.demo.screens import LiveScreen, PlainScreen, write
from app.simulation.demo.seed import HEALTH_TIMEOUT, Canary, Seed, build
from app.simulation.demo.show import DemoScreen, Show
from app.simulation.scenarios.casting import cast
from app.simulation.scenarios.model import OwnShoot
from app.simulation.scenarios.scenario_file import find_scenario
from app.simulation.server import Loopback, SimulatedServers

T = TypeVar("T")

# The budgets with which Gardener deploys the original.
_GARDENER: Final = ("--kube-api-qps=20", "--kube-api-burst=100")
MOST_SHOOTS: Final = 1000
MOST_NODES: Final = 20_000
"""The limit for all shoots together; each node exists in both worlds."""
# A sufficient number of open files, and the most that macOS permits.
_FILES: Final = 10_240


@dataclass(frozen=True, slots=True)
class Invocation:
    """The inputs of the demo."""

    settings: DemoSettings
    prober_config: Path
    weeder_config: Path
    environ: Mapping[str, str]
    """The environment variables for the program."""
    out: TextIO
    """The terminal, or another output for lines."""


@dataclass(frozen=True, slots=True)
class _DemoFiles:
    """The files that the demo writes."""

    kubeconfig: Path
    log: Path
    prober: Path
    """The prober file, used if the scenario needs a different one than the default."""

    @classmethod
    def within(cls, opened: AsyncExitStack, log: Path | None) -> Self:
        """Creates a private directory that is removed at the end; `log` may be outside of it."""
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="dwd-demo-")))
        return cls(folder / "kubeconfig", log or folder / "dwd.log", folder / "prober.yaml")


class OutOfMeans(WatchdogError):
    """The machine lacks a resource that the demo needs."""


class DemoRun:
    """One run of the demo."""

    def __init__(self, invocation: Invocation, stop: asyncio.Event) -> None:
        """Prepares the run; `stop` ends it.

        Raises:
            ConfigurationError: the scenario is wrong.
            AddressUnavailable: an address is in use.
        """
        _open_many_files()
        settings = invocation.settings
        _never_fails(invocation.out)
        self._settings, self._invocation, self._stop = settings, invocation, stop
        self._scenario = find_scenario(settings.scenario, settings.shoots)
        _check_size(settings, self._scenario.own)
        self._parts = cast(settings.shoots, settings.nodes, self._scenario.own)
        self._addresses = claim(settings)
        self._clock = Clock.system()
        self._tasks = Tasks(self._clock)

    async def run(self) -> None:
        """Runs until stopped, then prints what was lost.

        Raises:
            OutOfMeans: the disk is full, or there are too few open files.
            ConfigurationError: the log cannot be written.
            ChildDied: the program has terminated.
            SharedLoopDied: a loop of the demo has ended.
        """
        try:
            await self._run()
        except OSError as error:
            raise OutOfMeans(f"the demo cannot go on: {error.strerror or error}") from error

    async def _run(self) -> None:
        async with AsyncExitStack() as opened:
            opened.callback(self._addresses.release)
            opened.push_async_callback(self._tasks.stop)
            files = _DemoFiles.within(opened, self._settings.log_file)
            self._log_to(files.log, opened)
            premises = Loopback()
            seed = await self._unless_stopped(self._seed(premises))
            if seed is None:
                return
            servers = SimulatedServers(seed.world, premises)
            opened.push_async_callback(servers.stop)
            await servers.start()
            files.kubeconfig.write_text(servers.kubeconfig(), encoding="utf-8")
            prober = await self._prober_file(files, seed, opened)
            gc.collect()
            gc.freeze()  # the worlds live as long as the process; collections would take tens of milliseconds each
            child = await self._child(files, prober, servers)
            opened.push_async_callback(child.stop)
            show = await self._show(files, seed, opened)
            opened.callback(self._tasks.stopping)
            await self._until_over(child)
        _ = write(
            self._invocation.out, *show.summary()
        )  # its result does not matter: Ctrl-C may have ended the reader of a pipe as well
        gc.freeze()  # the process ends; a last collection would take up to a second

    async def _seed(self, place: Loopback) -> Seed:
        made = build(self._clock, self._tasks, self._scenario, self._parts, self._settings, place)
        return await made

    async def _unless_stopped(self, work: Awaitable[T]) -> T | None:
        """Returns the result of `work`; None if the demo was stopped first."""
        working = asyncio.ensure_future(work)
        stopping = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
            return None if self._stop.is_set() else await working
        finally:
            working.cancel()
            stopping.cancel()

    def _log_to(self, log: Path, opened: AsyncExitStack) -> None:
        # The demo logs to the program's log file because the screen uses the terminal.
        # Opening a pipe blocks until there is a reader, and Ctrl-C would have no effect meanwhile.
        if log.is_fifo():
            raise _unwritable("is a pipe")
        try:
            stream = opened.enter_context(closing(log.open("w", encoding="utf-8")))
        except OSError as error:
            raise _unwritable(f"cannot be written: {error.strerror}") from error
        configure_logs(self._settings.log_level, self._settings.log_format, stream)

    async def _prober_file(self, files: _DemoFiles, seed: Seed, opened: AsyncExitStack) -> Path:
        """Returns the prober file for the program; starts the canary if the scenario has one."""
        shipped, scenario = self._invocation.prober_config, self._scenario
        if is_as_shipped(scenario):
            return shipped
        canary = None
        if scenario.canary:
            canary = Canary(seed.world.parts.network.through)
            opened.push_async_callback(canary.close)
            await canary.open()
        text = prober_file(read_text(shipped), scenario.mode, canary.address if canary else None)
        files.prober.write_text(text, encoding="utf-8")
        return files.prober

    async def _child(self, files: _DemoFiles, prober: Path, servers: SimulatedServers) -> Child:
        flags = {
            "prober-config-file": prober,
            "weeder-config-file": self._invocation.weeder_config,
            "kubeconfig": files.kubeconfig,
            "shoot-server-pattern": servers.shoot_server_pattern,
            "external-server-pattern": servers.external_server_pattern,
            "log-level": self._settings.log_level,
            "log-format": self._settings.log_format,
            "auth-mode": "none",  # the demo may itself run in a pod
        }
        given = (f"--{name}={value}" for name, value in flags.items())
        argv = ("serve", *given, *self._addresses.flags, *_GARDENER)
        self._addresses.release()
        return await Child.start(argv, self._invocation.environ, files.log)

    async def _show(self, files: _DemoFiles, seed: Seed, opened: AsyncExitStack) -> Show:
        client = await opened.enter_async_context(DemoClient(f"http://{self._addresses.api}"))
        screen = opened.enter_context(closing(self._screen()))
        show = Show(self._clock, self._scenario.name, self._parts, seed, screen, self._hints(files))
        screen.open()
        _ = self._tasks.shared(lambda: show.watch(client), "screen")
        _ = self._tasks.shared(lambda: self._play(show), "scenario")
        return show

    async def _play(self, show: Show) -> None:
        await show.play()
        self._stop.set()
        await asyncio.Event().wait()  # a shared task must not end by itself

    def _screen(self) -> DemoScreen:
        console = Console(file=self._invocation.out)
        if self._invocation.out.isatty() and not console.is_dumb_terminal:
            return LiveScreen(console)
        return PlainScreen(self._invocation.out, gone=self._stop.set)

    def _hints(self, files: _DemoFiles) -> tuple[str, ...]:
        server = f"http://{self._addresses.api}"
        patience = format_duration(HEALTH_TIMEOUT)
        return (
            f"The page: {server}/; in another terminal: dwd shoots --server {server}",
            f"kubectl --kubeconfig {files.kubeconfig} get deployments,pods -A",
            f"Log: {files.log}. Machines are given up {patience} after their node; in Gardener after 10 min.",
        )

    async def _until_over(self, child: Child) -> None:
        waiting = [
            asyncio.ensure_future(each)
            for each in (self._stop.wait(), child.died(), self._tasks.died())
        ]
        done, pending = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for each in pending:
            each.cancel()
        for each in done:
            await each


def _unwritable(message: str) -> ConfigurationError:
    return ConfigurationError("dwd demo", [Mistake(None, "--log-file", message)])


def _check_size(settings: DemoSettings, own: Sequence[OwnShoot]) -> None:
    """Checks that both worlds fit into the memory of a small machine; raises ConfigurationError if not."""
    others = max(settings.shoots - len(own), 1)
    nodes = others * settings.nodes + sum(each.nodes for each in own)
    mistakes = []
    if others + len(own) > MOST_SHOOTS:
        message = f"must be at most {MOST_SHOOTS}, not {others + len(own)}"
        mistakes.append(Mistake(None, "--shoots", message))
    if nodes > MOST_NODES:
        message = f"must be at most {MOST_NODES} in all shoots together, not {nodes}"
        mistakes.append(Mistake(None, "--nodes", message))
    if mistakes:
        raise ConfigurationError("dwd demo", mistakes)


def _never_fails(out: TextIO) -> None:
    # A terminal whose encoding lacks the arrows shows question marks.
    if isinstance(out, io.TextIOWrapper):
        out.reconfigure(errors="replace")


def _open_many_files() -> None:
    # Each shoot needs a port and connections; many systems have a soft limit of 1024 files and a higher hard limit.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
