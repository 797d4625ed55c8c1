"""docs/configuration.md explains the keys that its tables (tests/docs) do not have."""

import re
from pathlib import Path

from app.core.model.policy import ProberPolicy, ScalePolicy
from app.core.model.weeding import WeederPolicy

DOCUMENT = (Path(__file__).parents[3] / "docs/configuration.md").read_text()
SECTION = DOCUMENT.split("## The prober file\n", 1)[1].split("\n## ", 1)[0]
COMMON = DOCUMENT.split("## What both files have in common\n", 1)[1].split("\n## ", 1)[0]


def test_every_other_key_is_explained_below_the_table():
    prose = re.sub(r"^\|.*$", "", SECTION, flags=re.MULTILINE)
    obsolete = {*ProberPolicy.OBSOLETE, *ScalePolicy.OBSOLETE}
    assert {key for key in obsolete if key not in prose} == set()


def test_the_obsolete_keys_of_both_files_are_explained():
    assert ProberPolicy.OBSOLETE == WeederPolicy.OBSOLETE
    assert all(f"`{key}`" in COMMON for key in WeederPolicy.OBSOLETE)
