"""Performances and reports for tests."""

from app.simulation.demo.program_api import DemoLeases, DemoProbe, ShootReport
from app.simulation.scenarios.player import Performance
from app.simulation.scenarios.scenario import Nobody, Scene, Since, Some, Timing


def performance(
    number=1,
    shoots=("a",),
    began=100.0,
    ended=None,
    *,
    action="path-cut",
    lasting=45.0,
    times=1,
    every=0.0,
):
    """A scene that began at `began`."""
    chosen = Some(len(shoots)) if shoots else Nobody()
    timing = Timing(Since.BEGIN, 5.0, lasting, times, every)
    scene = Scene(action, f"The {action} is on.", chosen, timing, lambda _world, _shoot: None)
    return Performance(number, scene, tuple(shoots), began, ended)


def leases(fresh, expired=0, unknown=0):
    """What the last probe read, of now."""
    return DemoLeases(fresh + expired + unknown, expired, unknown)


def said(state, reason="Because", message="Some words.", *, read=None, would_be=None):
    """What the program says of a shoot; `read`: its leases."""
    return ShootReport("of no interest", state, reason, message, DemoProbe(None, would_be), read)
