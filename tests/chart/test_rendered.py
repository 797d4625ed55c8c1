"""What the chart makes of values, as `rendered.yaml` has it; the files beside this one have what is no table."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart import rendering
from tests.chart.rendering import APIS, NAMESPACE, RELEASE, Json, Renderer
from tests.chart.valuesfiles import nested

pytestmark = pytest.mark.real

SETS = {path.stem: path for path in rendering.values_sets()}


class Whole(dict[Any, Any]):
    """A mapping that has no other fields."""


class _Loader(yaml.SafeLoader):
    """Knows `!whole`."""


def _whole(loader: _Loader, node: yaml.MappingNode) -> Whole:
    return Whole(loader.construct_mapping(node, deep=True))


_Loader.add_constructor("!whole", _whole)
TABLE = (Path(__file__).parent / "rendered.yaml").read_text(encoding="utf-8")
ROWS: dict[str, Json] = _Loader(TABLE).get_single_data()


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_values_become_the_objects_of_the_table(render: Renderer, row: Json) -> None:
    rendered = render(
        *([SETS[row["set"]]] if "set" in row else []),
        values=nested(row.get("values", {})),
        apis=tuple(row.get("apis", APIS)),
        namespace=row.get("namespace", NAMESPACE),
        release=row.get("release", RELEASE),
    )
    for subject, expected in row.get("objects", {}).items():
        kind, _, name = subject.partition("/")
        if not name:
            names = [each["metadata"]["name"] for each in rendered.of(kind)]
            assert sorted(names) == sorted(expected), kind
            continue
        found = rendered.of(kind, None if name == "*" else name)
        assert found, f"no {subject} of {[each['metadata']['name'] for each in rendered.of(kind)]}"
        wrong = [said for each in found for said in differences(each, expected, subject)]
        assert wrong == []
    assert [each for each in row.get("says", ()) if each not in rendered.text] == []
    assert [each for each in row.get("silent", ()) if each in rendered.text] == []


def differences(found: Any, expected: Any, path: str) -> Iterator[str]:
    """Where an object is not as the table has it."""
    if isinstance(expected, dict) and isinstance(found, dict):
        others = found.keys() - expected.keys() if isinstance(expected, Whole) else ()
        yield from (f"{path}.{key}: {found[key]}, which is not expected" for key in others)
        for key, each in expected.items():
            yield from differences(found.get(key), each, f"{path}.{key}")
    elif isinstance(expected, list) and isinstance(found, list) and len(found) == len(expected):
        for number, (one, other) in enumerate(zip(found, expected, strict=True)):
            yield from differences(one, other, f"{path}[{number}]")
    elif found != expected:
        yield f"{path}: {found}, not {expected}"
