"""Documents that can rot are made from the code, and the links between them lead somewhere."""

import re
from pathlib import Path

import pytest

from ledger.settings import Settings
from pipeline.reasons import Reason
from pipeline.refusals import Refusal
from pipeline.states import TRANSITIONS
from tests.house.tree import ROOT, files
from tests.house.write_docs import PAGES, reasons_page, settings_page, states_page

PAGE_FILES = [path for path in files() if path.suffix == ".md"]


@pytest.mark.parametrize("name", PAGES)
def test_a_made_page_is_current(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == PAGES[name](), "run `make docs`"


def test_the_made_pages_leave_nothing_out() -> None:
    assert [name for name in Settings.model_fields if f"`MAC_{name.upper()}`" not in settings_page()] == []
    assert [code for code in (*Reason, *Refusal) if f"`{code}`" not in reasons_page()] == []
    assert [pair for pair in TRANSITIONS if f"| {pair[0]} | {pair[1]} |" not in states_page()] == []


def test_no_setting_is_without_a_meaning() -> None:
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []


@pytest.mark.parametrize("page", PAGE_FILES, ids=str)
def test_a_link_inside_the_project_leads_somewhere(page: Path) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    targets = [target for target in re.findall(r"\]\(([^)#\s]+)", text) if not re.match(r"[a-z]+:", target)]
    assert [target for target in targets if not (ROOT / page).parent.joinpath(target).exists()] == []


def test_every_document_is_listed_in_the_index() -> None:
    listed = re.findall(r"\]\(([^)#\s]+)", (ROOT / "docs/index.md").read_text(encoding="utf-8"))
    pages = {path.name for path in PAGE_FILES if path.parts[0] == "docs" and len(path.parts) == 2}
    assert pages - {"index.md"} - set(listed) == set()
