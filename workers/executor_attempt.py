"""One attempt from lease to evidence: prepare, run the command, verify as the contract asks, hand in.

Every way it can fail has a class, given by whoever failed and never read out of text: `work` (the command or a test
said no), `environment` (something it needed was missing, was killed, or took too long), `withdrawn` (it was called
off).
"""

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from pipeline.contract import Contract, parse
from pipeline.errors import Rejected, Unavailable
from pipeline.evidence import EVIDENCE_SCHEMA, SUMMARY_CHARS_MAX
from pipeline.facts import Deliverable, EvidenceKind
from workers.executor_heart import Heart
from workers.executor_hub import HubClient, Lease
from workers.executor_run import Interrupted, Ran, run
from workers.executor_tree import Change, Workshop, Worktree
from workers.git import GitFailed

WORK: Final = "work"
ENVIRONMENT: Final = "environment"
WITHDRAWN: Final = "withdrawn"
RESULT_BYTES_MAX: Final = 65_536


class Failed(Exception):
    """The attempt ends without evidence; `failure` is its class and the message the sentence for people. `code` names a
    failure that depends on the work alone, so that another machine's counts as the same; None: it may be this one's."""

    def __init__(self, failure: str, sentence: str, code: str | None = None) -> None:
        super().__init__(sentence)
        self.failure = failure
        self.sentence = sentence
        self.code = code


@dataclass(frozen=True, slots=True)
class Order:
    """How this executor works: the command, its time-outs in milliseconds, its environment, its name, its clock."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    clock: Callable[[], int]
    say: Callable[[str], None]
    command_timeout_ms: int = 3_600_000
    test_timeout_ms: int = 1_800_000
    name: str = "mac-executor"
    version: str = "0"


@dataclass(slots=True)
class Attempt:
    """One attempt under one lease. `perform` answers with the id of the evidence, or raises `Failed`."""

    lease: Lease
    order: Order
    hub: HubClient
    shop: Workshop
    heart: Heart
    _runs: list[dict[str, Any]] = field(default_factory=list)

    def perform(self) -> str:
        """Do the work and hand in its evidence. Raises `Failed` for everything that keeps it from that."""
        try:
            return self._perform()
        except Interrupted as interrupted:
            raise _called_off(interrupted.word) from interrupted
        except Rejected as refused:
            raise Failed(WORK, f"the hub refused: {refused}", refused.code) from refused
        except Unavailable as away:
            raise Failed(ENVIRONMENT, str(away)) from away

    def _perform(self) -> str:
        lease = self.lease
        token = self.hub.read_token(lease)
        self._step("fetching")
        with (
            self.shop.worktree(lease.clone_url, lease.canonical_branch, lease.branch, token) as tree,
            tempfile.TemporaryDirectory(prefix="mac-attempt-") as folder,
        ):
            contract = self._contract(tree)
            said = self._command(tree, Path(folder))
            if lease.deliverable is Deliverable.REPORT:
                return self._hand_in(self._report(said))
            change = self._change(tree)
            self._verify(tree, change, contract)
            document = self._evidence(tree, change, said)
            self._step("handing in")
            document["bundle"] = self.hub.hand_in_bundle(lease, tree.bundle())
            return self._hand_in(document)

    def _contract(self, tree: Worktree) -> Contract:
        """The contract on the tip that the work starts from; the gate will read the same one."""
        content = tree.contract()
        if content is None and self.lease.contract is not None:
            content = self.lease.contract.encode()
        if content is None:
            raise Failed(ENVIRONMENT, "the canonical branch has no contract")
        try:
            contract = parse(content)
        except Rejected as broken:
            raise Failed(ENVIRONMENT, str(broken)) from broken
        path = self.order.environment.get("PATH")
        missing = [name for name in contract.required_commands if shutil.which(name, path=path) is None]
        if missing:
            raise Failed(ENVIRONMENT, f"the contract needs {', '.join(missing)}, which this machine lacks")
        return contract

    def _command(self, tree: Worktree, folder: Path) -> "_Said":
        task_file, result_file = folder / "task.json", folder / "result.json"
        task_file.write_text(json.dumps(self._task()), encoding="utf-8")
        own = {"MAC_TASK_FILE": str(task_file), "MAC_RESULT_FILE": str(result_file)}
        self._step("running the command")
        ran = self._run(self.order.command, tree, self.order.command_timeout_ms, own)
        if ran.failure is not None:
            raise Failed(ran.failure, ran.sentence)
        return _Said.read(result_file, ran.output_excerpt)

    def _task(self) -> dict[str, Any]:
        lease = self.lease
        return {
            "task": lease.task,
            "attempt": lease.attempt,
            "title": lease.title,
            "body": lease.body,
            "deliverable": lease.deliverable.value,
            "directive": lease.directive,
            "contract": lease.contract,
        }

    def _change(self, tree: Worktree) -> Change:
        """What the command left. A repository that it broke, or a change that is none, is the work's fault."""
        try:
            tree.commit_rest(f"Work on {self.lease.task}, attempt {self.lease.attempt}")
            change = tree.change()
            if not change.files:
                raise Failed(WORK, "the command left no change", "no_change")
            if not tree.on_base(change):
                raise Failed(WORK, "the head does not contain the tip that the work started from", "tip_not_contained")
        except GitFailed as broken:
            raise Failed(WORK, f"the command left a worktree that git cannot read: {broken}") from broken
        return change

    def _verify(self, tree: Worktree, change: Change, contract: Contract) -> None:
        """Run what the contract names, in its order, at exactly this head, and record each run."""
        creates = contract.bootstrap_creates
        present = creates is not None and (tree.directory / creates).exists()
        if contract.bootstrap_command is not None and not present:
            self._recorded(tree, contract.bootstrap_command, change, creates)
        for command in contract.test_commands:
            self._recorded(tree, command, change, creates)

    def _recorded(self, tree: Worktree, argv: tuple[str, ...], change: Change, creates: str | None) -> None:
        self._step(f"running {argv[0]}")
        ran = self._run(argv, tree, self.order.test_timeout_ms, {})
        if ran.failure is not None:
            raise Failed(ran.failure, f"{ran.sentence}\n{ran.output_excerpt[-1_500:]}")
        if tree.change().head != change.head:
            raise Failed(WORK, f"{argv[0]} moved the head")
        self._runs.append(
            {
                "argv": list(ran.argv),
                "exit": ran.exit,
                "started_at": ran.started_at,
                "ended_at": ran.ended_at,
                "output_sha256": ran.output_sha256,
                "output_excerpt": ran.output_excerpt,
                "dirty": tree.dirty(creates),
            }
        )

    def _run(self, argv: tuple[str, ...], tree: Worktree, timeout_ms: int, own: Mapping[str, str]) -> Ran:
        return run(
            argv,
            directory=tree.directory,
            environment={**self.order.environment, **own},
            timeout_ms=timeout_ms,
            heart=self.heart,
            clock=self.order.clock,
        )

    def _evidence(self, tree: Worktree, change: Change, said: "_Said") -> dict[str, Any]:
        return {
            **self._frame(EvidenceKind.REPOSITORY_CHANGE, said.summary or tree.summary(), said),
            "head": change.head,
            "tree": change.tree,
            "verified_base": tree.base,
            "files": [{"path": path, "status": status} for path, status in change.files],
            "runs": self._runs,
        }

    def _report(self, said: "_Said") -> dict[str, Any]:
        return self._frame(EvidenceKind.OPERATOR_RESULT, said.summary or said.output, said)

    def _frame(self, kind: EvidenceKind, summary: str, said: "_Said") -> dict[str, Any]:
        return {
            "schema": EVIDENCE_SCHEMA,
            "kind": kind.value,
            "summary": summary[:SUMMARY_CHARS_MAX],
            "usage": asdict(said.usage),
            "executor": {"name": self.order.name, "version": self.order.version},
        }

    def _hand_in(self, document: dict[str, Any]) -> str:
        word = self.heart.word()
        if word is not None:
            raise _called_off(word)
        return self.hub.hand_in_evidence(self.lease, document)

    def _step(self, sentence: str) -> None:
        """Say what comes next, unless the attempt was called off meanwhile."""
        word = self.heart.word()
        if word is not None:
            raise _called_off(word)
        self.order.say(f"{self.lease.task} attempt {self.lease.attempt}: {sentence}")


@dataclass(frozen=True, slots=True)
class _Usage:
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class _Said:
    """What the command says of its work in `MAC_RESULT_FILE`, if anything: a summary, and the tokens it used."""

    summary: str
    usage: _Usage
    output: str

    @classmethod
    def read(cls, file: Path, output: str) -> "_Said":
        """Raises `Failed(work)` for a file that is there but is not what it should be."""
        try:
            with file.open("rb") as opened:
                document = json.loads(opened.read(RESULT_BYTES_MAX))
            usage = document.get("usage", {})
            tokens = [usage.get(name, 0) for name in ("input_tokens", "output_tokens")]
            if not all(type(count) is int and count >= 0 for count in tokens):
                raise ValueError("usage counts whole tokens")
            return cls(str(document.get("summary", "")), _Usage(*tokens), output)
        except FileNotFoundError:
            return cls("", _Usage(), output)
        except (OSError, ValueError, AttributeError, TypeError) as unreadable:
            raise Failed(WORK, f"the command's result file cannot be read: {unreadable}") from unreadable


def _called_off(word: str) -> Failed:
    sentence = "stopped on the hub's order" if word == "stop" else "the lease was lost"
    return Failed(WITHDRAWN, sentence)
