"""Completion: candidates for the last word, from the declarations and from the API; the scripts in real shells."""

import shutil
import sys

import pytest

from app import commands
from app.cli import completion
from app.core.config.client_settings import CLIENT_SETTINGS
from app.core.config.settings import Shell
from tests.cli.server import Reply, page
from tests.support.programs import ended, write_program


def nothing(*_):
    return ()


def words(*typed, names=nothing, environ=None):
    """The candidates for the last word; the directive of cobra last."""
    found = completion.shown(completion.candidates(typed, environ or {}, names))
    return [line.partition("\t")[0] for line in found.splitlines()]


def test_every_command_that_there_is_is_offered_first():
    assert words("") == [*commands.known_commands(), ":4"]
    assert words("sh") == ["shoots", ":4"]


@pytest.mark.parametrize("name", commands.known_commands())
def test_every_flag_of_a_command_is_offered_and_no_other(name):
    fields = commands.known_commands()[name].model_fields
    flags = {f"--{each.replace('_', '-')}" for each in fields} | {"--help"}
    assert set(words(name, "-")) == flags | {":4"}


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (("shoots", "--no"), ["--nodes"]),
        (("shoots", "-o", "y"), ["yaml"]),
        (("shoots", "--output=y"), ["--output=yaml"]),
        (("shoots", "-o=y"), ["-o=yaml"]),
        (("pause", "--scope", ""), ["all", "scaleDown"]),
        (("scale", ""), ["up", "down"]),
        (("completion", "f"), ["fish"]),
        (("pause", "--reason", ""), []),
        (("pause", "--reason", "--sc", ""), []),
        (("status", ""), []),
        (("shoots", "a", ""), []),
        (("shoots", "--", "--no"), []),
        (("nonsense", ""), []),
        (("shoots", "--nonsense="), []),
    ],
)
def test_values_are_those_that_the_settings_declare(typed, offered):
    assert words(*typed) == [*offered, ":4"]


@pytest.mark.parametrize(
    "typed",
    [
        ("check-config", ""),
        ("check-config", "a", ""),
        ("shoots", "--ca-file", ""),
        ("shoots", "--ca-file="),
    ],
)
def test_files_are_left_to_the_shell(typed):
    assert words(*typed) == [":0"]


@pytest.mark.parametrize(
    ("typed", "argument"),
    [
        (("shoots", "sh"), "NAME"),
        (("pause", "--reason", "x", "sh"), "NAME"),
        (("scale", "up", "sh"), "NAME"),
        (("operations", "sh"), "ID"),
        (("weed", "a", "sh"), "SERVICE"),
        (("ignore", "a", "sh"), "RESOURCE"),
    ],
)
def test_names_are_looked_up_for_what_the_usage_line_declares(typed, argument):
    asked = []

    def names(what, words, _settings, _environ):
        asked.append((what, words[-1]))
        return ["shoot--a", "other", "sh\x1bell", "two words"]

    assert words(*typed, names=names) == ["shoot--a", ":4"]
    assert asked == [(argument, "sh")]


def test_names_come_from_where_the_flags_and_the_environment_lead(api):
    api.on("GET /shoots", page({"namespace": "shoot--a--b"}))
    flags = ("shoots", f"--server={api.url}", "shoot")
    assert words(*flags, names=completion.names_of_api) == ["shoot--a--b", ":4"]
    assert api.asked[-1].query == {"q": "shoot", "limit": "100"}
    found = words("shoots", "", names=completion.names_of_api, environ={"DWD_SERVER": api.url})
    assert found == ["shoot--a--b", ":4"]


@pytest.mark.parametrize(
    ("typed", "path", "item", "offered"),
    [
        (("operations", ""), "/operations", {"id": "x-1"}, "x-1"),
        (("weed", "a", ""), "/weeders", {"namespace": "a", "service": "etcd"}, "etcd"),
        (
            ("ignore", "a", ""),
            "/shoots/a/resources",
            {"kind": "Deployment", "name": "kcm"},
            "Deployment/kcm",
        ),
    ],
)
def test_each_kind_of_name_has_its_call(typed, path, item, offered, api):
    api.on(f"GET {path}", page(item))
    environ = {"DWD_SERVER": api.url}
    assert words(*typed, names=completion.names_of_api, environ=environ) == [offered, ":4"]


@pytest.mark.parametrize(
    "environ",
    [
        {"DWD_SERVER": "http://127.0.0.1:9"},
        {"DWD_SERVER": "nonsense"},
        {"DWD_TOKEN_FILE": "/nowhere"},
    ],
)
def test_without_an_answer_there_are_no_names_and_no_message(environ, capsys):
    assert words("shoots", "", names=completion.names_of_api, environ=environ) == [":4"]
    assert capsys.readouterr() == ("", "")


def test_no_login_plugin_is_run_at_a_tab(api):
    typed = ("shoots", "--service-account=garden/viewer", f"--server={api.url}", "")
    assert words(*typed, names=completion.names_of_api) == [":4"]
    assert api.asked == []


def test_an_answer_that_makes_no_sense_is_no_answer(api):
    api.on("GET /shoots", Reply(b"<html>"))
    found = words("shoots", "", names=completion.names_of_api, environ={"DWD_SERVER": api.url})
    assert found == [":4"]


def test_each_command_of_the_client_declares_its_arguments_as_the_completion_reads_them():
    known = {"NAME", "ID", "SERVICE", "RESOURCE", "PATH"}
    for each in CLIENT_SETTINGS.values():
        arguments = {word.strip("[]").partition("|--")[0] for word in each.arguments()}
        assert {word for word in arguments if word.isupper()} <= known


# In real shells. `dwd` is a stand-in that prints what the program would; the words that it got are in its file.

_BASH = """
source {script}
COMP_LINE={line!r}; COMP_POINT=${{#COMP_LINE}}
_dwd 2>/dev/null
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def dwd_in_path(tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    write_program(folder / "dwd", f'exec {sys.executable} -m app "$@"')
    return str(folder)


def shell(name, script, folder):
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"{name} is not installed")
    environ = {"PATH": f"{folder}:/usr/bin:/bin", "HOME": folder, "TERM": "dumb"}
    return ended(program, "-c", script, env=environ).stdout.split("\n")[:-1]


@pytest.mark.parametrize(
    ("line", "offered"), [("dwd sho", ["shoots"]), ("dwd shoots --output=ya", ["yaml"])]
)
def test_bash_offers_them(line, offered, dwd_in_path, tmp_path):
    script = tmp_path / "dwd.bash"
    script.write_text(completion.SCRIPTS[Shell.BASH])
    assert shell("bash", _BASH.format(script=script, line=line), dwd_in_path) == offered


@pytest.mark.parametrize(
    ("line", "offered"), [("dwd sho", "shoots"), ("dwd shoots --output=ya", "--output=yaml")]
)
def test_fish_offers_them(line, offered, dwd_in_path, tmp_path):
    script = tmp_path / "dwd.fish"
    script.write_text(completion.SCRIPTS[Shell.FISH])
    found = shell("fish", f"source {script}; complete -C '{line}'", dwd_in_path)
    assert [each.partition("\t")[0] for each in found] == [offered]


def test_zsh_takes_the_script(dwd_in_path, tmp_path):
    script = tmp_path / "_dwd"
    script.write_text(completion.SCRIPTS[Shell.ZSH])
    test = f"""autoload -Uz compinit; compinit -u -D
source {script}
words=(dwd shoots --output=ya); CURRENT=3
_describe() {{ print -l -- ${{(P)4}} }}
_dwd
"""
    assert shell("zsh", test, dwd_in_path) == ["--output=yaml:"]
