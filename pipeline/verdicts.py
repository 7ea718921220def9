"""A verdict: what the contract gate found on one evidence, as a value with a digest."""

from dataclasses import dataclass

from pipeline.canonical import Json, digest
from pipeline.facts import VerdictResult


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing the gate found: a stable code, the path and line it concerns (or None), and a sentence.

    `weight` is `reject` (the work's fault), `person` (somebody must wave it through) or `environment` (not the work's
    fault).
    """

    code: str
    sentence: str
    weight: str = "reject"
    path: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The gate's answer for one evidence under one contract. Approved means: no finding rejects."""

    result: VerdictResult
    evidence_digest: str
    contract_digest: str
    findings: tuple[Finding, ...]

    def document(self) -> dict[str, Json]:
        """The verdict as canonical JSON, the form that is stored and digested."""
        return {
            "schema": "mac.verdict.v1",
            "result": self.result.value,
            "evidence": self.evidence_digest,
            "contract": self.contract_digest,
            "findings": [
                {"code": f.code, "sentence": f.sentence, "weight": f.weight, "path": f.path, "line": f.line}
                for f in self.findings
            ],
        }

    @property
    def digest(self) -> str:
        """SHA-256 of the verdict's document; it stands in the intent and in the proof."""
        return digest(self.document())
