"""What each rule of the grammar becomes. Pure; the parser calls a method per rule, bottom up, so
that no depth of brackets is a depth of calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

from bus.contracts.expressions import (
    AlongRoad,
    AtPlace,
    Conjunction,
    Disjunction,
    Expression,
    InArea,
    Leaf,
    Negation,
    NumericRange,
    OneOf,
    OnList,
    PlaceKind,
    Presence,
    RegularExpression,
    Resemblance,
    Substring,
    TimeWindow,
    TravelHeading,
    Weekday,
    Wildcard,
)
from bus.domain.expressions.check import (
    check_attribute,
    check_contradiction,
    check_leaf,
    no_heading,
    one_road,
)
from bus.domain.expressions.time_window import WEEKDAYS
from bus.domain.expressions.tree import (
    MAX_DEPTH,
    MAX_NODES,
    ExpressionError,
    too_deep,
    too_many_nodes,
)
from bus.domain.polygons import Corner, polygon_fault, without_closing
from bus.domain.rule_values import DIRECTION, normal
from bus.domain.travel_headings import named_heading

if TYPE_CHECKING:
    from lark import Token

Times: TypeAlias = tuple[str, str]
OfAttribute: TypeAlias = Callable[[str], Leaf]
_ENDS = {">=": "at_least", ">": "above", "<=": "at_most", "<": "below"}


class Placed(NamedTuple):
    """A node and where its text begins, from 1; how deep it is, how many nodes it has."""

    node: Expression
    column: int
    depth: int = 1
    size: int = 1


class PlacedCorner(NamedTuple):
    """Of a polygon, and where its text begins, from 1."""

    corner: Corner
    column: int


class LeafCheck(NamedTuple):
    """What is asked of an attribute that stands before it; `parts`: each value by itself, with the
    place where it is written, for an error that belongs to it."""

    leaf: OfAttribute
    parts: tuple[tuple[int, OfAttribute], ...]
    is_negated: bool = False


class TreeBuilder:
    """Methods are named as the rules of the grammar; they raise `ExpressionError`."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def disjunction(self, found: list[Placed | Token]) -> Placed:
        """a or b."""
        return _joined(Disjunction, [one for one in found if isinstance(one, Placed)])

    def conjunction(self, found: list[Placed | Token]) -> Placed:
        """a and b."""
        placed = _joined(Conjunction, [one for one in found if isinstance(one, Placed)])
        node = placed.node
        if isinstance(node, Conjunction):
            _at(placed.column, lambda: check_contradiction(node))
        return placed

    def negation(self, found: tuple[Token, Placed]) -> Placed:
        """not a."""
        word, part = found
        return _above(Negation(part=part.node), _column(word), [part])

    def group(self, found: tuple[Token, Placed, Token]) -> Placed:
        """(a)."""
        return found[1]._replace(column=_column(found[0]))

    def comparison(self, found: tuple[Token, LeafCheck]) -> Placed:
        """An attribute and what is asked of it."""
        name, test = found
        attribute = name.lower()
        _at(_column(name), lambda: check_attribute(self._kind, attribute))
        for column, leaf_of in test.parts:
            _check_at(column, self._kind, leaf_of(attribute))
        leaf = Placed(test.leaf(attribute), _column(name))
        if not test.is_negated:
            return leaf
        return _above(Negation(part=leaf.node), leaf.column, [leaf])

    def negated_comparison(self, found: tuple[Token, Token, LeafCheck]) -> Placed:
        """An attribute, not, what is asked of it."""
        name, _, test = found
        return self.comparison((name, test._replace(is_negated=not test.is_negated)))

    def one_of(self, found: list[Token]) -> LeafCheck:
        """in (a, b)."""
        values = [token for token in found if token.type in ("STRING", "WORD")]
        texts = tuple(map(_text, values))
        return LeafCheck(
            lambda name: OneOf(attribute=name, values=texts),
            tuple((_column(one), _one_value(_text(one))) for one in values),
        )

    def equal(self, found: tuple[Token, Token]) -> LeafCheck:
        """= a."""
        return _of_one(found[1], _one_value(_text(found[1])))

    def unequal(self, found: tuple[Token, Token]) -> LeafCheck:
        """!= a."""
        return self.equal(found)._replace(is_negated=True)

    def like(self, found: tuple[Token, Token]) -> LeafCheck:
        """like a."""
        text = _text(found[1])
        return _of_one(found[1], lambda name: Wildcard(attribute=name, pattern=text))

    def contains(self, found: tuple[Token, Token]) -> LeafCheck:
        """contains a."""
        text = _text(found[1])
        return _of_one(found[1], lambda name: Substring(attribute=name, text=text))

    def matches(self, found: tuple[Token, Token]) -> LeafCheck:
        """matches a."""
        text = _text(found[1])
        return _of_one(found[1], lambda name: RegularExpression(attribute=name, pattern=text))

    def resembles(
        self, found: tuple[Token, Token, Token | None, Token | None, Token | None]
    ) -> LeafCheck:
        """resembles a up to 1."""
        _, plate, _, _, price = found
        text = _text(plate)
        usual = _of_one(plate, lambda name: Resemblance(attribute=name, plate=text))
        if price is None:
            return usual
        highest = float(price)
        limited = _of_one(
            price, lambda name: Resemblance(attribute=name, plate=text, highest_price=highest)
        )
        return limited._replace(parts=usual.parts + limited.parts)

    def listed(self, found: tuple[Token, Token, Token | None, Token | None]) -> LeafCheck:
        """on a threshold 0.6."""
        _, list_id, _, number = found
        text = _text(list_id)
        usual = _of_one(list_id, lambda name: OnList(attribute=name, list_id=text))
        if number is None:
            return usual
        limit = float(number)
        limited = _of_one(
            number, lambda name: OnList(attribute=name, list_id=text, threshold=limit)
        )
        return limited._replace(parts=usual.parts + limited.parts)

    def compared(self, found: tuple[Token, Token]) -> LeafCheck:
        """> 1."""
        sign, number = found
        ends = {_ENDS[str(sign)]: float(number)}
        return _of_one(number, lambda name: NumericRange(attribute=name, **ends))

    def between(self, found: list[Token | None]) -> LeafCheck:
        """between 1 and 2."""
        present = [token for token in found if token is not None]
        low, high = (token for token in present if token.type == "NUMBER")
        kinds = {token.type for token in present}
        ends = {
            "above" if "ABOVE" in kinds else "at_least": float(low),
            "below" if "BELOW" in kinds else "at_most": float(high),
        }
        return _of_one(low, lambda name: NumericRange(attribute=name, **ends))

    def present(self, found: tuple[Token, Token]) -> LeafCheck:
        """is present."""
        return _of_one(found[0], lambda name: Presence(attribute=name))

    def absent(self, found: tuple[Token, Token]) -> LeafCheck:
        """is absent."""
        return self.present(found)._replace(is_negated=True)

    def day_range(self, found: list[Token | None]) -> tuple[Weekday, ...]:
        """mon-fri."""
        names = [str(one).lower() for one in found if one is not None and one.type == "DAY"]
        first, last = (WEEKDAYS.index(name) for name in (names[0], names[-1]))
        return tuple(WEEKDAYS[(first + step) % 7] for step in range((last - first) % 7 + 1))

    def days(self, found: list[tuple[Weekday, ...] | Token]) -> tuple[Weekday, ...]:
        """mon-fri, sun."""
        ranges = (one for one in found if isinstance(one, tuple))
        return tuple(dict.fromkeys(day for one in ranges for day in one))

    def times(self, found: tuple[Token, Token, Token]) -> Times:
        """22:00-06:00."""
        return str(found[0]).rjust(5, "0"), str(found[2]).rjust(5, "0")

    def window_of_days(
        self, found: tuple[Token, tuple[Weekday, ...], Times | None, Token | None, Token | None]
    ) -> Placed:
        """During days, perhaps times of them."""
        word, days, times, _, zone = found
        begin, end = times or ("00:00", "24:00")
        return self._window(word, TimeWindow(days=days, begin=begin, end=end, zone=str(zone or "")))

    def window_of_times(
        self, found: tuple[Token, Times, Token | None, Token | None]
    ) -> Placed:
        """During times of every day."""
        word, (begin, end), _, zone = found
        return self._window(word, TimeWindow(begin=begin, end=end, zone=str(zone or "")))

    def names(self, found: list[Token]) -> list[Token]:
        """One value, or some in brackets."""
        return [token for token in found if token.type in ("STRING", "WORD")]

    def in_district(self, found: tuple[Token, Token, list[Token]]) -> Placed:
        """In district a."""
        return self._place("district", found)

    def on_road(
        self,
        found: tuple[
            Token, Token, list[Token], Token | None, Token | None, Token | None, Token | None
        ],
    ) -> Placed:
        """On road a, or on road a from b to c."""
        on, road, names, begins, begin, _, end = found
        if begins is None or begin is None or end is None:
            return self._place("road", (on, road, names))
        if len(names) > 1:
            raise one_road().at(_column(names[1]))
        name = _text(names[0])
        for token in (names[0], begin, end):
            _check_at(
                _column(token), self._kind, AtPlace(kind="checkpoint", names=(_text(token),))
            )
        way = AlongRoad(road=name, begin=_text(begin), end=_text(end))
        _check_at(_column(end), self._kind, way)
        return Placed(way, _column(on))

    def heading(self, found: tuple[Token, list[Token]]) -> Placed:
        """Heading a."""
        word, names = found
        _at(_column(word), lambda: check_attribute(self._kind, DIRECTION))
        headings = []
        for name in names:
            heading = named_heading(normal(_text(name)))
            if heading is None:
                raise no_heading(_text(name)).at(_column(name))
            headings.append(heading)
        leaf = TravelHeading(headings=tuple(dict.fromkeys(headings)))
        return Placed(leaf, _column(word))

    def at_checkpoint(self, found: tuple[Token, Token, list[Token]]) -> Placed:
        """At checkpoint a."""
        return self._place("checkpoint", found)

    def at_device(self, found: tuple[Token, Token, list[Token]]) -> Placed:
        """At device a."""
        return self._place("device", found)

    def corner(self, found: tuple[Token, Token]) -> PlacedCorner:
        """120.16 30.25."""
        east, north = found
        return PlacedCorner((float(east), float(north)), _column(east))

    def within(self, found: list[Token | PlacedCorner]) -> Placed:
        """Within (120.16 30.25, …)."""
        word, *others = found
        placed = [one for one in others if isinstance(one, PlacedCorner)]
        closed = [one.corner for one in placed]
        area = InArea(corners=without_closing(closed))
        fault = polygon_fault(area.corners)
        if fault is not None:
            at = placed[fault.corner].column if fault.corner >= 0 else _column(cast("Token", word))
            raise ExpressionError(fault.text, fault.code, at)
        return Placed(area, _column(cast("Token", word)))

    def _place(self, kind: PlaceKind, found: tuple[Token, Token, list[Token]]) -> Placed:
        word, _, names = found
        for name in names:
            _check_at(_column(name), self._kind, AtPlace(kind=kind, names=(_text(name),)))
        return Placed(AtPlace(kind=kind, names=tuple(map(_text, names))), _column(word))

    def _window(self, word: Token, window: TimeWindow) -> Placed:
        _check_at(_column(word), self._kind, window)
        return Placed(window, _column(word))


def _joined(form: type[Conjunction | Disjunction], parts: list[Placed]) -> Placed:
    if len(parts) == 1:
        return parts[0]
    return _above(form(parts=tuple(one.node for one in parts)), parts[0].column, parts)


def _above(node: Expression, column: int, parts: list[Placed]) -> Placed:
    depth, size = 1 + max(one.depth for one in parts), 1 + sum(one.size for one in parts)
    if depth > MAX_DEPTH:
        raise too_deep().at(column)
    if size > MAX_NODES:
        raise too_many_nodes().at(column)
    return Placed(node, column, depth, size)


def _of_one(token: Token, leaf: OfAttribute) -> LeafCheck:
    return LeafCheck(leaf, ((_column(token), leaf),))


def _one_value(text: str) -> OfAttribute:
    return lambda name: OneOf(attribute=name, values=(text,))


def _text(token: Token) -> str:
    if token.type == "WORD":
        return str(token)
    inner = str(token)[1:-1]
    return inner.replace('""', '"') if token.startswith('"') else inner


def _column(token: Token) -> int:
    return (token.start_pos or 0) + 1


def _check_at(column: int, kind: str, leaf: Leaf) -> None:
    _at(column, lambda: check_leaf(kind, leaf))


def _at(column: int, check: Callable[[], None]) -> None:
    try:
        check()
    except ExpressionError as error:
        raise error.at(column) from None
