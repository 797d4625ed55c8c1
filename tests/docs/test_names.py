"""What the pages name is there: variables, make targets, modules, metrics, files, values of the chart."""

import itertools
import re

import pytest
import yaml

from app import commands
from app.core.config.flags import environment_name
from tests.docs.pages import DOCS, ROOT, pages
from tests.docs.shell import words_of

PAGES = pages()
TEST_VARIABLES = {"DWD_FAILOVER_RUNS", "DWD_FROZEN_SECONDS"}
"""Those that only a test reads."""
VALUES = yaml.safe_load((ROOT / "helm/dependency-watchdog/values.yaml").read_text())
METRICS = set(re.findall(r"^\| `(dwd_\w+)`", (DOCS / "metrics.md").read_text(), re.MULTILINE))
TARGETS = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def by_name(page):
    return str(page)


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_every_variable_that_is_named_is_there(page):
    known = {
        environment_name(name)
        for model in commands.known_commands().values()
        for name in model.model_fields
    }
    named = set(re.findall(r"\bDWD_[A-Z_]+[A-Z]\b", page.text))
    assert named - known - TEST_VARIABLES == set()


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_every_make_target_is_there(page):
    lines = [line.text for line in page.shell_lines] + [code.text for code in page.codes]
    named = {found[1] for line in lines if (found := re.match(r"make ([a-z][\w-]*)", line))}
    assert named - TARGETS == set()


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_every_module_that_is_run_is_there(page):
    lines = [line.text for line in page.shell_lines] + [code.text for code in page.codes]
    named = {
        found[1]
        for line in lines
        if (found := re.search(r"python -m ((?:app|bench|tests)[\w.]*)", line))
    }
    missing = {
        name
        for name in named
        if not any(ROOT.glob(name.replace(".", "/") + place) for place in (".py", "/__main__.py"))
    }
    assert missing == set()


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_every_metric_that_is_named_is_one_that_is_served(page):
    named = {
        re.sub(r"_(bucket|sum|count)$", "", each)
        for each in re.findall(r"\bdwd_[a-z_]+[a-z]\b", page.text)
    }
    assert named - METRICS == set()


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_every_file_of_ours_that_a_command_names_is_there(page):
    ours = re.compile(r"(?:app|bench|config|docs|hack|helm|monitoring|requirements|tests)/[\w./-]+")
    words = [word for line in page.shell_lines for words in words_of(line.text) for word in words]
    named = {word.partition("::")[0] for word in words if ours.fullmatch(word.partition("::")[0])}
    assert {name for name in named if not (ROOT / name).exists()} == set()


@pytest.mark.parametrize("page", PAGES, ids=by_name)
def test_every_value_of_the_chart_that_is_named_is_there(page):
    named = [(code.line, code.text.partition(":")[0]) for code in page.codes]
    for line in page.shell_lines:
        for words in words_of(line.text):
            given = itertools.pairwise(words) if words[:1] == ["helm"] else ()
            named += [
                (line.line, value.partition("=")[0]) for flag, value in given if flag == "--set"
            ]
    wrong = [
        f"{page}:{line}: {path}"
        for line, path in named
        if looks_like_a_value(path) and not has_value(path)
    ]
    assert wrong == []


def looks_like_a_value(path):
    """Whether it begins with a key of the chart that has others below it, and is no file."""
    top, dot, rest = path.partition(".")
    below = isinstance(VALUES.get(top), dict) and re.fullmatch(r"[A-Za-z][\w.]*", rest)
    return bool(dot and below and not rest.endswith(("md", "yaml", "json", "py")))


def has_value(path):
    value = VALUES
    for key in path.split("."):
        if not isinstance(value, dict) or (value and key not in value):
            return False
        value = value.get(key, {})
    return True
