"""Performing a decision: one effect each, then what came of it is written down. No policy is decided here.

An `if` in this module asks whether something worked, never whether it should be done.
"""

from typing import assert_never

from ledger import review
from pipeline import words
from pipeline.decisions import (
    Block,
    ConfirmLanding,
    Decision,
    Finish,
    Land,
    Nothing,
    Propose,
    Return,
    RunGate,
    SendBack,
    UpdateBranch,
    Wait,
)
from pipeline.evidence import OperatorResult
from pipeline.reasons import Reason
from workers import confirm, gate, moving, report
from workers.looking import Looking


def perform(work: Looking, decision: Decision) -> None:
    """Carry out one decision. What the ledger does by itself (waits, blocks, send-backs) is done when it is recorded."""
    match decision:
        case ConfirmLanding():
            confirm.settle_open(work)
        case Finish():
            confirm.finish(work)
        case Propose():
            _propose(work, decision)
        case RunGate():
            _run_gate(work)
        case UpdateBranch():
            moving.update_head(work, decision)
        case Land():
            moving.land(work, decision)
        case Wait() | Block() | SendBack() | Return():
            report.landing(work, words.landing_report(decision))
        case Nothing():
            return
        case _:
            assert_never(decision)


def _propose(work: Looking, decision: Propose) -> None:
    if decision.reason is Reason.HEAD_NOT_PUSHED:
        moving.push_evidence(work)
        return
    held = work.held
    opened = work.forge.open_pull_request(
        head=held.repository.head_branch,
        base=held.repository.canonical_branch,
        title=words.pull_request_title(held.whole_task.title),
        body=words.pull_request_body(held.task.id, held.whole_task.body, work.evidence.summary),
    )
    review.record_pull_request(work.place.ledger, work.look, opened.number, opened.url)


def _run_gate(work: Looking) -> None:
    evidence = work.evidence
    if isinstance(evidence, OperatorResult):
        judged = gate.judge_report(evidence)
    else:
        may_change_workflows = "workflows:write" in work.permissions
        judged = gate.judge_change(
            work.mirror, evidence, work.remote_head, may_change_workflows=may_change_workflows
        )
    contract = judged.verdict.contract_digest
    review.record_verdict(
        work.place.ledger, work.look, judged.verdict, contract, verifier_green=judged.verifier_green
    )
    if not isinstance(evidence, OperatorResult):
        report.review(work, words.review_report(judged.verdict))
