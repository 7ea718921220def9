"""What a request may say: closed models that check every field before anything else sees it.

Unknown fields are refused, types are strict (no text for a number, no fraction for a count), every text and list has a
limit. What passes here has the right form; whether it can be granted is for the ledger and the mind to say.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from ledger.access import Scope
from pipeline.errors import Rejected
from pipeline.facts import Deliverable, EvidenceKind
from pipeline.refusals import Refusal

Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
Login = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9-]{0,38}$")]
RepositoryName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,100}$")]
Branch = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._/-]{0,200}$")]
Line = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]{1,200}$", strip_whitespace=True)]
Text = Annotated[str, StringConstraints(max_length=65_536)]
Sha = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0, le=2**53)]
Instant = Annotated[int, Field(ge=0, le=2**53)]

M = TypeVar("M", bound=BaseModel)


class Closed(BaseModel):
    """The common form: frozen, strict, and nothing that is not declared."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class NewProject(Closed):
    """A repository to be registered under a name of its own; a worker reads it afterwards."""

    name: Slug
    owner: Login
    repository: RepositoryName
    canonical_branch: Branch = "main"

    @model_validator(mode="after")
    def _branch_is_a_ref(self) -> Self:
        parts = self.canonical_branch.split("/")
        if ".." in self.canonical_branch or any(
            not part or part.startswith(".") or part.endswith((".", ".lock")) for part in parts
        ):
            raise PydanticCustomError("branch_invalid", "canonical_branch is not the name of a branch")
        return self


class NewTask(Closed):
    """A unit of work. `max_attempts` None: the hub's default; `token_budget` None: no limit. A higher `priority` goes
    first."""

    project: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    title: Line
    body: Text = ""
    deliverable: Deliverable = Deliverable.CODE
    priority: Annotated[int, Field(ge=-1000, le=1000)] = 0
    max_attempts: Annotated[int, Field(ge=1, le=20)] | None = None
    token_budget: Annotated[int, Field(ge=1, le=2**53)] | None = None


class Order(Closed):
    """An operator's order that others will ask about: it says why."""

    why: Line


class PlainOrder(Closed):
    """An order that takes one back; it may say why."""

    why: Line | None = None


class Wave(Closed):
    """Lets through what the review asks a person for, on exactly this evidence."""

    evidence: Digest
    why: Line


class Judgement(Closed):
    """An operator's word on the evidence and the attempt that were looked at, and on no other."""

    decision: Literal["accepted", "rejected"]
    evidence: Digest
    attempt: Annotated[str, StringConstraints(pattern=r"^att_[A-Za-z0-9_]{1,64}$")]
    why: Line


class LeaseRequest(Closed):
    """What a worker is ready to take. `projects` None: any."""

    projects: Annotated[list[str], Field(min_length=1, max_length=100)] | None = None


class Usage(Closed):
    """Tokens that the attempt used, by the executor's word."""

    input_tokens: Count = 0
    output_tokens: Count = 0


class ReleaseClass(StrEnum):
    """Whose fault it was, by the word of the producer: the work's, its environment's, or nobody's."""

    WORK = "work"
    ENVIRONMENT = "environment"
    WITHDRAWN = "withdrawn"


class Release(Closed):
    """A lease given back without evidence. `code` names a failure that depends on the work alone, and on no machine."""

    failure: Annotated[ReleaseClass, Field(alias="class")]
    code: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,63}$")] | None = None
    usage: Usage = Usage()
    sentence: Annotated[str, StringConstraints(min_length=1, max_length=2_000)]


class NewToken(Closed):
    """A token for a client. Executors and batch workers name the worker that it is bound to; others must not."""

    scope: Scope
    label: Line
    worker: Slug | None = None

    @model_validator(mode="after")
    def _bound_to_a_worker(self) -> Self:
        bound = self.scope in {Scope.EXECUTOR, Scope.BATCH}
        if bound != (self.worker is not None):
            problem = "is needed for" if bound else "does not go with"
            raise PydanticCustomError(
                "worker_and_scope", "worker {problem} the scope {scope}", {"problem": problem, "scope": self.scope}
            )
        return self


class ChangedFile(Closed):
    """One path of the change; a rename is a deletion and an addition."""

    path: Annotated[str, StringConstraints(min_length=1, max_length=4_096)]
    status: Literal["A", "M", "D", "T"]


class Run(Closed):
    """One recorded run of a command at the evidence's head; instants in milliseconds, output by its digest."""

    argv: Annotated[list[Annotated[str, StringConstraints(max_length=4_096)]], Field(min_length=1, max_length=100)]
    exit: Annotated[int, Field(ge=-255, le=255)]
    started_at: Instant
    ended_at: Instant
    output_sha256: Digest
    output_excerpt: Annotated[str, StringConstraints(max_length=16_384)]
    dirty: bool

    @model_validator(mode="after")
    def _ends_after_it_starts(self) -> Self:
        if self.ended_at < self.started_at:
            raise PydanticCustomError("run_reversed", "ended_at lies before started_at")
        return self


class ExecutorName(Closed):
    """The program that did the work."""

    name: Line
    version: Line


class Evidence(Closed):
    """What an attempt hands in. A change names its commits and where they are; a result has its summary only."""

    schema_: Annotated[Literal["mac.evidence.v1"], Field(alias="schema")]
    kind: EvidenceKind
    head: Sha | None = None
    tree: Sha | None = None
    verified_base: Sha | None = None
    ref: Annotated[str, StringConstraints(pattern=r"^refs/heads/[^\x00-\x20\x7f~^:?*\[\\]{1,200}$")] | None = None
    bundle: Digest | None = None
    files: Annotated[list[ChangedFile], Field(max_length=10_000)] = Field(default_factory=list)
    runs: Annotated[list[Run], Field(max_length=100)] = Field(default_factory=list)
    summary: Text = ""
    usage: Usage = Usage()
    executor: ExecutorName

    @model_validator(mode="after")
    def _complete_for_its_kind(self) -> Self:
        commits = (self.head, self.tree, self.verified_base)
        if self.kind is EvidenceKind.REPOSITORY_CHANGE:
            if None in commits or (self.ref is None) == (self.bundle is None):
                raise PydanticCustomError(
                    "change_incomplete", "a change names head, tree, verified_base, and either a ref or a bundle"
                )
        elif any(commits) or self.ref or self.bundle or self.files:
            raise PydanticCustomError("result_with_commits", "an operator's result names no commits and no files")
        return self


def read(model: type[M], raw: bytes) -> M:
    """The document of a request. An empty body is an empty object.

    Raises `Rejected(body_not_json)` for what is no JSON, and `Rejected(field_invalid)` with the first wrong field.
    """
    return _read(model, raw, Refusal.FIELD_INVALID)


def read_evidence(raw: bytes) -> Evidence:
    """As `read`, with `Rejected(evidence_invalid)` for a wrong field."""
    return _read(Evidence, raw, Refusal.EVIDENCE_INVALID)


def _read(model: type[M], raw: bytes, refusal: Refusal) -> M:
    try:
        return model.model_validate_json(raw or b"{}")
    except ValidationError as invalid:
        first: Any = invalid.errors(include_url=False, include_input=False, include_context=False)[0]
        if first["type"] == "json_invalid":
            raise Rejected(Refusal.BODY_NOT_JSON) from None
        field = ".".join(str(part) for part in first["loc"]) or "the document"
        raise Rejected(refusal, {"field": field, "problem": first["msg"]}) from None
