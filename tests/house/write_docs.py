"""Writes the pages of the documentation that are made from the code; `make docs` runs it, a test holds it current."""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from ledger.bounds import Bounds
from ledger.settings import NEEDS, Settings, declared_fields
from pipeline import states
from pipeline.reasons import Reason
from pipeline.refusals import Refusal, sentence
from pipeline.words import WORDS
from tests.house.tree import ROOT

MADE = "<!-- Made by `make docs` from the code. Edit the code, not this page. -->\n"


def settings_page() -> str:
    """Every setting with its default and meaning, and what each program cannot do without."""
    own = [name for name in declared_fields() if name not in Bounds.model_fields]
    bounds = list(Bounds.model_fields)
    needs = [f"- `{program}`: {_variables(names)}" for program, names in NEEDS.items()]
    return "\n".join(
        [
            "# Settings",
            MADE,
            "A setting comes from the environment; for a secret, from the file that the name with `_FILE` after it",
            "names; from `mac.toml` in `MAC_HOME` or else in the working directory, where the key is the name in small",
            "letters without `MAC_`; or it has its default. The first of these wins. What is wrong is refused by name",
            "before a program starts; `mac config check` shows everything but secrets.",
            "",
            "A web address must be https; plain http is accepted for loopback hosts only.",
            "",
            "## What each program cannot do without",
            "",
            *needs,
            "",
            "## The installation",
            "",
            *_settings_table(own),
            "",
            "## Bounds",
            "",
            "Names end in their unit: `_MS` is whole milliseconds.",
            "",
            *_settings_table(bounds),
            "",
        ]
    )


def _variables(names: tuple[str, ...]) -> str:
    return ", ".join(f"`MAC_{name.upper()}`" for name in names) or "nothing beyond the ledger"


def _settings_table(names: list[str]) -> Iterator[str]:
    yield "| name | default | meaning |"
    yield "|---|---|---|"
    for name in names:
        field = Settings.model_fields[name]
        default = "" if field.default is None else f"`{field.default}`"
        yield f"| `MAC_{name.upper()}` | {default} | {field.description} |"


def states_page() -> str:
    """The life of a task, drawn from the table of transitions and listed."""
    rows = [f"| {source} | {event} | {target} |" for (source, event), target in states.TRANSITIONS.items()]
    return "\n".join(
        [
            "# The life of a task",
            MADE,
            "One table of transitions is the only way from state to state; each change and its history row are one",
            f"transaction. Terminal: {_states(states.TERMINAL)}. Parked until a person acts: {_states(states.PARKED)}.",
            "`complete` is reached from parked states as well: a landing that was on its way when somebody stopped the",
            "task is settled all the same.",
            "",
            "```mermaid",
            states.mermaid(),
            "```",
            "",
            "| from | event | to |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def _states(some: frozenset[states.State]) -> str:
    return ", ".join(f"`{state}`" for state in states.State if state in some)


def reasons_page() -> str:
    """Every reason of a decision by its group, with its words, and every refusal with its sentence."""
    reasons = [line for group, codes in _groups().items() for line in ("", f"### {group}", "", *_reasons_table(codes))]
    refusals = [f"| `{refusal}` | {sentence(refusal, {}).replace('?', '…')} |" for refusal in Refusal]
    return "\n".join(
        [
            "# Reasons and refusals",
            MADE,
            "Two closed vocabularies, the same in the API, the command line, the pages, the check runs and the",
            "metrics.",
            "",
            "## Reasons: why the hub does what it does next",
            *reasons,
            "",
            "## Refusals: why a request is not granted",
            "",
            "| code | sentence |",
            "|---|---|",
            *refusals,
            "",
        ]
    )


def _reasons_table(codes: list[str]) -> Iterator[str]:
    yield "| code | means | what would change it |"
    yield "|---|---|---|"
    for code in codes:
        words = WORDS[Reason(code)]
        yield f"| `{code}` | {_with_facts(words.means)} | {_with_facts(words.would_change or '')} |"


def _with_facts(template: str) -> str:
    """A sentence with the names of its facts, as code, where the facts will stand."""
    return re.sub(r"\{(\w+)\}", r"`\1`", template).replace("|", "\\|")


def _groups() -> Mapping[str, list[str]]:
    """The reasons under the headings that stand between them in the code."""
    groups: dict[str, list[str]] = {}
    heading = ""
    for line in (ROOT / "pipeline/reasons.py").read_text(encoding="utf-8").splitlines():
        if found := re.fullmatch(r"    # (.+)", line):
            heading = found[1].capitalize()
        elif found := re.fullmatch(r'    [A-Z_]+ = "([a-z_]+)"', line):
            groups.setdefault(heading, []).append(Reason(found[1]).value)
    return groups


PAGES: Mapping[str, Callable[[], str]] = {
    "docs/settings.md": settings_page,
    "docs/states.md": states_page,
    "docs/reasons.md": reasons_page,
}


def write(root: Path) -> None:
    """Write every page below `root`."""
    for name, page in PAGES.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    write(ROOT)
