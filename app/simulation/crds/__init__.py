"""The custom resources of the watchdog, by the chart's definitions of them, byte by byte."""

from importlib.resources import files
from typing import Final

import yaml

from app.simulation.definitions import Definition


def _definition(name: str) -> Definition:
    return Definition.read(yaml.safe_load(files(__name__).joinpath(name).read_text("utf-8")))


# Read at once: later, in an event loop, reading would block it.
DEFINITIONS: Final = (_definition("pauses.yaml"), _definition("scalerequests.yaml"))
