"""What is inside the compiled modules of the wheels."""

from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
import yaml
from uvloop import loop

from hack.image.licences import PERMISSIVE, allowed, locked
from hack.image.linked import LINKED, OWN, TOLD, Linked, compiled, inside
from tests.image.elf import sources

WHEELS = [distribution(name) for name, _ in locked()]
MODULES = {module: wheel for wheel in WHEELS for module in compiled(wheel)}


def file_of(module: str, wheel: Distribution) -> Path:
    """The file of a compiled module."""
    return next(
        Path(str(path.locate()))
        for path in wheel.files or ()
        if ".so" in path.suffixes and str(path).startswith(f"{module}.")
    )


def test_somebody_has_looked_into_every_compiled_module() -> None:
    assert set(MODULES) == {*LINKED, *OWN, *TOLD}
    assert not set(LINKED) & (OWN | TOLD)


@pytest.mark.parametrize("module", sorted(OWN))
def test_no_source_of_somebody_else_is_among_the_symbols_of_their_own_code(module: str) -> None:
    name = module.rpartition("/")[2]
    assert sources(file_of(module, MODULES[module])) <= {f"{name}.c", f"{name}.cpp"}


def test_the_symbols_show_a_library_that_is_linked_in() -> None:
    module = "yaml/_yaml"
    assert {"_yaml.c", "scanner.c"} <= sources(file_of(module, MODULES[module]))


@pytest.mark.parametrize("module", sorted(TOLD))
def test_a_wheel_that_is_said_to_tell_brings_an_sbom(module: str) -> None:
    files = MODULES[module].files or ()
    assert [path for path in files if path.parent.name == "sboms" and path.suffix == ".json"]


@pytest.mark.parametrize(
    "library", inside(), ids=lambda library: f"{library.name} in {library.read_in}"
)
def test_what_was_read_was_read_in_the_wheel_that_is_locked_and_may_be_given_on(
    library: Linked,
) -> None:
    assert library.read_in in {f"{name}=={version}" for name, version in locked()}
    assert allowed(library.licence, PERMISSIVE)
    assert library.home.startswith("https://")


def test_the_versions_are_those_that_the_modules_tell_themselves() -> None:
    versions = {library.name: library.version for library in inside()}
    number = loop.libuv_get_version()  # type: ignore[attr-defined]  # its stubs leave it out
    assert versions["libuv"] == f"{number >> 16}.{number >> 8 & 255}.{number & 255}"
    assert versions["libyaml"] == yaml._yaml.get_version_string()
