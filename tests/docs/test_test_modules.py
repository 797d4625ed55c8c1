"""Whatever module of tests a page names is there."""

import re

from tests.docs.pages import DOCS, ROOT

NAMED = re.compile(r"\b(?:tests/(?:\w+/)*)?test_\w+(?:\.py)?\b(?![*…])")


KNOWN = {path.stem for path in (ROOT / "tests").rglob("test_*.py")}


def missing(text: str) -> list[str]:
    found = []
    for named in NAMED.findall(text):
        path, name = f"{named.removesuffix('.py')}.py", named.rpartition("/")[2].removesuffix(".py")
        inside = named.startswith("tests/") and not (ROOT / path).is_file()
        if inside or name not in KNOWN:
            found.append(named)
    return found


def test_every_module_of_tests_that_a_page_names_is_there():
    pages = sorted(DOCS.rglob("*.md"))
    assert [
        (page, each) for page in pages for each in missing(page.read_text(encoding="utf-8"))
    ] == []


def test_a_module_that_is_gone_is_noticed():
    assert missing("`test_citations`, `tests/docs/test_links.py`, tests/docs/test_links") == []
    assert missing("`test_of_old`: `what…`") == ["test_of_old"]
    assert missing("`tests/core/test_links.py`") == ["tests/core/test_links.py"]
