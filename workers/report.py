"""What the hub says on a head: one check run `mac/review` and one `mac/landing`, each kept up to date in place.

A report is for people. Nothing waits for it, and a report that failed is written anew at the next look.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pipeline.errors import ensure
from pipeline.facts import Sha
from workers.forge import Forge

NAMES: Final = frozenset({"mac/review", "mac/landing"})
ANNOTATIONS_A_CALL: Final = 50
ANNOTATIONS_MAX: Final = 200
SUMMARY_MAX: Final = 65_000
TITLE_MAX: Final = 250
DETAILS_MAX: Final = 64_000


@dataclass(frozen=True, slots=True)
class Annotation:
    """A remark at a line of a file. `level` is notice, warning or failure."""

    path: str
    line: int
    level: str
    message: str


@dataclass(frozen=True, slots=True)
class Report:
    """What one check run is to say. `conclusion` None: it is still in progress. `external_id` is the attempt's id."""

    name: str
    external_id: str
    title: str
    summary: str
    conclusion: str | None = None
    details_url: str | None = None
    annotations: tuple[Annotation, ...] = ()


def write(forge: Forge, head: Sha, report: Report) -> int:
    """Bring our check run of that name on this head to say what the report says, and return its id.

    The run that is there is changed in place, so that a head carries one of each name however often it is reported; a
    run that says it all already is left alone. Of more than 200 annotations the first are shown. Raises `Unavailable`.
    """
    ensure(report.name in NAMES, f"{report.name} is no report of ours")
    batches = _batches(report.annotations[:ANNOTATIONS_MAX])
    existing = forge.own_check_runs(head, report.name)
    body = _body(report, batches[0])
    if not existing:
        run_id = forge.create_check_run({**body, "name": report.name, "head_sha": head})
    else:
        run_id = int(existing[0]["id"])
        if _says(existing[0], report):
            return run_id
        forge.update_check_run(run_id, body)
    for batch in batches[1:]:
        # GitHub adds the annotations of each call to those before it.
        forge.update_check_run(run_id, {"output": _output(report, batch)})
    return run_id


def _body(report: Report, annotations: Sequence[Annotation]) -> dict[str, Any]:
    body: dict[str, Any] = {"external_id": report.external_id, "output": _output(report, annotations)}
    if report.conclusion is None:
        body["status"] = "in_progress"
    else:
        body |= {"status": "completed", "conclusion": report.conclusion}
    if report.details_url is not None:
        body["details_url"] = report.details_url
    return body


def _output(report: Report, annotations: Sequence[Annotation]) -> dict[str, Any]:
    output: dict[str, Any] = {"title": report.title[:TITLE_MAX], "summary": report.summary[:SUMMARY_MAX]}
    if annotations:
        output["annotations"] = [
            {
                "path": a.path,
                "start_line": a.line,
                "end_line": a.line,
                "annotation_level": a.level,
                "message": a.message[:DETAILS_MAX],
            }
            for a in annotations
        ]
    return output


def _batches(annotations: tuple[Annotation, ...]) -> list[tuple[Annotation, ...]]:
    starts = range(0, max(1, len(annotations)), ANNOTATIONS_A_CALL)
    return [annotations[at : at + ANNOTATIONS_A_CALL] for at in starts]


def _says(run: Mapping[str, Any], report: Report) -> bool:
    """Whether the run says the same already. Annotations are not listed with a run; their number is."""
    output: Mapping[str, Any] = run.get("output") or {}
    count = min(len(report.annotations), ANNOTATIONS_MAX)
    return (
        run.get("external_id") == report.external_id
        and run.get("conclusion") == report.conclusion
        and output.get("title") == report.title[:TITLE_MAX]
        and output.get("summary") == report.summary[:SUMMARY_MAX]
        and (output.get("annotations_count") or 0) == count
    )
