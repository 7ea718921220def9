"""Migrations: applied once each in order, verified at every start, and every other schema refused by name."""

import json
import multiprocessing
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, inspect, text
from sqlalchemy.types import TypeEngine

from ledger import migrate
from ledger.engine import connect
from ledger.migrate import FOLDER, Applied, SchemaRefused, migrations
from ledger.session import Ledger
from ledger.tables import metadata

NEXT = f"{len(migrations('sqlite')) + 1:04d}"


@pytest.fixture
def engine(empty_url: str) -> Iterator[Engine]:
    made = connect(empty_url)
    yield made
    made.dispose()


def _apply(engine: Engine, folder: Path = FOLDER) -> tuple[migrate.Migration, ...]:
    return migrate.apply(engine, applied_by="test", clock=lambda: 5, folder=folder)


def _code(engine: Engine, folder: Path = FOLDER) -> str:
    with pytest.raises(SchemaRefused) as caught:
        migrate.verify(engine, folder)
    return caught.value.code


def _url(engine: Engine) -> str:
    return engine.url.render_as_string(hide_password=False)


def _tables(engine: Engine) -> set[str]:
    return set(inspect(engine).get_table_names())


def _folder(tmp_path: Path, **files: str) -> Path:
    """A folder with the real migrations and some more."""
    folder = tmp_path / "migrations"
    folder.mkdir(exist_ok=True)
    for path in FOLDER.glob("*.sql"):
        (folder / path.name).write_bytes(path.read_bytes())
    for name, content in files.items():
        (folder / f"{NEXT}_{name}.sqlite.sql").write_text(content)
        (folder / f"{NEXT}_{name}.postgresql.sql").write_text(content.replace(" STRICT", ""))
    return folder


def test_a_new_ledger_is_refused_until_it_is_migrated(engine: Engine) -> None:
    assert _code(engine) == "schema_uninitialised"
    assert _tables(engine) == set()
    assert _apply(engine) == migrations(engine.dialect.name)
    migrate.verify(engine)
    assert _apply(engine) == ()


def test_each_migration_leaves_its_row_with_the_digest_of_its_file(engine: Engine) -> None:
    _apply(engine)
    with engine.connect() as connection:
        rows = migrate.applied(connection)
    for row, file in zip(rows, migrations(engine.dialect.name), strict=True):
        assert row == Applied(file.number, file.name, file.sha256, file.breaking, 5, "test", row.catalogue)
        assert re.fullmatch("[0-9a-f]{64}", row.catalogue)
    assert len({row.catalogue for row in rows}) == len(rows)


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        ("UPDATE schema_migrations SET sha256 = 'other'", "schema_checksum_changed"),
        ("UPDATE schema_migrations SET number = number + 1000", "schema_gap"),
        ("DELETE FROM schema_migrations", "schema_uninitialised"),
        ("DROP INDEX leases_one_live", "schema_drifted"),
        ("ALTER TABLE tasks ADD COLUMN surprise TEXT", "schema_drifted"),
        ("CREATE TABLE surprise (a INTEGER)", "schema_drifted"),
    ],
)
def test_a_schema_that_is_not_ours_is_refused_by_name(engine: Engine, damage: str, code: str) -> None:
    _apply(engine)
    with engine.begin() as connection:
        connection.execute(text(damage))
    assert _code(engine) == code
    with pytest.raises(SchemaRefused):
        Ledger.open(_url(engine))


def test_a_ledger_that_is_behind_is_refused_and_can_be_brought_up(engine: Engine, tmp_path: Path) -> None:
    _apply(engine)
    more = _folder(tmp_path, more="CREATE TABLE more (a INTEGER NOT NULL) STRICT;\n")
    assert _code(engine, more) == "schema_behind"
    assert [migration.name for migration in _apply(engine, more)] == [f"{NEXT}_more"]
    migrate.verify(engine, more)


@pytest.mark.parametrize(("mark", "refused"), [("", False), ("-- breaking\n", True)])
def test_a_newer_schema_is_refused_only_when_it_breaks(
    engine: Engine, tmp_path: Path, mark: str, refused: bool
) -> None:
    _apply(engine, _folder(tmp_path, more=mark + "CREATE TABLE more (a INTEGER NOT NULL) STRICT;\n"))
    if refused:
        assert _code(engine) == "schema_ahead"
    else:
        migrate.verify(engine)


def test_a_migration_that_fails_leaves_the_schema_as_it_was(engine: Engine, tmp_path: Path) -> None:
    _apply(engine)
    before = _tables(engine)
    broken = _folder(tmp_path, broken="CREATE TABLE more (a INTEGER);\nCREATE TABLE more (a INTEGER);\n")
    with pytest.raises(Exception, match="already exists"):
        _apply(engine, broken)
    assert _tables(engine) == before
    migrate.verify(engine)


def test_a_migration_that_changes_nothing_is_refused(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="changed nothing"):
        _apply(engine, _folder(tmp_path, empty="SELECT 1;\n"))
    migrate.verify(engine)


def _apply_in_process(url: str) -> None:
    engine = connect(url)
    migrate.apply(engine, applied_by="test")
    engine.dispose()


def test_two_programs_that_migrate_at_once_follow_each_other(engine: Engine) -> None:
    context = multiprocessing.get_context("spawn")
    both = [context.Process(target=_apply_in_process, args=(_url(engine),)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join(60)
    assert [process.exitcode for process in both] == [0, 0]
    with engine.connect() as connection:
        assert len(migrate.applied(connection)) == len(migrations(engine.dialect.name))


def test_the_program_applies_and_reports(
    empty_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MAC_DATABASE_URL", empty_url)
    assert migrate.main(["--status", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["refusal"] == "schema_uninitialised"
    assert migrate.main(["--json"]) == 0
    assert json.loads(capsys.readouterr().out)["done"] == [migration.name for migration in migrations("sqlite")]
    assert migrate.main(["--status"]) == 0
    assert capsys.readouterr().out == "schema: current\n"


def test_the_statements_and_the_migrations_know_the_same_columns(engine: Engine) -> None:
    _apply(engine)
    inspector = inspect(engine)
    assert _tables(engine) == {*metadata.tables, "schema_migrations"}
    for name, table in metadata.tables.items():
        made = {column["name"]: column for column in inspector.get_columns(name)}
        assert list(made) == [column.name for column in table.columns], name
        for column in table.columns:
            assert made[column.name]["nullable"] is column.nullable, f"{name}.{column.name}"
            assert str(made[column.name]["type"]) == _spelled(engine, column.type), f"{name}.{column.name}"
        keys = {(fk["constrained_columns"][0], fk["referred_table"]) for fk in inspector.get_foreign_keys(name)}
        assert keys == {(fk.parent.name, fk.column.table.name) for fk in table.foreign_keys}, name
        assert inspector.get_pk_constraint(name)["constrained_columns"] == [c.name for c in table.primary_key]


def _spelled(engine: Engine, kind: TypeEngine[Any]) -> str:
    spelled = kind.compile(engine.dialect)
    return spelled.replace("BIGINT", "INTEGER") if engine.dialect.name == "sqlite" else spelled


def test_both_databases_have_the_same_migrations_and_the_same_rules() -> None:
    for one, other in zip(migrations("sqlite"), migrations("postgresql"), strict=True):
        assert one.name == other.name
        assert [_plain(statement) for statement in one.statements] == [_plain(s) for s in other.statements]


def _plain(statement: str) -> str:
    """The statement without what the two databases spell differently."""
    spelled = statement.replace(" STRICT", "").replace("INTEGER", "BIGINT").replace("BLOB", "BYTEA").rstrip(";")
    return spelled.replace("BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "BIGINT NOT NULL PRIMARY KEY")
