"""The commands: which record each command line gives, what is printed, and the exit codes."""

import io
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from unittest.mock import Mock

import pytest
import yaml

from app import own_version
from app.commands import Help, check_config, parse, scenarios, versions
from app.core.config.client_settings import CLIENT_SETTINGS
from app.core.config.settings import (
    CheckConfigSettings,
    DemoSettings,
    ProberSettings,
    ServeSettings,
    VersionSettings,
    WeederSettings,
)
from app.core.errors import ConfigurationError
from app.simulation.scenarios.scenario import listed

HERE = Path(__file__).parent
GOOD = str(HERE / "good/gardener.yaml")
CHECKS = yaml.safe_load((HERE / "checked_files.yaml").read_text())
COMMANDS = (
    "prober",
    "weeder",
    "serve",
    "demo",
    "check-config",
    "version",
    "completion",
    *CLIENT_SETTINGS,
)
NAMED = ", ".join(COMMANDS)


def read(*words, environ=None):
    """The settings and arguments of a command line."""
    command = parse(words, environ or {})
    assert not isinstance(command, Help)
    return command


def refused(*words):
    """What is printed of a command line that is wrong."""
    with pytest.raises(ConfigurationError) as caught:
        parse(words, {})
    return f"{caught.value}\n"


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        (("prober", "--config-file", "f"), ProberSettings),
        (("weeder", "--config-file", "f"), WeederSettings),
        (("serve", "--prober-config-file=p", "--weeder-config-file=w"), ServeSettings),
        (("demo", "--shoots=2"), DemoSettings),
        (("check-config", "--kind=prober", "f"), CheckConfigSettings),
        (("version",), VersionSettings),
        (("--version",), VersionSettings),
    ],
)
def test_each_command_has_settings_of_its_own(words, settings):
    assert type(read(*words).settings) is settings


@pytest.mark.parametrize(
    "words",
    [
        ("prober", "--config-file=f", "--pprof-bind-addr=:1"),
        ("weeder", "--config-file=f", "--concurrent-reconciles=2"),
        ("serve", "--prober-config-file=p", "--weeder-config-file=w", "--zap-devel"),
    ],
    ids=lambda words: words[0],
)
def test_warnings_about_flags_come_with_the_command(words):
    command = read(*words, environ={"DWD_SHOTS": "3"})
    flag = words[-1].partition("=")[0]
    assert [each.path for each in command.warnings] == [flag, "DWD_SHOTS"]


def test_the_files_of_serve_are_both_required():
    assert refused("serve", "--config-file=f") == (
        "dwd serve: --config-file: unknown flag; the nearest is --prober-config-file\n"
        "dwd serve: --prober-config-file: is required (or DWD_PROBER_CONFIG_FILE)\n"
        "dwd serve: --weeder-config-file: is required (or DWD_WEEDER_CONFIG_FILE)\n"
    )


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("probr", "did you mean prober or probe? "),
        ("Shoots", "did you mean shoots? "),
        ("xyzzy", ""),
        ("x" * 10_000, ""),
    ],
)
def test_an_unknown_command_is_a_mistake_that_names_those_that_are_like_it(name, meant):
    shown = name if len(name) < 60 else name[:59] + "…"
    assert refused(name) == f"dwd: {shown}: unknown command; {meant}dwd --help lists all\n"


NO_FILE = "FILE: is missing: name the files to check"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), f"dwd: command: is missing: one of {NAMED}; see dwd --help"),
        (("version", "--long"), "dwd version: --long: unknown flag"),
        (("check-config",), f"dwd check-config: {NO_FILE}"),
    ],
    ids=lambda each: str(each)[:30],
)
def test_what_is_missing_or_too_much_is_a_mistake(words, message):
    assert refused(*words) == f"{message}\n"


def test_the_scenarios_of_the_demo_are_listed_one_a_line():
    assert read("demo", "--list-scenarios").settings.list_scenarios
    lines = scenarios().splitlines()
    assert [line.split()[0] for line in lines] == [each.name for each in listed()]
    assert all(len(line.split()) > 3 for line in lines)


@pytest.mark.parametrize("word", ["-h", "-help", "--help", "help"])
def test_help_names_all_commands(word):
    command = parse([word], {})
    assert isinstance(command, Help)
    assert all(name in command.text for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("word", ["-h", "--help"])
def test_help_is_given_for_each_command_whatever_else_is_wrong(name, word):
    command = parse([name, "--junk", word], {"DWD_KUBE_API_QPS": "junk"})
    assert isinstance(command, Help)
    assert command.text.startswith(f"Usage: dwd {name}")
    assert parse(["help", name], {}) == command


def test_help_for_what_is_no_command_is_a_mistake():
    assert refused("help", "shoot").startswith("dwd: shoot: unknown command; did you mean shoots")


def test_version_says_what_runs(monkeypatch):
    assert versions().startswith(f"dependency-watchdog {own_version()} (CPython 3.")
    absent = Mock(side_effect=PackageNotFoundError("dependency-watchdog"))
    monkeypatch.setattr("importlib.metadata.version", absent)
    assert own_version() == "unknown", "it was never installed"


def test_warnings_of_variables_are_printed_with_the_checks():
    command = read("check-config", GOOD, environ={"DWD_KINDS": "prober"})
    err = io.StringIO()
    assert check_config(command, io.StringIO(), err) == 0
    assert err.getvalue().startswith("dwd check-config: warning: DWD_KINDS: unknown variable")


@pytest.mark.parametrize("words", CHECKS)
def test_files_are_checked(words, monkeypatch):
    monkeypatch.chdir(HERE)
    expected = CHECKS[words]
    out, err = io.StringIO(), io.StringIO()
    assert check_config(read("check-config", *words.split()), out, err) == expected["code"]
    assert out.getvalue().splitlines() == expected.get("valid", [])
    told = err.getvalue().splitlines()
    for line, begin in zip(told, expected.get("told", []), strict=True):
        assert line.startswith(begin)
