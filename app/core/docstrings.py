"""The docstrings below the fields of a model describe these fields in help texts and in the OpenAPI document.

Those of the records of the two files also stand in docs/configuration.md.

pydantic itself would read them when the class is made (`use_attribute_docstrings`): in each `dwd`, which seldom has a
use for them, and would start 0.1 s later.
"""

import ast
import inspect
import sys
from collections.abc import Mapping
from functools import cache
from itertools import pairwise

from pydantic import BaseModel
from pydantic.fields import FieldInfo


def described(model: type[BaseModel]) -> Mapping[str, FieldInfo]:
    """Returns the fields of a model, each with a description: its own, or the docstring below it as one line."""
    for name, field in model.model_fields.items():
        said = (_docstrings(each.__module__).get((each.__name__, name)) for each in model.__mro__)
        field.description = field.description or next(filter(None, said), None)
    return model.model_fields


def below_fields(record: type) -> Mapping[str, str]:
    """Returns the docstring below each field of a record that has one, as one line."""
    found = _docstrings(record.__module__)
    return {name: said for (kind, name), said in found.items() if kind == record.__name__}


@cache
def _docstrings(module: str) -> Mapping[tuple[str, str], str]:
    """Returns the docstrings below the fields of a module of ours, by class and field."""
    if not module.startswith("app."):
        return {}
    found = {}
    for kind in ast.parse(inspect.getsource(sys.modules[module])).body:
        if isinstance(kind, ast.ClassDef):
            for field, below in pairwise(kind.body):
                match field, below:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(ast.Constant(str(said))):
                        found[kind.name, name] = " ".join(said.split())
                    case _:
                        pass
    return found
