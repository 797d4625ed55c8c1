"""`make demo` on a machine that has nothing yet: one line while it is set up, and one where that fails."""

import os
import shutil
import sys

import pytest

from tests.support.programs import ended, write_program

pytestmark = [
    pytest.mark.looptime(False),
    pytest.mark.blocking,  # another process is waited for
    pytest.mark.skipif(shutil.which("make") is None, reason="there is no make"),
]


def make(folder, pip):
    """Sets up a virtual environment whose `python -m pip` is this shell script."""
    python = folder / "venv/bin/python"
    python.parent.mkdir(parents=True)
    write_program(python, pip)
    stamp = folder / "venv/.installed"
    variables = [f"VENV={folder}/venv", f"PYTHON={sys.executable}"]
    path = {"PATH": os.environ["PATH"]}
    return ended("make", "--no-print-directory", *variables, stamp, env=path)


def test_whatever_pip_says_it_is_one_line(tmp_path):
    done = make(tmp_path, "echo WARNING: there is a newer pip; echo and more; echo and more >&2")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"installing the program and what it needs into {tmp_path}/venv, once (half a minute)"
    ]
    assert (tmp_path / "venv/.installed").exists()


def test_where_it_fails_its_first_line_says_why_and_the_rest_is_kept(tmp_path):
    done = make(tmp_path, "echo WARNING: connection refused; echo ERROR: no such package; exit 1")
    assert done.returncode != 0
    log = f"{tmp_path}/venv/pip.log"
    said = [line for line in done.stderr.splitlines() if not line.startswith("make:")]
    assert said == [f"pip: WARNING: connection refused (all that it says: {log})"]
    assert "ERROR: no such package" in (tmp_path / "venv/pip.log").read_text()
    assert not (tmp_path / "venv/.installed").exists()
