"""The commands of ours that the pages tell people to type are taken by the program, with their flags."""

import re
from functools import cache

from app import commands
from app.core.config.client_settings import CLIENT_SETTINGS
from app.core.config.flags import ORIGINAL_FLAGS, flag_name
from app.core.errors import ConfigurationError
from tests.docs.pages import pages
from tests.docs.shell import words_of

PAGES = pages()
CODES = [(page, code) for page in PAGES for code in page.codes]
PROGRAMS = {"dwd", ".venv/bin/dwd", "dependency-watchdog", "/usr/local/bin/dependency-watchdog"}
PLACEHOLDERS = {
    "NAMESPACE": "shoot--acme--prod",
    "NAME": "shoot--acme--prod",
    "SERVICE": "kube-apiserver",
    "RESOURCE": "Deployment/kube-controller-manager",
    "ID": "4772c9c5-3",
    "ETAG": '"eb265b18d7659e0d578b"',
    "TEXT": "maintenance",
    "HOST": "host",
    "…": "",
}
"""What the pages write in capitals, for the reader to fill in."""
FLAGS = {
    *(
        flag_name(name)
        for model in commands.known_commands().values()
        for name in model.model_fields
    ),
    *(
        alias
        for model in commands.known_commands().values()
        for alias in model.aliases()
        if len(alias) > 1
    ),
    *ORIGINAL_FLAGS,
    "help",
    "version",
}
FOREIGN_FLAGS = {
    "configuration.md": {"flag"},
    "contract.md": {"watch-cache-sizes"},
    "glossary.md": {"node-monitor-grace-period", "unhealthy-zone-threshold"},
    "image.md": {"no-cache"},
    "install.md": {
        *("api-versions", "atomic", "reset-then-reuse-values", "reuse-values"),
        *("rollback-on-failure", "set", "take-ownership"),
    },
    "migrate.md": {"flag"},
    "opponent.md": {"leader-elect", "node-monitor-grace-period"},
    "performance.md": {"json"},
    "rules.md": {"flag"},
}
"""Flags of other programs, and ways to write one, by the page that has them between backticks."""


def filled_in(word):
    for name, value in PLACEHOLDERS.items():
        word = re.sub(rf"\b{name}\b" if name.isalpha() else name, value, word)
    return word


def our_commands():
    """Each command line of ours in a block of a page."""
    for page in PAGES:
        for line in page.shell_lines:
            for words in words_of(line.text):
                if words and words[0] in PROGRAMS:
                    yield page, line, [filled_in(word) for word in words[1:]]


def test_every_command_line_is_one_that_the_program_takes():
    wrong = []
    for page, line, words in our_commands():
        try:
            commands.parse([word for word in words if word], {})
        except ConfigurationError as error:
            wrong.append(f"{page}:{line.line}: {line.text}: {error}")
    assert wrong == []


def test_every_command_that_is_named_has_the_flags_beside_it():
    wrong = []
    for page, code in CODES:
        if found := re.match(r"dwd ([a-z][a-z-]*)(.*)", code.text):
            flags = flags_of(found[1])
            if flags is None or not set(re.findall(r"--([a-z][a-z-]+)", found[2])) <= flags:
                wrong.append(f"{page}:{code.line}: {code.text}")
    assert wrong == []


@cache
def flags_of(command):
    """The flags of one of our commands; None: there is no such command."""
    try:
        found = commands.parse([command, "--help"], {})
    except ConfigurationError:
        return None
    assert isinstance(found, commands.Help)
    own = set(re.findall(r"--([a-z][a-z-]+)", found.text))
    return own if command in CLIENT_SETTINGS else own | set(ORIGINAL_FLAGS)


def test_every_flag_that_is_named_is_there():
    wrong = [
        f"{page}:{code.line}: {code.text}"
        for page, code in CODES
        if (found := re.match(r"(?:dwd )?--([a-z][\w-]+)", code.text))
        and found[1].rstrip("-") not in FLAGS | FOREIGN_FLAGS.get(page.path.name, set())
    ]
    assert [each for each in wrong if "--zap-*" not in each] == []
