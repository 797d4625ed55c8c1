"""What the pages name is there: variables, make targets, modules, metrics, files, values of the chart."""

import itertools
import re

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


def named(pattern, texts):
    """What the first group finds, of which page."""
    return {
        (str(page), each)
        for page in PAGES
        for text in texts(page)
        for each in pattern.findall(text)
    }


def lines(page):
    return [each.text for each in (*page.shell_lines, *page.codes)]


def test_every_variable_that_is_named_is_there():
    models = commands.known_commands().values()
    known = {environment_name(name) for model in models for name in model.model_fields}
    found = named(re.compile(r"\bDWD_[A-Z_]+[A-Z]\b"), lambda page: [page.text])
    assert {each for each in found if each[1] not in known | TEST_VARIABLES} == set()


def test_every_make_target_is_there():
    found = named(re.compile(r"^make ([a-z][\w-]*)"), lines)
    assert {each for each in found if each[1] not in TARGETS} == set()


def test_every_module_that_is_run_is_there():
    found = named(re.compile(r"python -m ((?:app|bench|tests)[\w.]*)"), lines)
    places = (".py", "/__main__.py")
    assert found
    assert not [
        each
        for each in found
        if not any((ROOT / (each[1].replace(".", "/") + place)).exists() for place in places)
    ]


def test_every_metric_that_is_named_is_one_that_is_served():
    found = named(re.compile(r"\bdwd_[a-z_]+[a-z]\b"), lambda page: [page.text])
    served = {(page, re.sub(r"_(bucket|sum|count)$", "", each)) for page, each in found}
    assert {each for each in served if each[1] not in METRICS} == set()


def test_every_file_of_ours_that_a_command_names_is_there():
    ours = re.compile(
        r"((?:app|bench|config|docs|hack|helm|monitoring|requirements|tests)/[\w./-]+)(?:::.*)?"
    )
    wrong = [
        f"{page}:{line.line}: {word}"
        for page in PAGES
        for line in page.shell_lines
        for words in words_of(line.text)
        for word in words
        if (found := ours.fullmatch(word)) and not (ROOT / found[1]).exists()
    ]
    assert wrong == []


def test_every_value_of_the_chart_that_is_named_is_there():
    named = [
        (page, code.line, code.text.partition(":")[0]) for page in PAGES for code in page.codes
    ]
    for page in PAGES:
        for line in page.shell_lines:
            for words in words_of(line.text):
                given = itertools.pairwise(words) if words[:1] == ["helm"] else ()
                named += [
                    (page, line.line, value.partition("=")[0])
                    for flag, value in given
                    if flag == "--set"
                ]
    wrong = [
        f"{page}:{line}: {path}"
        for page, line, path in named
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
