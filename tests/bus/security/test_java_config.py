"""The security of librdkafka in the words of Kafka's Java client."""

from __future__ import annotations

import pytest

from bus.security.jaas import parse_jaas
from bus.security.java_config import NotTranslatable, java_config, java_properties
from bus.settings import BusSettings

PEM = {
    "/ca.pem": "-----BEGIN CERTIFICATE-----\nca\n",
    "/me.pem": "-----BEGIN CERTIFICATE-----\nme\n",
    "/me.key": "-----BEGIN PRIVATE KEY-----\nkey\n",
    "/old.key": "-----BEGIN RSA PRIVATE KEY-----\nkey\n",
}
LOGIN = {"sasl.username": "city", "sasl.password": "secret"}


OIDC = {
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.token.endpoint.url": "https://tokens/token",
    "sasl.oauthbearer.client.id": "city",
    "sasl.oauthbearer.client.secret": "s",
}


def translated(librdkafka: dict[str, str], java: dict[str, str] | None = None) -> dict[str, str]:
    return java_config(librdkafka, java or {}, PEM.__getitem__)


def test_a_bus_without_security_needs_no_word_in_java() -> None:
    """What is not of security concerns librdkafka alone."""
    assert translated({"socket.timeout.ms": "9000", "broker.address.family": "v4"}) == {}


@pytest.mark.parametrize("key", ["sasl.mechanism", "sasl.mechanisms"])
@pytest.mark.parametrize(
    ("mechanism", "module"),
    [
        ("PLAIN", "plain.PlainLoginModule"),
        ("SCRAM-SHA-256", "scram.ScramLoginModule"),
        ("SCRAM-SHA-512", "scram.ScramLoginModule"),
    ],
)
def test_a_login_becomes_the_jaas_of_its_mechanism(key: str, mechanism: str, module: str) -> None:
    """Under both names that librdkafka has for it; its protocol may be written small."""
    found = translated({"security.protocol": "sasl_ssl", key: mechanism, **LOGIN})
    assert found == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"org.apache.kafka.common.security.{module} required"
        ' username="city" password="secret";',
    }


def test_a_password_may_hold_what_jaas_reads_otherwise() -> None:
    """Quotes, backslashes, ends of lines."""
    secret = 'a"b\\c;\n'
    found = translated({"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": secret})
    assert found["sasl.jaas.config"].endswith('password="a\\"b\\\\c;\\n";')


def test_certificates_and_keys_travel_as_texts() -> None:
    """No file is needed where the executors are."""
    assert translated(
        {
            "security.protocol": "SSL",
            "ssl.ca.location": "/ca.pem",
            "ssl.certificate.location": "/me.pem",
            "ssl.key.location": "/me.key",
            "ssl.key.password": "k",
        }
    ) == {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": PEM["/ca.pem"],
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": PEM["/me.pem"],
        "ssl.keystore.key": PEM["/me.key"],
        "ssl.key.password": "k",
    }


def test_texts_in_place_of_files_and_a_pkcs12_file_are_taken_too() -> None:
    """The other ways of librdkafka."""
    assert translated({"ssl.ca.pem": PEM["/ca.pem"]}) == {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": PEM["/ca.pem"],
    }
    assert translated({"ssl.keystore.location": "/me.p12", "ssl.keystore.password": "p"}) == {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": "/me.p12",
        "ssl.keystore.password": "p",
    }


@pytest.mark.parametrize(("said", "java"), [("none", ""), ("https", "https")])
def test_whose_name_a_certificate_bears_is_checked_by_both_or_by_none(said: str, java: str) -> None:
    """`none` is an empty text in Java."""
    name = "ssl.endpoint.identification.algorithm"
    assert translated({name: said}) == {name: java}


@pytest.mark.parametrize(
    ("librdkafka", "named"),
    [
        ({"ssl.cipher.suites": "ECDHE-RSA-AES256-SHA"}, "ssl.cipher.suites"),
        ({"ssl.crl.location": "/crl.pem"}, "ssl.crl.location"),
        ({"enable.ssl.certificate.verification": "false"}, "enable.ssl.certificate.verification"),
        ({"sasl.mechanism": "GSSAPI", "sasl.kerberos.keytab": "/k"}, "sasl.kerberos.principal"),
        ({"sasl.mechanism": "GSSAPI", "sasl.username": "city"}, "sasl.username"),
        ({"sasl.mechanism": "OAUTHBEARER"}, r"sasl\.oauthbearer\.method = oidc"),
        ({**OIDC, "sasl.oauthbearer.token.endpoint.url": "http://t/"}, "must be https://"),
        ({**OIDC, "sasl.oauthbearer.client.secret": ""}, r"needs sasl\.oauthbearer\.client\.id"),
        ({**OIDC, "sasl.oauthbearer.grant.type": "urn:jwt"}, "only client_credentials"),
        ({**OIDC, "sasl.oauthbearer.extensions": "a=b"}, r"sasl\.oauthbearer\.extensions"),
        ({"sasl.kerberos.keytab": "/k"}, "sasl.kerberos.keytab"),
        ({"security.providers": "x"}, "security.providers"),
        ({"ssl.ca.location": "probe"}, "ssl.ca.location"),
        ({"ssl.key.location": "/old.key"}, "openssl pkcs8"),
        ({"bootstrap.servers": "b:1"}, "bootstrap.servers"),
        ({"enable.idempotence": "false"}, "enable.idempotence"),
        ({"sasl.username": "city"}, "sasl.username"),
    ],
)
def test_what_cannot_be_translated_is_an_error_that_names_it(
    librdkafka: dict[str, str], named: str
) -> None:
    """Nothing of security is left out without a word."""
    with pytest.raises(NotTranslatable, match=named):
        translated(librdkafka)


def test_a_keytab_is_one_for_java_and_without_it_are_the_tickets_of_kinit() -> None:
    """The names of librdkafka's defaults; what only runs `kinit` there is not needed."""
    keys = {"security.protocol": "sasl_ssl", "sasl.mechanism": "GSSAPI"}
    said = translated({
        **keys, "sasl.kerberos.keytab": "/a b.keytab", "sasl.kerberos.principal": "city@R",
        "sasl.kerberos.service.name": "bus", "sasl.kerberos.kinit.cmd": "kinit",
    })  # fmt: skip
    assert (said["sasl.mechanism"], said["sasl.kerberos.service.name"]) == ("GSSAPI", "bus")
    module = parse_jaas(said["sasl.jaas.config"])
    assert module.name == "com.sun.security.auth.module.Krb5LoginModule"
    assert (module.options["keyTab"], module.options["principal"]) == ("/a b.keytab", "city@R")
    said = translated(keys)
    assert said["sasl.kerberos.service.name"] == "kafka"
    assert parse_jaas(said["sasl.jaas.config"]).options == {"useTicketCache": "true"}


def test_the_java_table_is_passed_on_wins_and_may_say_what_cannot_be_derived() -> None:
    """A login by Kerberos; TLS that Java's own stores describe."""
    kerberos = {"sasl.mechanism": "GSSAPI", "sasl.jaas.config": "Krb5 required;"}
    assert translated(
        {"sasl.mechanism": "GSSAPI", "sasl.kerberos.keytab": "/k"}, kerberos
    ) == kerberos  # fmt: skip
    stores = {"ssl.truststore.location": "/t.jks", "fetch.max.bytes": "1"}
    assert translated({"ssl.cipher.suites": "A"}, stores) == stores
    with pytest.raises(NotTranslatable, match=r"isolation\.level"):
        translated({}, {"isolation.level": "read_uncommitted"})


def test_a_login_by_tokens_of_a_service_has_kafkas_names_in_java() -> None:
    """The authority of the token service is an option of the login module; the JVM must be told
    that its address may be asked."""
    package = "org.apache.kafka.common.security.oauthbearer"
    wanted = {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f"{package}.OAuthBearerLoginModule required;",
        "sasl.login.callback.handler.class": f"{package}.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.jwt.validator.class": f"{package}.ClientJwtValidator",
        "sasl.oauthbearer.token.endpoint.url": "https://tokens/token",
        "sasl.oauthbearer.client.credentials.client.id": "city",
        "sasl.oauthbearer.client.credentials.client.secret": "s",
    }
    assert translated(OIDC) == wanted
    assert translated({**OIDC, "sasl.oauthbearer.scope": "bus"}) == {
        **wanted, "sasl.oauthbearer.scope": "bus"
    }  # fmt: skip
    with_authority = translated({**OIDC, "https.ca.location": "/ca.pem"})["sasl.jaas.config"]
    options = parse_jaas(with_authority).options
    assert options == {
        "ssl.truststore.type": "PEM", "ssl.truststore.certificates": PEM["/ca.pem"]
    }  # fmt: skip
    named = {"org.apache.kafka.sasl.oauthbearer.allowed.urls": "https://tokens/token"}
    assert java_properties({"security.protocol": "sasl_ssl", **OIDC}) == named
    assert java_properties(OIDC) == {}
    assert java_properties({"security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN"}) == {}


def test_settings_of_the_bus_refuse_it_before_any_file_is_read() -> None:
    """At the start of every process, with the key's name."""
    with pytest.raises(ValueError, match=r"librdkafka: ssl\.cipher\.suites"):
        BusSettings(librdkafka={"ssl.cipher.suites": "A", "ssl.key.location": "/nowhere"})
