"""The same input gives the same bytes, whoever builds."""

import filecmp
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from hack.image.archive import layer
from tests.image.container import CHECKOUT, Image

pytestmark = [pytest.mark.real, pytest.mark.looptime(False), pytest.mark.timeout(900)]


def when(image: Image) -> int:
    """The time of everything in it."""
    return int(image.root.stat().st_mtime)


def differing(ours: Path, theirs: Path) -> list[str]:
    """The files that are not the same in both, to be shown; not all of them."""
    found: list[str] = []
    todo = [filecmp.dircmp(ours, theirs, ignore=[], hide=[])]
    while todo:
        here = todo.pop()
        found += [f"{here.left}/{name}" for name in (*here.left_only, *here.right_only)]
        found += [
            f"{here.left}/{name}"
            for name in filecmp.cmpfiles(here.left, here.right, here.common_files, shallow=False)[1]
        ]
        todo += here.subdirs.values()
    return found[:20]


def same(ours: Path, theirs: Path) -> bool:
    """Whether two roots are one layer, to the byte."""
    return layer(ours, 0) == layer(theirs, 0)


def test_the_second_root_of_the_same_input_is_the_first_one(
    image: Image, work: Path, tmp_path: Path
) -> None:
    environment = os.environ | {
        "SOURCE_DATE_EPOCH": str(when(image)),
        "PYTHONHASHSEED": "7",
        "TZ": "Asia/Tokyo",
    }
    subprocess.run(
        [CHECKOUT / "hack/image/assemble", work, tmp_path / "root"],
        check=True,
        env=environment,
        cwd=tmp_path,
    )
    try:
        assert differing(image.root, tmp_path / "root") == []
        assert same(image.root, tmp_path / "root")
    finally:
        shutil.rmtree(tmp_path / "root")


def test_buildah_builds_the_dockerfile_to_the_same_root(
    image: Image, work: Path, tmp_path: Path
) -> None:
    if shutil.which("buildah") is None or shutil.which("mmdebstrap") is None:
        pytest.skip("buildah and mmdebstrap are not installed")
    environment = os.environ | {
        "SOURCE_DATE_EPOCH": str(when(image)),
        "STORAGE_DRIVER": "vfs",  # works on any file system
        "BASE": f"oci-archive:{tmp_path}/base.oci",
        "IMAGE": "localhost/dependency-watchdog:test",
        "XDG_RUNTIME_DIR": str(tmp_path),
    }
    storage = tmp_path / "storage.conf"
    storage.write_text(
        f'[storage]\ndriver = "vfs"\nrunroot = "{tmp_path}/run"\ngraphroot = "{tmp_path}/storage"\n'
    )
    environment["CONTAINERS_STORAGE_CONF"] = str(storage)

    def run(*command: str) -> str:
        done = subprocess.run(
            command, check=True, env=environment, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True
        )
        return done.stdout.strip()

    try:
        run("hack/image/base", f"{tmp_path}/base.oci")
        run("hack/image/build", "buildah")
        container = run("buildah", "from", "--pull-never", environment["IMAGE"])
        theirs = Path(run("buildah", "mount", container))
        assert differing(image.root, theirs) == []
        assert same(image.root, theirs)
    finally:
        subprocess.run(
            ["buildah", "rm", "--all"], check=False, env=environment, stdout=subprocess.DEVNULL
        )
        shutil.rmtree(tmp_path)
