"""`kubectl dwd …`: the program as a plugin of kubectl, and the name that its usage texts show."""

import os
import shutil
import sys
from importlib.metadata import entry_points

import pytest

from app import commands
from tests.support.programs import ROOT, ended, write_program

KUBECTL = shutil.which("kubectl")


@pytest.fixture
def program(tmp_path):
    """The program under this name, as pip installs it; returns its folder."""

    text = "from app.__main__ import main\nmain()"
    return lambda name: write_program(tmp_path / name, text, sys.executable)


def said(*words, path="", **environ):
    found = {"PYTHONPATH": str(ROOT), "PATH": f"{path}:{os.environ['PATH']}"}
    done = ended(*words, env={**os.environ, **found, **environ})
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/usr/local/bin/kubectl-dwd", "kubectl dwd"),
        ("kubectl-dwd", "kubectl dwd"),
        ("/opt/dependency-watchdog", "dependency-watchdog"),
        ("/venv/bin/dwd", "dwd"),
        ("/work/app/__main__.py", "dwd"),
        ("", "dwd"),
    ],
)
def test_it_knows_by_which_name_it_was_called(path, name):
    assert commands.called_by(path) == name


def test_it_is_installed_as_a_plugin():
    found = entry_points(group="console_scripts", name="kubectl-dwd")
    assert {each.value for each in found} == {"app.__main__:main"}


def test_usage_texts_and_mistakes_show_that_name(program):
    plugin = program("kubectl-dwd")
    code, out, err = said(plugin, "--help")
    assert (code, err) == (0, "")
    assert out.startswith("Usage: kubectl dwd COMMAND [flags]\n")
    assert "kubectl dwd COMMAND --help has the flags." in out
    assert "kubectl kubectl" not in out
    code, out, err = said(plugin, "pause")
    assert (code, out) == (2, "")
    assert err.startswith("kubectl dwd pause: ")


@pytest.mark.skipif(KUBECTL is None, reason="needs kubectl")
def test_kubectl_runs_it_with_its_flags_and_its_exit_code(program, tmp_path):
    program("kubectl-dwd")
    code, out, _ = said(KUBECTL, "dwd", "shoots", "--help", path=tmp_path)
    assert (code, out.splitlines()[0]) == (0, "Usage: kubectl dwd shoots [NAME] [flags]")
    code, _, err = said(
        KUBECTL, "dwd", "shoots", "--context=x", "--server=http://127.0.0.1:1", path=tmp_path
    )
    assert code == 2
    assert err == "kubectl dwd shoots: --context: needs --kubeconfig\n"
