"""Envelopes as the protocol describes them, checked by a verifier that is not ours."""

import base64
import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from pipeline.canonical import canonical_bytes
from pipeline.errors import InvariantBroken
from pipeline.signing import PublicKey, SigningKey, _pre_authentication, seal, unseal
from tests.pipeline.builders import KEY, OTHER_KEY


def test_the_bytes_that_are_signed_are_those_of_the_protocol() -> None:
    vector = b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    assert _pre_authentication("http://example.com/HelloWorld", b"hello world") == vector


def test_a_foreign_verifier_accepts_what_we_sign() -> None:
    envelope = json.loads(seal("t/x", b"payload", KEY))
    signature = base64.b64decode(envelope["signatures"][0]["sig"])
    Ed25519PublicKey.from_public_bytes(KEY.public.raw).verify(signature, b"DSSEv1 3 t/x 7 payload")


def test_the_key_of_the_published_test_vector_signs_as_published() -> None:
    key = SigningKey.from_text("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    assert key.public.raw.hex() == "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    assert key.sign(b"").hex().startswith("e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901")


def test_an_envelope_opens_with_its_key_and_no_other() -> None:
    sealed = seal("t/x", b"payload", KEY)
    opened = unseal(sealed, [OTHER_KEY.public, KEY.public])
    assert opened is not None
    assert (opened.payload_type, opened.payload, opened.key_id) == ("t/x", b"payload", KEY.public.id)
    stranger = unseal(sealed, [OTHER_KEY.public])
    assert stranger is not None
    assert stranger.key_id is None


@pytest.mark.parametrize("text", ["", "x", "AAAA", "ä", "0" * 63, "0" * 66, "zz" * 32])
def test_a_key_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        SigningKey.from_text(text)
    with pytest.raises(ValueError, match=r"."):
        PublicKey.from_text(text)


def test_a_key_is_read_as_it_is_written_and_never_shown() -> None:
    seed = bytes(range(32))
    assert SigningKey.from_text(seed.hex()).public == SigningKey.from_text(base64.b64encode(seed).decode()).public
    assert PublicKey.from_text(KEY.public.text() + "\n") == KEY.public
    assert Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw() == KEY.public.raw
    assert seed.hex() not in repr(KEY)


@given(st.binary() | st.recursive(
    st.none() | st.text() | st.just("\ud800"),
    lambda x: st.lists(x, max_size=2) | st.dictionaries(
        st.sampled_from(["payload", "payloadType", "signatures", "sig", "keyid"]), x),
).map(lambda d: json.dumps(d).encode()))  # fmt: skip
def test_any_bytes_open_to_nothing_or_unsigned(content: bytes) -> None:
    opened = unseal(content, [KEY.public])
    assert opened is None or opened.key_id is None


def test_canonical_bytes_know_no_order_and_no_fractions() -> None:
    assert canonical_bytes({"b": [1, None, True], "a": "ä"}) == '{"a":"ä","b":[1,null,true]}'.encode()
    for document in (1.5, {"a": [float("nan")]}, {1: 2}, {"a": object()}, {"a": b"x"}):
        with pytest.raises(InvariantBroken):
            canonical_bytes(document)  # type: ignore[arg-type]  # what the type refuses must fail as well
