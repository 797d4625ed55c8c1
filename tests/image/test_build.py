"""Which commands hack/image/build gives to a builder; the builders are stand-ins that write down what they are told."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.image.container import CHECKOUT

pytestmark = pytest.mark.looptime(False)

_STAND_IN = """#!/bin/sh
echo "${0##*/} $*" >>"$TOLD"
case "${0##*/} $1" in
  "docker version") [ -n "$ENGINE" ] && echo "$ENGINE" || exit 1 ;;
  "docker info") [ -n "$ENGINE" ] ;;
  *\\ save|*\\ push) for last; do :; done; : >"dist/dependency-watchdog-0.0.7.oci.tar" ;;
esac
"""


@dataclass(frozen=True, slots=True)
class Workshop:
    """A checkout with nothing but the script, and the stand-ins."""

    folder: Path

    def build(self, *words: str, engine: str = "27.3.1") -> "subprocess.CompletedProcess[str]":
        """Runs it with a docker engine of that version; none where that is empty."""
        environment = {
            "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
            "TOLD": str(self.folder / "told"),
            "ENGINE": engine,
            "SOURCE_DATE_EPOCH": "1700000000",
            "REVISION": "abc",
        }
        return subprocess.run(
            [self.folder / "hack/image/build", *words],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=20,
        )

    def told(self, builder: str) -> list[str]:
        """What the stand-in was told, but the questions about itself."""
        told = (self.folder / "told").read_text().splitlines()
        words = [line.removeprefix(f"{builder} ") for line in told if line.startswith(builder)]
        return [line for line in words if not line.startswith(("info", "version"))]


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    """A checkout of version 0.0.7."""
    (tmp_path / "hack/image").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    shutil.copy(CHECKOUT / "hack/image/build", tmp_path / "hack/image/build")
    (tmp_path / "pyproject.toml").write_text('version = "0.0.7"\n')
    for builder in ("docker", "podman", "buildah"):
        (tmp_path / "bin" / builder).write_text(_STAND_IN)
        (tmp_path / "bin" / builder).chmod(0o755)
    (tmp_path / "told").touch()
    return Workshop(tmp_path)


@pytest.mark.parametrize("builder", ["docker", "podman", "buildah"])
def test_no_builder_takes_the_packages_of_an_earlier_day_out_of_its_cache(
    workshop: Workshop, builder: str
) -> None:
    done = workshop.build(builder)
    assert done.returncode == 0, done.stderr
    (command,) = [line for line in workshop.told(builder) if line.startswith(("build", "bud"))]
    assert "--no-cache" in command.split()
    assert "--build-arg SOURCE_DATE_EPOCH=1700000000" in command


def test_a_new_engine_of_docker_is_the_first_choice(workshop: Workshop) -> None:
    done = workshop.build(engine="25.0.0")
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in workshop.told("docker")] == ["build", "save"]
    assert workshop.told("podman") == []


@pytest.mark.parametrize("engine", ["24.0.9", "20.10.24+dfsg1", "5.2.0", "unknown", ""])
def test_a_docker_that_would_not_save_an_oci_archive_is_passed_over(
    workshop: Workshop, engine: str
) -> None:
    done = workshop.build(engine=engine)
    assert done.returncode == 0, done.stderr
    assert workshop.told("docker") == []
    (_, save) = workshop.told("podman")
    assert "--format oci-archive" in save


@pytest.mark.parametrize("engine", ["24.0.9", ""])
def test_who_names_such_a_docker_is_told_why_before_anything_is_built(
    workshop: Workshop, engine: str
) -> None:
    done = workshop.build("docker", engine=engine)
    assert done.returncode == 1
    assert f"25 or newer; here: {engine or 'none'}" in done.stderr
    assert workshop.told("docker") == []
