"""The commands of the client, run as the program runs them, against an API that answers as a test says."""

import io
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from app import commands
from app.cli import program
from app.core.errors import ConfigurationError
from tests.cli.server import FakeApi


@dataclass
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self):
        return self.out.splitlines()


def run(*words, environ=None):
    """Runs `dwd` with these words in this process."""
    out, err = io.StringIO(), io.StringIO()
    try:
        command = commands.parse(words, environ or {})
        assert not isinstance(command, commands.Help)
        code = program.run_client(command, environ or {}, out, err)
    except ConfigurationError as error:
        err.write(f"{error}\n")
        code = commands.EXIT_WRONG
    return Ran(code, out.getvalue(), err.getvalue())


def started(*words: str, out: Any = subprocess.PIPE, **environ: str) -> Any:
    """Begins `dwd` as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "app", *words],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "TERM": "xterm", **environ},
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )


@pytest.fixture
def kubeconfig(tmp_path):
    """Writes a kubeconfig with this user in context `mine`, and one more in context `other`."""

    def write(user, name="config", server="https://seed", cluster=None, **more):
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "mine",
            "clusters": [{"name": "c", "cluster": {"server": server, **(cluster or {})}}],
            "contexts": [
                {"name": "mine", "context": {"cluster": "c", "user": "me"}},
                {"name": "other", "context": {"cluster": "c", "user": "she"}},
            ],
            "users": [
                {"name": "me", "user": user},
                {"name": "she", "user": {"token": "her-token"}},
            ],
        }
        path = tmp_path / name
        path.write_text(yaml.safe_dump(config | more))
        return path

    return write


@pytest.fixture
def api():
    with FakeApi() as found:
        yield found


@pytest.fixture
def dwd(api):
    """Runs `dwd` against the API."""

    def call(*words, environ=None):
        return run(*words, environ={"DWD_SERVER": api.url} | (environ or {}))

    return call
