"""The custom resources of the watchdog: the chart's definitions, byte by byte."""

from functools import cache
from importlib.resources import files

import yaml

from app.simulation.definitions import Definition


@cache
def definitions() -> tuple[Definition, ...]:
    """Returns the definitions of Pause and ScaleRequest."""
    texts = (files(__name__).joinpath(f"{name}.yaml").read_text() for name in _FILES)
    return tuple(Definition.read(yaml.safe_load(text)) for text in texts)


_FILES = ("pauses", "scalerequests")
