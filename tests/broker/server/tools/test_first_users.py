"""The first users of SCRAM: what a text means, what is refused, and that it shows no password."""

from __future__ import annotations

from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.clock.real import RealClock
from broker.server.tools.first_users import ScramTextError, first_users
from bus.protocol.generated.metadata_records import UserScramCredentialRecord
from bus.security.sasl_server import ScramMechanism, credential_of_salted, salted

SALT = b"0123456789abcdef"
SECRET = "planted-secret"


def users(*texts: str) -> list[object]:
    return first_users(texts, RealClock(1))


def test_a_password_is_hashed_and_a_salted_one_is_taken_as_it_is() -> None:
    mechanism = ScramMechanism.SCRAM_SHA_512
    hashed = salted(mechanism, SECRET, SALT, 8192)
    made = credential_of_salted(mechanism, SALT, hashed, 8192)
    wanted = UserScramCredentialRecord(
        name="alice", mechanism=mechanism, salt=SALT, stored_key=made.stored_key,
        server_key=made.server_key, iterations=8192,
    )  # fmt: skip
    salt, whole = b64encode(SALT).decode(), b64encode(hashed).decode()
    rest = f"salt={salt},iterations=8192"
    assert users(f"SCRAM-SHA-512=[name=alice,password={SECRET},{rest}]") == [wanted]
    assert users(f"SCRAM-SHA-512 = [ name = alice , saltedpassword={whole} , {rest} ]") == [wanted]


def test_each_has_a_salt_of_its_own_and_the_least_iterations() -> None:
    text = "SCRAM-SHA-256=[name={},password=same]"
    one, other = users(text.format("a"), text.format("b"))
    assert isinstance(one, UserScramCredentialRecord)
    assert isinstance(other, UserScramCredentialRecord)
    assert one.salt != other.salt
    assert one.iterations == other.iterations == 4096


def test_one_may_have_both_mechanisms_and_a_name_may_be_quoted() -> None:
    rest = r'=[name="a,b\"c",password=x]'
    found = users(f"SCRAM-SHA-256{rest}", f"SCRAM-SHA-512{rest}")
    assert [(one.name, one.mechanism) for one in found] == [('a,b"c', 1), ('a,b"c', 2)]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        ([f"PLAIN=[name=a,password={SECRET}]"], "write SCRAM-SHA-256 or SCRAM-SHA-512="),
        ([f"SCRAM-SHA-512=name=a,password={SECRET}"], "write SCRAM-SHA-256 or"),
        ([f"SCRAM-SHA-512=[password={SECRET}]"], "has a name"),
        (["SCRAM-SHA-512=[name=a]"], "either a password or a saltedpassword"),
        ([f"SCRAM-SHA-512=[name=a,password={SECRET},saltedpassword=eA==]"], "either a password"),
        (["SCRAM-SHA-512=[name=a,saltedpassword=eA==]"], "has its salt"),
        ([f"SCRAM-SHA-512=[name=a,password={SECRET},salt=%]"], "salt is no base64"),
        ([f"SCRAM-SHA-512=[name=a,password={SECRET},iterations=4095]"], "from 4096 to 16384"),
        ([f"SCRAM-SHA-512=[name=a,password={SECRET},iterations={10**12}]"], "from 4096 to 16384"),
        ([f"SCRAM-SHA-512=[name=a,password={SECRET},password=x]"], "each once"),
        ([f"SCRAM-SHA-512=[name=a,pass={SECRET}]"], "its fields are"),
        ([f'SCRAM-SHA-512=[name="",password={SECRET}]'], "Username must not be empty"),
        ([f"SCRAM-SHA-512=[name=a,password={SECRET}]"] * 2, "is there twice"),
    ],
)  # fmt: skip
def test_what_names_no_user_is_refused_with_a_reason(texts: list[str], why: str) -> None:
    with pytest.raises(ScramTextError, match=why) as refused:
        users(*texts)
    assert SECRET not in str(refused.value)


@given(st.text(max_size=60), st.sampled_from(["", "SCRAM-SHA-256=[", "SCRAM-SHA-512=[name=a,"]))
def test_any_text_is_a_user_or_refused(text: str, begin: str) -> None:
    try:
        [user] = users(f"{begin}{text}]")
    except ScramTextError:
        return
    assert isinstance(user, UserScramCredentialRecord)
    assert user.name
