"""The composition root: the only module that names both adapters, the real cluster and the simulated one."""

import asyncio
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TextIO

from app import commands
from app.core.config.files import read_prober_file, read_weeder_file
from app.core.config.settings import SeedSettings
from app.core.kube.seedcredentials import (
    InClusterCredentials,
    KubeconfigCredentials,
    SeedCredentials,
)
from app.core.runtime.about import own_version
from app.core.runtime.logs import configure_logs
from app.realcluster import RealCluster
from app.service.parts import Configured, Core
from app.service.service import Service

_HERE: Final = Path(__file__).resolve().parent.parent
_SHARE: Final = Path("share", "dependency-watchdog")
_CONFIGS: Final = (_HERE / "config", _HERE / _SHARE, sys.prefix / _SHARE)
"""Where the demo's files are: in a checkout, beside an installed package, in its environment."""


async def run_prober(command: commands.Prober, environ: Mapping[str, str]) -> None:
    """Runs the prober on a real seed until a signal stops it.

    Raises:
        ConfigurationError: the configuration or our own credentials are wrong.
        WatchdogError: it cannot run.
        SharedLoopDied: a loop that serves all shoots has ended.
    """
    settings = command.settings
    configure_logs(settings.log_level, settings.log_format)
    loaded = read_prober_file(settings.config_file, strict=settings.strict_config)
    core = Core.create(per_shoot_metrics=settings.per_shoot_metrics)
    credentials = await _credentials(settings, core, environ)
    qps = settings.scale_down_qps
    cluster = RealCluster(settings, core, credentials, scale_down_qps=qps)
    cluster.with_prober(settings, loaded.policy)
    configured = Configured(
        settings,
        own_version(),
        prober=loaded.policy,
        warnings=(*command.warnings, *loaded.warnings),
        workers=settings.concurrent_reconciles,
        dry_run=settings.dry_run,
    )
    await _run(Service(configured, core, cluster.doors()))


async def run_weeder(command: commands.Weeder, environ: Mapping[str, str]) -> None:
    """Runs the weeder on a real seed until a signal stops it; raises what `run_prober` raises."""
    settings = command.settings
    configure_logs(settings.log_level, settings.log_format)
    loaded = read_weeder_file(settings.config_file, strict=settings.strict_config)
    core = Core.create()
    cluster = RealCluster(settings, core, await _credentials(settings, core, environ))
    cluster.with_weeder(loaded.policy)
    configured = Configured(
        settings,
        own_version(),
        weeder=loaded.policy,
        warnings=(*command.warnings, *loaded.warnings),
        deletions_a_second=settings.max_deletions_per_second,
        dry_run=settings.dry_run,
    )
    await _run(Service(configured, core, cluster.doors()))


async def run_serve(command: commands.Serve, environ: Mapping[str, str]) -> None:
    """Runs both loops on a real seed until a signal stops them; raises what `run_prober` raises."""
    settings = command.settings
    configure_logs(settings.log_level, settings.log_format)
    prober = read_prober_file(settings.prober_config_file, strict=settings.strict_config)
    weeder = read_weeder_file(settings.weeder_config_file, strict=settings.strict_config)
    core = Core.create(per_shoot_metrics=settings.per_shoot_metrics)
    credentials = await _credentials(settings, core, environ)
    qps = settings.scale_down_qps
    cluster = RealCluster(settings, core, credentials, scale_down_qps=qps)
    cluster.with_prober(settings, prober.policy)
    cluster.with_weeder(weeder.policy)
    configured = Configured(
        settings,
        own_version(),
        prober.policy,
        weeder.policy,
        warnings=(*command.warnings, *prober.warnings, *weeder.warnings),
        workers=settings.concurrent_reconciles,
        deletions_a_second=settings.max_deletions_per_second,
        dry_run=settings.dry_run,
    )
    await _run(Service(configured, core, cluster.doors()))


async def run_demo(command: commands.Demo, environ: Mapping[str, str], out: TextIO) -> None:
    """Runs both loops as a process of its own on a simulated seed, and lets things happen there.

    Raises:
        ConfigurationError: the scenario is wrong.
        WatchdogError: it cannot run, or the program has ended by itself.
        SharedLoopDied: a loop of the demo has ended.
    """
    # Imported here: the terminal's library and the simulated servers are nothing that a watchdog should carry.
    from app.demo.demo import Demo, Invocation  # noqa: PLC0415 - see above

    sys.stderr.writelines(f"dwd demo: warning: {warning}\n" for warning in command.warnings)
    prober, weeder = _config("prober.yaml"), _config("weeder.yaml")
    stop = _stop_signal(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    await Demo(Invocation(command.settings, prober, weeder, environ, out), stop).run()


def _config(name: str) -> Path:
    """A configuration that comes with the program; where it is nowhere, reading it will say so."""
    places = [folder / name for folder in _CONFIGS]
    return next((place for place in places if place.is_file()), places[0])


async def _credentials(
    settings: SeedSettings, core: Core, environ: Mapping[str, str]
) -> SeedCredentials:
    if settings.kubeconfig is not None:
        return await KubeconfigCredentials.load(core.clock, settings.kubeconfig)
    return await InClusterCredentials.load(core.clock, environ)


async def _run(service: Service) -> None:
    """Runs until SIGTERM or SIGINT."""
    stop = _stop_signal(signal.SIGTERM, signal.SIGINT)
    try:
        await service.start()
        await service.run(stop)
    finally:
        await service.stop("a signal" if stop.is_set() else "an error")


def _stop_signal(*numbers: signal.Signals) -> asyncio.Event:
    """What each of these signals sets from now on."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in numbers:
        loop.add_signal_handler(number, stop.set)
    return stop
