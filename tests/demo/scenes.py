"""Performances for tests."""

from app.simulation.scenarios.model import Nobody, Scene, Since, Some, Timing
from app.simulation.scenarios.player import Performance


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
