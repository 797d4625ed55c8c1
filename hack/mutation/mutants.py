"""The small changes that a mutation run tries: mutmut says which there are, this puts one into the running program.

mutmut writes all variants of a function below each other into one file, and runs a copy of the project with that. Here
the file is compiled, never imported: a mutant is a code object, which takes the place of the function's own.
"""

import ast
import difflib
import hashlib
import importlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

from mutmut.configuration import config
from mutmut.mutation.file_mutation import mutate_file_contents
from mutmut.utils.format_utils import parse_mutant_key

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Mutant:
    """One change of one function."""

    name: str
    """As mutmut has it: `app.weeder.rules.x_decide__mutmut_3`."""
    path: str
    lines: frozenset[int]
    """The lines of the statements that it changes; one of them has to run for a test to notice it."""
    change: str
    """The lines that differ, as `diff` shows them."""
    source: str
    """A hash of the function as it is: what was found of another one is no result."""
    code: CodeType
    defaults: ast.arguments | None
    """Where they differ from the function's own."""

    @property
    def module(self) -> str:
        return self.name.rpartition(".")[0]

    @property
    def function(self) -> str:
        return self.name.partition("__mutmut_")[0]

    def install(self) -> None:
        """The program goes on with this change; there is no way back."""
        module = importlib.import_module(self.module)
        name, of_class = parse_mutant_key(self.function.rpartition(".")[2])
        if of_class is None:
            found = vars(module)[name]
        else:
            private = name.startswith("__") and not name.endswith("__")
            found = vars(vars(module)[of_class])[
                f"_{of_class.lstrip('_')}{name}" if private else name
            ]
        function: FunctionType = inspect.unwrap(getattr(found, "__func__", found))
        own = function.__code__
        function.__code__ = self.code.replace(
            co_name=own.co_name,
            co_qualname=own.co_qualname,
            co_firstlineno=own.co_firstlineno,
            co_freevars=own.co_freevars,
        )
        if self.defaults is not None:
            function.__defaults__, function.__kwdefaults__ = _evaluated(self.defaults, module)


def mutants() -> Iterator[Mutant]:
    """All of the files that `tool.mutmut` in pyproject.toml names."""
    for pattern in config().only_mutate:
        for path in sorted(Path().glob(pattern)):
            if not any(path.match(each) for each in config().do_not_mutate):
                yield from _of(path)


def _of(path: Path) -> Iterator[Mutant]:
    text = path.read_text()
    mutated = mutate_file_contents(str(path), text)
    # Tens of thousands of lines for a file of some hundred.
    tree = ast.parse(mutated.code)
    lines = mutated.code.splitlines()
    codes = dict(_codes(compile(mutated.code, str(path), "exec", dont_inherit=True)))
    variants = {node.name: node for node in ast.walk(tree) if isinstance(node, Function)}
    own = dict(_keyed(ast.parse(text)))
    module = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
    for name in mutated.mutant_names:
        key = name.partition("__mutmut_")[0]
        before, after = variants[f"{key}__mutmut_orig"], variants[name]
        was, now = (
            [
                line.replace(node.name, parse_mutant_key(key)[0])
                for line in lines[node.lineno - 1 : node.end_lineno]
            ]
            for node in (before, after)
        )
        changed, shown = _difference(was, now)
        function = own[key]
        yield Mutant(
            name=f"{module}.{name}",
            path=str(path),
            lines=frozenset(
                line
                for offset in changed
                for line in _statement(function, function.lineno + offset)
            ),
            change=shown,
            source=hashlib.sha256(ast.dump(function).encode()).hexdigest()[:12],
            code=codes[name],
            defaults=after.args if _defaults(after) != _defaults(before) else None,
        )


def _difference(was: list[str], now: list[str]) -> tuple[set[int], str]:
    """The offsets of the lines of `was` that are others in `now`, and both as people read them."""
    changed, shown = set[int](), []
    matcher = difflib.SequenceMatcher(None, was, now, autojunk=False)
    for tag, start, end, now_start, now_end in matcher.get_opcodes():
        if tag != "equal":
            changed |= set(range(start, max(end, start + 1)))
            shown += [f"- {each.strip()}" for each in was[start:end]]
            shown += [f"+ {each.strip()}" for each in now[now_start:now_end]]
    return changed, "\n".join(shown)


def _codes(code: CodeType) -> Iterator[tuple[str, CodeType]]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            if "__mutmut_" in each.co_name:
                yield each.co_name, each
            else:  # a class
                yield from _codes(each)


def _keyed(tree: ast.Module) -> Iterator[tuple[str, Function]]:
    for node in tree.body:
        prefix, body = "x_", [node]
        if isinstance(node, ast.ClassDef):
            prefix, body = f"xǁ{node.name}ǁ", node.body
        for each in body:
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{prefix}{each.name}", each


def _statement(function: Function, line: int) -> range:
    """The lines of the smallest statement there; of one with a block, those before the block.

    Of `match` and `try` it is the line alone: that of a case, or of an exception, is passed only where it is tried.
    """
    found: ast.stmt = function
    for node in ast.walk(function):  # outer ones first
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or line):
            found = node
    if found is function:  # a default, which tests that call it notice
        return range(function.lineno, (function.end_lineno or line) + 1)
    body = getattr(found, "body", None)
    if isinstance(found, ast.Match | ast.Try):
        return range(line, line + 1)
    if body is not None:
        return range(found.lineno, max(body[0].lineno, line + 1))
    return range(found.lineno, (found.end_lineno or line) + 1)


def _defaults(node: Function) -> list[str]:
    return [
        ast.dump(each) if each else "" for each in (*node.args.defaults, *node.args.kw_defaults)
    ]


def _evaluated(
    args: ast.arguments, module: ModuleType
) -> tuple[tuple[object, ...], dict[str, object]]:
    def value(node: ast.expr) -> object:
        return eval(compile(ast.Expression(node), "<default>", "eval"), vars(module))  # noqa: S307 - our own code

    return tuple(map(value, args.defaults)), {
        arg.arg: value(node)
        for arg, node in zip(args.kwonlyargs, args.kw_defaults, strict=True)
        if node is not None
    }
