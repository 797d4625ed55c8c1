"""Runs `dwd demo`: builds the worlds, starts the program, plays the scenario, and prints the summary."""

import asyncio
import gc
import io
import resource
import tempfile
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import AsyncExitStack, closing
from functools import partial
from pathlib import Path
from typing import Final, TextIO, TypeVar

from rich.console import Console

from app.core.clock import Clock
from app.core.config.settings import DemoSettings
from app.core.config.yaml_file import read_text
from app.core.errors import ConfigurationError, Mistake, WatchdogError
from app.core.log import configure_logs
from app.core.model.instants import format_duration
from app.core.tasks import Tasks
from app.simulation.demo.child import Child, claim, is_as_shipped, prober_file
from app.simulation.demo.program_api import read_shoots, session
from app.simulation.demo.screens import LiveScreen, PlainScreen, write
from app.simulation.demo.seed import HEALTH_TIMEOUT, Canary, Seed, build
from app.simulation.demo.show import Show
from app.simulation.scenarios.scenario import OwnShoot, cast, find_scenario
from app.simulation.server import Loopback, SimulatedServers

T = TypeVar("T")

# The budgets with which Gardener deploys the original.
_GARDENER: Final = ("--kube-api-qps=20", "--kube-api-burst=100")
MOST_SHOOTS: Final = 1000
MOST_NODES: Final = 20_000
"""The limit for all shoots together; each node exists in both worlds."""
# A sufficient number of open files, and the most that macOS permits.
_FILES: Final = 10_240


class OutOfMeans(WatchdogError):
    """The machine lacks a resource that the demo needs."""


class DemoRun:
    """One run of the demo."""

    def __init__(
        self,
        settings: DemoSettings,
        shipped: tuple[Path, Path],
        environ: Mapping[str, str],
        out: TextIO,
        stop: asyncio.Event,
    ) -> None:
        """Prepares the run.

        Args:
            settings: The flags.
            shipped: The prober file and the weeder file that come with the program.
            environ: The environment variables for the program.
            out: The terminal, or another output for lines.
            stop: Ends it.

        Raises:
            ConfigurationError: the scenario is wrong.
            AddressUnavailable: an address is in use.
        """
        _open_many_files()
        if isinstance(out, io.TextIOWrapper):
            # A terminal whose encoding lacks the arrows shows question marks.
            out.reconfigure(errors="replace")
        self._settings, self._environ, self._out, self._stop = settings, environ, out, stop
        self._prober_config, self._weeder_config = shipped
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
            folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="dwd-demo-")))
            log = self._settings.log_file or folder / "dwd.log"
            self._log_to(log, opened)
            premises = Loopback()
            building = build(
                self._clock, self._tasks, self._scenario, self._parts, self._settings, premises
            )
            seed = await self._unless_stopped(building)
            if seed is None:
                return
            servers = SimulatedServers(seed.world, premises)
            opened.push_async_callback(servers.stop)
            await servers.start()
            kubeconfig = folder / "kubeconfig"
            kubeconfig.write_text(servers.kubeconfig(), encoding="utf-8")
            prober = await self._prober_file(folder, seed, opened)
            gc.collect()
            gc.freeze()  # the worlds live as long as the process; collections would take tens of milliseconds each
            flags = {
                "prober-config-file": prober,
                "weeder-config-file": self._weeder_config,
                "kubeconfig": kubeconfig,
                "shoot-server-pattern": servers.shoot_server_pattern,
                "external-server-pattern": servers.shoot_server_pattern,
                "log-level": self._settings.log_level,
                "log-format": self._settings.log_format,
                "auth-mode": "none",  # the demo may itself run in a pod
            }
            given = (f"--{name}={value}" for name, value in flags.items())
            argv = ("serve", *given, *self._addresses.flags, *_GARDENER)
            self._addresses.release()
            child = await Child.start(argv, self._environ, log)
            opened.push_async_callback(child.stop)
            show = await self._show(kubeconfig, log, seed, opened)
            opened.callback(self._tasks.stopping)
            await self._until_over(child)
        # Its result does not matter: Ctrl-C may have ended the reader of a pipe as well.
        _ = write(self._out, *show.summary())
        gc.freeze()  # the process ends; a last collection would take up to a second

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

    async def _prober_file(self, folder: Path, seed: Seed, opened: AsyncExitStack) -> Path:
        """Returns the prober file for the program; starts the canary if the scenario has one."""
        shipped, scenario = self._prober_config, self._scenario
        if is_as_shipped(scenario):
            return shipped
        canary = None
        if scenario.canary:
            canary = Canary(seed.world.parts.network.through)
            opened.push_async_callback(canary.close)
            await canary.open()
        text = prober_file(read_text(shipped), scenario.mode, canary.address if canary else None)
        adapted = folder / "prober.yaml"
        adapted.write_text(text, encoding="utf-8")
        return adapted

    async def _show(self, kubeconfig: Path, log: Path, seed: Seed, opened: AsyncExitStack) -> Show:
        server, out = f"http://{self._addresses.api}", self._out
        program = await opened.enter_async_context(session(server))
        console = Console(file=out)
        screen: LiveScreen | PlainScreen = PlainScreen(out, gone=self._stop.set)
        if out.isatty() and not console.is_dumb_terminal:
            screen = LiveScreen(console)
            opened.enter_context(screen.live)
        patience = format_duration(HEALTH_TIMEOUT)
        hints = (
            f"The page: {server}/; in another terminal: dwd shoots --server {server}",
            f"kubectl --kubeconfig {kubeconfig} get deployments,pods -A",
            f"Log: {log}. Machines are given up {patience} after their node; in Gardener after 10 min.",
        )
        show = Show(self._clock, self._scenario.name, self._parts, seed, screen, hints)
        _ = self._tasks.shared(lambda: show.watch(partial(read_shoots, program)), "screen")
        _ = self._tasks.shared(lambda: self._play(show), "scenario")
        return show

    async def _play(self, show: Show) -> None:
        await show.play()
        self._stop.set()
        await asyncio.Event().wait()  # a shared task must not end by itself

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


def _open_many_files() -> None:
    # Each shoot needs a port and connections; many systems have a soft limit of 1024 files and a higher hard limit.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
