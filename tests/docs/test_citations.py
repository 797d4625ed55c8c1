"""What cites a rule or a threat by its number leads to a section of docs/rules.md, or a row of docs/threats.md."""

import re
from collections.abc import Iterable
from functools import cache

import pytest

from tests.docs.pages import DOCS, ROOT

WHERE = ("app", "bench", "config", "docs", "hack", "helm", "monitoring", "tests")
SUFFIXES = {"", ".json", ".md", ".py", ".sh", ".toml", ".tpl", ".yaml"}
RULES = re.compile(r"\b([Rr]ules?|[Ss]pec)((?:[,;]? (?:and )?\d+(?:\.\d+)*(?!\w| ?%))+)")
THREATS = re.compile(r"\b[Tt]hreats?((?:(?:, | and | to |[ -–])T\d+)+)")


@cache
def sections():
    text = (DOCS / "rules.md").read_text(encoding="utf-8")
    return frozenset(re.findall(r"^#+ (\d+(?:\.\d+)*) ", text, re.MULTILINE))


@cache
def threats():
    text = (DOCS / "threats.md").read_text(encoding="utf-8")
    return frozenset(re.findall(r'^\| <a id="(T\d+)"></a>\1 \|', text, re.MULTILINE))


def dangling(text: str) -> list[str]:
    """The citations in `text` that end nowhere; the pages of rules have no other name than that."""
    found = []
    for page, numbers in RULES.findall(text):
        cited = re.findall(r"\d+(?:\.\d+)*", numbers)
        known = sections() if page.lower() != "spec" else frozenset()
        found += [f"{page} {each}" for each in cited if each not in known]
    for numbers in THREATS.findall(text):
        found += [
            f"threat {each}" for each in re.findall(r"T\d+", numbers) if each not in threats()
        ]
    return found


def files(folder: str) -> Iterable[str]:
    return sorted(
        str(path.relative_to(ROOT))
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix in SUFFIXES and "__pycache__" not in path.parts
    )


@pytest.mark.parametrize("folder", WHERE)
def test_every_citation_leads_to_a_rule_or_a_threat(folder):
    wrong = [
        f"{name}: {each}"
        for name in files(folder)
        for each in dangling((ROOT / name).read_text(encoding="utf-8", errors="replace"))
    ]
    assert wrong == []


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md", "SECURITY.md", "Makefile"])
def test_every_citation_of_the_first_pages_leads_there_too(name):
    assert dangling((ROOT / name).read_text(encoding="utf-8")) == []


def test_there_are_rules_and_threats_to_cite():
    assert {"1", "3.1", "4.1", "4.3", "8"} <= sections()
    assert {f"T{number}" for number in range(1, len(threats()) + 1)} == threats()


# The numbers are put in here, so that this file has no citation that ends nowhere.
@pytest.mark.parametrize(
    ("planted", "page", "number"),
    [
        ("the table of rules 3.1, {} and 4.1", "rules", "3.9"),
        ("the first minute (rules 2; {})", "rules", "4.99"),
        ("as before (spec {})", "spec", "4.1"),
        ("redacted (threats T12 and {}, T13)", "threat", "T97"),
    ],
)
def test_a_citation_that_ends_nowhere_is_found(planted, page, number):
    assert dangling(planted.format(number)) == [f"{page} {number}"]
