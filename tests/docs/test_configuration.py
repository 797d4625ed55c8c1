"""docs/configuration.md: its tables are what the program has, and each row says why."""

import re

import pytest

from app.core.config.values import FileKind
from tests.docs.asking import PROBE, Answer, ask
from tests.docs.configuration import PAGE, PROBE_ROWS, ROWS, regenerated

TEXT = PAGE.read_text()


def test_regenerating_the_page_changes_nothing():
    assert regenerated(TEXT) == TEXT, "renew it: python -m tests.docs.configuration"


def test_every_table_of_the_page_is_one_that_is_made():
    made = set(re.findall(r"<!-- begin (.*) -->", TEXT))
    assert made == {
        "keys of the prober file",
        "keys of the weeder file",
        "keys of an endpoint probe",
        "flags on a seed",
        "flags of demo",
        "flags of check-config",
    }
    outside = re.sub(r"<!-- begin (.*) -->\n.*?<!-- end \1 -->\n", "", TEXT, flags=re.DOTALL)
    assert "|---|" not in outside


def test_every_row_says_why():
    assert [
        line for line in TEXT.splitlines() if line.startswith("| `") and line.endswith("| |")
    ] == []


@pytest.mark.parametrize(
    ("kind", "row", "answer"),
    [
        (FileKind.PROBER, "probeInterval", Answer("duration", "10s", "above 0s")),
        (
            FileKind.PROBER,
            "maxProtectionDuration",
            Answer("duration", "none", "above 0s, at most 24h"),
        ),
        (FileKind.PROBER, "onScaleUpFailure", Answer("`Continue` or `Stop`", "Stop", "")),
        (
            FileKind.PROBER,
            "suspectProbeInterval",
            Answer(
                "duration",
                "5s, or `probeInterval` if that is shorter",
                "above 0s, at most `probeInterval`",
            ),
        ),
        (FileKind.PROBER, "dependentResourceInfos", Answer("list", "required", "not empty")),
        (
            FileKind.PROBER,
            "kubeConfigSecretName",
            Answer("text", "required; in endpoint mode none", "a name as Kubernetes allows it"),
        ),
        (
            FileKind.PROBER,
            "internalKubeConfigSecretName",
            Answer("text", "none; in endpoint mode required", "a name as Kubernetes allows it"),
        ),
        (FileKind.PROBER, "failureThreshold", Answer("count", "1; in endpoint mode 3", "from 1")),
        (FileKind.PROBER, "endpointProbes", Answer("list", "none", "")),
        (FileKind.PROBER, f"{PROBE}periodSeconds", Answer("count", "10", "from 1")),
        (FileKind.PROBER, f"{PROBE}podSelector", Answer("mapping", "none", "")),
        (
            FileKind.PROBER,
            f"{PROBE}httpGet.port",
            Answer("count or text", "required", "from 1 to 65535"),
        ),
        (FileKind.PROBER, f"{PROBE}exec.command", Answer("list", "required", "not empty")),
        (FileKind.WEEDER, "weedBarePods", Answer("boolean", "false", "")),
    ],
)
def test_the_parsers_are_asked(kind, row, answer):
    assert ask(kind, row) == answer


def test_a_key_that_no_parser_knows_is_noticed():
    with pytest.raises(IndexError):
        ask(FileKind.PROBER, "probeIntervall")


def test_what_is_written_into_a_table_by_hand_is_undone_but_the_reason():
    wrong = TEXT.replace(
        "| `probeInterval` | duration | 10s |", "| `probeInterval` | duration | 20s |"
    )
    assert wrong != TEXT
    assert regenerated(wrong) == TEXT
    row = next(line for line in TEXT.splitlines() if line.startswith("| `probeInterval`"))
    reason = row.rsplit("| ", 1)[1]
    changed = TEXT.replace(row, row.replace(reason, "another reason |"))
    assert regenerated(changed) == changed


def test_the_rows_are_the_keys_that_are_read():
    assert {"probeInterval", "….level", "dependentResourceInfos[].ref.kind"} < set(
        ROWS[FileKind.PROBER]
    )
    assert {"name", "httpGet.port", "exec.command", "effect"} < set(PROBE_ROWS)
    assert {"watchDuration", "….matchExpressions[].operator"} < set(ROWS[FileKind.WEEDER])
