"""What people see, as a text file has it: sections with a sentence as their head."""

import re
from pathlib import Path


def sections(file: Path) -> dict[str, str]:
    """The texts of a file by their heads, lines that begin with `# `; an empty line parts two sections."""
    _, *parts = re.split(r"(?:^|\n)# (.*)\n", file.read_text(encoding="utf-8"))
    return {
        head: text.rstrip("\n") + "\n" for head, text in zip(parts[::2], parts[1::2], strict=True)
    }
