"""What is in the image: what the program needs, as it was published, and nothing else."""

import base64
import csv
import hashlib
import json
import os
import re
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hack.image.licences import DEBIAN, OF_THE_SYSTEM, PERMISSIVE, allowed, locked
from hack.image.linked import inside
from tests.image.container import CHECKOUT, Image
from tests.image.elf import needed

pytestmark = [pytest.mark.real, pytest.mark.looptime(False), pytest.mark.timeout(90)]

NEVER_IMPORTED = frozenset({"kubernetes_asyncio", "pygments"})
SBOM = "usr/local/share/dependency-watchdog/sbom.cdx.json"
MEGABYTES = 150  # docs/image.md has the figures; a new dependency shows here


@pytest.fixture(scope="module")
def sbom(image: Image) -> dict[str, Any]:
    """The bill of materials of the image."""
    found: dict[str, Any] = json.loads((image.root / SBOM).read_text())
    return found


def site_packages(image: Image) -> Path:
    """Where the Python packages are."""
    return next(image.root.glob("usr/local/lib/python3.*/site-packages"))


def test_every_file_is_of_root_and_only_root_may_write_it(image: Image) -> None:
    odd = []
    for folder, folders, names in os.walk(image.root):
        for name in (*folders, *names):
            path = Path(folder, name)
            found = path.lstat()
            writable = not stat.S_ISLNK(found.st_mode) and found.st_mode & 0o022
            special = found.st_mode & (stat.S_ISUID | stat.S_ISGID)
            kind = (
                stat.S_ISREG(found.st_mode)
                or stat.S_ISLNK(found.st_mode)
                or stat.S_ISDIR(found.st_mode)
            )
            if found.st_uid or found.st_gid or writable or special or not kind:
                odd.append(str(path.relative_to(image.root)))
    assert odd == ["tmp"]  # 1777, as everywhere


def test_all_times_are_those_of_the_commit(image: Image) -> None:
    assert len({path.lstat().st_mtime for path in (image.root, *image.files())}) == 1


def test_the_only_programs_are_python_and_ours(image: Image) -> None:
    programs = {
        str(path.relative_to(image.root))
        for path in image.files()
        if os.access(path, os.X_OK) and not path.is_symlink() and ".so" not in path.name
    }
    ours = {"usr/local/bin/dependency-watchdog", "usr/local/bin/dwd"}
    assert programs - ours == {"usr/bin/python3.11"}
    assert sorted(path.name for path in (image.root / "usr/local/bin").iterdir()) == [
        "dependency-watchdog",
        "dwd",
        "python",
    ]


def test_nothing_of_the_build_and_no_test_is_in_it(image: Image) -> None:
    left_over = {
        *[
            "pip",
            "setuptools",
            "wheel",
            "ensurepip",
            "tests",
            "test",
            "idlelib",
            "lib2to3",
            "cyclonedx",
            "gconv",
        ]
    }
    for place in ("usr/lib/python3*/*", "usr/local/lib/python3*/**/*", "usr/lib/*/*"):
        assert not [path for path in image.root.glob(place) if path.name in left_over]


def test_no_cache_and_no_path_of_the_build_is_in_it(image: Image) -> None:
    assert not [
        path for path in image.files() if path.name in {"direct_url.json", ".lock", "pip.conf"}
    ]
    texts = (path for path in image.files() if path.suffix in {"", ".cfg", ".json", ".txt", ".pth"})
    here = (str(CHECKOUT).encode(), str(image.root).encode())
    for path in texts:
        if not path.is_symlink():
            content = path.read_bytes()
            assert not [each for each in here if each in content], path


def test_every_library_that_is_linked_to_is_there(image: Image) -> None:
    libraries = [path for path in image.files() if ".so" in path.name or path.name == "python3.11"]
    names = {path.name for path in libraries}
    missing = {
        str(path.relative_to(image.root)): sorted(needed(path) - names)
        for path in libraries
        if not path.is_symlink() and needed(path) - names
    }
    assert missing == {}
    assert "libc.so.6" in needed(image.root / "usr/bin/python3.11")


def test_every_link_leads_to_a_file_of_the_image(image: Image) -> None:
    links = [path for path in (*image.root.iterdir(), *image.files()) if path.is_symlink()]
    for link in links:
        target = link.readlink()
        inside = (
            image.root / target.relative_to("/") if target.is_absolute() else link.parent / target
        )
        assert inside.exists(), link
        assert image.root in inside.resolve().parents
    assert links


def test_every_module_of_the_program_can_be_imported(image: Image) -> None:
    print_failures = (
        "import importlib, pkgutil, app\n"
        "for m in pkgutil.walk_packages(app.__path__, 'app.'):\n"
        "    m.name == 'app.__main__' or importlib.import_module(m.name)\n"
        "import kubernetes_asyncio.client, kubernetes_asyncio.config, ssl\n"
        "print(len(ssl.create_default_context().get_ca_certs()) > 100)"
    )
    assert image.python(print_failures) == "True\n"


def test_the_python_packages_are_those_of_the_lock(image: Image) -> None:
    found = {
        tuple(path.name.removesuffix(".dist-info").rsplit("-", 1))
        for path in site_packages(image).glob("*.dist-info")
    }
    normal = {
        (name.lower().replace("_", "-").replace(".", "-"), version) for name, version in found
    }
    (ours,) = normal - set(locked())
    assert ours[0] == "dependency-watchdog"
    assert set(locked()) <= normal


def test_every_file_of_a_python_package_is_as_it_was_published(image: Image) -> None:
    site = site_packages(image)
    known = set()
    for record in site.glob("*.dist-info/RECORD"):
        for name, digest, _ in csv.reader(record.read_text().splitlines()):
            path = site / name
            known.add(os.path.normpath(path))
            if digest:
                how, _, expected = digest.partition("=")
                actual = base64.urlsafe_b64encode(hashlib.new(how, path.read_bytes()).digest())
                assert actual.rstrip(b"=").decode() == expected, name
    strangers = {
        str(path)
        for path in site.rglob("*")
        if path.is_file() and path.suffix != ".pyc" and str(path) not in known
    }
    assert strangers == set()


def test_what_no_pod_imports_has_no_bytecode_and_the_demo_is_not_there(image: Image) -> None:
    assert not [path for path in image.files() if "simulation" in path.parts]
    compiled = [path for path in image.files() if path.suffix == ".pyc"]
    assert not [path for path in compiled if not NEVER_IMPORTED.isdisjoint(path.parts)]
    # The extra `demo` of pyproject.toml: the simulated API servers need certificate authorities, and no pod does.
    assert not [path for path in image.files() if "cryptography" in str(path)]


def test_all_bytecode_is_there_and_is_never_compared_with_its_source(image: Image) -> None:
    sources = [
        path
        for path in image.files()
        if path.suffix == ".py" and NEVER_IMPORTED.isdisjoint(path.parts)
    ]
    for source in sources:
        compiled = source.parent / "__pycache__" / f"{source.stem}.cpython-311.pyc"
        flags = int.from_bytes(compiled.read_bytes()[4:8], "little")
        assert flags == 0b01, compiled  # by hash, unchecked (PEP 552)
    assert len(sources) > 1000


def test_the_debian_packages_are_those_whose_licences_were_read(image: Image) -> None:
    found = {path.name for path in (image.root / "var/lib/dpkg/status.d").iterdir()}
    assert found == set(DEBIAN)
    for name in found:
        assert (image.root / "usr/share/doc" / name / "copyright").exists(), name


def test_no_debian_package_has_a_newer_version(image: Image, work: Path) -> None:
    """Against the lists that the build has fetched: what had a fix then is in the image."""
    packages = (image.root / "var/lib/dpkg/status.d").iterdir()
    ours = {
        path.name: re.findall(r"^Version: (.*)$", path.read_text(), re.MULTILINE)[0]
        for path in packages
    }
    own = [
        f"-oDir::State={work}/apt",
        f"-oDir::State::status={work}/apt/none/status",
        f"-oDir::Cache={work}/apt/cache",
    ]
    (work / "apt/none/status").touch()
    sources = os.environ.get("DEBIAN_SOURCES", "/etc/apt/sources.list.d/debian.sources")
    own += [f"-oDir::Etc::sourcelist={sources}", f"-oDir::Etc::sourceparts={work}/apt/none"]
    told = subprocess.run(
        ["apt-cache", *own, "policy", *sorted(ours)], capture_output=True, text=True, check=True
    ).stdout
    newest = dict(re.findall(r"^(\S+):\n.*\n  Candidate: (.*)$", told, re.MULTILINE))
    assert newest == ours
    assert "bookworm-security" in told


def test_it_has_the_size_that_the_page_tells(image: Image) -> None:
    size = sum(path.lstat().st_size for path in image.files()) / 1e6
    assert MEGABYTES * 0.5 < size < MEGABYTES


def test_the_sbom_lists_what_is_there_with_licences_that_are_allowed(sbom: dict[str, Any]) -> None:
    purls = {each["purl"].partition("?")[0] for each in sbom["components"]}
    assert {f"pkg:pypi/{name}@{version}" for name, version in locked()} <= purls
    debian = {each["name"] for each in sbom["components"] if each["purl"].startswith("pkg:deb/")}
    assert debian == set(DEBIAN)
    assert {purl for purl in purls if purl.startswith("pkg:generic/")} >= {
        "pkg:generic/" + (f"{each.name}@{each.version}" if each.version else each.name)
        for each in inside()
    }
    assert not [
        purl
        for purl in purls
        if not purl.startswith(("pkg:pypi", "pkg:deb", "pkg:cargo", "pkg:generic"))
    ]
    assert sbom["metadata"]["component"]["name"] == "dependency-watchdog"
    for each in sbom["components"]:
        (terms,) = each["licenses"]
        named = terms.get("license", {})
        licence = terms.get("expression") or named.get("id", named.get("name"))
        system = each["purl"].startswith("pkg:deb/")
        assert allowed(licence, OF_THE_SYSTEM if system else PERMISSIVE), each


def test_the_sbom_keeps_to_the_schema(image: Image, work: Path) -> None:
    """By the validator of the CycloneDX library, which is in the tools of the build only."""
    validate = (
        "import sys\n"
        "from cyclonedx.schema import SchemaVersion\n"
        "from cyclonedx.validation.json import JsonStrictValidator\n"
        "mistakes = JsonStrictValidator(SchemaVersion.V1_6).validate_str(sys.stdin.read())\n"
        "sys.exit(0 if mistakes is None else 3)"
    )
    text = (image.root / SBOM).read_text()
    tool = [str(work / "tools/bin/python"), "-c", validate]
    assert subprocess.run(tool, input=text, text=True, check=False).returncode == 0
    broken = text.replace('"type": "library"', '"type": "book"', 1)
    assert (
        subprocess.run(
            tool, input=broken, text=True, check=False, stderr=subprocess.DEVNULL
        ).returncode
        == 3
    )


def test_the_sbom_says_what_needs_what(sbom: dict[str, Any]) -> None:
    edges = {
        each["ref"].partition("@")[0]: each.get("dependsOn", []) for each in sbom["dependencies"]
    }
    names = {name: {to.partition("@")[0] for to in needs} for name, needs in edges.items()}
    ours = names["pkg:pypi/dependency-watchdog"]
    assert {"pkg:pypi/aiohttp", "pkg:pypi/uvloop", "pkg:deb/debian/python3.11-minimal"} <= ours
    assert "pkg:pypi/yarl" in names["pkg:pypi/aiohttp"]
    assert (
        "pkg:deb/debian/libssl3"
        in names["pkg:deb/debian/libpython3.11-minimal"]
        | names["pkg:deb/debian/libpython3.11-stdlib"]
    )
