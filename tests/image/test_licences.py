"""Under which terms everything in the image comes."""

import re
from email.message import Message
from pathlib import Path

import pytest

from hack.image import licences
from hack.image.licences import OF_THE_SYSTEM, PERMISSIVE, allowed
from tests.image.container import CHECKOUT


def metadata(**fields: str | list[str]) -> Message:
    """What a package says of itself."""
    made = Message()
    made["Name"] = "a-package"
    for name, value in fields.items():
        for each in [value] if isinstance(value, str) else value:
            made[name.replace("_", "-")] = each
    return made


@pytest.mark.parametrize("package", licences.python_packages(), ids=lambda p: str(p.name))
def test_every_python_package_may_be_given_on_under_apache_and_has_an_origin(
    package: licences.Licensed,
) -> None:
    assert allowed(package.licence, PERMISSIVE), package
    assert re.match(r"https://\S+$", package.origin), package


@pytest.mark.parametrize("spelling", ["kubernetes_asyncio", "Kubernetes.Asyncio"])
def test_what_was_read_by_hand_counts_however_the_package_spells_its_name(spelling: str) -> None:
    told = metadata()
    told.replace_header("Name", spelling)
    assert licences.home(told) == "https://github.com/tomplus/kubernetes_asyncio"
    told.replace_header("Name", "UVLoop")
    assert licences.licence_of(told) == "MIT OR Apache-2.0"


@pytest.mark.parametrize("package", licences.debian_packages(), ids=lambda p: str(p.name))
def test_every_debian_package_may_be_given_on_beside_it(package: licences.Licensed) -> None:
    assert allowed(package.licence, OF_THE_SYSTEM), package


def test_the_page_is_what_would_be_generated_now() -> None:
    assert (CHECKOUT / "docs/licences.md").read_text() == licences.page(), "run: make licences"


def test_all_of_the_lock_is_listed() -> None:
    pins = re.findall(r"^\S+==\S+", licences.LOCK.read_text(), re.MULTILINE)
    assert len(pins) == len(licences.python_packages()) > 30


@pytest.mark.parametrize(
    "terms", ["", "GPL-3.0-only", "MIT AND GPL-3.0-only", "Proprietary", "MIT License", "SSPL-1.0"]
)
def test_what_is_not_on_the_list_is_not_allowed(terms: str) -> None:
    assert not allowed(terms, PERMISSIVE)
    assert not allowed(terms, OF_THE_SYSTEM)


@pytest.mark.parametrize("terms", ["MIT", "MIT OR GPL-3.0-only", "Apache-2.0 AND BSD-2-Clause"])
def test_one_choice_is_enough_and_each_part_is_needed(terms: str) -> None:
    assert allowed(terms, PERMISSIVE)


def test_what_the_system_may_be_under_no_imported_package_may() -> None:
    assert not allowed("LGPL-2.1-or-later", PERMISSIVE)


def test_the_expression_counts_before_the_field_and_the_field_before_the_classifiers() -> None:
    mit = "License :: OSI Approved :: MIT License"
    assert licences.licence_of(metadata(License_Expression="ISC", License="MIT")) == "ISC"
    assert licences.licence_of(metadata(License="Apache 2.0", Classifier=mit)) == "Apache-2.0"
    assert licences.licence_of(metadata(Classifier=[mit, "Topic :: Internet"])) == "MIT"


def test_a_package_that_says_nothing_has_no_licence() -> None:
    assert licences.licence_of(metadata(Classifier="License :: OSI Approved")) == ""


@pytest.mark.parametrize("pin", ["no-such-package==1.0", "pydantic==0.0.1"])
def test_a_package_that_is_not_installed_as_it_is_locked_is_refused(
    pin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run.txt").write_text(f"{pin} \\\n    --hash=sha256:0\n")
    monkeypatch.setattr(licences, "LOCK", tmp_path / "run.txt")
    with pytest.raises(LookupError, match=pin.partition("==")[0]):
        licences.python_packages()
