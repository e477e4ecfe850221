"""The security of librdkafka in the names of Kafka's Java client, for Spark's connector. Pure.

In: the tables `[bus.librdkafka]` and `[bus.java]`; a function that gives the text of a PEM file.
Out: settings of the Java client (Kafka 2.7 and later: certificates and keys as PEM). Never: a
setting of security that is left out without a word, for then Spark would connect otherwise than all
others; a path of this machine where the text can travel: executors run on other machines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bus.security.oidc_keys import URL, OidcKeyError, take_oidc_keys
from bus.security.sasl_server import OAUTHBEARER

Texts = Mapping[str, str]
ReadFile = Callable[[str], str]

OWN_KEYS = frozenset(
    {
        "bootstrap.servers", "client.id", "group.id", "isolation.level", "acks", "partitioner",
        "enable.idempotence", "enable.auto.commit", "enable.auto.offset.store",
        "enable.partition.eof", "auto.offset.reset",
    }
)  # fmt: skip
"""What each of our clients sets by itself: nothing lost and nothing doubled hangs on it."""
SECURITY_KEYS = ("security.", "sasl.", "ssl.", "enable.ssl.", "enable.sasl.", "https.")
"""How keys of librdkafka begin that are about security."""
_PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_KERBEROS_MODULE = "com.sun.security.auth.module.Krb5LoginModule"
_ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
"""The client reads none that this property of its JVM does not name."""
_OAUTH_PACKAGE = "org.apache.kafka.common.security.oauthbearer"
_LOGIN_MODULES = {
    "PLAIN": _PLAIN_MODULE,
    "SCRAM-SHA-256": _SCRAM_MODULE,
    "SCRAM-SHA-512": _SCRAM_MODULE,
}
_PRINCIPAL = "sasl.kerberos.principal"
_PEM_OF_FILE = {
    "ssl.ca.location": "ssl.ca.pem",
    "ssl.certificate.location": "ssl.certificate.pem",
    "ssl.key.location": "ssl.key.pem",
}
_JAVA_OF_PEM = {
    "ssl.ca.pem": ("ssl.truststore.type", "ssl.truststore.certificates"),
    "ssl.certificate.pem": ("ssl.keystore.type", "ssl.keystore.certificate.chain"),
    "ssl.key.pem": ("ssl.keystore.type", "ssl.keystore.key"),
}
_SAME_IN_BOTH = frozenset({"ssl.key.password"})
PKCS8_BEGIN = "-----BEGIN PRIVATE KEY-----"
_PKCS8 = (PKCS8_BEGIN, "-----BEGIN ENCRYPTED PRIVATE KEY-----")


class NotTranslatable(ValueError):
    """A key that the Java client has not in this form; the text names it."""


def java_config(librdkafka: Texts, java: Texts, read: ReadFile) -> dict[str, str]:
    """What the Java client needs to connect as librdkafka does; `java` is passed on as it is and
    wins. Raises `NotTranslatable`, and what `read` raises."""
    for table, name in ((librdkafka, "librdkafka"), (java, "java")):
        for key in sorted(OWN_KEYS.intersection(table)):
            raise NotTranslatable(f"{name}: {key} is set by our clients themselves; remove it")
    left = {key: value for key, value in librdkafka.items() if key.startswith(SECURITY_KEYS)}
    found = _protocol(left) | _login(left, java, read) | _stores(left, read) | _host_names(left)
    for key in sorted(left):
        if key in _SAME_IN_BOTH:
            found[key] = left[key]
        elif not _is_set_in_java(key, java):
            raise NotTranslatable(
                f"librdkafka: {key} cannot be said for Spark's Java client by itself; say the same"
                f" in its words in [bus.java] ({_instead(key)}), or remove it"
            )
    return found | dict(java)


def java_properties(librdkafka: Texts) -> dict[str, str]:
    """System properties of a JVM whose Java client connects as `java_config` says."""
    is_used = librdkafka.get("security.protocol", "").lower().startswith("sasl")
    url = librdkafka.get(URL, "")
    return {_ALLOWED_URLS: url} if is_used and url else {}


def _is_set_in_java(key: str, java: Texts) -> bool:
    """Whether the operator has set the same thing for Java by himself: a login, or TLS."""
    if "sasl" in key:
        return "sasl.jaas.config" in java
    return any(each.startswith("ssl.") for each in java)


def _instead(key: str) -> str:
    return "sasl.mechanism and sasl.jaas.config" if "sasl" in key else "the keys ssl.…"


def _protocol(left: dict[str, str]) -> dict[str, str]:
    protocol = left.pop("security.protocol", "")
    return {"security.protocol": protocol.upper()} if protocol else {}


def _login(left: dict[str, str], java: Texts, read: ReadFile) -> dict[str, str]:
    """Mechanism and JAAS: both names of librdkafka's mechanism are taken."""
    if "sasl.jaas.config" in java:
        return {}
    one, other = left.pop("sasl.mechanism", ""), left.pop("sasl.mechanisms", "")
    mechanism = one or other
    if not mechanism:
        return {}
    if mechanism == "GSSAPI":
        return {"sasl.mechanism": mechanism} | _kerberos(left)
    if mechanism == OAUTHBEARER:
        return _token_login(left, read)
    module = _LOGIN_MODULES.get(mechanism)
    if module is None:
        raise NotTranslatable(
            f"librdkafka: sasl.mechanism {mechanism} cannot be said for Spark's Java client from"
            f" these keys ({', '.join((*_LOGIN_MODULES, OAUTHBEARER))} and GSSAPI can); set"
            f" {_instead('sasl')} in [bus.java]"
        )
    user, password = left.pop("sasl.username", ""), left.pop("sasl.password", "")
    login = f"{module} required username={_quoted(user)} password={_quoted(password)};"
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": login}


def _kerberos(left: dict[str, str]) -> dict[str, str]:
    """The keytab stays a file, which every machine must have; without one the tickets of `kinit`
    count, as for librdkafka."""
    for ignored in ("sasl.kerberos.kinit.cmd", "sasl.kerberos.min.time.before.relogin"):
        left.pop(ignored, "")
    keytab, principal = left.pop("sasl.kerberos.keytab", ""), left.pop(_PRINCIPAL, "")
    if keytab and not principal:
        raise NotTranslatable(f"librdkafka: sasl.kerberos.keytab needs {_PRINCIPAL} beside it")
    login = f"{_KERBEROS_MODULE} required useTicketCache=true;"
    if keytab:
        login = (
            f"{_KERBEROS_MODULE} required useKeyTab=true storeKey=true doNotPrompt=true"
            f" keyTab={_quoted(keytab)} principal={_quoted(principal)};"
        )
    service = left.pop("sasl.kerberos.service.name", "kafka")
    return {"sasl.kerberos.service.name": service, "sasl.jaas.config": login}


def _token_login(left: dict[str, str], read: ReadFile) -> dict[str, str]:
    """Java's names for librdkafka's; the authorities of the token service are options of the login
    module there."""
    try:
        keys = take_oidc_keys(left)
    except OidcKeyError as error:
        raise NotTranslatable(f"librdkafka: {error}") from None
    login = f"{_OAUTH_PACKAGE}.OAuthBearerLoginModule required"
    text = keys.authority_text or (read(keys.authority_file) if keys.authority_file else "")
    if text:
        login += f" ssl.truststore.type={_quoted('PEM')}"
        login += f" ssl.truststore.certificates={_quoted(text)}"
    credentials = "sasl.oauthbearer.client.credentials.client"
    found = {
        "sasl.mechanism": OAUTHBEARER,
        "sasl.jaas.config": f"{login};",
        "sasl.login.callback.handler.class": f"{_OAUTH_PACKAGE}.OAuthBearerLoginCallbackHandler",
        # The default one also checks signatures as brokers do, by a library that Spark has not.
        "sasl.oauthbearer.jwt.validator.class": f"{_OAUTH_PACKAGE}.ClientJwtValidator",
        "sasl.oauthbearer.token.endpoint.url": keys.url,
        f"{credentials}.id": keys.client_id,
        f"{credentials}.secret": keys.client_secret,
    }
    return found | ({"sasl.oauthbearer.scope": keys.scope} if keys.scope else {})


def _quoted(text: str) -> str:
    """A string as Java's configuration of JAAS reads it: that of `java.io.StreamTokenizer`."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r") + '"'


def _stores(left: dict[str, str], read: ReadFile) -> dict[str, str]:
    """Certificates and keys as texts; a PKCS#12 file stays one, which every machine must have."""
    found: dict[str, str] = {}
    for file_key, pem_key in _PEM_OF_FILE.items():
        path = left.pop(file_key, "")
        text = left.pop(pem_key, "") or (read(_only_path(file_key, path)) if path else "")
        if not path and not text:
            continue
        if pem_key == "ssl.key.pem" and text and not any(begin in text for begin in _PKCS8):
            raise NotTranslatable(
                f"librdkafka: {file_key if path else pem_key} is no key in PKCS#8, and Java reads"
                " no other in PEM; convert it: openssl pkcs8 -topk8 -in KEY -out KEY.pk8"
            )
        kind, java_key = _JAVA_OF_PEM[pem_key]
        found |= {kind: "PEM", java_key: text}
    if "ssl.keystore.location" in left:
        found["ssl.keystore.type"] = "PKCS12"
        for key in ("ssl.keystore.location", "ssl.keystore.password"):
            found[key] = left.pop(key, "")
    return found


def _only_path(key: str, path: str) -> str:
    if path == "probe":
        raise NotTranslatable(f"librdkafka: {key}: 'probe' names no file; name the file itself")
    return path


def _host_names(left: dict[str, str]) -> dict[str, str]:
    """Whose name a certificate must bear: librdkafka says `none` where Java has an empty text."""
    if left.get("enable.ssl.certificate.verification", "").lower() in ("true", "1", "yes"):
        del left["enable.ssl.certificate.verification"]  # Java cannot do otherwise
    name = "ssl.endpoint.identification.algorithm"
    if name not in left:
        return {}
    algorithm = left.pop(name)
    return {name: "" if algorithm == "none" else algorithm}
