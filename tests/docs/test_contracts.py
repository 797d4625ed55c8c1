"""The import contracts of `pyproject.toml`: each one is broken once in a copy of `app/`, and notices it."""

import re
import shutil
import sys
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.support.programs import ROOT, ended, printed

PLANTED: Final = yaml.safe_load(Path(__file__).with_name("planted_imports.yaml").read_text())
IMPORTS: Final = [each for imports in PLANTED.values() for each in imports.items()]


def lint(root: Path) -> str:
    run = ended(Path(sys.executable).parent / "lint-imports", "--no-cache", cwd=root)
    return run.stdout + run.stderr


def plant(root: Path, file: str, module: str) -> None:
    with (root / file).open("a", encoding="utf-8") as code:
        code.write(f"\nimport {module}\n")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What import-linter says of a copy in which every contract is broken."""
    copy = tmp_path_factory.mktemp("planted")
    shutil.copytree(ROOT / "app", copy / "app", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    for file, module in IMPORTS:
        plant(copy, file, module)
    return lint(copy)


def test_every_contract_is_tried(report):
    verdicts = re.findall(r"^(.+) (?:KEPT|BROKEN)(?: \(.*\))?$", report, re.MULTILINE)
    assert sorted(verdicts) == sorted(PLANTED), report


@pytest.mark.parametrize("contract", PLANTED)
def test_a_planted_import_breaks_its_contract(report, contract):
    assert re.search(rf"^{re.escape(contract)} BROKEN", report, re.MULTILINE), report


@pytest.mark.parametrize(("file", "module"), IMPORTS, ids=str)
def test_the_report_names_the_planted_import(report, file, module):
    importer = file.removesuffix(".py").replace("/", ".")
    last = (ROOT / file).read_text(encoding="utf-8").count("\n") + 2
    assert re.search(rf"{re.escape(importer)} -> {re.escape(module)} \(.*l\.{last}\)", report), (
        report
    )


def test_the_program_loads_nothing_of_the_simulation():
    script = (
        "import sys, app.main\n"
        "print(*[name for name in sys.modules if name.startswith('app.simulation')])"
    )
    assert printed(sys.executable, "-c", script).split() == []
