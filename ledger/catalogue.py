"""What the database says its schema is, as one digest: a change made by hand shows, whatever it changed."""

from collections.abc import Sequence

from sqlalchemy import Connection, text

from ledger.engine import is_sqlite
from pipeline.canonical import digest

LEDGER_OF_MIGRATIONS = "schema_migrations"

_SQLITE = (text("SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"),)
_POSTGRESQL = (
    text(
        "SELECT table_name, column_name, data_type, is_nullable, column_default, identity_generation"
        " FROM information_schema.columns WHERE table_schema = 'mac'"
    ),
    text("SELECT tablename, indexname, indexdef, '' FROM pg_indexes WHERE schemaname = 'mac'"),
    text(
        "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid), contype::text"
        " FROM pg_constraint WHERE connamespace = 'mac'::regnamespace"
    ),
)


def catalogue_digest(connection: Connection) -> str:
    """SHA-256 over tables, columns, indexes and constraints, in a stable order. The migrations' own table is left
    out."""
    statements = _SQLITE if is_sqlite(connection) else _POSTGRESQL
    found = [row for statement in statements for row in connection.execute(statement).all()]
    return digest(sorted(_plain(row) for row in found if LEDGER_OF_MIGRATIONS not in _plain(row)))


def _plain(row: Sequence[object]) -> list[str]:
    return [str(value) for value in row]
