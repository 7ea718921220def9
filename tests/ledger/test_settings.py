"""Settings are read once, checked, and refused by name."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from ledger.bounds import Bounds
from ledger.settings import NEEDS, Program, Settings, SettingsRefused, load
from pipeline.facts import Limits

SECRETS = {
    "MAC_WEBHOOK_SECRET": "hook-secret-value",
    "MAC_SESSION_KEY": "session-key-value",
    "MAC_GITHUB_APP_ID": "7",
    "MAC_GITHUB_PRIVATE_KEY": "private-key-value",
    "MAC_PROOF_KEY": "proof-key-value",
}


@pytest.fixture(autouse=True)
def complete(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine on which every program starts; each test changes one thing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MAC_HOME", str(tmp_path / "home"))
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)


def refusal(program: Program | None = None) -> SettingsRefused:
    with pytest.raises(SettingsRefused) as caught:
        load(program)
    return caught.value


@pytest.mark.parametrize("program", sorted(NEEDS))
def test_a_complete_machine_starts_every_program(program: Program) -> None:
    assert load(program).bounds == Bounds()


@pytest.mark.parametrize(("program", "needed"), [(program, name) for program, names in NEEDS.items() for name in names])
@pytest.mark.parametrize("blank", [None, "", "  "])
def test_a_program_refuses_to_start_without_a_secret_it_needs(
    program: Program, needed: str, blank: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    variable = f"MAC_{needed.upper()}"
    if blank is None:
        monkeypatch.delenv(variable)
    else:
        monkeypatch.setenv(variable, blank)
    refused = refusal(program)
    assert refused.code == "setting_missing"
    assert str(refused) == f"{program} does not start without {variable}"


def test_a_program_asks_for_no_secret_that_it_does_not_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MAC_WEBHOOK_SECRET")
    assert load("worker").webhook_secrets == ()


def test_everything_is_described_and_no_secret_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAC_DATABASE_URL", "postgresql://hub:db-password@db.example/mac?password=query-password")
    monkeypatch.setenv("MAC_REDIS_URL", "redis://:redis-password@localhost:6379/0")
    described = {shown.name: shown.value for shown in load("hub").describe()}
    text = repr((described, load("hub")))
    for secret in (*SECRETS.values(), "db-password", "query-password", "redis-password"):
        if secret != SECRETS["MAC_GITHUB_APP_ID"]:
            assert secret not in str(described.values())
    assert "hook-secret-value" not in text
    assert described["MAC_PROOF_KEY"] == "set, not shown"
    assert described["MAC_GITHUB_CLIENT_SECRET"] == "not set"
    assert "db.example" in described["MAC_DATABASE_URL"]
    assert described["MAC_TASK_LEASE_MS"] == "900000"
    assert len(described) == len(Settings.model_fields)


@pytest.mark.parametrize("name", ["MAC_GITHUB_URL", "MAC_GITHUB_API_URL", "MAC_PUBLIC_URL"])
@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("http://github.example", "url_not_https"),
        ("http://127.0.0.1.example", "url_not_https"),
        ("http://0.0.0.0:80", "url_not_https"),
        ("ftp://localhost", "url_not_https"),
        ("https://", "url_not_https"),
        ("https://user:word@github.example", "url_with_credentials"),
        ("http://localhost@github.example", "url_with_credentials"),
    ],
)
def test_plain_http_is_refused_beyond_this_machine(
    name: str, url: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, url)
    refused = refusal()
    assert refused.code == code
    assert str(refused).startswith(name)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:3000", "http://[::1]:3000", "http://localhost", "https://x.example/"]
)
def test_loopback_and_https_are_accepted(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAC_GITHUB_URL", url)
    assert load().github_url == url.rstrip("/")


def test_the_effect_timeout_is_always_shorter_than_the_land_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAC_LAND_SLOT_MS", "1000")
    monkeypatch.setenv("MAC_EFFECT_TIMEOUT_MS", "999")
    assert load().bounds.effect_timeout_ms == 999
    monkeypatch.setenv("MAC_EFFECT_TIMEOUT_MS", "1000")
    refused = refusal()
    assert refused.code == "bounds_contradict"
    assert str(refused) == "MAC_EFFECT_TIMEOUT_MS must be less than MAC_LAND_SLOT_MS"


def test_decisions_are_handed_the_bounds_that_were_set() -> None:
    assert Bounds().limits() == Limits()
    changed = Bounds(
        send_backs_max=11,
        refused_landings_max=12,
        line_front_ms=13,
        ci_deadline_ms=14,
        confirm_ms=15,
        environment_credits_max=16,
        overtakes_max=17,
        line_turns_max=18,
    )
    assert changed.limits() == Limits(11, 12, 13, 14, 15, 16, 17, 18)


@pytest.mark.parametrize("bound", sorted(Bounds.model_fields))
def test_no_bound_can_be_negative(bound: str) -> None:
    with pytest.raises(ValidationError):
        Bounds.model_validate({bound: -1})


@pytest.mark.parametrize("word", ["15 minutes", "1.5", "0x10"])
def test_a_bound_that_is_no_whole_number_is_refused_by_name(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAC_TASK_LEASE_MS", word)
    refused = refusal()
    assert refused.code == "setting_invalid"
    assert str(refused).startswith("MAC_TASK_LEASE_MS ")


def test_a_secret_comes_from_a_file_without_the_line_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("from a file\n", encoding="utf-8")
    monkeypatch.delenv("MAC_WEBHOOK_SECRET")
    monkeypatch.setenv("MAC_WEBHOOK_SECRET_FILE", str(secret))
    assert load("web").webhook_secrets == (b"from a file",)


def test_a_secret_given_twice_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MAC_WEBHOOK_SECRET_FILE", str(tmp_path / "secret"))
    assert refusal().code == "setting_given_twice"


def test_a_secret_file_that_cannot_be_read_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("MAC_WEBHOOK_SECRET")
    monkeypatch.setenv("MAC_WEBHOOK_SECRET_FILE", str(tmp_path / "absent"))
    assert refusal().code == "secret_file_unreadable"


def test_both_secrets_are_accepted_while_one_is_rotated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAC_WEBHOOK_SECRET_PREVIOUS", "older")
    assert load("web").webhook_secrets == (b"hook-secret-value", b"older")


def test_the_environment_wins_over_the_file_and_the_home_over_the_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "mac.toml").write_text("max_attempts = 4\n", encoding="utf-8")
    assert load().bounds.max_attempts == 4
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "mac.toml").write_text("max_attempts = 5\n", encoding="utf-8")
    assert load().bounds.max_attempts == 5
    monkeypatch.setenv("MAC_MAX_ATTEMPTS", "6")
    assert load().bounds.max_attempts == 6


def test_an_unknown_name_in_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mac.toml").write_text("max_atempts = 4\n", encoding="utf-8")
    refused = refusal()
    assert refused.code == "setting_invalid"
    assert "MAC_MAX_ATEMPTS" in str(refused)


def test_a_broken_file_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "mac.toml").write_text("max_attempts =\n", encoding="utf-8")
    assert refusal().code == "settings_unreadable"


def test_the_ledger_is_a_file_in_the_home_unless_a_database_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert load().ledger_url == f"sqlite:///{tmp_path}/home/ledger.sqlite"
    monkeypatch.setenv("MAC_DATABASE_URL", "postgres://db.example/mac")
    assert load().ledger_url == "postgresql+psycopg://db.example/mac"
    monkeypatch.setenv("MAC_DATABASE_URL", "mysql://db.example/mac")
    assert refusal().code == "database_url_unknown"


def test_a_broker_by_url_needs_the_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAC_BROKER", "url")
    assert refusal().code == "redis_url_missing"
    monkeypatch.setenv("MAC_REDIS_URL", "http://localhost:6379")
    assert refusal().code == "redis_url_unknown"
    monkeypatch.setenv("MAC_REDIS_URL", "redis://localhost:6379")
    assert load().redis_url == "redis://localhost:6379"
