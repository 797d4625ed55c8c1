"""The composition root: turn the settings of a command into one running process.

This is the only module that knows both clusters, the real one and the simulated one.
"""

import asyncio
import signal
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, TextIO

from app import commands, own_version
from app.core.config.policy_files import read_prober_file, read_weeder_file
from app.core.config.settings import (
    DemoSettings,
    ProberOptions,
    ProberSettings,
    SeedSettings,
    ServeSettings,
    WeederOptions,
    WeederSettings,
)
from app.core.kube.seed_api import (
    FileCredentials,
    SeedCredentials,
)
from app.core.log import configure_logs
from app.core.model.policy import ConfigWarning
from app.realcluster import DEFAULT_SCALE_DOWN_QPS, RealCluster
from app.service.parts import Configured, Core
from app.service.service import Service

Warnings = tuple[ConfigWarning, ...]
"""About flags and variables."""

_HERE: Final = Path(__file__).resolve().parent.parent
_SHARE: Final = Path("share", "dependency-watchdog")
# Directories that can have the demo's configuration: a checkout, beside an installed package, its environment.
_CONFIGS: Final = (_HERE / "config", _HERE / _SHARE, sys.prefix / _SHARE)


async def run_prober(
    settings: ProberSettings, warnings: Warnings, environ: Mapping[str, str]
) -> None:
    """Run the prober on a real seed until SIGTERM or SIGINT.

    Raises:
        ConfigurationError: The configuration or the process's own credentials are wrong.
        WatchdogError: The process cannot run.
        SharedLoopDied: A loop that serves all shoots has ended.
    """
    await _run_loops(settings, warnings, environ, prober=(settings, settings.config_file))


async def run_weeder(
    settings: WeederSettings, warnings: Warnings, environ: Mapping[str, str]
) -> None:
    """Run the weeder on a real seed until SIGTERM or SIGINT; raises the errors of `run_prober`."""
    await _run_loops(settings, warnings, environ, weeder=(settings, settings.config_file))


async def run_serve(
    settings: ServeSettings, warnings: Warnings, environ: Mapping[str, str]
) -> None:
    """Run both loops on a real seed until SIGTERM or SIGINT; raises the errors of `run_prober`."""
    await _run_loops(
        settings,
        warnings,
        environ,
        prober=(settings, settings.prober_config_file),
        weeder=(settings, settings.weeder_config_file),
    )


async def _run_loops(
    settings: SeedSettings,
    warnings: Warnings,
    environ: Mapping[str, str],
    *,
    prober: tuple[ProberOptions, Path] | None = None,
    weeder: tuple[WeederOptions, Path] | None = None,
) -> None:
    """Run each loop that is given as a pair of options and configuration file.

    Both files are read before the first request to the seed, so that a wrong one ends the process early.
    """
    configure_logs(settings.log_level, settings.log_format)
    strict, configured = settings.strict_config, Configured(settings, own_version())
    if prober is not None:
        options, path = prober
        found = read_prober_file(path, strict=strict, allow_exec=options.allow_exec)
        configured = replace(configured, prober=found.policy, workers=options.concurrent_reconciles)
        warnings += found.warnings
    if weeder is not None:
        read = read_weeder_file(weeder[1], strict=strict)
        rate = weeder[0].max_deletions_per_second
        configured = replace(configured, weeder=read.policy, deletions_a_second=rate)
        warnings += read.warnings
    core = Core.create(per_shoot_metrics=prober is None or prober[0].per_shoot_metrics)
    cluster = RealCluster(
        settings,
        core,
        await _credentials(settings, core, environ),
        scale_down_qps=DEFAULT_SCALE_DOWN_QPS if prober is None else prober[0].scale_down_qps,
    )
    if prober is not None and configured.prober is not None:
        cluster.with_prober(prober[0], configured.prober)
    if configured.weeder is not None:
        cluster.with_weeder(configured.weeder)
    configured = replace(configured, warnings=warnings, dry_run=settings.dry_run)
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
        from app.simulation.demo.demo import DemoRun, Invocation  # noqa: PLC0415 - see above

    sys.stderr.writelines(f"dwd demo: warning: {warning}\n" for warning in warnings)
    prober, weeder = _config("prober.yaml"), _config("weeder.yaml")
    stop = _stop_signal(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    await DemoRun(Invocation(settings, prober, weeder, environ, out), stop).run()


def _config(name: str) -> Path:
    """Path of a configuration file that ships with the program.

    If no directory has it, the first path is returned, and reading it fails with a message that names the path.
    """
    places = [folder / name for folder in _CONFIGS]
    return next((place for place in places if place.is_file()), places[0])


async def _credentials(
    settings: SeedSettings, core: Core, environ: Mapping[str, str]
) -> SeedCredentials:
    if settings.kubeconfig is not None:
        return await FileCredentials.of_kubeconfig(core.clock, settings.kubeconfig)
    return await FileCredentials.in_cluster(core.clock, environ)


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
