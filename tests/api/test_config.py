"""The effective configuration, and the level of the log."""

import logging
from dataclasses import replace

import pytest
import structlog
import yaml

from app.core import log
from app.core.config.flags import read_flags
from app.core.config.policy_files import parse_weeder
from app.core.config.settings import DemoSettings, ServeSettings
from app.core.model.policy import ConfigWarning, Loop
from tests.api.fakes import FakeConfigured

PATH = "/api/v1/config"
LEVEL = PATH + "/log-level"
CANARY = "s3cr3t-canary"
WEEDER = """
watchDuration: 90s
minBackoffRemaining: 1m30s
servicesAndDependantSelectors:
  kube-apiserver:
    podSelectors:
    - matchLabels: {app: kubernetes}
      matchExpressions:
      - {key: role, operator: NotIn, values: [main, apiserver]}
      - {key: gardener.cloud/role, operator: Exists}
  etcd-main-client:
    podSelectors:
    - matchExpressions:
      - {key: role, operator: In, values: [a]}
      - {key: role, operator: In, values: [a, b]}
"""


def serve(*flags):
    required = ("--prober-config-file=/etc/dwd/prober.yaml", "--weeder-config-file=/w.yaml")
    return read_flags(ServeSettings, (*required, *flags), {}, "dwd serve").settings


# The configuration.


def test_flags_are_there_by_name_in_the_words_of_the_command_line(client, process):
    process.configured = FakeConfigured(
        serve(
            "--kube-api-qps=7.5",
            "--leader-elect-lease-duration=1m",
            "--dry-run",
            "--log-level=warn",
        )
    )
    found = client.get(PATH).json()["flags"]
    assert found["prober-config-file"] == "/etc/dwd/prober.yaml"
    assert found["kube-api-qps"] == 7.5
    assert found["kube-api-burst"] == 10
    assert found["leader-elect-lease-duration"] == "1m0s"
    assert found["dry-run"] is True
    assert found["log-level"] == "warning"
    assert found["kubeconfig"] is None
    assert found["health-bind-addr"] == ":9644"


def test_every_flag_of_every_command_that_serves_can_be_shown(client, process):
    for settings in (serve(), DemoSettings()):
        process.configured = FakeConfigured(settings)
        found = client.get(PATH).json()["flags"]
        assert set(found) == {name.replace("_", "-") for name in type(settings).model_fields}


def test_of_a_file_there_is_the_path_and_never_what_is_in_it(client, process, tmp_path):
    secret = tmp_path / "kubeconfig"
    secret.write_text(CANARY)
    process.configured = FakeConfigured(serve(f"--kubeconfig={secret}"))
    answer = client.get(PATH)
    assert answer.json()["flags"]["kubeconfig"] == str(secret)
    assert CANARY not in answer.text


def test_a_password_in_a_flag_is_not_shown(client, process):
    process.configured = FakeConfigured(serve(f"--shoot-server-pattern=password={CANARY}"))
    assert CANARY not in client.get(PATH).text


def test_the_weeder_file_that_is_shown_means_what_is_in_force(client, process):
    policy = parse_weeder(WEEDER, "given", strict=True).policy
    process.configured = FakeConfigured(weeder=policy)
    shown = client.get(PATH).json()["weeder"]
    assert shown["watchDuration"] == "1m30s"
    selector = shown["servicesAndDependantSelectors"]["kube-apiserver"]["podSelectors"][0]
    assert selector["matchLabels"] == {"app": "kubernetes"}
    again = parse_weeder(yaml.safe_dump(shown), "shown", strict=True).policy
    assert again.watch_duration == policy.watch_duration
    assert {n: [set(s.requirements) for s in each] for n, each in again.services.items()} == {
        n: [set(s.requirements) for s in each] for n, each in policy.services.items()
    }
    assert replace(again, services=policy.services) == policy


def test_a_file_of_a_loop_that_does_not_run_here_is_null(client, process):
    process.configured = FakeConfigured(prober=None)
    found = client.get(PATH).json()
    assert (found["prober"], found["weeder"]) == (None, None)


def test_what_deserves_a_look_is_with_it(client, process):
    process.warnings = [ConfigWarning("probeIntervall", "unknown", 3)]
    found = client.get(PATH).json()["warnings"]
    assert found == [{"path": "probeIntervall", "line": 3, "message": "unknown"}]


@pytest.mark.parametrize("loop", list(Loop))
def test_a_standby_and_either_loop_answer_about_themselves(client, process, loop):
    process.loops, process.leading, process.dry_run = (loop,), False, True
    assert client.get(PATH).status_code == 200
    assert client.put(LEVEL, json={"level": "error"}).status_code == 200


# The level of the log.


@pytest.mark.parametrize("word", ["debug", "info", "warning", "error"])
def test_the_level_is_changed_at_once_for_us_and_for_libraries(client, logged, word):
    answer = client.put(LEVEL, json={"level": word})
    assert (answer.status_code, answer.json()) == (200, {"level": word})
    assert client.get(PATH).json()["logLevel"] == word
    logged.clear()
    order = ["debug", "info", "warning", "error"]
    for each in order:
        getattr(structlog.get_logger("ours"), each)("said")
    kept = order[order.index(word) :]
    assert [line["log_level"] for line in logged] == kept
    library = logging.getLogger("a library")
    enabled = [
        each for each in order if library.isEnabledFor(logging.getLevelNamesMapping()[each.upper()])
    ]
    assert enabled == kept


def test_the_flag_is_what_it_was_started_with(client):
    client.put(LEVEL, json={"level": "error"})
    found = client.get(PATH).json()
    assert (found["logLevel"], found["flags"]["log-level"]) == ("error", "info")


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "level"),
        ({"level": "trace"}, "level"),
        ({"level": "INFO"}, "level"),
        ({"level": 10}, "level"),
        ({"level": "info", "for": "1h"}, "for"),
    ],
)
def test_a_wrong_level_is_422_and_changes_nothing(client, body, path):
    client.put(LEVEL, json={"level": "warning"})
    answer = client.put(LEVEL, json=body)
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["path"] == path
    if path == "level" and body:
        assert "'debug', 'info', 'warning' or 'error'" in error["message"]
    assert log.level() == "warning"


def test_the_audit_has_both_levels(client, audit):
    client.put(LEVEL, json={"level": "warning"})
    client.put(LEVEL, json={"level": "error"})
    said = audit.entries()[0].attempt
    assert (said.action, said.before, said.after) == ("log-level", "warning", "error")


def test_a_level_that_is_none_is_refused():
    with pytest.raises(ValueError, match="no log level loud"):
        log.set_level("loud")
