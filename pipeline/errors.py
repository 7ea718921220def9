"""The three families of exceptions, and the one way to state an invariant.

Expected results are values; an exception is one of: a bug of ours (`InvariantBroken`), a world that does not answer
(`Unavailable`), or a request that cannot be granted (`Rejected`). Each carries a stable `code`; foreign exceptions are
wrapped into one of these at the adapter where they arise.
"""

from collections.abc import Mapping

from pipeline.refusals import Refusal, sentence

FactValue = str | int | bool | None | list[str]


class HubError(Exception):
    """Root of every exception that the hub raises on purpose; `code` is stable and safe to show."""

    code: str

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class InvariantBroken(HubError):
    """A bug: something that cannot be, is. Never caught to go on; the process reports it and gives the work back."""

    def __init__(self, message: str) -> None:
        super().__init__("invariant_broken", message)


class Unavailable(HubError):
    """The world does not answer just now (time-out, 5xx, rate limit). Trying later may help; it costs no attempt.

    `retry_after_ms` is the wait that the other side asked for, or None when it named none.
    """

    def __init__(self, code: str, message: str, retry_after_ms: int | None = None) -> None:
        super().__init__(code, message)
        self.retry_after_ms = retry_after_ms


class Rejected(HubError):
    """A request that cannot be granted as it stands. Nothing was written; `facts` say what was found."""

    def __init__(self, refusal: Refusal, facts: Mapping[str, FactValue] | None = None) -> None:
        self.refusal = refusal
        self.facts: dict[str, FactValue] = dict(facts or {})
        super().__init__(refusal.value, sentence(refusal, self.facts))


def ensure(condition: bool, message: str) -> None:
    """Hold an invariant at run time, also under `python -O`; raises `InvariantBroken` with the sentence."""
    if not condition:
        raise InvariantBroken(message)
