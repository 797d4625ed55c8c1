"""docs/configuration.md: its tables are what the program has, and each row says why."""

import re

from app.core.model.policy import ProberPolicy, ScalePolicy
from app.core.model.weeding import WeederPolicy
from tests.docs.configuration import PAGE, regenerated

TEXT = PAGE.read_text()


def test_regenerating_the_page_changes_nothing():
    assert regenerated(TEXT) == TEXT, "renew it: python -m tests.docs.configuration"


def test_every_table_of_the_page_is_one_that_is_made():
    assert set(re.findall(r"<!-- begin (.*) -->", TEXT)) == {
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


def test_the_obsolete_keys_are_explained_where_there_are_no_tables():
    prose = re.sub(r"^\|.*$", "", TEXT, flags=re.MULTILINE)
    obsolete = {*ProberPolicy.OBSOLETE, *ScalePolicy.OBSOLETE, *WeederPolicy.OBSOLETE}
    assert {key for key in obsolete if not re.search(rf"`(\w+\.)*{key}`", prose)} == set()


def test_what_is_written_into_a_table_by_hand_is_undone():
    row = next(line for line in TEXT.splitlines() if line.startswith("| `probeInterval`"))
    wrong = TEXT.replace(row, "| `probeInterval` | duration | 20s | above 0s | another reason |")
    assert wrong != TEXT
    assert regenerated(wrong) == TEXT
