"""Keys and certificates in their stores."""

from __future__ import annotations

import pytest

from broker.security.key_stores import (
    KeyStoreError,
    is_of_java,
    pem_key_store,
    pem_trust_store,
    pkcs12_key_store,
    pkcs12_trust_store,
)
from tests.certificates import Authority, KeyKind

PASSWORD = "of the store"


@pytest.mark.parametrize("kind", KeyKind)
def test_a_key_and_its_chain_are_the_same_from_every_store(kind: KeyKind) -> None:
    """PEM in the clear and encrypted, PKCS#12 with the chain in any order."""
    authority = Authority()
    own = authority.signed("broker", kind)
    plain = pem_key_store(own.key_pem(), own.chain_pem, None)
    assert pem_key_store(own.key_pem(PASSWORD), own.chain_pem, PASSWORD) == plain
    both = own.key_pem() + own.chain_pem
    assert pem_key_store(both, both, None) == plain
    with_authority = pkcs12_key_store(own.pkcs12(PASSWORD, [authority.certificate]), PASSWORD)
    assert with_authority.chain == own.chain_pem + authority.pem
    assert with_authority.key == plain.key


def test_authorities_are_the_same_from_every_store() -> None:
    """Of Java's PKCS#12 as well, which has no key."""
    authority = Authority()
    assert pkcs12_trust_store(authority.trust_pkcs12(PASSWORD), PASSWORD) == pem_trust_store(
        authority.pem
    )


def test_what_cannot_be_used_is_said_without_the_secret() -> None:
    authority = Authority()
    own, other = authority.signed("broker"), authority.signed("other")
    encrypted, store = own.key_pem(PASSWORD), own.pkcs12(PASSWORD)
    wrong = [
        ("is encrypted; set ssl.key.password", lambda: pem_key_store(encrypted, own.chain_pem, None)),
        ("its password is wrong", lambda: pem_key_store(encrypted, own.chain_pem, "no" + PASSWORD)),
        ("has no password", lambda: pem_key_store(own.key_pem(), own.chain_pem, PASSWORD)),
        ("no key in PEM", lambda: pem_key_store(b"", own.chain_pem, None)),
        ("no certificate in PEM", lambda: pem_key_store(own.key_pem(), b"x", None)),
        ("not that of the key", lambda: pem_key_store(own.key_pem(), other.chain_pem, None)),
        ("its password is wrong", lambda: pkcs12_key_store(store, "no" + PASSWORD)),
        ("no PKCS#12", lambda: pkcs12_key_store(b"\xfe\xed\xfe\xed", PASSWORD)),
        ("no key with a certificate",
         lambda: pkcs12_key_store(authority.trust_pkcs12(PASSWORD), PASSWORD)),
        ("no certificate in PEM", lambda: pem_trust_store(own.key_pem())),
    ]  # fmt: skip
    for words, use in wrong:
        with pytest.raises(KeyStoreError, match=words) as refused:
            use()
        assert PASSWORD not in str(refused.value)
    assert is_of_java(b"\xfe\xed\xfe\xed\0\0\0\2")
    assert not is_of_java(store)
    assert PASSWORD not in repr(pkcs12_key_store(store, PASSWORD))
    assert b"PRIVATE" not in repr(pkcs12_key_store(store, PASSWORD)).encode()


def test_a_key_whose_signatures_would_hold_up_all_clients_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A shorter bound stands for the real one: a key of more than 4096 bits takes long to make."""
    own = Authority().signed("broker", KeyKind.RSA_2048)
    assert pem_key_store(own.key_pem(), own.chain_pem, None).chain
    monkeypatch.setattr("broker.security.key_stores.MOST_RSA_BITS", 2047)
    with pytest.raises(KeyStoreError, match="take P-256"):
        pem_key_store(own.key_pem(), own.chain_pem, None)
