"""The composition root: turn the settings of a command into one running process.

This is the only module that knows both clusters, the real one and the simulated one.
"""

import asyncio
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TextIO

from app import commands, own_version
from app.core.config.policy_files import read_prober_file, read_weeder_file
from app.core.config.settings import (
    DemoSettings,
    ProberSettings,
    SeedSettings,
    ServeSettings,
    WeederSettings,
)
from app.core.errors import ConfigWarning
from app.core.kube.seed_api import FileCredentials
from app.core.log import configure_logs
from app.realcluster import RealCluster
from app.service.parts import Configured, Core
from app.service.service import Service

Warnings = tuple[ConfigWarning, ...]
"""About flags and variables."""

_HERE: Final = Path(__file__).resolve().parent.parent
_SHARE: Final = Path("share", "dependency-watchdog")
# Directories that can have the demo's configuration: a checkout, beside an installed package, its environment.
_CONFIGS: Final = (_HERE / "config", _HERE / _SHARE, sys.prefix / _SHARE)


async def run_loops(settings: SeedSettings, warnings: Warnings, environ: Mapping[str, str]) -> None:
    """Run the loops whose settings these are on a real seed until SIGTERM or SIGINT.

    Files are read before the first request to the seed, so that a wrong one ends the process early.

    Raises:
        ConfigurationError: The configuration or the process's own credentials are wrong.
        WatchdogError: The process cannot run.
        SharedLoopDied: A loop that serves all shoots has ended.
    """
    configure_logs(settings.log_level, settings.log_format)
    strict = settings.strict_config
    prober_policy = weeder_policy = None
    prober = settings if isinstance(settings, ProberSettings | ServeSettings) else None
    weeder = settings if isinstance(settings, WeederSettings | ServeSettings) else None
    if prober is not None:
        path = (
            prober.prober_config_file if isinstance(prober, ServeSettings) else prober.config_file
        )
        found = read_prober_file(path, strict=strict, allow_exec=prober.allow_exec)
        prober_policy = found.policy
        warnings += found.warnings
    if weeder is not None:
        path = (
            weeder.weeder_config_file if isinstance(weeder, ServeSettings) else weeder.config_file
        )
        read = read_weeder_file(path, strict=strict)
        weeder_policy = read.policy
        warnings += read.warnings
    core = Core.create(per_shoot_metrics=prober is None or prober.per_shoot_metrics)
    cluster = RealCluster(
        settings,
        core,
        await (
            FileCredentials.in_cluster(core.clock, environ)
            if settings.kubeconfig is None
            else FileCredentials.of_kubeconfig(core.clock, settings.kubeconfig)
        ),
    )
    if prober is not None and prober_policy is not None:
        cluster.with_prober(prober, prober_policy)
    if weeder_policy is not None:
        cluster.with_weeder(weeder_policy)
    configured = Configured(settings, own_version(), prober_policy, weeder_policy, warnings)
    await _run(Service(configured, core, cluster.adapters()))


async def run_demo(
    settings: DemoSettings, warnings: Warnings, environ: Mapping[str, str], out: TextIO
) -> None:
    """Run both loops in a child process against a simulated seed, and play a scenario of outages there.

    Raises:
        ConfigurationError: The scenario is wrong.
        DemoNotInstalled: The simulation is not installed.
        WatchdogError: The demo cannot run, or the watched process has ended by itself.
        SharedLoopDied: A loop of the demo has ended.
    """
    # Imported here: a watchdog in production must not load the terminal library and the simulated servers.
    with commands.simulation_needed():
        from app.simulation.demo.demo import play_demo  # noqa: PLC0415 - see above

    sys.stderr.writelines(f"dwd demo: warning: {warning}\n" for warning in warnings)
    shipped = _config("prober.yaml"), _config("weeder.yaml")
    stop = _stop_signal(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    await play_demo(settings, shipped, environ, out, stop)


def _config(name: str) -> Path:
    """Path of a configuration file that ships with the program.

    If no directory has it, the first path is returned, and reading it fails with a message that names the path.
    """
    places = [folder / name for folder in _CONFIGS]
    return next((place for place in places if place.is_file()), places[0])


async def _run(service: Service) -> None:
    stop = _stop_signal(signal.SIGTERM, signal.SIGINT)
    try:
        await service.start()
        await service.run(stop)
    finally:
        await service.stop("a signal" if stop.is_set() else "an error")


def _stop_signal(*numbers: signal.Signals) -> asyncio.Event:
    """An event that each of these signals sets."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in numbers:
        loop.add_signal_handler(number, stop.set)
    return stop
