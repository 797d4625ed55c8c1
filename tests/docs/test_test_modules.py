"""Whatever module of tests a page names is there."""

import re

import pytest

from tests.docs.pages import DOCS, ROOT

NAMED = re.compile(r"\b(?:tests/(?:\w+/)*)?test_\w+(?:\.py)?\b(?![*…])")
PAGES = sorted(DOCS.rglob("*.md"))


def modules():
    return {path.stem: path for path in (ROOT / "tests").rglob("test_*.py")}


def missing(text: str) -> list[str]:
    known, found = modules(), []
    for named in NAMED.findall(text):
        inside = (
            named.startswith("tests/") and not (ROOT / f"{named.removesuffix('.py')}.py").is_file()
        )
        if inside or named.rpartition("/")[2].removesuffix(".py") not in known:
            found.append(named)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_every_module_of_tests_that_a_page_names_is_there(page):
    assert not missing(page.read_text(encoding="utf-8"))


def test_a_module_that_is_gone_is_noticed():
    assert missing("`test_citations`, `tests/docs/test_links.py`, tests/docs/test_links") == []
    assert missing("`test_of_old`: `what…`") == ["test_of_old"]
    assert missing("`tests/core/test_links.py`") == ["tests/core/test_links.py"]
