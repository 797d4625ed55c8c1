"""The command lines of the client: help, how a resource is found, and what is refused before anything is sent."""

import shlex
from pathlib import Path

import pytest
import yaml

from app import commands
from app.cli import program
from app.core.config.client_settings import CLIENT_SETTINGS, PauseSettings
from tests.cli import examples
from tests.cli.conftest import run
from tests.cli.server import page

NAME = "shoot--a--b"
WHY = "--reason=because"


def refused(*words, environ=None):
    ran = run(*words, environ=environ)
    assert (ran.code, ran.out) == (2, "")
    return [line.removeprefix(f"dwd {words[0]}: ") for line in ran.err.splitlines()]


def test_there_is_something_that_does_each_command():
    named = [name for names in program.SUBJECTS.values() for name in names]
    assert sorted(named) == sorted(CLIENT_SETTINGS)
    for model in CLIENT_SETTINGS.values():
        assert callable(program.function_of(model.model_construct()))


@pytest.mark.parametrize("name", CLIENT_SETTINGS)
def test_help_has_the_line_the_flags_and_their_variables(name):
    command = commands.parse([name, "--help"], {})
    assert isinstance(command, commands.Help)
    assert command.text.startswith(f"Usage: dwd {name}")
    words = " ".join(command.text.split())
    assert "--output table|wide|name|json|yaml, -o table|wide|name|json|yaml" in words
    assert "(default http://127.0.0.1:8080, DWD_SERVER)" in words
    assert "DWD_KUBECONFIG" not in command.text
    assert all(len(line) <= 100 for line in command.text.splitlines())


RESOURCES = page(
    {"kind": "Deployment", "name": "kcm"},
    {"kind": "Deployment", "name": "both"},
    {"kind": "StatefulSet", "name": "both"},
)
LIST = f"GET /shoots/{NAME}/resources"


@pytest.mark.parametrize(
    ("resource", "kind", "name", "asked"),
    [
        ("Deployment/kcm", "Deployment", "kcm", 1),
        ("deployment/kcm", "Deployment", "kcm", 2),
        ("kcm", "Deployment", "kcm", 2),
        ("statefulset/both", "StatefulSet", "both", 2),
    ],
)
def test_a_resource_is_named_as_exactly_as_it_must_be(resource, kind, name, asked, api, dwd):
    line = f"PUT /shoots/{NAME}/resources/{kind}/{name}/ignore-scaling"
    api.on(LIST, RESOURCES).on(line, examples.RESOURCE)
    assert dwd("ignore", NAME, resource, WHY).code == 0
    assert api.lines == [LIST, line][-asked:]


@pytest.mark.parametrize(
    ("resource", "code", "said"),
    [
        ("both", 2, "both is ambiguous; the resources are Deployment/kcm, "),
        ("none", 4, f"{NAME} has no resource none; the resources are Deployment/kcm, "),
        ("job/kcm", 4, f"{NAME} has no resource job/kcm; the resources are Deployment/kcm, "),
    ],
)
def test_a_resource_that_is_not_one_changes_nothing(resource, code, said, api, dwd):
    api.on(LIST, RESOURCES)
    ran = dwd("unignore", NAME, resource)
    assert (ran.code, api.lines) == (code, [LIST])
    assert ran.err.startswith(f"dwd: {said}")


# What is refused before anything is sent.


MISTAKES = yaml.safe_load((Path(__file__).parent / "mistakes.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("line", "said"), MISTAKES.items(), ids=MISTAKES)
def test_a_mistake_is_said_and_nothing_is_sent(line, said):
    # where the server would be asked, the code would be 1
    found = refused(*shlex.split(line), environ={"DWD_SERVER": "http://127.0.0.1:1"})
    assert [each for each in found if each.startswith(said)], found


@pytest.mark.parametrize(
    "server",
    [
        "http://u:hunter2@host",
        "u:hunter2@host",
        "https://u:hun@hunter2@host:1/x",
        "http://hunter2@h",
    ],
)
@pytest.mark.parametrize("name", ["--server", "DWD_SERVER"])
def test_a_password_in_the_name_of_the_server_is_not_repeated(name, server):
    by_flag = name == "--server"
    words = [f"--server={server}"] if by_flag else []
    (line,) = refused("shoots", *words, environ={} if by_flag else {name: server})
    assert line.startswith(f"{name}: must be http://HOST:PORT")
    assert "hun" not in line


def test_all_mistakes_of_words_and_flags_come_at_once():
    assert refused("scale", "in", "A", "--hold=x", "--dryrun") == [
        "--dryrun: unknown flag; the nearest is --dry-run",
        'up|down: must be up or down, not "in"',
        'NAME: must be the control-plane namespace of a shoot, not "A"',
        "--reason: is required",
        '--hold: must be a duration such as 30s or 1m40s (units: h, m, s, ms, us, ns), not "x"',
    ]


@pytest.mark.parametrize("name", ["FORCE", "ALL", "REASON", "HOLD", "KUBECONFIG", "WATCH"])
def test_what_is_asked_for_is_asked_for_by_no_variable(name):
    command = commands.parse(["pause", "a", WHY], {f"DWD_{name}": "true"})
    assert not isinstance(command, commands.Help)
    assert command.settings == PauseSettings(reason="because")


def test_a_variable_that_is_unknown_is_warned_of(api, dwd):
    api.on("GET /shoots", page())
    ran = dwd("shoots", environ={"DWD_TOKENFILE": "x"})
    assert ran.code == 0
    assert (
        ran.err == "dwd: warning: DWD_TOKENFILE: unknown variable; the nearest is DWD_TOKEN_FILE\n"
    )


def test_the_output_may_be_set_for_good(api, dwd):
    api.on("GET /shoots", page())
    assert dwd("shoots", environ={"DWD_OUTPUT": "json"}).out.startswith("{")


def test_a_ca_file_that_is_none_is_a_mistake(tmp_path):
    path = tmp_path / "ca"
    assert refused("shoots", f"--ca-file={path}") == [
        f"{path}: --ca-file: is not a CA bundle: No such file or directory"
    ]
    path.write_text("no PEM")
    assert refused("shoots", f"--ca-file={path}")[0].startswith(
        f"{path}: --ca-file: is not a CA bundle"
    )
