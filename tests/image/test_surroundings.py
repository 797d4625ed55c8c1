"""What the build says in bad surroundings, and that nothing half done looks finished."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from hack.image import archive
from tests.image.container import CHECKOUT

pytestmark = pytest.mark.looptime(False)

NO_COMMIT = "git knows no commit of"
NOT_HERE = "needs root on Debian 12"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Sources without a commit, and steps that leave nothing but their name."""
    made = tmp_path / "sources"
    (made / "hack/image").mkdir(parents=True)
    shutil.copy(CHECKOUT / "hack/image/build", made / "hack/image/build")
    (made / "pyproject.toml").write_text('version = "0.0.7"\n')
    return made


def step(checkout: Path, name: str, text: str) -> None:
    """A stand-in of hack/image/fetch or hack/image/assemble."""
    (checkout / "hack/image" / name).write_text(f"#!/bin/sh\n{text}\n")
    (checkout / "hack/image" / name).chmod(0o755)


def build_root(checkout: Path, variables: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    """Runs `hack/image/build root` there; git looks no further up."""
    environment = {
        "PATH": os.environ["PATH"],
        "GIT_CEILING_DIRECTORIES": str(checkout.parent),
        **variables,
    }
    return subprocess.run(
        [checkout / "hack/image/build", "root"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )


COMMIT = {"SOURCE_DATE_EPOCH": "1700000000", "REVISION": "abc"}
on_debian_12 = pytest.mark.skipif(
    os.geteuid() != 0 or "bookworm" not in Path("/etc/os-release").read_text(),
    reason="without a builder only root on Debian 12 may build",
)


@pytest.mark.parametrize("left_out", COMMIT)
def test_sources_without_a_commit_have_to_say_which_it_is(checkout: Path, left_out: str) -> None:
    given = {name: value for name, value in COMMIT.items() if name != left_out}
    done = build_root(checkout, given)
    assert done.returncode == 1
    assert f"{NO_COMMIT} {checkout}" in done.stderr
    assert "REVISION" in done.stderr


def test_the_commit_of_a_folder_above_is_not_taken_for_that_of_the_sources(
    checkout: Path, tmp_path: Path
) -> None:
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    for words in (["init", "-q"], [*who, "commit", "-q", "--allow-empty", "-m", "another one"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    done = build_root(checkout, {"GIT_CEILING_DIRECTORIES": ""})
    assert done.returncode == 1
    assert NO_COMMIT in done.stderr


@pytest.mark.parametrize("epoch", ["abc", "1.5", "-1", "2026-01-01"])
def test_a_time_that_is_none_is_named(checkout: Path, epoch: str) -> None:
    done = build_root(checkout, {**COMMIT, "SOURCE_DATE_EPOCH": epoch})
    assert done.returncode == 1
    assert f"SOURCE_DATE_EPOCH={epoch}: must be" in done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="only who is not root is sent away")
def test_who_is_not_root_is_told_before_anything_is_fetched(checkout: Path) -> None:
    done = build_root(checkout, COMMIT)
    assert done.returncode == 1
    assert NOT_HERE in done.stderr


@on_debian_12
def test_a_root_that_was_not_finished_is_not_called_root(checkout: Path) -> None:
    root = checkout / "build/image/root"
    root.mkdir(parents=True)  # that of a build before
    step(checkout, "fetch", "exit 0")
    step(checkout, "assemble", 'mkdir -p "$2/usr"; exit 3')
    done = build_root(checkout, COMMIT)
    assert done.returncode == 3
    assert not root.exists()
    step(checkout, "assemble", 'test ! -e "$2" && mkdir -p "$2/usr"')
    assert build_root(checkout, COMMIT).returncode == 0
    assert [each.name for each in root.iterdir()] == ["usr"]


@on_debian_12
def test_of_two_builds_in_one_place_the_second_waits(checkout: Path) -> None:
    step(checkout, "fetch", "exit 0")
    step(checkout, "assemble", 'mkdir -p "$2/usr"')
    place = checkout / "build/image"
    place.mkdir(parents=True)
    holder = ["flock", str(place / "lock"), "sh", "-c", "echo locked; read _ || :"]
    with subprocess.Popen(
        holder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "locked\n"
        with subprocess.Popen(
            [checkout / "hack/image/build", "root"],
            env={"PATH": os.environ["PATH"], **COMMIT},
            stderr=subprocess.PIPE,
            text=True,
        ) as second:
            assert second.stderr is not None
            assert "waits for another build in build/image" in second.stderr.readline()
            assert not (place / "root").exists()
            first.communicate("")  # the end of its input ends it, and frees the lock
            assert second.wait(20) == 0
    assert (place / "root/usr").is_dir()


def test_an_archive_that_does_not_fit_on_the_disk_leaves_nothing_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "root").mkdir()
    target = tmp_path / "x.tar"
    monkeypatch.setattr("tarfile.TarFile.addfile", full)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    arguments = [f"--arg={name}=x" for name in ("VERSION", "REVISION", "CREATED")]
    with pytest.raises(SystemExit, match=f"{target}: No space left on device"):
        archive.main([str(tmp_path / "root"), str(target), *arguments])
    assert [each.name for each in tmp_path.iterdir()] == ["root"]
