"""Who is calling: an App by its signed JWT, an installation by its token, a person by theirs, or nobody.

The claims' rules and their texts follow GitHub's page "Generating a JSON Web Token for a GitHub App" and public
reports of its refusals (`exp` too far ahead, `iat` in the future, `401` in every case).
"""

import base64
import binascii
import secrets
from dataclasses import dataclass
from typing import Any

import jwt

from tests.sandbox.permissions import LEVELS, holds
from tests.sandbox.reply import Refused, unprocessable
from tests.sandbox.world import App, Installation, Json, Owner, Repository, Token, World

LONGEST_JWT_S = 600


@dataclass(frozen=True)
class Caller:
    """Exactly one of the three is set, or none for an anonymous call."""

    app: App | None = None
    token: Token | None = None
    person: Owner | None = None

    @property
    def actor(self) -> Owner | None:
        """The account that the caller's writes are shown under."""
        if self.token is not None:
            return self.token.installation.app.bot
        return self.person

    @property
    def acting_app(self) -> App | None:
        return self.token.installation.app if self.token is not None else self.app

    @property
    def name(self) -> str:
        if self.app is not None:
            return f"app:{self.app.slug}"
        if self.token is not None:
            return f"installation:{self.token.installation.app.slug}"
        return f"person:{self.person.login}" if self.person is not None else "nobody"

    def sees(self, repository: Repository) -> bool:
        """Whether the repository exists for this caller; for all others it is a 404."""
        if not repository.private or self.person is not None:
            return True
        if self.token is None:
            return False
        chosen, covered = self.token.repository_ids, self.token.installation
        if covered.owner is not repository.owner or covered.suspended_ms is not None:
            return False
        return all(repository.id in ids for ids in (chosen, covered.repository_ids) if ids is not None)

    def may(self, permission: str, level: str) -> bool:
        """Whether the caller holds a permission; people hold all of them here."""
        return self.person is not None or (
            self.token is not None and holds(self.token.permissions, {permission: level})
        )


def identify(world: World, header: str | None) -> Caller:
    """The caller of an Authorization header; a credential that is none raises `Refused(401)`."""
    if not header:
        return Caller()
    scheme, _, value = header.partition(" ")
    value = value.strip()
    if scheme.lower() == "basic":
        value = _password(value)
    elif scheme.lower() not in ("bearer", "token"):
        raise Refused(401, "Bad credentials")
    if value.count(".") == 2 and scheme.lower() == "bearer":
        return Caller(app=_app_of_jwt(world, value))
    token = world.tokens.get(value)
    if token is not None:
        if world.clock() >= token.expires_ms or token.installation.suspended_ms is not None:
            raise Refused(401, "Bad credentials")
        return Caller(token=token)
    person = next((o for o in world.owners.values() if o.token is not None and o.token == value), None)
    if person is None:
        raise Refused(401, "Bad credentials")
    return Caller(person=person)


def _password(encoded: str) -> str:
    try:
        return base64.b64decode(encoded, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        raise Refused(401, "Bad credentials") from None


def _app_of_jwt(world: World, token: str) -> App:
    try:
        issuer = str(jwt.decode(token, options={"verify_signature": False}).get("iss", ""))
    except jwt.PyJWTError:
        raise Refused(401, "A JSON web token could not be decoded") from None
    app = next((a for a in world.apps.values() if issuer in (str(a.id), a.client_id)), None)
    if app is None:
        raise Refused(404, "Integration not found")
    try:
        options: Any = {"verify_exp": False, "verify_iat": False, "verify_nbf": False}
        claims: Json = jwt.decode(token, app.public_key_pem, algorithms=["RS256"], options=options)
    except jwt.PyJWTError:
        raise Refused(401, "A JSON web token could not be decoded") from None
    _judge_times(claims, world.clock() // 1000)
    return app


def _judge_times(claims: Json, now_s: int) -> None:
    issued, expires = claims.get("iat"), claims.get("exp")
    if not isinstance(issued, int) or issued > now_s:
        text = "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued"
        raise Refused(401, text)
    if not isinstance(expires, int) or expires <= now_s:
        text = "'Expiration time' claim ('exp') must be a numeric value representing the future time"
        raise Refused(401, f"{text} at which the assertion expires")
    if expires > now_s + LONGEST_JWT_S:
        raise Refused(401, "'Expiration time' claim ('exp') is too far in the future")


def mint(world: World, installation: Installation, body: Json) -> Token:
    """A new installation token, narrowed as asked; what was never granted raises `Refused(422)`."""
    if installation.suspended_ms is not None:
        raise Refused(403, "This installation has been suspended")
    permissions = _narrowed(installation, body.get("permissions"))
    token = Token(
        value=f"ghs_{installation.app.id}_{secrets.token_urlsafe(96)}",
        installation=installation,
        repository_ids=_chosen(world, installation, body),
        permissions=permissions,
        expires_ms=world.clock() + world.token_life_ms,
    )
    world.tokens[token.value] = token
    return token


def _narrowed(installation: Installation, asked: Json | None) -> dict[str, str]:
    granted = {"metadata": "read", **installation.app.permissions}
    if not asked:
        return granted
    for name, level in asked.items():
        if level not in LEVELS or not holds(granted, {name: level}):
            raise unprocessable("The permissions requested are not granted to this installation.")
    return {"metadata": "read", **asked}


def _chosen(world: World, installation: Installation, body: Json) -> set[int] | None:
    names, ids = body.get("repositories"), body.get("repository_ids")
    if names is None and ids is None:
        return None
    covered = world.repositories_of(installation)
    by_name = {r.name.lower(): r.id for r in covered}
    by_id = {r.id for r in covered}
    if any(n.lower() not in by_name for n in names or []) or any(i not in by_id for i in ids or []):
        raise unprocessable(
            "There is at least one repository that does not exist or is not accessible to the parent installation."
        )
    return {by_name[n.lower()] for n in names or []} | set(ids or [])
