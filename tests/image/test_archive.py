"""The OCI archive that needs no builder."""

import gzip
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hack.image import archive

EPOCH = 1_700_000_000
ARGUMENTS = [f"--arg={name}=x" for name in ("VERSION", "REVISION", "CREATED")]
CONFIG = {"User": "65532:65532", "Entrypoint": ["/x"]}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small root: a program, a link to it, an empty folder."""
    made = tmp_path / "root"
    (made / "usr/bin").mkdir(parents=True)
    (made / "tmp").mkdir()
    program = made / "usr/bin/x"
    program.write_text("#!/nothing\n")
    program.chmod(0o755)
    (made / "bin").symlink_to("usr/bin")
    return made


def layout(root: Path) -> dict[str, bytes]:
    """Its image."""
    return archive.layout(root, CONFIG, "example.test/x:1", EPOCH, "x86_64")


def blob(files: Mapping[str, bytes], descriptor: Mapping[str, Any]) -> bytes:
    """What a descriptor leads to, which is what it says."""
    content = files[f"blobs/{descriptor['digest'].replace(':', '/')}"]
    assert f"sha256:{hashlib.sha256(content).hexdigest()}" == descriptor["digest"]
    assert len(content) == descriptor["size"]
    return content


def entries(content: bytes) -> dict[str, tarfile.TarInfo]:
    """The members of a tar."""
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        return {entry.name: entry for entry in tar}


def test_every_digest_and_size_is_that_of_its_content(root: Path) -> None:
    files = layout(root)
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    (entry,) = json.loads(files["index.json"])["manifests"]
    manifest = json.loads(blob(files, entry))
    about = json.loads(blob(files, manifest["config"]))
    content = gzip.decompress(blob(files, manifest["layers"][0]))
    assert about["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(content).hexdigest()}"]
    assert about["config"] == CONFIG
    assert (about["architecture"], about["os"]) == ("amd64", "linux")
    assert len(files) == 5


def test_it_is_loaded_under_its_name(root: Path) -> None:
    (entry,) = json.loads(layout(root)["index.json"])["manifests"]
    assert entry["annotations"] == {
        "io.containerd.image.name": "example.test/x:1",
        "org.opencontainers.image.ref.name": "1",
    }


def test_the_layer_has_the_files_as_they_are_and_as_those_of_root(root: Path) -> None:
    found = entries(archive.layer(root, EPOCH))
    assert list(found) == ["bin", "tmp", "usr", "usr/bin", "usr/bin/x"]
    assert found["bin"].linkname == "usr/bin"
    assert found["tmp"].isdir()
    assert found["usr/bin/x"].mode == 0o755
    assert {(entry.uid, entry.gid, entry.uname, entry.mtime) for entry in found.values()} == {
        (0, 0, "", EPOCH)
    }


def test_when_the_files_were_made_changes_nothing(root: Path) -> None:
    before = layout(root)
    os.utime(root / "usr/bin/x", (1, 1))
    assert layout(root) == before


@pytest.mark.parametrize("change", ["content", "mode", "link", "name"])
def test_whatever_a_container_would_see_changes_the_digest(root: Path, change: str) -> None:
    before = layout(root)["index.json"]
    match change:
        case "content":
            (root / "usr/bin/x").write_text("another")
        case "mode":
            (root / "usr/bin/x").chmod(0o700)
        case "link":
            (root / "bin").unlink()
            (root / "bin").symlink_to("usr")
        case _:
            (root / "usr/bin/x").rename(root / "usr/bin/y")
    assert layout(root)["index.json"] != before


def test_the_program_writes_an_archive_and_says_its_digest(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(EPOCH))
    said: list[str] = []
    target = tmp_path / "image.tar"
    archive.main([str(root), str(target), "--name=example.test/x:1", *ARGUMENTS], said.append)
    with tarfile.open(target) as tar:
        index = tar.extractfile("index.json")
        assert index is not None
        (entry,) = json.loads(index.read())["manifests"]
    assert entry["digest"] in said[0]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_machine_that_no_image_is_known_for_is_refused(root: Path) -> None:
    with pytest.raises(KeyError, match="vax"):
        archive.layout(root, CONFIG, "x:1", EPOCH, "vax")


def test_an_archive_that_does_not_fit_on_the_disk_leaves_nothing_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "root").mkdir()
    target = tmp_path / "x.tar"
    monkeypatch.setattr("tarfile.TarFile.addfile", full)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(EPOCH))
    with pytest.raises(SystemExit, match=f"{target}: No space left on device"):
        archive.main([str(tmp_path / "root"), str(target), *ARGUMENTS])
    assert [each.name for each in tmp_path.iterdir()] == ["root"]
