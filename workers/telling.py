"""Telling people on the pull request: the hub's two check runs. Nothing waits for them, and no failure here undoes
work."""

import structlog

from pipeline import words
from pipeline.decisions import Decision
from pipeline.errors import Unavailable
from workers import report
from workers.looking import Looking

log = structlog.get_logger(__name__)


def tell_decision(work: Looking, decision: Decision) -> None:
    """The `mac/landing` check run, when the decision or its reason is news; the same words as everywhere else."""
    before = (work.held.decision, work.held.reason)
    if before != words.told_as(decision):
        tell(work, words.landing_report(decision))


def tell(work: Looking, said: words.Report) -> None:
    """Bring a check run on the present head to say this. Without a head on the remote there is nothing to say it on."""
    head = work.remote_head
    if head is None:
        return
    written = report.Report(said.name, work.held.attempt_id, said.title, said.summary, said.conclusion)
    try:
        report.write(work.forge, head, written)
    except Unavailable as away:
        log.warning("report_not_written", publication=work.look.publication_id, name=said.name, code=away.code)
