"""The flags of `dwd weeder` and `dwd serve`, and what each command makes of those of its sibling."""

from pathlib import Path

import pytest

from app.core.config.flags import flag_name, read_flags
from app.core.config.settings import (
    DemoSettings,
    ProberOptions,
    ProberSettings,
    SeedSettings,
    ServeSettings,
    WeederOptions,
    WeederSettings,
    own_namespace,
)
from app.core.errors import ConfigurationError

CONFIG_FILE = "/etc/dependency-watchdog/config/dep-config.yaml"
FILES = {
    ProberSettings: ("--config-file=f",),
    WeederSettings: ("--config-file=f",),
    ServeSettings: ("--prober-config-file=p", "--weeder-config-file=w"),
}


def read(*words, model):
    return read_flags(model, words, {}, "dwd")


def test_the_arguments_of_the_weeder_that_gardener_deploys_are_accepted_without_a_word():
    found = read(
        f"--config-file={CONFIG_FILE}", "--enable-leader-election=true", model=WeederSettings
    )
    assert found.warnings == ()
    assert found.settings.config_file == Path(CONFIG_FILE)
    assert found.settings.enable_leader_election


def test_the_weeder_takes_the_flags_that_the_original_shares_between_both():
    words = (
        "--kube-api-qps=20.0",
        "--kube-api-burst=100",
        "--zap-log-level=INFO",
        "--zap-encoder=json",
        "--concurrent-reconciles=2",
        "--pprof-bind-addr=:1",
    )
    found = read("--config-file=f", *words, model=WeederSettings)
    assert (found.settings.kube_api_qps, found.settings.kube_api_burst) == (20.0, 100)
    assert [str(each) for each in found.warnings] == [
        "--pprof-bind-addr: is accepted for compatibility and has no effect",
        "--concurrent-reconciles: has no effect on this command",
    ]


def test_the_defaults_of_the_weeder_are_those_of_the_page():
    found = read("--config-file=f", model=WeederSettings).settings
    assert found.max_deletions_per_second == 20.0
    assert (found.kube_api_qps, found.kube_api_burst) == (5.0, 10)
    assert (found.leader_elect_lease_duration, found.leader_election_namespace) == (15.0, "garden")
    assert not found.enable_leader_election
    assert not found.dry_run


def test_serve_has_the_flags_of_both_and_a_file_for_each():
    words = (*FILES[ServeSettings], "--scale-down-qps=7", "--max-deletions-per-second=2.5")
    found = read(*words, model=ServeSettings)
    assert found.warnings == ()
    assert (found.settings.prober_config_file, found.settings.weeder_config_file) == (
        Path("p"),
        Path("w"),
    )
    assert (found.settings.scale_down_qps, found.settings.max_deletions_per_second) == (7.0, 2.5)
    assert issubclass(ServeSettings, ProberOptions)
    assert issubclass(ServeSettings, WeederOptions)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (ProberSettings, ("--max-deletions-per-second=1",)),
        (
            WeederSettings,
            (
                "--scale-down-qps=1",
                "--concurrent-reconciles=1",
                "--cluster-domain=a",
                "--shoot-server-pattern=a",
                "--external-server-pattern=a",
                "--allow-exec",
                "--per-shoot-metrics",
            ),
        ),
    ],
    ids=["prober", "weeder"],
)
def test_a_flag_that_only_the_sibling_heeds_is_accepted_with_a_warning(model, words):
    found = read(*FILES[model], *words, model=model)
    assert [str(each) for each in found.warnings] == [
        f"{word.partition('=')[0]}: has no effect on this command" for word in words
    ]


@pytest.mark.parametrize("model", FILES, ids=lambda model: model.__name__)
def test_each_flag_of_either_is_heeded_or_said_to_have_no_effect(model):
    options = {*ProberOptions.model_fields, *WeederOptions.model_fields}
    for field in sorted(options - set(SeedSettings.model_fields)):
        found = read(*FILES[model], f"--{flag_name(field)}=1", model=model)
        heeded = field in model.model_fields
        assert [each.path for each in found.warnings] == [f"--{flag_name(field)}"] * (not heeded)


@pytest.mark.parametrize("model", FILES, ids=lambda model: model.__name__)
def test_the_description_of_an_election_names_the_lease_of_its_own_command(model):
    names = {
        ProberSettings: ["prober"],
        WeederSettings: ["weeder"],
        ServeSettings: ["prober", "weeder"],
    }
    text = model.model_fields["enable_leader_election"].description
    found = [name for name in ("prober", "weeder") if f"dwd-{name}-leader-election" in text]
    assert found == names[model]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("0", "must be above 0, not 0"),
        ("-1", "must be above 0, not -1"),
        ("many", 'must be a finite number, not "many"'),
        ("inf", 'must be a finite number, not "inf"'),
        ("", 'must be a finite number, not ""'),
    ],
)
@pytest.mark.parametrize("model", [WeederSettings, ServeSettings], ids=["weeder", "serve"])
def test_a_pace_of_deletions_that_is_none_is_refused(model, word, message):
    with pytest.raises(ConfigurationError) as caught:
        read(*FILES[model], f"--max-deletions-per-second={word}", model=model)
    (mistake,) = caught.value.mistakes
    assert str(mistake) == f"--max-deletions-per-second: {message}"


@pytest.mark.parametrize("model", [WeederSettings, ServeSettings], ids=["weeder", "serve"])
def test_times_of_an_election_have_to_fit_for_the_weeder_too(model):
    with pytest.raises(ConfigurationError, match="--leader-elect-retry-period: must fit: "):
        read(*FILES[model], "--leader-elect-lease-duration=5s", model=model)


def test_the_demo_takes_none_of_the_originals_flags():
    with pytest.raises(ConfigurationError, match="--zap-log-level: unknown flag"):
        read("--zap-log-level=info", model=DemoSettings)


@pytest.mark.parametrize("model", FILES, ids=lambda model: model.__name__)
def test_the_own_namespace_is_found_for_each_command(model, tmp_path):
    found = read(*FILES[model], "--leader-election-namespace=c", model=model).settings
    assert own_namespace(found, tmp_path / "absent") == "c"
