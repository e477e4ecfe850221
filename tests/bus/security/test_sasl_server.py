"""The server's end of PLAIN and SCRAM, against our own client's and against garbage."""

from __future__ import annotations

import base64
import hmac
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bus.client.wire.sasl import LoginRefused, SaslLogin
from bus.security.sasl_server import (
    LEAST_ITERATIONS,
    SCRAM_BY_TITLE,
    NotAuthenticated,
    PlainExchange,
    ScramCredential,
    ScramExchange,
    ScramMechanism,
    TokenCredential,
    credential_of_salted,
    salted,
)
from tests.token_clients import ScramClient

SALT, NONCE, SECRET = b"0123456789abcdef", "5e4ve4" * 4, b"of this process"
USERS = st.text("abcXYZ019,=-_ 密码", min_size=1).filter(lambda one: one == one.strip())


def credential(
    mechanism: ScramMechanism, password: str, iterations: int = LEAST_ITERATIONS
) -> ScramCredential:
    key = salted(mechanism, password, SALT, iterations)
    return credential_of_salted(mechanism, SALT, key, iterations)


CREDENTIALS = {one: credential(one, "pencil") for one in ScramMechanism}


def exchange(mechanism: ScramMechanism, users: tuple[str, ...] = ("user",)) -> ScramExchange:
    """All users have the same password."""
    return ScramExchange(
        mechanism, lambda user: CREDENTIALS[mechanism] if user in users else None, NONCE, SECRET
    )


def log_in(server: ScramExchange, login: SaslLogin) -> list[bytes]:
    """The server's tokens; both ends are satisfied."""
    client = login.begin()
    tokens, token = [], client.first()
    while True:
        tokens.append(server.answer(token))
        again = client.answer(tokens[-1])
        if again is None:
            return tokens
        token = again


@pytest.mark.parametrize("mechanism", ScramMechanism)
@settings(max_examples=8, deadline=None)
@given(user=USERS)
def test_a_client_that_knows_the_password_is_let_in_by_its_name(
    mechanism: ScramMechanism, user: str
) -> None:
    server = exchange(mechanism, (user,))
    log_in(server, SaslLogin(mechanism.title, user, "pencil"))
    assert server.user == user


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_nobody_learns_whether_a_user_exists(mechanism: ScramMechanism) -> None:
    """The same messages, the same refusal, and always the same salt for one name."""
    firsts: dict[str, list[bytes]] = {}
    for name in ("user", "nobody", "nobody"):
        server = exchange(mechanism)
        client = SaslLogin(mechanism.title, name, "wrong").begin()
        first = server.answer(client.first())
        final = client.answer(first)
        assert final is not None
        firsts.setdefault(name, []).append(first)
        with pytest.raises(NotAuthenticated) as refused:
            server.answer(final)
        assert str(refused.value) == "the proof does not fit the credential"
        assert refused.value.text is None
        assert server.user is None
    salts = {name: [part(one, b"s") for one in them] for name, them in firsts.items()}
    assert len(set(salts["nobody"])) == 1
    assert re.fullmatch(rb"[0-9a-z]{20,26}", base64.b64decode(salts["nobody"][0]))
    assert {part(one, b"i") for them in firsts.values() for one in them} == {b"4096"}


def part(message: bytes, name: bytes) -> bytes:
    """An attribute of a message of SCRAM."""
    return next(one[2:] for one in message.split(b",") if one.startswith(name + b"="))


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_credential_below_the_least_iterations_lets_nobody_in(mechanism: ScramMechanism) -> None:
    """Kafka refuses it too; here the client is not told why."""
    weak = credential(mechanism, "pencil", 1)
    server = ScramExchange(mechanism, lambda user: weak, NONCE, SECRET)
    client = SaslLogin(mechanism.title, "user", "pencil").begin()
    final = client.answer(server.answer(client.first()))
    assert final is not None
    with pytest.raises(NotAuthenticated):
        server.answer(final)


@pytest.mark.parametrize("mechanism", ScramMechanism)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_no_bytes_but_the_proof_let_anybody_in(
    mechanism: ScramMechanism, data: st.DataObject
) -> None:
    """Garbage, and real messages of which one byte is another, at each step."""
    server = exchange(mechanism)
    client = SaslLogin(mechanism.title, "user", "pencil").begin()
    token = client.first()
    for _ in range(2):
        sent = data.draw(st.one_of(st.just(token), st.binary(max_size=200), mangled(token)))
        try:
            answer = server.answer(sent)
            again = client.answer(answer)
        except (NotAuthenticated, LoginRefused):
            assert server.user is None
            return
        if again is None:
            break
        token = again
    assert server.user in (None, "user")


def mangled(token: bytes) -> st.SearchStrategy[bytes]:
    """The token with one byte changed, dropped or doubled."""
    return st.builds(
        lambda at, byte, drop: token[:at] + bytes([byte])[drop:] + token[at + 1 :],
        st.integers(0, max(len(token) - 1, 0)), st.integers(0, 255), st.integers(0, 1),
    )  # fmt: skip


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_proof_of_another_login_is_worth_nothing(mechanism: ScramMechanism) -> None:
    """A replay: the nonce differs."""
    server = exchange(mechanism)
    client = SaslLogin(mechanism.title, "user", "pencil").begin()
    first = client.first()
    final = client.answer(server.answer(first))
    assert final is not None
    server.answer(final)
    again = ScramExchange(mechanism, lambda user: CREDENTIALS[mechanism], "another", SECRET)
    again.answer(first)
    with pytest.raises(NotAuthenticated, match="another login"):
        again.answer(final)
    with pytest.raises(NotAuthenticated, match="after the login"):
        server.answer(final)


def test_the_example_of_rfc_7677_is_ours() -> None:
    """Section 3: the server's messages, byte by byte."""
    mechanism = SCRAM_BY_TITLE["SCRAM-SHA-256"]
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    made = credential_of_salted(mechanism, salt, salted(mechanism, "pencil", salt, 4096), 4096)
    server = ScramExchange(
        mechanism, lambda user: made, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", SECRET
    )
    nonce = b"rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    first = server.answer(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert first == b"r=" + nonce + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    final = b"c=biws,r=" + nonce + b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert server.answer(final) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@given(st.binary(max_size=100))
def test_no_bytes_but_the_password_let_anybody_in_by_plain(token: bytes) -> None:
    server = PlainExchange({"user": "pencil", "other": ""})
    try:
        server.answer(token)
    except NotAuthenticated:
        assert server.user is None
    else:
        assert token in (b"\0user\0pencil", b"user\0user\0pencil")


@pytest.mark.parametrize(
    ("token", "text"),
    [
        (b"\0user\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0pencil", "Authentication failed: Invalid username or password"),
        (b"else\0user\0pencil", "Authentication failed: Client requested an authorization id that "
         "is different from username"),
        (b"\0\0pencil", "Authentication failed: username not specified"),
        (b"\0user\0", "Authentication failed: password not specified"),
        (b"pencil", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0user\0pencil\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
    ],
)  # fmt: skip
def test_the_client_is_told_what_kafka_tells_it(token: bytes, text: str) -> None:
    with pytest.raises(NotAuthenticated) as refused:
        PlainExchange({"user": "pencil"}).answer(token)
    assert refused.value.text == text


def test_passwords_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also that of a user who does not exist."""
    compared: list[int] = []
    real = hmac.compare_digest

    def counted(one: bytes, other: bytes) -> bool:
        compared.append(1)
        return real(one, other)

    monkeypatch.setattr("bus.security.sasl_server.hmac.compare_digest", counted)
    for user in ("user", "nobody"):
        with pytest.raises(NotAuthenticated):
            PlainExchange({"user": "pencil"}).answer(f"\0{user}\0wrong".encode())
    assert len(compared) == 2


def by_token(token_id: str, salt: bytes) -> TokenCredential | None:
    """There is one, whose password is `pencil`."""
    if token_id != "id":
        return None
    mechanism = ScramMechanism.SCRAM_SHA_256
    key = salted(mechanism, "pencil", salt, LEAST_ITERATIONS)
    return TokenCredential(
        "owner", 7, credential_of_salted(mechanism, salt, key, LEAST_ITERATIONS)
    )


def token_exchange() -> ScramExchange:
    """The users are `user` and `id`, whose password as a user is none of the token's."""
    mechanism = ScramMechanism.SCRAM_SHA_256
    other = credential(mechanism, "another")
    return ScramExchange(
        mechanism, lambda user: other if user == "id" else None, NONCE, SECRET, by_token
    )


@pytest.mark.parametrize(
    ("user", "password", "extensions", "found"),
    [
        ("id", "pencil", ",tokenauth=true", "owner"),
        ("id", "pencil", ",a=1,tokenauth=TRUE,more=x", "owner"),
        ("id", "pencil", "", None),
        ("id", "pencil", ",tokenauth=false", None),
        ("id", "pencil", ",tokenauth=true,tokenauth=no", None),
        ("id", "another", "", "id"),
        ("id", "another", ",tokenauth=true", None),
        ("nobody", "pencil", ",tokenauth=true", None),
    ],
)
def test_with_a_token_its_owner_logs_in_until_it_ends(
    user: str, password: str, extensions: str, found: str | None
) -> None:
    """Only where the client says that it has one: users and tokens are never taken for each other."""
    server = token_exchange()
    client = ScramClient(ScramMechanism.SCRAM_SHA_256, user, password, extensions)
    final = client.final(server.answer(client.first()))
    if found is None:
        with pytest.raises(NotAuthenticated):
            server.answer(final)
        assert (server.user, server.has_token, server.ends_at_ms) == (None, False, None)
        return
    client.check(server.answer(final))
    is_token = found == "owner"
    assert (server.user, server.has_token) == (found, is_token)
    assert server.ends_at_ms == (7 if is_token else None)


def test_nobody_learns_whether_there_is_a_token() -> None:
    """The first message is the same before it is made, while it is there and afterwards."""
    first = b"n,,n=id,r=abc,tokenauth=true"
    mechanism = ScramMechanism.SCRAM_SHA_256
    without = ScramExchange(mechanism, lambda _: None, NONCE, SECRET)
    assert token_exchange().answer(first) == without.answer(first)
