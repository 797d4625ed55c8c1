"""Writes the OpenAPI document of the API: `python -m tests.api.openapi > docs/openapi.json`."""

import json
import sys
from importlib.metadata import version
from typing import Any

from tests.api.fakes import FakeProcess, application, context


def document() -> dict[str, Any]:
    """As the API of this version of the program shows it."""
    return application(
        context(process=FakeProcess(version=version("dependency-watchdog")))
    ).openapi()


def text() -> str:
    """As the copy in `docs` has it."""
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
