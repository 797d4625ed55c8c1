"""The commands: which record each command line gives, what is printed, and the exit codes."""

import io
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from app.commands import (
    CheckConfig,
    Demo,
    Help,
    ListScenarios,
    Prober,
    Version,
    check_config,
    list_scenarios,
    parse,
    show_help,
    show_mistakes,
    show_version,
)
from app.core.config.flagvalues import FileKind
from app.core.errors import ConfigurationError
from app.core.runtime.about import own_version

HERE = Path(__file__).parent
GOOD = str(HERE / "good/gardener.yaml")
BAD = str(HERE / "bad/probe-interval-zero.yaml")


def checked(*words):
    """Exit code, standard output and standard error of `dwd check-config`."""
    command = parse(("check-config", *words), {})
    assert isinstance(command, CheckConfig)
    out, err = io.StringIO(), io.StringIO()
    return check_config(command, out, err), out.getvalue(), err.getvalue()


def refused(*words):
    """What is printed of a command line that is wrong."""
    with pytest.raises(ConfigurationError) as caught:
        parse(words, {})
    err = io.StringIO()
    assert show_mistakes(caught.value, err) == 2
    return err.getvalue()


def test_each_command_gives_its_own_record():
    assert isinstance(parse(["prober", "--config-file", "f"], {}), Prober)
    assert isinstance(parse(["demo", "--shoots=2"], {}), Demo)
    assert parse(["check-config", "--kind=prober", "f"], {}) == CheckConfig(
        (Path("f"),), FileKind.PROBER
    )
    assert parse(["version"], {}) == Version()


def test_the_command_line_of_gardener_gives_a_prober_without_warnings():
    argv = [
        "prober",
        "--config-file=/etc/dependency-watchdog/config/dep-config.yaml",
        "--kube-api-qps=20.0",
        "--kube-api-burst=100",
        "--enable-leader-election=true",
        "--zap-log-level=INFO",
    ]
    command = parse(argv, {"PATH": "/bin", "KUBERNETES_SERVICE_HOST": "10.0.0.1"})
    assert isinstance(command, Prober)
    assert command.warnings == ()


def test_warnings_about_variables_come_with_the_command():
    command = parse(["demo"], {"DWD_SHOTS": "3"})
    assert isinstance(command, Demo)
    assert [each.path for each in command.warnings] == ["DWD_SHOTS"]


def test_no_command_is_a_mistake():
    assert refused() == (
        "dwd: command: is missing: one of prober, demo, check-config, version; see dwd --help\n"
    )


def test_an_unknown_command_is_a_mistake_that_names_the_nearest():
    assert refused("probr") == (
        "dwd: probr: unknown command; the nearest is prober, all are prober, demo, check-config, version\n"
    )


@pytest.mark.parametrize("command", ["weeder", "serve"])
def test_the_weeder_is_refused_by_name(command):
    message = f"dwd: {command}: the weeder is not part of this version\n"
    assert refused(command, "--config-file=f") == message


def test_mistakes_come_one_a_line():
    assert refused("demo", "--shoots=0", "--nodes=1", "--seed=-1", "--speed=0") == (
        "dwd demo: --shoots: must be 1 or more, not 0\n"
        "dwd demo: --nodes: must be 2 or more, not 1\n"
        "dwd demo: --seed: must be 0 or more, not -1\n"
        "dwd demo: --speed: must be above 0, not 0\n"
    )


def test_the_scenarios_of_the_demo_are_listed_one_a_line():
    assert parse(["demo", "--list-scenarios"], {}) == ListScenarios()
    out = io.StringIO()
    assert list_scenarios(out) == 0
    lines = out.getvalue().splitlines()
    assert [line.split()[0] for line in lines] == ["false-alarms", "outage", "seed-wide", "story"]
    assert all(len(line.split()) > 3 for line in lines)


def test_version_takes_no_flags():
    assert refused("version", "--long") == "dwd version: --long: unknown flag\n"


@pytest.mark.parametrize("word", ["-h", "-help", "--help", "help"])
def test_help_names_all_commands(word):
    command = parse([word], {})
    assert isinstance(command, Help)
    out = io.StringIO()
    assert show_help(command, out) == 0
    assert all(name in out.getvalue() for name in ("prober", "demo", "check-config", "version"))


@pytest.mark.parametrize("name", ["prober", "demo", "check-config", "version"])
@pytest.mark.parametrize("word", ["-h", "--help"])
def test_help_is_given_for_each_command_whatever_else_is_wrong(name, word):
    command = parse([name, "--junk", word], {"DWD_KUBE_API_QPS": "junk"})
    assert isinstance(command, Help)
    assert command.text.startswith(f"Usage: dwd {name}")


def test_help_has_type_default_and_reason_of_a_flag():
    command = parse(["prober", "--help"], {})
    assert isinstance(command, Help)
    assert "  --leader-elect-retry-period DURATION\n      The pause between" in command.text
    assert "(default 2s)" in command.text
    assert all(len(line) <= 100 for line in command.text.splitlines())


def test_version_says_what_runs():
    out = io.StringIO()
    assert show_version(out) == 0
    assert out.getvalue().startswith(f"dependency-watchdog {own_version()} (CPython 3.")


def test_a_program_that_was_never_installed_has_an_unknown_version(monkeypatch):
    def is_absent(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr("app.core.runtime.about.version", is_absent)
    assert own_version() == "unknown"


def test_a_valid_file_ends_with_0():
    assert checked(GOOD) == (0, f"{GOOD}: the prober file is valid\n", "")


def test_a_wrong_file_ends_with_2_and_the_others_are_checked_too():
    code, out, err = checked(BAD, GOOD, "nowhere.yaml")
    assert code == 2
    assert out == f"{GOOD}: the prober file is valid\n"
    assert err == (
        f"{BAD}: line 2: probeInterval: must be above 0s, not 0s\n"
        "nowhere.yaml: (file): cannot be read: No such file or directory\n"
    )


def test_warnings_of_a_file_end_with_0():
    path = str(HERE / "good/late-scale-down.yaml")
    code, _, err = checked(path)
    assert code == 0
    assert err.startswith(
        f"{path}: warning: dependentResourceInfos (line 3): leases expire after 30s"
    )


def test_an_unknown_key_is_a_mistake_unless_the_check_is_told_otherwise():
    path = str(HERE / "good/newer-keys.yaml")
    assert checked(path)[0] == 2
    code, _, err = checked("--strict-config=false", path)
    assert code == 0
    assert f"{path}: warning: probeIntervals (line 3): unknown key" in err


def test_a_weeder_file_is_refused_by_name(tmp_path):
    path = tmp_path / "weeder.yaml"
    path.write_text("watchDuration: 5m0s\n")
    code, _, err = checked(str(path))
    assert (code, err) == (2, f"{path}: (file): the weeder is not part of this version\n")
    code, _, err = checked("--kind", "weeder", GOOD)
    assert (code, err) == (2, f"{GOOD}: (file): the weeder is not part of this version\n")


def test_a_file_that_is_said_to_be_the_probers_is_read_as_one(tmp_path):
    path = tmp_path / "weeder.yaml"
    path.write_text("watchDuration: 5m0s\n")
    _, _, err = checked("--kind=prober", str(path))
    assert f"{path}: line 1: kubeConfigSecretName: is required\n" in err


def test_no_file_is_a_mistake():
    assert refused("check-config") == (
        "dwd check-config: FILE: is missing: which files are to be checked?\n"
    )


def test_a_variable_that_is_unknown_is_named_by_the_check_too():
    command = parse(["check-config", GOOD], {"DWD_KINDS": "prober"})
    assert isinstance(command, CheckConfig)
    err = io.StringIO()
    assert check_config(command, io.StringIO(), err) == 0
    assert err.getvalue().startswith("dwd check-config: warning: DWD_KINDS: unknown variable")
