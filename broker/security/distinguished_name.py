"""The name in a certificate as Java writes it (RFC 2253), which is the name of Kafka's principal.

In: a name in DER. Out: `CN=camera-7,OU=North,O=City`: the most particular part first. Raises
ValueError for what is no name. Never: a check of the certificate.
"""

from __future__ import annotations

from collections.abc import Iterator

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""Those of RFC 2253; any other attribute is written as its number, with its value in hex."""

_TEXTS = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
"""UTF-8, printable, T.61, IA5, general and BMP strings; Java takes the bytes of all for UTF-8."""

_ESCAPED = frozenset(',=+<>#;"\\')
_SPACES = " \r"
_SEQUENCE, _SET, _OBJECT_ID = 0x30, 0x31, 0x06


def distinguished_name(name: bytes) -> str:
    """`name` is the SEQUENCE of relative names."""
    ((tag, content, _),) = _elements(name)
    if tag != _SEQUENCE:
        raise ValueError("a name begins with a sequence")
    parts = [_relative(content) for tag, content, _ in _elements(content) if tag == _SET]
    return ",".join(reversed(parts))


def _relative(content: bytes) -> str:
    return "+".join(_attribute(one) for tag, one, _ in _elements(content) if tag == _SEQUENCE)


def _attribute(content: bytes) -> str:
    (kind, number, _), (tag, value, encoded) = _elements(content)
    if kind != _OBJECT_ID:
        raise ValueError("an attribute begins with its kind")
    dotted = _dotted(number)
    keyword = _KEYWORDS.get(dotted)
    if keyword is None or tag not in _TEXTS:
        return f"{keyword or dotted}=#{encoded.hex()}"
    return f"{keyword}={_escaped(value.decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    characters = [
        f"\\{one}" if one in _ESCAPED else "\\00" if one == "\0" else one for one in text
    ]
    written = "".join(characters)
    inner = written.strip(_SPACES)
    if not inner:
        return "".join(f"\\{one}" for one in written)
    before = written[: len(written) - len(written.lstrip(_SPACES))]
    after = written[len(written.rstrip(_SPACES)) :]
    return "".join((*(f"\\{one}" for one in before), inner, *(f"\\{one}" for one in after)))


def _dotted(number: bytes) -> str:
    arcs, value = [], 0
    for byte in number:
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            arcs.append(value)
            value = 0
    if not arcs:
        raise ValueError("a kind without a number")
    first = min(arcs[0] // 40, 2)
    return ".".join(map(str, (first, arcs[0] - 40 * first, *arcs[1:])))


def _elements(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Tag, content and the whole of each element of DER."""
    at = 0
    while at < len(data):
        start, (tag, size) = at, data[at : at + 2]
        at += 2
        if size >= 0x80:
            many = size & 0x7F
            size = int.from_bytes(data[at : at + many], "big")
            at += many
        if at + size > len(data):
            raise ValueError("an element is longer than what it is in")
        yield tag, data[at : at + size], data[start : at + size]
        at += size
