"""Flags and environment: Go's spellings, who wins, and what is refused with which words."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from app.commands import parse
from app.core.config.flags import Read, environment_name, read_flags
from app.core.config.settings import (
    CheckConfigSettings,
    DemoSettings,
    Exposure,
    ProberSettings,
    ServeSettings,
    own_namespace,
)
from app.core.config.values import AuthMode, ListenAddress, LogFormat, LogLevel, address
from app.core.errors import ConfigurationError

REPOSITORY = Path(__file__).parents[3]
GARDENER = (
    "--config-file=/etc/dependency-watchdog/config/dep-config.yaml",
    "--kube-api-qps=20.0",
    "--kube-api-burst=100",
    "--enable-leader-election=true",
    "--zap-log-level=INFO",
)


def read(*words, model=ProberSettings, **environ):
    return read_flags(model, words, environ, "dwd")


def settings(*words, **environ):
    return read("--config-file=f", *words, **environ).settings


def warnings(*words, **environ):
    found = parse(["prober", "--config-file=f", *words], environ)
    assert isinstance(found, Read)
    return [str(each) for each in found.warnings]


def mistakes(*words, model=ProberSettings, **environ):
    with pytest.raises(ConfigurationError) as caught:
        read("--config-file=f", *words, model=model, **environ)
    return [str(each) for each in caught.value.mistakes]


def test_the_arguments_that_gardener_deploys_are_accepted_without_a_word():
    found = read(*GARDENER)
    assert found.warnings == ()
    assert found.settings.config_file == Path("/etc/dependency-watchdog/config/dep-config.yaml")
    assert (found.settings.kube_api_qps, found.settings.kube_api_burst) == (20.0, 100)
    assert found.settings.enable_leader_election
    assert found.settings.log_level is LogLevel.INFO


def test_the_defaults_are_those_of_the_page():
    found = settings()
    assert (found.kube_api_qps, found.kube_api_burst, found.scale_down_qps) == (5.0, 10, 200.0)
    assert (found.metrics_bind_addr, found.health_bind_addr) == (
        ListenAddress("", 9643),
        ListenAddress("", 9644),
    )
    assert found.api_bind_addr is None
    assert found.exposure == Exposure(AuthMode.NONE, ListenAddress("127.0.0.1", 8080))
    assert (found.leader_elect_lease_duration, found.leader_elect_renew_deadline) == (15.0, 10.0)
    assert (found.leader_elect_retry_period, found.leader_election_namespace) == (2.0, "garden")
    assert not found.enable_leader_election
    assert not found.dry_run
    assert not found.strict_config
    assert found.per_shoot_metrics
    assert (found.kubeconfig, found.shoot_server_pattern) == (None, None)
    assert (found.cluster_domain, found.concurrent_reconciles) == ("cluster.local", 1)


@pytest.mark.parametrize(
    "words",
    [
        ("--kube-api-qps=7",),
        ("--kube-api-qps", "7"),
        ("-kube-api-qps=7",),
        ("-kube-api-qps", "7"),
        ("--kube-api-qps=1", "--kube-api-qps=7"),
    ],
)
def test_go_spells_a_value_in_these_ways(words):
    assert settings(*words).kube_api_qps == 7.0


@pytest.mark.parametrize(
    "word", ["--dry-run", "-dry-run", "--dry-run=true", "--dry-run=T", "--dry-run=1"]
)
def test_go_spells_true_in_these_ways(word):
    assert settings(word).dry_run


@pytest.mark.parametrize(
    "word", ["--per-shoot-metrics=false", "-per-shoot-metrics=F", "--per-shoot-metrics=0"]
)
def test_go_spells_false_in_these_ways(word):
    assert not settings(word).per_shoot_metrics


def test_zero_requests_a_second_are_the_default():
    found = settings("--kube-api-qps=0", "--kube-api-burst=0")
    assert (found.kube_api_qps, found.kube_api_burst) == (5.0, 10)


def test_every_flag_is_a_variable_and_the_flag_wins():
    found = settings("--kube-api-qps=7", DWD_KUBE_API_QPS="8", DWD_SCALE_DOWN_QPS="9")
    assert (found.kube_api_qps, found.scale_down_qps) == (7.0, 9.0)


def test_a_variable_that_a_flag_overrules_is_not_even_looked_at():
    assert settings("--kube-api-qps=7", DWD_KUBE_API_QPS="junk").kube_api_qps == 7.0


def test_an_empty_variable_is_absent():
    assert settings(DWD_KUBE_API_QPS="").kube_api_qps == 5.0


def test_the_environment_of_the_process_is_never_read_behind_our_back(monkeypatch):
    monkeypatch.setenv("DWD_KUBE_API_QPS", "99")
    assert settings().kube_api_qps == 5.0
    assert ProberSettings(config_file=Path("f")).kube_api_qps == 5.0


def test_a_wrong_variable_is_called_by_its_own_name():
    assert mistakes(DWD_KUBE_API_QPS="many") == [
        'DWD_KUBE_API_QPS: must be a finite number, not "many"'
    ]


def test_an_unknown_variable_of_ours_is_a_warning_with_the_nearest_one():
    assert warnings(DWD_KUBE_API_QPM="1", PATH="/bin", DWDX="1") == [
        "DWD_KUBE_API_QPM: unknown variable; the nearest is DWD_KUBE_API_QPS"
    ]


def test_a_variable_of_another_command_is_known():
    others = {"DWD_SHOOTS": "3", "DWD_MAX_DELETIONS_PER_SECOND": "1", "DWD_WEEDER_CONFIG_FILE": "f"}
    assert warnings(**others) == []


def test_variables_that_a_kubelet_sets_for_a_service_of_our_name_are_no_warning():
    links = {
        "DWD_API_SERVICE_HOST": "10.0.0.1",
        "DWD_API_SERVICE_PORT": "80",
        "DWD_API_SERVICE_PORT_HTTP": "80",
        "DWD_API_PORT": "tcp://10.0.0.1:80",
        "DWD_API_PORT_80_TCP": "tcp://10.0.0.1:80",
        "DWD_API_PORT_80_TCP_ADDR": "10.0.0.1",
    }
    assert warnings(**links) == []


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("--kube-api-qps=-1", "--kube-api-qps: must be 0 or more, not -1"),
        ("--kube-api-qps=nan", '--kube-api-qps: must be a finite number, not "nan"'),
        ("--kube-api-qps=inf", '--kube-api-qps: must be a finite number, not "inf"'),
        ("--kube-api-qps=1_0", '--kube-api-qps: must be a finite number, not "1_0"'),
        (
            "--kube-api-burst=1.5",
            '--kube-api-burst: must be a whole number of at most 2147483647, not "1.5"',
        ),
        ("--kube-api-burst=-1", "--kube-api-burst: must be 0 or more, not -1"),
        ("--scale-down-qps=0", "--scale-down-qps: must be above 0, not 0"),
        ("--concurrent-reconciles=0", "--concurrent-reconciles: must be 1 or more, not 0"),
        ("--dry-run=yes", '--dry-run: must be true or false, not "yes"'),
        ("--metrics-bind-addr=9643", '--metrics-bind-addr: must be HOST:PORT or :PORT, not "9643"'),
        (
            "--metrics-bind-addr=:65536",
            '--metrics-bind-addr: must be HOST:PORT or :PORT, not ":65536"',
        ),
        (
            "--metrics-bind-addr=:http",
            '--metrics-bind-addr: must be HOST:PORT or :PORT, not ":http"',
        ),
        (
            "--health-bind-addr=example.org:80",
            '--health-bind-addr: must have an IP address, localhost or nothing as host, not "example.org"',
        ),
        (
            "--health-bind-addr=::1:80",
            '--health-bind-addr: must have brackets around an IPv6 address only, not "::1:80"',
        ),
        (
            "--log-level=verbose",
            '--log-level: must be one of debug, info, warning, error, not "verbose"',
        ),
        ("--log-format=text", '--log-format: must be one of json, console, not "text"'),
        (
            "--leader-election-namespace=a/b",
            '--leader-election-namespace: must be the name of a namespace, not "a/b"',
        ),
        (
            "--cluster-domain=",
            '--cluster-domain: must be a domain name such as cluster.local, not ""',
        ),
        ("--config-file=", "--config-file: must be the path of a file"),
        (
            "--leader-elect-lease-duration=15",
            '--leader-elect-lease-duration: must be a duration with a unit, such as 30s or 1m40s, not "15"',
        ),
        ("--leader-elect-retry-period=0s", "--leader-elect-retry-period: must be above 0s, not 0s"),
        (
            "--zap-log-level=loud",
            '--zap-log-level: must be one of debug, info, warning, error, not "loud"',
        ),
        ("--zap-encoder=xml", '--zap-encoder: must be one of json, console, not "xml"'),
        ("--kube-api-qpm=1", "--kube-api-qpm: unknown flag; the nearest is --kube-api-qps"),
        ("--kube_api_qps=1", "--kube_api_qps: unknown flag; the nearest is --kube-api-qps"),
        ("---dry-run", "---dry-run: unknown flag; the nearest is --dry-run"),
        ("--kube-api-qps", "--kube-api-qps: needs a value"),
        (
            "extra",
            "extra: unexpected argument; a flag's value follows its flag, a boolean's after =",
        ),
    ],
)
def test_a_wrong_flag_is_refused_with_its_exact_message(word, message):
    assert mistakes(word) == [message]


@pytest.mark.parametrize("model", [ProberSettings, ServeSettings, CheckConfigSettings])
def test_exec_probes_are_allowed_by_a_flag_or_its_variable_alone(model):
    files = ("config-file", "prober-config-file", "weeder-config-file")
    words = [f"--{each}=f" for each in files if each.replace("-", "_") in model.model_fields]
    words += model.arguments()
    assert read(*words, model=model).settings.allow_exec is False
    assert read(*words, "--allow-exec", model=model).settings.allow_exec is True
    assert read(*words, model=model, DWD_ALLOW_EXEC="true").settings.allow_exec is True
    given_both = read(*words, "--allow-exec=false", model=model, DWD_ALLOW_EXEC="true")
    assert given_both.settings.allow_exec is False


def test_an_unknown_flag_is_never_compared_with_those_of_the_original():
    assert mistakes("--zap-foo=1") == ["--zap-foo: unknown flag; the nearest is --auth-mode"]


def test_a_value_that_is_a_flag_is_not_swallowed():
    assert mistakes("--kubeconfig", "--dry-run") == ["--kubeconfig: needs a value"]


def test_two_dashes_end_the_flags():
    assert mistakes("--", "--dry-run")[0].startswith("--dry-run: unexpected argument")


def test_all_mistakes_are_said_at_once():
    found = mistakes("--kube-api-qps=x", "--unknown", "--dry-run=2", DWD_LOG_LEVEL="x")
    assert [each.split(":")[0] for each in found] == [
        "--unknown",
        "DWD_LOG_LEVEL",
        "--kube-api-qps",
        "--dry-run",
    ]


def test_the_configuration_file_is_required():
    with pytest.raises(
        ConfigurationError, match=r"--config-file: is required \(or DWD_CONFIG_FILE\)"
    ):
        read()
    assert read(DWD_CONFIG_FILE="f").settings.config_file == Path("f")


@pytest.mark.parametrize(
    ("lease", "renew", "retry"),
    [("10s", "10s", "2s"), ("15s", "16s", "2s"), ("15s", "10s", "9s"), ("15s", "2.4s", "2s")],
)
def test_times_of_an_election_that_do_not_fit_are_one_clear_mistake(lease, renew, retry):
    words = (
        f"--leader-elect-lease-duration={lease}",
        f"--leader-elect-renew-deadline={renew}",
        f"--leader-elect-retry-period={retry}",
    )
    message = (
        "--leader-elect-retry-period: must fit: --leader-elect-lease-duration > --leader-elect-renew-deadline > "
        f"1.2 × --leader-elect-retry-period, not {lease}, {renew} and {retry}"
    )
    assert mistakes(*words) == [message]


def test_a_lease_shorter_than_a_second_is_refused():
    words = (
        "--leader-elect-lease-duration=900ms",
        "--leader-elect-renew-deadline=500ms",
        "--leader-elect-retry-period=100ms",
    )
    assert mistakes(*words) == ["--leader-elect-lease-duration: must be at least 1s, not 900ms"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (":9643", ListenAddress("", 9643)),
        ("0.0.0.0:80", ListenAddress("0.0.0.0", 80)),  # noqa: S104 - parsed, not bound
        ("localhost:0", ListenAddress("127.0.0.1", 0)),
        ("[::1]:8080", ListenAddress("::1", 8080)),
    ],
)
def test_addresses_are_read_as_go_writes_them(text, expected):
    assert address(text) == expected
    assert address(str(expected)) == expected


@pytest.mark.parametrize("flag", ["shoot-server-pattern", "external-server-pattern"])
def test_a_server_pattern_must_compile_once_the_namespace_is_in_it(flag):
    good = r"api\.{namespace}\.example\.org:443"
    field = flag.replace("-", "_")
    assert getattr(settings(f"--{flag}={good}"), field) == good
    assert getattr(settings(**{environment_name(field): good}), field) == good
    assert getattr(settings(f"--{flag}="), field) is None
    assert getattr(settings(), field) is None
    message = (
        f'--{flag}: must be a regular expression, not "api(": '
        "missing ), unterminated subpattern at position 3"
    )
    assert mistakes(f"--{flag}=api(") == [message]


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("INFO", LogLevel.INFO),
        ("debug", LogLevel.DEBUG),
        ("Error", LogLevel.ERROR),
        ("panic", LogLevel.ERROR),
        ("0", LogLevel.INFO),
        ("1", LogLevel.DEBUG),
        ("10", LogLevel.DEBUG),
    ],
)
def test_the_original_log_levels_are_mapped(text, level):
    assert settings(f"--zap-log-level={text}").log_level is level


def test_the_original_encoder_is_mapped_and_beats_the_environment():
    found = settings("--zap-encoder", "console", DWD_LOG_FORMAT="json")
    assert found.log_format is LogFormat.CONSOLE


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


def test_settings_do_not_change():
    with pytest.raises(ValidationError, match="frozen"):
        settings().dry_run = True


def test_the_own_namespace_is_that_of_the_service_account(tmp_path):
    mounted = tmp_path / "namespace"
    assert own_namespace(settings(), mounted) == "garden"
    mounted.write_text("watchdogs\n")
    assert own_namespace(settings(), mounted) == "watchdogs"
    mounted.write_text("not a namespace")
    assert own_namespace(settings(), mounted) == "garden"
    mounted.write_bytes(b"\xff")
    assert own_namespace(settings("--leader-election-namespace=b"), mounted) == "b"


def test_the_demo_stays_on_the_machine():
    found = read(model=DemoSettings).settings
    addresses = (found.api_bind_addr, found.metrics_bind_addr, found.health_bind_addr)
    assert all(each.loopback for each in addresses)
    assert (found.shoots, found.nodes, found.log_format) == (30, 10, LogFormat.CONSOLE)
    assert (found.seed, found.speed, found.scenario) == (1, 1.0, "story")
