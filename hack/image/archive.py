"""A root as an image, without a builder: `python -m hack.image.archive ROOT FILE --arg VERSION=… …`.

FILE is an OCI archive: a tar of an OCI image layout with one layer.  `podman load`, `skopeo copy oci-archive:FILE`,
`ctr images import` and `docker load` (25 and newer) read it.  What the image says of itself is the last stage of the
Dockerfile.  The same root gives the same bytes; times are SOURCE_DATE_EPOCH.  Needs nothing but Python.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import platform
import re
import sys
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

DOCKERFILE: Final = Path(__file__).resolve().parent.parent.parent / "Dockerfile"
ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_PLAIN: Final = {"USER": "User", "WORKDIR": "WorkingDir", "STOPSIGNAL": "StopSignal"}
_THE_LAYER: Final = "--from=build /image /"
_TYPE: Final = "application/vnd.oci.image"


class NotUnderstood(Exception):
    """An instruction of the Dockerfile that this program cannot carry out."""


def image_config(dockerfile: str, arguments: Mapping[str, str]) -> dict[str, Any]:
    """What a container is started with: the `config` of the image, from the last stage of a Dockerfile.

    Args:
        dockerfile: its text.
        arguments: the build arguments.

    Raises:
        NotUnderstood: there is an instruction that is not known here, or an argument is missing.
    """
    stage = re.split(r"^FROM .*$", dockerfile, flags=re.MULTILINE)[-1]
    config: dict[str, Any] = {"Env": [], "Labels": {}, "ExposedPorts": {}}
    for line in filter(None, (line.partition(" #")[0].strip() for line in stage.splitlines())):
        instruction, _, rest = line.partition(" ")
        _instruct(config, instruction, _filled_in(rest.strip(), arguments), line)
    return config


def _filled_in(text: str, arguments: Mapping[str, str]) -> str:
    try:
        return re.sub(r"\$\{(\w+)\}", lambda found: arguments[found[1]], text)
    except KeyError as missing:
        raise NotUnderstood(f"there is no argument {missing}") from missing


def _instruct(config: dict[str, Any], instruction: str, rest: str, line: str) -> None:
    match instruction:
        case "ARG" | "COPY" if instruction == "ARG" or rest == _THE_LAYER:
            pass  # the values of arguments are given, and the files are the root
        case "USER" | "WORKDIR" | "STOPSIGNAL":
            config[_PLAIN[instruction]] = rest
        case "ENTRYPOINT":
            config["Entrypoint"] = json.loads(rest)
        case "ENV":
            config["Env"].append(rest)
        case "EXPOSE":
            config["ExposedPorts"] |= {port: {} for port in rest.split()}
        case "LABEL":
            name, _, value = rest.partition("=")
            config["Labels"][name] = json.loads(value)
        case _:
            raise NotUnderstood(f"Dockerfile: {line}")


def layer(root: Path, epoch: int) -> bytes:
    """The files of `root` as a tar: sorted, of root, at `epoch` (seconds)."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(root.rglob("*")):
            entry = tar.gettarinfo(path, str(path.relative_to(root)))
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mtime = epoch
            if entry.isfile():
                with path.open("rb") as content:
                    tar.addfile(entry, content)
            else:
                tar.addfile(entry)
    return made.getvalue()


@dataclass(slots=True)
class _Blobs:
    """The content of a layout, by digest."""

    found: dict[str, bytes] = field(default_factory=dict)

    def add(self, kind: str, content: bytes) -> dict[str, Any]:
        """Keeps it; returns its descriptor."""
        digest = hashlib.sha256(content).hexdigest()
        self.found[digest] = content
        return {"mediaType": f"{_TYPE}.{kind}", "digest": f"sha256:{digest}", "size": len(content)}


def layout(
    root: Path, config: Mapping[str, Any], name: str, epoch: int, machine: str
) -> dict[str, bytes]:
    """The files of an OCI image layout that holds `root` as the image `name`."""
    blobs, files = _Blobs(), layer(root, epoch)
    created = datetime.fromtimestamp(epoch, UTC).isoformat().replace("+00:00", "Z")
    about = {
        "created": created,
        "architecture": ARCHITECTURES[machine],
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(files).hexdigest()}"]},
        "history": [{"created": created, "created_by": "hack/image/assemble"}],
    }
    packed = gzip.compress(files, compresslevel=6, mtime=0)
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{_TYPE}.manifest.v1+json",
        "config": blobs.add("config.v1+json", _json(about)),
        "layers": [blobs.add("layer.v1.tar+gzip", packed)],
    }
    entry = blobs.add("manifest.v1+json", _json(manifest))
    entry["annotations"] = {
        "org.opencontainers.image.ref.name": name.rpartition(":")[2],
        "io.containerd.image.name": name,  # under which docker and containerd load it
    }
    index = {"schemaVersion": 2, "mediaType": f"{_TYPE}.index.v1+json", "manifests": [entry]}
    return {
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        "index.json": _json(index),
        **{f"blobs/sha256/{digest}": content for digest, content in blobs.found.items()},
    }


def _json(content: object) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def write(files: Mapping[str, bytes], target: Path, epoch: int) -> None:
    """Writes a tar of `files`; an old one stays until the new one is whole."""
    new = target.with_name(f".{target.name}.new")
    try:
        with tarfile.open(new, "w", format=tarfile.USTAR_FORMAT) as tar:
            for name in sorted(files):
                entry = tarfile.TarInfo(name)
                entry.size, entry.mtime, entry.mode = len(files[name]), epoch, 0o644
                tar.addfile(entry, io.BytesIO(files[name]))
        new.replace(target)
    except BaseException:  # an interruption too: it is large, and worth nothing
        new.unlink(missing_ok=True)
        raise


def main(argv: list[str] | None = None, say: Callable[[str], object] = print) -> None:
    """Makes the archive, and says its digest and sizes."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("root", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--name", default="localhost/dependency-watchdog:dev")
    parser.add_argument("--arg", action="append", default=[], metavar="NAME=VALUE")
    asked = parser.parse_args(argv)
    arguments = dict(each.split("=", 1) for each in asked.arg)
    epoch = int(os.environ["SOURCE_DATE_EPOCH"])
    config = image_config(DOCKERFILE.read_text(), arguments)
    files = layout(asked.root, config, asked.name, epoch, platform.machine())
    try:
        write(files, asked.target, epoch)
    except OSError as error:  # of a full disk it does not name the file
        sys.exit(f"hack/image/archive: {asked.target}: {error.strerror or error}")
    manifest = json.loads(files["index.json"])["manifests"][0]
    size = sum(len(content) for content in files.values()) / 1e6
    say(f"{asked.target}: {asked.name}@{manifest['digest']}, {size:.1f} MB compressed")


if __name__ == "__main__":
    main()
