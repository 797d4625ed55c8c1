"""A client that a generator makes of `docs/openapi.json`, whole and without a warning."""

import ast
import json
import sys

import pytest

from tests.demo.test_program import ROOT
from tests.support.programs import ended

DOCUMENT = ROOT / "docs" / "openapi.json"


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """The folder with the package `generated_client`, and what the generator said."""
    folder = tmp_path_factory.mktemp("client")
    (folder / "config.yaml").write_text("post_hooks: []\n")  # which would format it
    words = [
        f"--path={DOCUMENT}",
        "--output-path=generated_client",
        "--meta=none",
        "--config=config.yaml",
        "--fail-on-warning",
    ]
    return folder, ended(
        sys.executable, "-m", "openapi_python_client", "generate", *words, cwd=folder
    )


def test_it_is_generated_without_a_warning(client):
    _, done = client
    assert (done.returncode, done.stdout, done.stderr) == (0, "Generating generated_client\n", "")


def test_it_has_every_shape_and_every_call(client):
    folder, _ = client
    document = json.loads(DOCUMENT.read_text())
    models = ast.parse((folder / "generated_client" / "models" / "__init__.py").read_text())
    shapes = {
        each.name for node in models.body if isinstance(node, ast.ImportFrom) for each in node.names
    }
    assert document["components"]["schemas"].keys() <= shapes
    calls = {path.stem for path in (folder / "generated_client" / "api").glob("*/*.py")} - {
        "__init__"
    }
    named = {each["operationId"] for path in document["paths"].values() for each in path.values()}
    assert calls == {"".join(f"_{c.lower()}" if c.isupper() else c for c in each) for each in named}
