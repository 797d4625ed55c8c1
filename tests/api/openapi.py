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


def resolved(whole: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """A response of a call, with a reference to a shared one resolved."""
    if "$ref" not in answer:
        return answer
    found: dict[str, Any] = whole["components"]["responses"][answer["$ref"].rpartition("/")[2]]
    return found


if __name__ == "__main__":
    sys.stdout.write(text())
