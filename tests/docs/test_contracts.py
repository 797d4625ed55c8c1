"""The import contracts of `pyproject.toml`: each one is broken once in a copy of `app/`, and notices it."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]

# The layer or package whose contract is tried, the module that is given an import, and the import. All are planted in
# one copy: building the graph takes most of the time.
PLANTED: Final = {
    "Imports point downwards; prober and weeder do not know each other": (
        "app/weeder/controller.py",
        "app.prober.controller",
    ),
    "Nothing of the program knows the simulation, but the commands of the demo": (
        "app/main.py",
        "app.simulation.store",
    ),
    "Inside the core: adapters, then services, then the vocabulary": (
        "app/core/reporting/history.py",
        "app.core.overrides.cache",
    ),
    "Rules and vocabulary are pure: no IO, no clock, no framework": (
        "app/prober/rules/verdict.py",
        "socket",
    ),
    "The client of the API knows what travels, and nothing of the service": (
        "app/cli/session.py",
        "app.core.kube.client",
    ),
    "Decoding is pure apart from the JSON decoder": (
        "app/core/kube/decoding/pod_objects.py",
        "time",
    ),
    "Only the adapters speak to a cluster, or to what a probe is aimed at": (
        "app/prober/runner.py",
        "socket",
    ),
    "Features are given a cluster; they never pick one": (
        "app/api/application.py",
        "app.core.kube.seed",
    ),
}
MORE: Final = {  # other ways to break the same contracts
    "app/prober/rules/candidates.py": "app.core.redaction",
    "app/service/loops.py": "aiohttp",
    "app/core/tasks.py": "aiohttp",
    "app/cli/events.py": "app.core.handlers.runs",
}


def lint(root: Path) -> str:
    run = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache"],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=80,
        check=False,
    )
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
    for file, module in (*PLANTED.values(), *MORE.items()):
        plant(copy, file, module)
    return lint(copy)


def test_every_contract_is_tried(report):
    verdicts = re.findall(r"^(.+) (?:KEPT|BROKEN)(?: \(.*\))?$", report, re.MULTILINE)
    assert sorted(verdicts) == sorted(PLANTED), report


@pytest.mark.parametrize("contract", PLANTED)
def test_a_planted_import_breaks_its_contract(report, contract):
    assert re.search(rf"^{re.escape(contract)} BROKEN", report, re.MULTILINE), report


@pytest.mark.parametrize(("file", "module"), [*PLANTED.values(), *MORE.items()], ids=str)
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
    found = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == []
