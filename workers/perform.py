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
from pipeline.gate import unreadable_evidence
from pipeline.reasons import Reason
from workers import confirm, gate, moving, telling
from workers.looking import Looking


def perform(work: Looking, decision: Decision) -> None:
    """Carry out one decision. What the ledger does by itself (waits, blocks, send-backs) is done when it is
    recorded."""
    match decision:
        case ConfirmLanding():
            confirm.settle_open(work, decision)
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
            telling.tell_decision(work, decision)
        case Nothing():
            return
        case _:
            assert_never(decision)


def _propose(work: Looking, decision: Propose) -> None:
    if decision.reason is Reason.HEAD_NOT_PUSHED:
        moving.push_evidence(work)
        return
    held, task = work.held, work.held.whole_task
    head_ref, base = held.repository.head_branch, held.repository.canonical_branch
    opened = work.forge.find_pull_request(head_ref, base)
    if opened is None:
        title = words.pull_request_title(task.title)
        body = words.pull_request_body(task.id, task.body, work.evidence.summary)
        opened = work.forge.open_pull_request(head_ref=head_ref, base=base, title=title, body=body)
    url = f"{work.place.github_url}/{work.forge.full_name}/pull/{opened.number}"
    review.record_pull_request(work.place.ledger, work.look, opened.number, url)


def _run_gate(work: Looking) -> None:
    judged = _judge(work)
    contract, ledger = judged.verdict.contract_digest, work.place.ledger
    review.record_verdict(ledger, work.look, judged.verdict, contract, verifier_green=judged.verifier_green)
    telling.tell(work, words.review_report(judged.verdict))


def _judge(work: Looking) -> gate.Judged:
    refused, evidence = work.unreadable, work.evidence
    if refused is not None:
        return gate.Judged(unreadable_evidence(evidence.digest, refused.code, str(refused)), verifier_green=False)
    if isinstance(evidence, OperatorResult):
        return gate.judge_report(evidence)
    may_change_workflows = "workflows:write" in work.permissions
    return gate.judge_change(work.mirror, evidence, work.remote_head, may_change_workflows=may_change_workflows)
