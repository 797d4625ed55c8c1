"""The token of a request: where it is taken from, and what is none."""

import pytest

from app.api.auth.authentication import MAX_TOKEN, token_of
from app.api.problems import Problem


@pytest.mark.parametrize(
    ("value", "token"),
    [
        (b"Bearer abc", "abc"),
        (b"bearer abc", "abc"),
        (b"BEARER   abc  ", "abc"),
        (b"Bearer a.b-c_d~e+f/g==", "a.b-c_d~e+f/g=="),
        (b"Bearer " + b"x" * MAX_TOKEN, "x" * MAX_TOKEN),
    ],
)
def test_the_token_is_what_follows_the_scheme(value, token):
    assert token_of([(b"host", b"h"), (b"authorization", value)]) == token


@pytest.mark.parametrize(
    ("values", "detail", "challenge"),
    [
        ([], "send a bearer token: Authorization: Bearer …", ""),
        (
            [b"Bearer a", b"Bearer a"],
            "there is more than one Authorization header",
            "invalid_request",
        ),
        ([b""], "only bearer tokens are accepted: Authorization: Bearer …", ""),
        ([b"Basic YTpi"], "only bearer tokens are accepted: Authorization: Bearer …", ""),
        ([b"abc"], "only bearer tokens are accepted: Authorization: Bearer …", ""),
        ([b"Bearer"], "the bearer token is malformed", "invalid_request"),
        ([b"Bearer "], "the bearer token is malformed", "invalid_request"),
        ([b"Bearer a b"], "the bearer token is malformed", "invalid_request"),
        ([b"Bearer a,b"], "the bearer token is malformed", "invalid_request"),
        ([b"Bearer =a"], "the bearer token is malformed", "invalid_request"),
        ([b"Bearer t\xc3\xb6ken"], "the bearer token is malformed", "invalid_request"),
        ([b"Bearer a\tb"], "the bearer token is malformed", "invalid_request"),
        ([b"Bearer " + b"x" * (MAX_TOKEN + 1)], "the bearer token is malformed", "invalid_request"),
    ],
)
def test_anything_else_is_nobodys_and_is_not_repeated(values, detail, challenge):
    with pytest.raises(Problem) as caught:
        token_of([(b"authorization", value) for value in values])
    expected = 'Bearer realm="dependency-watchdog"' + (
        f', error="{challenge}"' if challenge else ""
    )
    assert (caught.value.kind.status, caught.value.detail) == (401, detail)
    assert caught.value.headers == {"WWW-Authenticate": expected}
