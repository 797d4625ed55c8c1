"""What the Dockerfile says; that it builds, tests/image/test_again.py shows."""

import re

import pytest

from hack.image.archive import NotUnderstood, image_config
from tests.image.container import CHECKOUT

TEXT = (CHECKOUT / "Dockerfile").read_text()
ARGUMENTS = {"VERSION": "1.2.3", "REVISION": "abc", "CREATED": "2026-01-01T00:00:00Z"}


def test_it_is_started_as_gardeners_deployments_start_it_and_labelled_with_its_origin() -> None:
    found, prefix = image_config(TEXT, ARGUMENTS), "org.opencontainers.image."
    assert found["User"] == "65532:65532"  # numbers, or runAsNonRoot could not be judged
    assert found["Entrypoint"] == ["/usr/local/bin/dependency-watchdog"]
    assert "Cmd" not in found
    assert found["StopSignal"] == "SIGTERM"
    assert set(found["ExposedPorts"]) == {"8080/tcp", "9643/tcp", "9644/tcp"}
    told = {prefix + name.lower(): value for name, value in ARGUMENTS.items()}
    assert {**told, f"{prefix}licenses": "Apache-2.0"}.items() <= found["Labels"].items()


def test_every_base_is_pinned_by_digest_and_the_image_has_none() -> None:
    (base,) = re.findall(r"^ARG BASE=(.*)$", TEXT, re.MULTILINE)
    assert re.fullmatch(r"docker\.io/library/debian:bookworm-\d{8}-slim@sha256:[0-9a-f]{64}", base)
    assert re.findall(r"^FROM (.*)$", TEXT, re.MULTILINE) == ["${BASE} AS build", "scratch"]


def test_the_ignore_file_lets_through_what_is_copied_and_nothing_else() -> None:
    ignored = (CHECKOUT / ".dockerignore").read_text().splitlines()
    let_through = {line[1:] for line in ignored if line.startswith("!")}
    copied = {
        source
        for line in re.findall(r"^COPY (?!--from)(.*)$", TEXT, re.MULTILINE)
        for source in line.split()[:-1]
    }
    assert "*" in ignored
    assert let_through == copied
    assert all((CHECKOUT / each).exists() for each in copied)


def test_it_runs_the_scripts_of_a_build_without_a_builder_in_the_same_order() -> None:
    """CI builds no Dockerfile, only what this holds it against."""
    text = (CHECKOUT / "hack/image/build").read_text()
    alone = text[text.index("\nbuild_root() {") : text.index("\nbuild() {")]
    steps = re.findall(r"^ *(hack/image/\S+) (.*)$", alone, re.MULTILINE)
    places = {"$work": "/work", "$work/root.new": "/image"}
    expected = [
        " ".join((script, *(places[word.strip('"')] for word in words.split())))
        for script, words in steps
    ]
    runs = re.findall(r"^RUN (.*)$", TEXT, re.MULTILINE)
    assert runs[0].startswith("apt-get update")  # what is on the machine otherwise
    assert runs[1:] == expected
    assert [step.split()[0] for step in expected] == ["hack/image/fetch", "hack/image/assemble"]
    assert re.findall(r"^COPY --from.*$", TEXT, re.MULTILINE) == ["COPY --from=build /image /"]


def test_everything_that_a_script_reads_is_copied_before_it_runs() -> None:
    lines = re.findall(r"^(RUN|COPY) (?!--from)(.*)$", TEXT, re.MULTILINE)
    run = [rest.split()[0] if word == "RUN" else rest for word, rest in lines]
    fetch, assemble = run.index("hack/image/fetch"), run.index("hack/image/assemble")
    before = {source for rest in run[:fetch] for source in rest.split()[:-1]}
    assert {"hack/image", "requirements"} <= before
    after = {source for rest in run[fetch:assemble] for source in rest.split()[:-1]}
    script = (CHECKOUT / "hack/image/assemble").read_text()
    (taken,) = re.findall(r"cp -r (.*) \"\$built/source\"", script)
    assert after == set(taken.split())


@pytest.mark.parametrize(
    "line", ["RUN true", "COPY a b", "HEALTHCHECK NONE", "ADD x /", 'CMD ["x"]', "VOLUME /x"]
)
def test_an_instruction_that_an_archive_would_not_follow_is_refused(line: str) -> None:
    with pytest.raises(NotUnderstood, match=re.escape(line)):
        image_config(f"{TEXT}\n{line}\n", ARGUMENTS)


def test_an_argument_that_nobody_gave_is_refused() -> None:
    with pytest.raises(NotUnderstood, match="'REVISION'"):
        image_config(TEXT, {"VERSION": "1"})
