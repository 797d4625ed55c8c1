"""The Markdown pages of the repository, taken apart: headings, links, inline code, blocks of commands."""

import itertools
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
_NOT_OURS: Final = {"build", "dist", "node_modules"}
_PARSER: Final = MarkdownIt("commonmark").enable("table")
_HTML_TARGET: Final = re.compile(r"""\b(?:src|srcset|href)="([^"]+)\"""")
_HTML_ANCHOR: Final = re.compile(r"""<a id="([^"]+)">""")
_SHELLS: Final = {"", "sh", "bash", "shell", "console"}
_DOCUMENT: Final = re.compile(r"<<'?(?P<end>[A-Z]+)'?$")
_CONTINUED: Final = re.compile(r"\\\n\s*")


@dataclass(frozen=True, slots=True)
class Found:
    """Something that stands on a page."""

    line: int
    """Counted from 1; of what stands in a paragraph, the paragraph's."""
    text: str


@dataclass(frozen=True, slots=True)
class Page:
    """One Markdown file."""

    path: Path

    def __str__(self) -> str:
        return str(self.path.relative_to(ROOT))

    @property
    def text(self) -> str:
        """What is in the file."""
        return self.path.read_text(encoding="utf-8")

    @property
    def anchors(self) -> set[str]:
        """What a link may name behind `#`: what GitHub makes of the headings, and anchors that are written."""
        seen: Counter[str] = Counter()
        found = set(_HTML_ANCHOR.findall(self.text))
        for heading in self._headings():
            name = slug(heading)
            found.add(f"{name}-{seen[name]}" if seen[name] else name)
            seen[name] += 1
        return found

    def _headings(self) -> Iterator[str]:
        tokens = _tokens(self.path, self.text)
        for opening, inline in itertools.pairwise(tokens):
            if opening.type == "heading_open":
                parts = inline.children or []
                yield "".join(
                    each.content for each in parts if each.type in {"text", "code_inline"}
                )

    @property
    def links(self) -> list[Found]:
        """The targets of links and pictures, those in HTML too."""
        found = []
        for line, token in self._leaves():
            if token.type in {"link_open", "image"}:
                target = token.attrGet("href") or token.attrGet("src")
                found.append(Found(line, str(target)))
            elif token.type in {"html_inline", "html_block"}:
                found += (Found(line, each) for each in _HTML_TARGET.findall(token.content))
        return found

    @property
    def codes(self) -> list[Found]:
        """What stands between backticks in running text."""
        return [
            Found(line, token.content)
            for line, token in self._leaves()
            if token.type == "code_inline"
        ]

    @property
    def blocks(self) -> list[tuple[str, Found]]:
        """Fenced and indented blocks, each with its language; empty where none is named."""
        return [
            (token.info.split(" ")[0], Found(line, token.content))
            for line, token in self._leaves()
            if token.type in {"fence", "code_block"}
        ]

    @property
    def shell_lines(self) -> list[Found]:
        """The lines of blocks that may be commands, without a prompt, those with a backslash or a document joined.

        In a block with prompts, the lines without one are what the commands say.
        """
        return [
            Found(block.line, line.removeprefix("$ ").strip())
            for language, block in self.blocks
            if language in _SHELLS
            for line in _commands(block.text)
        ]

    def _leaves(self) -> Iterator[tuple[int, Token]]:
        line = 1
        for token in _tokens(self.path, self.text):
            line = token.map[0] + 1 if token.map else line
            for leaf in token.children or [token]:
                yield line, leaf


def _commands(text: str) -> Iterator[str]:
    lines = iter(_CONTINUED.sub(" ", text).splitlines())
    prompted = any(line.startswith("$ ") for line in text.splitlines())
    for line in lines:
        if prompted and not line.startswith("$ "):
            continue
        command = line
        if (document := _DOCUMENT.search(line)) is not None:
            end = [")"] if line.count("(") > line.count(")") else [document["end"]]
            for each in lines:
                command += f"\n{each}"
                if each in end:
                    break
        yield command


@cache
def _tokens(path: Path, text: str) -> tuple[Token, ...]:
    del path  # two pages with the same text may share it
    return tuple(_PARSER.parse(text))


def slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return kept.replace(" ", "-")


def pages() -> list[Page]:
    """All Markdown files of the repository."""
    found = (path for path in ROOT.rglob("*.md") if _is_ours(path.relative_to(ROOT)))
    return [Page(path) for path in sorted(found)]


def _is_ours(path: Path) -> bool:
    return not any(part in _NOT_OURS or part.startswith(".") for part in path.parts)
