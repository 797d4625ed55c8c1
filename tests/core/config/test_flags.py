"""Flags and environment: Go's spellings, who wins, what each command takes, and what is refused with which words."""

import shlex
from pathlib import Path

import pytest
import yaml

from app.commands import parse
from app.core.config.flags import Read, flag_name, read_flags, shown_type, usage
from app.core.config.settings import (
    EVERYWHERE,
    HERE_ONLY,
    DemoSettings,
    Exposure,
    ProberOptions,
    ProberSettings,
    SeedSettings,
    ServeSettings,
    WeederOptions,
    WeederSettings,
    own_namespace,
)
from app.core.config.values import AuthMode, ListenAddress, LogLevel
from app.core.errors import ConfigurationError

FILES = {
    ProberSettings: ("--config-file=f",),
    WeederSettings: ("--config-file=f",),
    ServeSettings: ("--prober-config-file=p", "--weeder-config-file=w"),
}
LOOPS = pytest.mark.parametrize("model", FILES, ids=lambda model: model.line.split()[1])
REFUSED, KEPT, VARIABLES = (
    yaml.safe_load((Path(__file__).parent / f"{name}.yaml").read_text())
    for name in ("refused_flags", "kept_flags", "variables")
)
POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
TLS = ("--tls-cert-file=c", "--tls-private-key-file=k")
PLAIN = ("--allow-plain-http",)
TOKEN = ("--auth-mode=token", "--auth-token-file=t")
KUBERNETES = ("--auth-mode=kubernetes",)
ELSEWHERE = ("--api-bind-addr=10.0.0.1:8443",)
ADDRESS = ListenAddress("10.0.0.1", 8443)
OFF = (
    "the API is on 127.0.0.1:8080 only: there is neither --tls-cert-file with --tls-private-key-file nor "
    "--allow-plain-http"
)


def read(*words, model=ProberSettings, **environ):
    return read_flags(model, (*FILES.get(model, ()), *words), environ, "dwd")


def settings(*words, model=ProberSettings, **environ):
    return read(*words, model=model, **environ).settings


def taken(line):
    """The command, flags and variables of a line, such as `weeder --dry-run POD_IP=10.0.0.1`; or else the prober's."""
    words = shlex.split(line)
    named = {"weeder": WeederSettings, "serve": ServeSettings, "demo": DemoSettings}
    model = named.get(words[0], ProberSettings)
    words = words[model is not ProberSettings :]
    variables = [each for each in words if each.partition("=")[0].isupper()]
    flags = [each for each in words if each not in variables]
    return model, flags, dict(each.split("=", 1) for each in variables)


def warnings(*words, **environ):
    found = parse(["prober", "--config-file=f", *words], environ)
    assert isinstance(found, Read)
    return [str(each) for each in found.warnings]


def mistakes(*words, model=ProberSettings, **environ):
    with pytest.raises(ConfigurationError) as caught:
        read(*words, model=model, **environ)
    return [str(each) for each in caught.value.mistakes]


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_wrong_is_refused_with_its_exact_message(words):
    model, given, environ = taken(words)
    assert mistakes(*given, model=model, **environ) == [REFUSED[words]]


@pytest.mark.parametrize("case", VARIABLES.values(), ids=VARIABLES)
def test_variables_of_ours_that_no_command_has_are_warned_of(case):
    assert warnings(**case["environ"]) == case["warned"]


@pytest.mark.parametrize("words", KEPT)
def test_a_value_is_kept_in_one_form_and_the_flag_wins_over_its_variable(words):
    model, given, environ = taken(words)
    ((field, found),) = KEPT[words].items()
    assert str(getattr(settings(*given, model=model, **environ), field)) == found


@pytest.mark.parametrize("word", ["", "=true", "=T", "=1", "=false", "=F", "=0"])
@pytest.mark.parametrize("dashes", ["-", "--"])
def test_go_spells_true_and_false_in_these_ways(dashes, word):
    found = settings(f"{dashes}dry-run{word}", f"{dashes}per-shoot-metrics{word}")
    assert found.dry_run == found.per_shoot_metrics == (word.lower()[1:2] in {"", "t", "1"})


def test_the_environment_of_the_process_is_never_read_behind_our_back(monkeypatch):
    monkeypatch.setenv("DWD_KUBE_API_QPS", "99")
    assert settings().kube_api_qps == 5.0
    assert ProberSettings(config_file=Path("f")).kube_api_qps == 5.0


def test_all_mistakes_are_said_at_once():
    found = mistakes("--kube-api-qps=x", "--unknown", "--dry-run=2", DWD_LOG_LEVEL="x")
    assert [each.split(":")[0] for each in found] == [
        "--unknown",
        "DWD_LOG_LEVEL",
        "--kube-api-qps",
        "--dry-run",
    ]
    found = mistakes("--auth-mode=x", "--tls-cert-file=c", "--peer-url=x", "--api-bind-addr=y")
    assert [each.partition(":")[0] for each in found] == [
        "--api-bind-addr",
        "--auth-mode",
        "--tls-private-key-file",
        "--peer-url",
    ]


def test_our_flag_beats_the_original_one_and_that_is_said():
    words = ("--zap-log-level=debug", "--log-level=error")
    assert settings(*words).log_level is LogLevel.ERROR
    assert warnings(*words) == ["--zap-log-level: has no effect beside --log-level"]


def test_flags_of_the_original_without_effect_are_named():
    words = (
        "--zap-devel",
        "--zap-stacktrace-level=error",
        "--zap-time-encoding",
        "iso8601",
        "--pprof-bind-addr=:1",
    )
    assert warnings(*words) == [
        f"--{name}: is accepted for compatibility and has no effect"
        for name in ("zap-devel", "zap-stacktrace-level", "zap-time-encoding", "pprof-bind-addr")
    ]


@LOOPS
def test_the_own_namespace_is_that_of_the_service_account(model, tmp_path):
    mounted, found = tmp_path / "namespace", settings("--leader-election-namespace=b", model=model)
    assert own_namespace(settings(model=model), mounted) == "garden"
    assert own_namespace(found, mounted) == "b"
    mounted.write_text("watchdogs\n")
    assert own_namespace(found, mounted) == "watchdogs"
    mounted.write_text("not a namespace")
    assert own_namespace(found, mounted) == "b"
    mounted.write_bytes(b"\xff")
    assert own_namespace(found, mounted) == "b"


# What each command takes, and what it makes of the flags of its sibling.


def test_the_weeder_takes_the_flags_that_the_original_shares_between_both():
    words = (
        "--kube-api-qps=20.0",
        "--kube-api-burst=100",
        "--zap-log-level=INFO",
        "--zap-encoder=json",
        "--concurrent-reconciles=2",
        "--pprof-bind-addr=:1",
    )
    found = read(*words, model=WeederSettings)
    assert (found.settings.kube_api_qps, found.settings.kube_api_burst) == (20.0, 100)
    assert [str(each) for each in found.warnings] == [
        "--pprof-bind-addr: is accepted for compatibility and has no effect",
        "--concurrent-reconciles: has no effect on this command",
    ]


@pytest.mark.parametrize("model", FILES, ids=lambda model: model.__name__)
def test_each_flag_of_either_is_heeded_or_said_to_have_no_effect(model):
    options = {**ProberOptions.model_fields, **WeederOptions.model_fields}
    for field in sorted(options.keys() - SeedSettings.model_fields.keys()):
        value = "1s" if shown_type(options[field]) == "DURATION" else "1"
        found = read(f"--{flag_name(field)}={value}", model=model)
        heeded = field in model.model_fields
        assert [each.path for each in found.warnings] == [f"--{flag_name(field)}"] * (not heeded)


# Who may call the API, how safe the way there is, and what others are told of us.


@pytest.mark.parametrize(("words", "environ"), [((), POD), (KUBERNETES, {}), (TOKEN, {})])
def test_where_nothing_safe_is_configured_the_api_is_for_this_machine_and_that_is_said(
    words, environ
):
    found = settings(*words, **environ).exposure
    assert (found.address, found.tls, found.off) == (HERE_ONLY, False, OFF)


@pytest.mark.parametrize("mode", [KUBERNETES, TOKEN], ids=["kubernetes", "token"])
@pytest.mark.parametrize("way", [TLS, PLAIN], ids=["tls", "plain"])
@pytest.mark.parametrize(("where", "expected"), [((), EVERYWHERE), (ELSEWHERE, ADDRESS)])
def test_a_safe_way_makes_the_api_reachable(mode, way, where, expected):
    found = settings(*mode, *way, *where).exposure
    assert found == Exposure(AuthMode(mode[0].partition("=")[2]), expected, tls=way is TLS)


@pytest.mark.parametrize("where", ["127.0.0.1:1", "127.8.0.1:1", "localhost:1", "[::1]:1"])
@pytest.mark.parametrize("way", [(), TLS, PLAIN], ids=["", "tls", "plain"])
def test_without_authentication_the_api_is_on_a_loopback_address(where, way):
    found = settings(f"--api-bind-addr={where}", "--auth-mode=none", *way).exposure
    assert found.address.loopback
    assert (found.mode, found.tls, found.off) == (AuthMode.NONE, way is TLS, None)


def test_in_a_pod_callers_are_reviewed_and_elsewhere_nobody_is_asked():
    assert settings(**POD).auth_mode is AuthMode.KUBERNETES
    assert settings("--kubeconfig=f", **POD).auth_mode is AuthMode.KUBERNETES
    assert settings(KUBERNETES_SERVICE_HOST="").auth_mode is AuthMode.NONE
    assert settings().auth_mode is AuthMode.NONE


def test_what_is_given_wins_over_where_we_are():
    assert settings("--auth-mode=none", **POD).exposure == Exposure(AuthMode.NONE, HERE_ONLY)
    found = settings(**POD | {"DWD_AUTH_MODE": "token", "DWD_AUTH_TOKEN_FILE": "t"})
    assert (found.auth_mode, found.auth_token_file) == (AuthMode.TOKEN, Path("t"))


def test_the_demo_is_for_this_machine_alone_even_in_a_pod():
    found = read_flags(DemoSettings, (), POD, "dwd").settings
    assert found.exposure == Exposure(AuthMode.NONE, HERE_ONLY)


def test_help_says_what_the_defaults_depend_on():
    text = usage(ProberSettings)
    assert "(default kubernetes in a cluster, else none)" in " ".join(text.split())
    assert "(default :8080, or 127.0.0.1:8080)" in " ".join(text.split())
    assert "  --cors-allow-origin ORIGIN[,ORIGIN…]\n" in text
