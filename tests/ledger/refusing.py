"""One way to say that a request is refused by name and that nothing was written."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ledger.session import Ledger
from pipeline.errors import Rejected
from pipeline.refusals import Refusal
from tests.ledger.world import contents


@contextmanager
def refused(ledger: Ledger, refusal: Refusal) -> Iterator[None]:
    """The block is refused with exactly this name, and every row of every table is as it was."""
    before = contents(ledger)
    with pytest.raises(Rejected) as caught:
        yield
    assert caught.value.refusal is refusal
    assert contents(ledger) == before
