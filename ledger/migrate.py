"""Migrations: an ordered, append-only ledger of what was done to the schema, and the refusal to run on any other.

`mac-schema-migrate` applies what is missing, each file in one transaction under a lock. Ordinary programs only verify.
"""

import argparse
import getpass
import json
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from sqlalchemy import Connection, Engine, column, insert, inspect, select, table, text
from sqlalchemy.engine import make_url

from ledger.catalogue import LEDGER_OF_MIGRATIONS, catalogue_digest
from ledger.clock import Clock, wall_clock
from ledger.engine import closing_engine, is_sqlite, writing
from ledger.settings import SettingsRefused, load
from pipeline.canonical import digest_bytes
from pipeline.errors import HubError, ensure

FOLDER = Path(__file__).parent / "migrations"
BREAKING = "-- breaking"
_LOCK_NUMBER = 7_105_623  # any number, the same for every process

_OWN_TABLE = f"""
CREATE TABLE IF NOT EXISTS {LEDGER_OF_MIGRATIONS} (
  number BIGINT NOT NULL PRIMARY KEY,
  name TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  breaking BIGINT NOT NULL,
  applied_at BIGINT NOT NULL,
  applied_by TEXT NOT NULL,
  catalogue TEXT NOT NULL
)"""
_COLUMNS = ("number", "name", "sha256", "breaking", "applied_at", "applied_by", "catalogue")
_OWN_ROWS = table(LEDGER_OF_MIGRATIONS, *(column(name) for name in _COLUMNS))


class SchemaRefused(HubError):
    """The schema is not the one this version works on. Codes: `schema_uninitialised`, `schema_behind`, `schema_gap`,
    `schema_checksum_changed`, `schema_drifted`, `schema_ahead`."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One file of the folder, for one kind of database."""

    number: int
    name: str
    sha256: str
    breaking: bool
    statements: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Applied:
    """One row of the migrations' own ledger; `catalogue` is the digest of the schema right after it."""

    number: int
    name: str
    sha256: str
    breaking: bool
    applied_at: int
    applied_by: str
    catalogue: str


def migrations(kind: str, folder: Path = FOLDER) -> tuple[Migration, ...]:
    """The migrations for `sqlite` or `postgresql`, in order. Raises `InvariantBroken` when their numbers have a gap."""
    found = tuple(_read(path) for path in sorted(folder.glob(f"*.{kind}.sql")))
    numbers = [migration.number for migration in found]
    ensure(numbers == list(range(1, len(found) + 1)), f"the migrations are not numbered from 1 on: {numbers}")
    return found


def applied(connection: Connection) -> tuple[Applied, ...]:
    """What the database says was done to it, in order; empty for one that was never migrated."""
    if not inspect(connection).has_table(LEDGER_OF_MIGRATIONS):
        return ()
    rows = connection.execute(select(_OWN_ROWS).order_by(_OWN_ROWS.c.number))
    return tuple(
        Applied(r.number, r.name, r.sha256, bool(r.breaking), r.applied_at, r.applied_by, r.catalogue) for r in rows
    )


def apply(
    engine: Engine, *, applied_by: str, clock: Clock = wall_clock, folder: Path = FOLDER
) -> tuple[Migration, ...]:
    """Apply what is missing and return it. A migration that fails leaves the schema as it was before it; two programs
    that migrate at once follow each other. Raises `SchemaRefused` when the past is not the one in the folder."""
    done = []
    for migration in migrations(engine.dialect.name, folder):
        with engine.connect() as plain, (connection := writing(plain)).begin():
            _lock(connection)
            past = applied(connection)
            _compare(past, migrations(engine.dialect.name, folder))
            if len(past) >= migration.number:
                continue
            _run(connection, migration, applied_by=applied_by, now=clock())
            done.append(migration)
    verify(engine, folder)
    return tuple(done)


def verify(engine: Engine, folder: Path = FOLDER) -> None:
    """Nothing, if the schema is exactly the one this version knows (or is ahead by migrations that break nothing).
    Raises `SchemaRefused` by name otherwise; never changes anything."""
    known = migrations(engine.dialect.name, folder)
    with engine.connect() as connection, connection.begin():
        past = applied(connection)
        if not past:
            raise SchemaRefused("schema_uninitialised", "The ledger has no schema yet; run mac-schema-migrate.")
        _compare(past, known)
        if len(past) < len(known):
            missing = ", ".join(migration.name for migration in known[len(past) :])
            raise SchemaRefused("schema_behind", f"The schema lacks {missing}; run mac-schema-migrate.")
        if catalogue_digest(connection) != past[-1].catalogue:
            raise SchemaRefused("schema_drifted", f"The schema was changed after {past[-1].name}, not by a migration.")


def _compare(past: Sequence[Applied], known: Sequence[Migration]) -> None:
    for expected, row in enumerate(past, start=1):
        if row.number != expected:
            raise SchemaRefused("schema_gap", f"Migration {expected} is missing among those that were applied.")
        if expected > len(known):
            if row.breaking:
                raise SchemaRefused("schema_ahead", f"{row.name} was applied by a newer version, and breaks this one.")
        elif row.sha256 != known[expected - 1].sha256:
            raise SchemaRefused("schema_checksum_changed", f"{row.name} is not the file that was applied.")


def _read(path: Path) -> Migration:
    content = path.read_bytes()
    stem = path.name.split(".")[0]
    lines = content.decode().splitlines()
    code = "\n".join(line for line in lines if not line.lstrip().startswith("--"))
    statements = tuple(part.strip() for part in code.split(";\n") if part.strip(" ;\n"))
    return Migration(int(stem[:4]), stem, digest_bytes(content), BREAKING in lines, statements)


def _lock(connection: Connection) -> None:
    if not is_sqlite(connection):
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _LOCK_NUMBER})
        connection.exec_driver_sql("CREATE SCHEMA IF NOT EXISTS mac")
    strict = is_sqlite(connection)
    connection.exec_driver_sql(_OWN_TABLE.replace("BIGINT", "INTEGER") + " STRICT" if strict else _OWN_TABLE)


def _run(connection: Connection, migration: Migration, *, applied_by: str, now: int) -> None:
    before = catalogue_digest(connection)
    for statement in migration.statements:
        connection.exec_driver_sql(statement)
    catalogue = catalogue_digest(connection)
    ensure(catalogue != before, f"{migration.name} changed nothing")
    row = Applied(migration.number, migration.name, migration.sha256, migration.breaking, now, applied_by, catalogue)
    connection.execute(insert(_OWN_ROWS).values(**asdict(row) | {"breaking": int(migration.breaking)}))


def status(engine: Engine) -> dict[str, object]:
    """What was applied, what is pending, and the refusal an ordinary program would meet now (None: none)."""
    refusal: str | None = None
    try:
        verify(engine)
    except SchemaRefused as refused:
        refusal = refused.code
    with engine.connect() as connection, connection.begin():
        past = applied(connection)
    pending = [migration.name for migration in migrations(engine.dialect.name)[len(past) :]]
    return {"applied": [asdict(row) for row in past], "pending": pending, "refusal": refusal}


def main(argv: Sequence[str] | None = None) -> int:
    """`mac-schema-migrate [--status] [--json]`. Exit 0: the schema is current; 1: it is not; 2: the settings are
    refused."""
    parser = argparse.ArgumentParser(prog="mac-schema-migrate", description="Bring the ledger's schema up to date.")
    parser.add_argument("--status", action="store_true", help="only report; change nothing")
    parser.add_argument("--json", action="store_true", help="report as JSON")
    options = parser.parse_args(argv)
    try:
        url = load("migrate").ledger_url
        _make_folder(url)
        with closing_engine(url) as engine:
            done = () if options.status else apply(engine, applied_by=f"{getpass.getuser()}@{platform.node()}")
            return _report(engine, [migration.name for migration in done], as_json=options.json)
    except SettingsRefused as refused:
        print(refused, file=sys.stderr)
        return 2
    except SchemaRefused as refused:
        print(f"{refused.code}: {refused}", file=sys.stderr)
        return 1


def _make_folder(url: str) -> None:
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite" and parsed.database:
        Path(parsed.database).parent.mkdir(mode=0o700, parents=True, exist_ok=True)


def _report(engine: Engine, done: list[str], *, as_json: bool) -> int:
    found = status(engine)
    if as_json:
        print(json.dumps(found | {"done": done}, sort_keys=True))
    else:
        for name in done:
            print(f"applied {name}")
        print(f"schema: {found['refusal'] or 'current'}")
    return 0 if found["refusal"] is None else 1


if __name__ == "__main__":
    sys.exit(main())
