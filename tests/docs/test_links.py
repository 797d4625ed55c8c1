"""Links of the pages lead somewhere: to files, headings and code that are there; every page can be found."""

import importlib.util
import re
from urllib.parse import unquote, urlsplit

import pytest

from tests.docs.pages import DOCS, ROOT, Page, pages

PAGES = pages()
CONTENTS = Page(DOCS / "README.md")
CODE_PATH = re.compile(
    r"(?:\./)?(?:(?:app|bench|config|docs|hack|helm|monitoring|requirements|tests)/|\.ci/|Makefile|Dockerfile)"
    r"[\w./*-]*"
)
MODULE = re.compile(r"(?:app|bench|tests)(?:\.[a-z_]\w*)+")


def is_elsewhere(target):
    return bool(urlsplit(target).scheme)


def trouble(page, target):
    """Why a link of `page` leads nowhere; None where it does not."""
    path, _, anchor = target.partition("#")
    file = (page.path.parent / unquote(path)).resolve() if path else page.path
    if path.startswith("/") or not file.is_relative_to(ROOT):
        return "leaves the repository"
    if not file.exists():
        return "no such file"
    if anchor and file.suffix == ".md" and anchor not in Page(file).anchors:
        return "no such heading"
    if anchor and file.suffix != ".md":
        return "an anchor that is no heading"
    return None


def test_every_link_leads_to_a_file_and_a_heading_that_are_there():
    wrong = [
        f"{page}:{link.line}: {link.text}: {why}"
        for page in PAGES
        for link in page.links
        if not is_elsewhere(link.text) and (why := trouble(page, link.text))
    ]
    assert wrong == []


def test_links_to_elsewhere_are_https():
    others = [(page, link) for page in PAGES for link in page.links if is_elsewhere(link.text)]
    assert [each for each in others if not each[1].text.startswith("https://")] == []


@pytest.mark.parametrize("what", ["path", "module"])
def test_every_path_and_every_module_that_is_named_is_there(what):
    shape, known = {"path": (CODE_PATH, is_there), "module": (MODULE, is_module)}[what]
    named = [(page, code) for page in PAGES for code in page.codes if shape.fullmatch(code.text)]
    wrong = [f"{page}:{code.line}: {code.text}" for page, code in named if not known(code.text)]
    assert (bool(named), wrong) == (True, [])


def is_there(path):
    """A file, a folder, a pattern that matches one, or a test without its `.py`."""
    name = path.rstrip("/").removeprefix("./")
    return any(ROOT.glob(name)) or (ROOT / f"{name}.py").is_file()


def is_module(name):
    """Whether it is a module, or a name that one may have (`app.core.model.weeding.WeederPolicy`)."""
    for each in (name, name.rpartition(".")[0]):
        try:
            if importlib.util.find_spec(each) is not None:
                return True
        except ModuleNotFoundError:
            continue
    return False


def test_the_table_of_contents_has_every_page():
    linked = {
        (CONTENTS.path.parent / link.text.partition("#")[0]).resolve()
        for link in CONTENTS.links
        if not is_elsewhere(link.text)
    }
    decisions = DOCS / "decisions"
    expected = {page.path for page in PAGES if page.path.is_relative_to(DOCS)}
    expected -= {CONTENTS.path, *decisions.glob("[0-9]*.md")}
    assert {str(path.relative_to(ROOT)) for path in expected - linked} == set()


def test_the_list_of_decisions_has_every_decision_under_its_title():
    contents = Page(DOCS / "decisions/README.md")
    listed = dict(re.findall(r"^- \[[0-9]{4}\]\((.+?)\) (.+)$", contents.text, re.MULTILINE))
    titles = {
        path.name: path.read_text().splitlines()[0]
        for path in (DOCS / "decisions").glob("[0-9]*.md")
    }
    assert listed == {
        name: re.sub(r"^# (?:[0-9]{4}:? ?)?", "", title) for name, title in titles.items()
    }


def test_the_first_page_leads_to_the_table_of_contents():
    first = Page(ROOT / "README.md")
    assert "docs/README.md" in {link.text for link in first.links}


def test_no_page_names_a_place_that_only_one_machine_has():
    own = re.compile(r"(?<![\w.$])/(?:root|home|work)/")
    assert [str(page) for page in PAGES if own.search(page.text)] == []
