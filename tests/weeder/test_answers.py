import pytest

from app.core import errors
from app.core.model.weeding import DeletionResult
from app.weeder.rules import DeletionAnswer, answer


def test_a_success_counts_and_is_the_end():
    assert answer(None) == DeletionAnswer(DeletionResult.DELETED, counts=True)


def test_a_pod_that_is_gone_is_done_and_does_not_count():
    assert answer(errors.NotFound("gone", status=404)) == DeletionAnswer(
        DeletionResult.GONE, counts=False, next_version=True
    )


def test_a_conflict_waits_for_the_next_version():
    assert answer(errors.Conflict("newer", status=409)) == DeletionAnswer(
        DeletionResult.CONFLICT, counts=False, next_version=True
    )


def test_a_refusal_is_not_tried_again():
    assert answer(errors.Forbidden("no", status=403)) == DeletionAnswer(
        DeletionResult.ERROR, counts=False
    )


@pytest.mark.parametrize("pause", [None, 7.0])
@pytest.mark.parametrize(("error", "status"), [(errors.Throttled, 429), (errors.ServerFault, 503)])
def test_what_the_server_did_not_take_up_is_asked_for_again(error, status, pause):
    found = answer(error("later", status=status, retry_after=pause))
    assert found == DeletionAnswer(
        DeletionResult.ERROR, counts=False, again=True, retry_after=pause
    )


@pytest.mark.parametrize("pause", [None, 7.0])
@pytest.mark.parametrize("status", [500, 504])
def test_what_the_server_gave_up_on_may_have_been_done_and_counts(status, pause):
    found = answer(errors.ServerFault("timed out", status=status, retry_after=pause))
    assert found == DeletionAnswer(DeletionResult.ERROR, counts=True, again=True, retry_after=pause)


@pytest.mark.parametrize(
    "error",
    [
        errors.Unreachable("no answer"),
        errors.BadAnswer("html"),
        errors.BadAnswer("a redirect", status=302),
        errors.LimitExceeded("size", "too long"),
        errors.CertificateUntrusted("who are you"),
    ],
)
def test_what_may_have_deleted_it_counts_and_is_asked_for_again(error):
    assert answer(error) == DeletionAnswer(DeletionResult.ERROR, counts=True, again=True)


@pytest.mark.parametrize(
    "error", [errors.Unauthorized("who", status=401), errors.Invalid("what", status=422)]
)
def test_what_the_server_refused_does_not_count(error):
    assert answer(error) == DeletionAnswer(DeletionResult.ERROR, counts=False, again=True)
