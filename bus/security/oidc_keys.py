"""librdkafka's keys for logins by tokens of a service (OIDC, client credentials). Pure.

In: keys of librdkafka. Out: `OidcKeys`. Raises OidcKeyError, which names the key and no secret.
Never: tokens without a signature, which librdkafka makes by default, or a secret over plain HTTP.
"""

from __future__ import annotations

from dataclasses import dataclass, field

_PREFIX = "sasl.oauthbearer."
_CREDENTIALS = f"{_PREFIX}client.credentials."
METHOD, GRANT_TYPE = f"{_PREFIX}method", f"{_PREFIX}grant.type"
URL = f"{_PREFIX}token.endpoint.url"


class OidcKeyError(ValueError):
    """The keys do not say how tokens are fetched."""


@dataclass(frozen=True, slots=True)
class OidcKeys:
    """How a client gets its tokens. The authorities are those that may vouch for the service, of a
    file or as a text; both empty: those of the system."""

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str = ""
    authority_file: str = ""
    authority_text: str = ""


def take_oidc_keys(left: dict[str, str]) -> OidcKeys:
    """Removes from `left` what it reads."""
    if left.pop(METHOD, "default").lower() != "oidc":
        raise OidcKeyError(f"sasl.mechanism OAUTHBEARER needs {METHOD} = oidc: without it tokens "
                           "are not signed, and no broker of ours takes them")  # fmt: skip
    if left.pop(GRANT_TYPE, "client_credentials") != "client_credentials":
        raise OidcKeyError(f"{GRANT_TYPE}: only client_credentials is known here")
    url = left.pop(URL, "")
    if not url.startswith("https://"):
        raise OidcKeyError(f"{URL} must be https://…: the client's secret is sent there")
    client_id = _either(left, "client.id")
    client_secret = _either(left, "client.secret")
    if not client_id or not client_secret:
        raise OidcKeyError(
            f"sasl.mechanism OAUTHBEARER needs {_PREFIX}client.id and {_PREFIX}client.secret"
        )
    return OidcKeys(
        url,
        client_id,
        client_secret,
        left.pop(f"{_PREFIX}scope", ""),
        left.pop("https.ca.location", ""),
        left.pop("https.ca.pem", ""),
    )


def _either(left: dict[str, str], name: str) -> str:
    """librdkafka has two names for these."""
    one, other = left.pop(f"{_CREDENTIALS}{name}", ""), left.pop(f"{_PREFIX}{name}", "")
    return one or other
