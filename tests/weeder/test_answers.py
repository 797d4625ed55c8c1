import pytest

from app.core import errors
from app.core.model.weeding import DeletionResult
from app.weeder.rules import DeletionAnswer, answer

AGAIN = DeletionAnswer(DeletionResult.ERROR, counts=False, again=True)
MAY_BE_DONE = DeletionAnswer(DeletionResult.ERROR, counts=True, again=True)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (None, DeletionAnswer(DeletionResult.DELETED, counts=True)),
        (errors.NotFound("gone"), DeletionAnswer(DeletionResult.GONE, False, next_version=True)),
        (errors.Conflict("new"), DeletionAnswer(DeletionResult.CONFLICT, False, next_version=True)),
        (errors.Forbidden("no", status=403), DeletionAnswer(DeletionResult.ERROR, counts=False)),
        (errors.Unauthorized("who", status=401), AGAIN),
        (errors.Invalid("what", status=422), AGAIN),
        (errors.Unreachable("no answer"), MAY_BE_DONE),
        (errors.BadAnswer("html"), MAY_BE_DONE),
        (errors.BadAnswer("a redirect", status=302), MAY_BE_DONE),
        (errors.LimitExceeded("size", "too long"), MAY_BE_DONE),
        (errors.CertificateUntrusted("who are you"), MAY_BE_DONE),
    ],
    ids=str,
)
def test_what_an_answer_means(error, expected):
    assert answer(error) == expected


@pytest.mark.parametrize("pause", [None, 7.0])
@pytest.mark.parametrize(
    ("error", "status", "counts"),
    [
        (errors.Throttled, 429, False),
        (errors.ServerFault, 503, False),
        (errors.ServerFault, 500, True),
        (errors.ServerFault, 504, True),
    ],
)
def test_what_was_not_done_yet_is_asked_for_again_and_counts_if_it_may_have_been(
    error, status, counts, pause
):
    assert answer(error("later", status=status, retry_after=pause)) == DeletionAnswer(
        DeletionResult.ERROR, counts=counts, again=True, retry_after=pause
    )
