"""Problems as the OpenAPI document tells of them: one text and one example for each status."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from pydantic.alias_generators import to_pascal

from app.api.middleware import MAX_BODY
from app.api.guard import MAX_HEAD
from app.api.problems import MEDIA_TYPE, ProblemType
from app.api.schemas import ProblemDetails

SCHEMA: Final = {"$ref": f"#/components/schemas/{ProblemDetails.__name__}"}


class Told(NamedTuple):
    """How the document tells of a problem."""

    kind: ProblemType
    """Of the example; others of the same status look alike."""
    description: str
    detail: str
    """Of the example."""

    @property
    def name(self) -> str:
        """Under which the components have it."""
        return to_pascal(self.kind.name.lower())

    @property
    def response(self) -> dict[str, Any]:
        """As the components have it."""
        kind = self.kind
        example = {"type": kind.urn, "title": kind.title, "status": kind.status}
        example |= {"detail": self.detail, "instance": "/api/v1/shoots/shoot--acme--prod"}
        content = {MEDIA_TYPE: {"schema": SCHEMA, "example": example}}
        return {"description": self.description, "content": content}


GENERAL: Final[Mapping[int, Told]] = {
    each.kind.status: each
    for each in (
        Told(
            ProblemType.MALFORMED_REQUEST,
            "The body is no JSON, or the path has an encoded `/` in it.",
            "the body is not JSON, or has the same key twice",
        ),
        Told(
            ProblemType.UNAUTHENTICATED,
            "No token, or one that is not accepted.",
            "no token was sent",
        ),
        Told(
            ProblemType.FORBIDDEN,
            "The caller may not do this, or not from there.",
            "alice may not create shoots/scale in shoot--acme--prod",
        ),
        Told(
            ProblemType.NOT_FOUND,
            "There is no such thing.",
            "the seed has no Cluster shoot--acme--prod",
        ),
        Told(ProblemType.CONFLICT, "A rule forbids it as things are.", "it is hibernated"),
        Told(
            ProblemType.GONE,
            "It is an operation of an earlier leader.",
            "the flow began under an earlier leader",
        ),
        Told(
            ProblemType.PRECONDITION_FAILED,
            "`If-Match` does not match: it is not what the caller saw.",
            "Deployment/kube-controller-manager has changed",
        ),
        Told(
            ProblemType.PAYLOAD_TOO_LARGE, "The body is too large.", f"more than {MAX_BODY} bytes"
        ),
        Told(
            ProblemType.INVALID_PARAMETER,
            "A parameter or field is wrong, or unknown; `errors` names each.",
            "limit: Input should be less than or equal to 500",
        ),
        Told(
            ProblemType.TOO_MANY_REQUESTS,
            "The caller asks for too much; `Retry-After` says when it is worth asking again.",
            "more requests a second than one caller may send; again in 1 s",
        ),
        Told(
            ProblemType.HEADERS_TOO_LARGE,
            "Target and headers are too large.",
            f"more than {MAX_HEAD} bytes",
        ),
        Told(
            ProblemType.NOT_THE_LEADER,
            "Not here or not now; `type` says why: a standby, a loop that runs elsewhere, a dry run, a part that is "
            "switched off, a seed that is away, or a request budget for it that is used up.",
            "this instance stands by; dwd-7f9 leads",
        ),
    )
}
"""By status."""
NO_TOKEN: Final = Told(
    ProblemType.INVALID_PAGE_TOKEN,
    "`continue` is none of this list, order and filter.",
    "continue: not readable",
)
NO_BODY: Final = Told(
    ProblemType.BODY_NOT_ALLOWED, "The call has no body, and one was sent.", "send no body"
)
