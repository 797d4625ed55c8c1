"""hack/image/build: what it tells a builder, what it says where it cannot build, and that nothing half done looks done.

The builders are stand-ins that write down what they are told, and so are the steps of a build without one.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.image.container import CHECKOUT
from tests.support.programs import ended, write_program

pytestmark = pytest.mark.looptime(False)

_STAND_IN = """#!/bin/sh
echo "${0##*/} $*" >>"$TOLD"
case "${0##*/} $1" in
  "docker version") [ -n "$ENGINE" ] && echo "$ENGINE" || exit 1 ;;
  "docker info") [ -n "$ENGINE" ] ;;
  *\\ save|*\\ push) for last; do :; done; : >"dist/dependency-watchdog-0.0.7.oci.tar" ;;
esac
"""


COMMIT = {"SOURCE_DATE_EPOCH": "1700000000", "REVISION": "abc"}
NO_COMMIT = "git knows no commit of"


@dataclass(frozen=True, slots=True)
class Workshop:
    """A checkout with nothing but the script, and the stand-ins."""

    folder: Path

    def step(self, name: str, text: str) -> None:
        """A stand-in of hack/image/fetch or hack/image/assemble."""
        write_program(self.folder / "hack/image" / name, text)

    def environment(self, **variables: str) -> dict[str, str]:
        """Of a run: git looks no further up."""
        return {
            "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
            "TOLD": str(self.folder / "told"),
            "GIT_CEILING_DIRECTORIES": str(self.folder.parent),
            **variables,
        }

    def build(
        self, *words: str, engine: str = "27.3.1", commit: Mapping[str, str] = COMMIT, **more: str
    ) -> "subprocess.CompletedProcess[str]":
        """Runs it with a docker engine of that version, none where that is empty; the sources are of that commit."""
        environment = self.environment(ENGINE=engine, **commit, **more)
        return ended(self.folder / "hack/image/build", *words, env=environment)

    def told(self, builder: str) -> list[str]:
        """What the stand-in was told, but the questions about itself."""
        told = (self.folder / "told").read_text().splitlines()
        words = [line.removeprefix(f"{builder} ") for line in told if line.startswith(builder)]
        return [line for line in words if not line.startswith(("info", "version"))]


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    """A checkout of version 0.0.7."""
    made = tmp_path / "sources"
    (made / "hack/image").mkdir(parents=True)
    (made / "bin").mkdir()
    shutil.copy(CHECKOUT / "hack/image/build", made / "hack/image/build")
    (made / "pyproject.toml").write_text('version = "0.0.7"\n')
    for builder in ("docker", "podman", "buildah"):
        (made / "bin" / builder).write_text(_STAND_IN)
        (made / "bin" / builder).chmod(0o755)
    (made / "told").touch()
    return Workshop(made)


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


# Without a builder.

on_debian_12 = pytest.mark.skipif(
    os.geteuid() != 0 or "bookworm" not in Path("/etc/os-release").read_text(),
    reason="without a builder only root on Debian 12 may build",
)


@pytest.mark.parametrize("left_out", COMMIT)
def test_sources_without_a_commit_have_to_say_which_it_is(
    workshop: Workshop, left_out: str
) -> None:
    given = {name: value for name, value in COMMIT.items() if name != left_out}
    done = workshop.build("root", commit=given)
    assert done.returncode == 1
    assert f"{NO_COMMIT} {workshop.folder}" in done.stderr
    assert "REVISION" in done.stderr


def test_the_commit_of_a_folder_above_is_not_taken_for_that_of_the_sources(
    workshop: Workshop, tmp_path: Path
) -> None:
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    for words in (["init", "-q"], [*who, "commit", "-q", "--allow-empty", "-m", "another one"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    done = workshop.build("root", commit={"GIT_CEILING_DIRECTORIES": ""})
    assert done.returncode == 1
    assert NO_COMMIT in done.stderr


@pytest.mark.parametrize("epoch", ["abc", "1.5", "-1", "2026-01-01"])
def test_a_time_that_is_none_is_named(workshop: Workshop, epoch: str) -> None:
    done = workshop.build("root", commit={**COMMIT, "SOURCE_DATE_EPOCH": epoch})
    assert done.returncode == 1
    assert f"SOURCE_DATE_EPOCH={epoch}: must be" in done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="only who is not root is sent away")
def test_who_is_not_root_is_told_before_anything_is_fetched(workshop: Workshop) -> None:
    done = workshop.build("root")
    assert done.returncode == 1
    assert "needs root on Debian 12" in done.stderr


@on_debian_12
def test_a_root_that_was_not_finished_is_not_called_root(workshop: Workshop) -> None:
    root = workshop.folder / "build/image/root"
    root.mkdir(parents=True)  # that of a build before
    workshop.step("fetch", "exit 0")
    workshop.step("assemble", 'mkdir -p "$2/usr"; exit 3')
    assert workshop.build("root").returncode == 3
    assert not root.exists()
    workshop.step("assemble", 'test ! -e "$2" && mkdir -p "$2/usr"')
    assert workshop.build("root").returncode == 0
    assert [each.name for each in root.iterdir()] == ["usr"]


@on_debian_12
def test_of_two_builds_in_one_place_the_second_waits(workshop: Workshop) -> None:
    workshop.step("fetch", "exit 0")
    workshop.step("assemble", 'mkdir -p "$2/usr"')
    place = workshop.folder / "build/image"
    place.mkdir(parents=True)
    holder = ["flock", str(place / "lock"), "sh", "-c", "echo locked; read _ || :"]
    with subprocess.Popen(
        holder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "locked\n"
        with subprocess.Popen(
            [workshop.folder / "hack/image/build", "root"],
            env=workshop.environment(**COMMIT),
            stderr=subprocess.PIPE,
            text=True,
        ) as second:
            assert second.stderr is not None
            assert "waits for another build in build/image" in second.stderr.readline()
            assert not (place / "root").exists()
            first.communicate("")  # the end of its input ends it, and frees the lock
            assert second.wait(20) == 0
    assert (place / "root/usr").is_dir()
