"""docs/configuration.md explains the keys that its tables (tests/docs) do not have."""

import re
from pathlib import Path

from app.core.config.prober_file import PROBER_KEYS, SCALE_KEYS
from app.core.config.weeder_file import WEEDER_KEYS

DOCUMENT = (Path(__file__).parents[3] / "docs/configuration.md").read_text()
SECTION = DOCUMENT.split("## The prober file\n", 1)[1].split("\n## ", 1)[0]
COMMON = DOCUMENT.split("## What both files have in common\n", 1)[1].split("\n## ", 1)[0]


def test_every_other_key_is_explained_below_the_table():
    prose = re.sub(r"^\|.*$", "", SECTION, flags=re.MULTILINE)
    obsolete = {*PROBER_KEYS.obsolete, *SCALE_KEYS.obsolete}
    assert {key for key in obsolete if key not in prose} == set()


def test_the_obsolete_keys_of_both_files_are_explained():
    assert PROBER_KEYS.obsolete == WEEDER_KEYS.obsolete
    assert all(f"`{key}`" in COMMON for key in WEEDER_KEYS.obsolete)
