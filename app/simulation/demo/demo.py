"""Runs `dwd demo`: builds the worlds, starts the program, plays the scenario, and prints the summary."""

import asyncio
import gc
import io
import tempfile
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import AsyncExitStack, closing
from functools import partial
from pathlib import Path
from typing import Final, TextIO

from rich.console import Console

from app.cli.client import Client
from app.cli.tokens import NoToken
from app.cli.transports import DirectTransport
from app.core.clock import Clock
from app.core.config.settings import DemoSettings
from app.core.config.values import Origin
from app.core.config.yaml_file import read_text
from app.core.errors import ConfigurationError, Mistake, WatchdogError
from app.core.log import configure_logs
from app.core.model.instants import format_duration
from app.core.tasks import Tasks
from app.simulation.demo.child import Addresses, Child, claim, is_as_shipped, prober_file
from app.simulation.demo.screens import LiveScreen, PlainScreen, write
from app.simulation.demo.seed import HEALTH_TIMEOUT, Canary, Seed, build
from app.simulation.demo.show import Show, read_shoots
from app.simulation.scenarios.scenario import Part, Scenario, cast, find_scenario
from app.simulation.server import Loopback, SimulatedServers

# The budgets with which Gardener deploys the original.
_GARDENER: Final = ("--kube-api-qps=20", "--kube-api-burst=100")
MOST_SHOOTS: Final = 1000
MOST_NODES: Final = 20_000
"""The limit for all shoots together; each node exists in both worlds."""
# Seconds in which the program is to say how its shoots are.
_LIMIT: Final = 5.0


class OutOfMeans(WatchdogError):
    """The machine lacks a resource that the demo needs."""


async def play_demo(
    settings: DemoSettings,
    shipped: tuple[Path, Path],
    environ: Mapping[str, str],
    out: TextIO,
    stop: asyncio.Event,
) -> None:
    """Runs until stopped, then prints what was lost.

    Args:
        settings: The flags.
        shipped: The prober file and the weeder file that come with the program.
        environ: The environment variables for the program.
        out: The terminal, or another output for lines.
        stop: Ends it.

    Raises:
        ConfigurationError: the scenario is wrong, or the log cannot be written.
        AddressUnavailable: an address is in use.
        OutOfMeans: the disk is full, or there are too few open files.
        ChildDied: the program has terminated.
        SharedLoopDied: a loop of the demo has ended.
    """
    if isinstance(out, io.TextIOWrapper):
        # A terminal whose encoding lacks the arrows shows question marks.
        out.reconfigure(errors="replace")
    scenario = find_scenario(settings.scenario, settings.shoots)
    _check_size(settings, scenario.shoots)
    addresses = claim(settings)
    try:
        await _play(settings, scenario, shipped, addresses, environ, out, stop)
    except OSError as error:
        raise OutOfMeans(f"the demo cannot go on: {error.strerror or error}") from error


async def _play(
    settings: DemoSettings,
    scenario: Scenario,
    shipped: tuple[Path, Path],
    addresses: Addresses,
    environ: Mapping[str, str],
    out: TextIO,
    stop: asyncio.Event,
) -> None:
    clock = Clock.system()
    tasks = Tasks(clock)
    parts = cast(settings.shoots, settings.nodes, scenario.shoots)
    async with AsyncExitStack() as opened:
        opened.callback(addresses.release)
        opened.push_async_callback(tasks.stop)
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="dwd-demo-")))
        log = settings.log_file or folder / "dwd.log"
        stream = opened.enter_context(closing(_writable(log)))
        # The demo logs to the program's log file because the screen uses the terminal.
        configure_logs(settings.log_level, settings.log_format, stream)
        premises = Loopback()
        building = asyncio.ensure_future(build(clock, tasks, scenario, parts, settings, premises))
        await _first(building, stop.wait())
        if stop.is_set():
            return
        seed = building.result()
        servers = SimulatedServers(seed.world, premises)
        opened.push_async_callback(servers.stop)
        await servers.start()
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(servers.kubeconfig(), encoding="utf-8")
        prober_config = await _prober_file(scenario, shipped[0], seed, folder, opened)
        gc.collect()
        gc.freeze()  # the worlds live as long as the process; collections would take tens of milliseconds each
        flags = {
            "prober-config-file": prober_config,
            "weeder-config-file": shipped[1],
            "kubeconfig": kubeconfig,
            "shoot-server-pattern": servers.shoot_server_pattern,
            "external-server-pattern": servers.shoot_server_pattern,
            "log-level": settings.log_level,
            "log-format": settings.log_format,
            "auth-mode": "none",  # the demo may itself run in a pod
        }
        given = (f"--{name}={value}" for name, value in flags.items())
        argv = ("serve", *given, *addresses.flags, *_GARDENER)
        addresses.release()
        child = await Child.start(argv, environ, log)
        opened.push_async_callback(child.stop)
        server = Origin("http", addresses.api.host, addresses.api.port)
        program = await opened.enter_async_context(
            Client(DirectTransport(server), NoToken(), tls=True, timeout=_LIMIT)
        )
        patience = format_duration(HEALTH_TIMEOUT)
        hints = (
            f"The page: {server}/; in another terminal: dwd shoots --server {server}",
            f"kubectl --kubeconfig {kubeconfig} get deployments,pods -A",
            f"Log: {log}. Machines are given up {patience} after their node; in Gardener after 10 min.",
        )
        show = Show(clock, scenario.name, parts, seed, _screen(out, stop, opened), hints)

        async def play() -> None:
            await show.play()
            stop.set()
            await asyncio.Event().wait()  # a shared task must not end by itself

        _ = tasks.shared(lambda: show.watch(partial(read_shoots, program)), "screen")
        _ = tasks.shared(play, "scenario")
        opened.callback(tasks.stopping)
        await _first(stop.wait(), child.died(), tasks.died())
    # Its result does not matter: Ctrl-C may have ended the reader of a pipe as well.
    _ = write(out, *show.summary())
    gc.freeze()  # the process ends; a last collection would take up to a second


async def _prober_file(
    scenario: Scenario, shipped: Path, seed: Seed, folder: Path, opened: AsyncExitStack
) -> Path:
    """Returns the prober file for the program; starts the canary if the scenario has one."""
    if is_as_shipped(scenario):
        return shipped
    address = None
    if scenario.canary:
        canary = Canary(seed.world.network.through)
        opened.push_async_callback(canary.close)
        address = await canary.open()
    adapted = folder / "prober.yaml"
    text = prober_file(read_text(shipped), scenario.mode, address)
    adapted.write_text(text, encoding="utf-8")
    return adapted


def _screen(out: TextIO, stop: asyncio.Event, opened: AsyncExitStack) -> LiveScreen | PlainScreen:
    console = Console(file=out)
    if not out.isatty() or console.is_dumb_terminal:
        return PlainScreen(out, gone=stop.set)
    screen = LiveScreen(console)
    opened.enter_context(screen.live)
    return screen


async def _first(*waits: Awaitable[object]) -> None:
    """Returns when one of them is done, or raises what it raises; the others are cancelled."""
    waiting = [asyncio.ensure_future(each) for each in waits]
    try:
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            await each
    finally:
        for each in waiting:
            each.cancel()


def _writable(log: Path) -> TextIO:
    # Opening a pipe blocks until there is a reader, and Ctrl-C would have no effect meanwhile.
    if log.is_fifo():
        raise _unwritable("is a pipe")
    try:
        return log.open("w", encoding="utf-8")
    except OSError as error:
        raise _unwritable(f"cannot be written: {error.strerror}") from error


def _unwritable(message: str) -> ConfigurationError:
    return ConfigurationError("dwd demo", [Mistake(None, "--log-file", message)])


def _check_size(settings: DemoSettings, own: Sequence[Part]) -> None:
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
