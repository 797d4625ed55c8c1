"""`/docs`: the OpenAPI document as a plain HTML page, without script and without resources from elsewhere.

The framework's own pages load their scripts from a CDN, which the Content-Security-Policy forbids (threat T17).
"""

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from app.api.document import JSON, resolved
from app.api.page import site

# HTML of the document: each call with parameters, body and answers, then the schemas; pure.


_REFERENCE: Final = "#/components/schemas/"


def body(document: Mapping[str, Any]) -> str:
    """HTML of the calls by tag, then of the schemas that they refer to; all text is escaped."""
    return "".join((*_contents(document), *_calls(document), *_shapes(document)))


def _contents(document: Mapping[str, Any]) -> Iterator[str]:
    yield f"<p>{_text(document['info'].get('description', ''))}</p><ul>"
    for tag in document["tags"]:
        yield f'<li><a href="#about-{escape(tag["name"])}">{escape(tag["name"])}</a>: '
        yield f"{_text(tag['description'])}<ul>"
        for method, path, operation in _about(document, tag["name"]):
            yield f'<li><a href="#{escape(operation["operationId"])}">{_named(method, path)}</a></li>'
        yield "</ul></li>"
    yield '<li><a href="#shapes">shapes</a>: The types of bodies and answers.</li></ul>'


def _about(
    document: Mapping[str, Any], subject: str
) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Method, path and operation of each call with the tag `subject`."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if subject in operation["tags"]:
                yield method, path, operation


def _named(method: str, path: str) -> str:
    return f"<code>{escape(method.upper())} {escape(path)}</code>"


def _calls(document: Mapping[str, Any]) -> Iterator[str]:
    for tag in document["tags"]:
        name = tag["name"]
        yield f'<h2 id="about-{escape(name)}">{escape(name)}</h2>'
        for method, path, operation in _about(document, name):
            yield from _call(method, path, operation)
            yield from _answers(document, operation)


def _call(method: str, path: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield f'<h3 id="{escape(operation["operationId"])}">{_named(method, path)}</h3>'
    for paragraph in operation["description"].split("\n\n"):
        yield f"<p>{_text(paragraph)}</p>"
    yield from _parameters(operation)
    if "requestBody" in operation:
        yield from _request(operation["requestBody"])


def _answers(document: Mapping[str, Any], operation: Mapping[str, Any]) -> Iterator[str]:
    yield "<h4>Answers</h4><dl>"
    for status, named in operation["responses"].items():
        answer = resolved(document, named)
        yield f"<dt><code>{escape(status)}</code></dt><dd>{_text(answer['description'])}"
        if status < "4":
            yield from _content(answer)
        yield "</dd>"
    yield "</dl>"


def _parameters(operation: Mapping[str, Any]) -> Iterator[str]:
    if not operation.get("parameters"):
        return
    yield "<h4>Parameters</h4><dl>"
    for each in operation["parameters"]:
        yield f"<dt><code>{escape(each['name'])}</code> ({escape(each['in'])}; "
        yield f"{_type(each['schema'])})</dt><dd>{_text(each.get('description', ''))}</dd>"
    yield "</dl>"


def _request(request: Mapping[str, Any]) -> Iterator[str]:
    yield f"<h4>Body{'' if request.get('required') else ' (optional)'}</h4>"
    yield from _content(request)


def _content(holder: Mapping[str, Any]) -> Iterator[str]:
    for media, content in holder.get("content", {}).items():
        shape = _type(content["schema"]) if media == JSON else escape(media)
        yield f"<p>{shape}</p>"
        if (example := content.get("example")) is not None:
            yield f'<pre tabindex="0">{escape(_shown(example))}</pre>'


def _shown(example: Any) -> str:  # noqa: ANN401 - any JSON
    return example if isinstance(example, str) else json.dumps(example, indent=2)


def _shapes(document: Mapping[str, Any]) -> Iterator[str]:
    yield '<h2 id="shapes">shapes</h2>'
    for name, schema in sorted(document["components"]["schemas"].items()):
        yield f'<h3 id="shape-{escape(name)}">{escape(name)}</h3>'
        if "enum" in schema:
            yield f"<p>{_type(schema)}</p>"
            continue
        yield f"<p>{_text(schema.get('description', ''))}</p><dl>"
        needed = schema.get("required", ())
        for field, what in schema.get("properties", {}).items():
            optional = "" if field in needed else "; optional"
            yield f"<dt><code>{escape(field)}</code> ({_type(what)}{optional})</dt>"
            yield f"<dd>{_text(what.get('description', ''))}</dd>"
        yield "</dl>"


def _type(schema: Mapping[str, Any]) -> str:
    """A short description of a type; schemas are links."""
    if "$ref" in schema:
        name = escape(str(schema["$ref"]).removeprefix(_REFERENCE))
        return f'<a href="#shape-{name}">{name}</a>'
    if "enum" in schema:
        return " | ".join(f"<code>{escape(str(each))}</code>" for each in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return escape(str(schema.get("type", "any"))) + _limits(schema)


def _limits(schema: Mapping[str, Any]) -> str:
    known = {"minimum": "≥", "maximum": "≤", "maxLength": "at most", "default": "default"}
    found = [f"{word} {schema[key]}" for key, word in known.items() if schema.get(key) is not None]
    return f", {escape(', '.join(found))}" if found else ""


def _text(text: str) -> str:
    """Escaped prose, with text between backticks as code."""
    parts = escape(" ".join(text.split())).split("`")
    if len(parts) % 2 == 0:
        return "`".join(parts)
    return "".join(f"<code>{p}</code>" if n % 2 else p for n, p in enumerate(parts))


_POLICY: Final = (
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


def page(title: str, body: str) -> HTMLResponse:
    """A whole page with the frame of the others; `title` is escaped here, `body` must be HTML with escaped text."""
    found = site.page("reference.html", title=title, body=body)
    found.headers["Content-Security-Policy"] = _POLICY
    return found


def pages_router() -> APIRouter:
    """The route `/docs` for the application that includes it."""
    router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

    @router.get("/docs")
    async def docs(request: Request) -> HTMLResponse:
        """What each call takes, and what comes back."""
        return page("The REST API", body(request.app.openapi()))

    return router
