"""The page on proofs names the ten steps that the code takes, in their order."""

import re

from pipeline.proof_steps import STEPS
from tests.house.tree import ROOT


def test_the_page_on_proofs_names_the_steps_of_the_code() -> None:
    page = (ROOT / "docs" / "proof.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| ([a-z ]+) \|", page, re.MULTILINE)
    assert rows == [(str(number), name.replace("_", " ")) for number, (name, _) in enumerate(STEPS, 1)]


def test_the_contract_on_its_page_is_read() -> None:
    from pipeline.contract import parse

    page = (ROOT / "docs" / "contract.md").read_text(encoding="utf-8")
    example = page.split("```yaml\n")[1].split("```")[0]
    assert parse(example.encode()).land.accepted == frozenset({("ci/docs", "skipped")})


def test_our_own_contract_is_read() -> None:
    from pipeline.contract import parse

    own = parse((ROOT / ".mac" / "project.yaml").read_bytes())
    assert own.test_commands == (("make", "test"),)
