"""Trees and records of hypothesis: few values, so that records meet trees."""

from __future__ import annotations

from hypothesis import strategies as st

from bus.contracts.expressions import (
    AlongRoad,
    AtPlace,
    Conjunction,
    Disjunction,
    Expression,
    InArea,
    Negation,
    NumericRange,
    OneOf,
    OnList,
    Presence,
    RegularExpression,
    Resemblance,
    Substring,
    TimeWindow,
    TravelHeading,
    Wildcard,
)
from bus.domain.expressions.check import check_expression
from bus.domain.expressions.time_window import WEEKDAYS
from bus.domain.expressions.tree import ExpressionError
from bus.domain.travel_headings import HEADINGS

KIND = "vehicle"
ZONE = "Asia/Shanghai"
WORDS = ("白", "白色", "AB", "ABB", "jeep", "B A", 'a"b', "1", "12", "80", "-1.5", "浙A12")
attributes = st.sampled_from(("plate_number", "vehicle_color", "vehicle_brand", "speed_kmh"))
texts = st.one_of(st.sampled_from(WORDS), st.text(alphabet="浙AB1 ·-", min_size=1, max_size=6))
wild = st.one_of(texts, st.text(alphabet="浙AB12?*", min_size=1, max_size=6))
RESEMBLED = ("浙A8D345", "浙 a·8d345", "ABC-8D3", "浙AD12345")
MISREAD = ("浙A8D345", "浙A80345", "浙A8?345", "浙A8D34", "浙A8-345", "A80345", "ABC803", "浙AD1234")
LIST_IDS = ("stolen", "wanted 2", "own", "gone")
NAMES = {
    "district": ("330191", "老城区", "Lake side", "nowhere"), "road": ("中山路", "Line Rd", "gone"),
    "checkpoint": ("c1", "C3", "and", "c9"), "device": ("10.0.0.1", "10.0.0.4", "10.9.9.9"),
}  # fmt: skip
CORNERS = tuple((120 + x / 10, 30 + y / 10) for x in range(5) for y in range(5))
regular = st.one_of(
    st.sampled_from((
        "(a+)+$", "浙A.*", "[^B]*B", "AB{1,2}", "A?BB", "AB+", "(AB|白色)", "a|浙A12", "白.", r"\d+B?",
        r"A\+B*", ".*", "[]A]B1", "浙A1(2|3)?", r"(?i)ab.*", "AB{2}1", "(?:AB)*12", "ABx*",
    )),
    st.text(alphabet=r"浙AB1.*?+|()[]{}^\d,", max_size=8),
)  # fmt: skip
numbers = st.one_of(st.integers(-3, 100), st.floats(-100, 100, allow_nan=False))
ends = st.one_of(st.none(), numbers)
clocks = st.sampled_from(("00:00", "06:30", "12:00", "22:00", "23:59"))
places = st.sampled_from(sorted(NAMES)).flatmap(
    lambda kind: st.builds(
        AtPlace, kind=st.just(kind),
        names=st.lists(st.sampled_from(NAMES[kind]), min_size=1, max_size=2, unique=True).map(tuple),
    )
)
areas = st.builds(
    InArea,
    corners=st.one_of(
        st.lists(st.sampled_from(CORNERS), min_size=3, max_size=5).map(tuple),
        st.just(((119.95, 29.95), (120.45, 29.95), (120.45, 30.45), (119.95, 30.45))),
    ),
)
ways = st.builds(
    AlongRoad, road=st.sampled_from(("环路", "Ring Rd", "中山路", "gone", "from")),
    begin=st.sampled_from(("c1", "C3", "c9", "to")), end=st.sampled_from(("c2", "c3路口", "and", "heading")),
)
headings = st.builds(
    TravelHeading,
    headings=st.lists(st.sampled_from(HEADINGS), min_size=1, max_size=3, unique=True).map(tuple),
)
leaves = st.one_of(
    places, areas, ways, headings,
    st.builds(OneOf, attribute=attributes, values=st.lists(texts, min_size=1, max_size=3).map(tuple)),
    st.builds(Wildcard, attribute=attributes, pattern=wild),
    st.builds(Substring, attribute=attributes, text=texts),
    st.builds(RegularExpression, attribute=attributes, pattern=regular),
    st.builds(NumericRange, attribute=attributes, at_least=ends, at_most=ends),
    st.builds(NumericRange, attribute=attributes, above=ends, below=ends),
    st.builds(NumericRange, attribute=attributes, above=ends, at_most=ends),
    st.builds(
        Resemblance, attribute=st.just("plate_number"), plate=st.sampled_from(RESEMBLED),
        highest_price=st.one_of(st.sampled_from((0.5, 0.7, 1.0, 2.0)), st.floats(0.5, 2)),
    ),
    st.builds(OnList, attribute=st.just("plate_number"), list_id=st.sampled_from(LIST_IDS)),
    st.builds(Presence, attribute=attributes),
    st.builds(
        TimeWindow,
        days=st.lists(st.sampled_from(WEEKDAYS), unique=True, max_size=3).map(tuple),
        begin=clocks, end=st.one_of(clocks, st.just("24:00")), zone=st.sampled_from((ZONE, "UTC")),
    ),
)  # fmt: skip


def is_taken(tree: Expression) -> bool:
    """Whether such a tree may be put."""
    try:
        check_expression(KIND, tree)
    except ExpressionError:
        return False
    return True


def _groups(children: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    parts = st.lists(children, min_size=2, max_size=4).map(tuple)
    return st.one_of(
        st.builds(Conjunction, parts=parts),
        st.builds(Disjunction, parts=parts),
        st.builds(Negation, part=children),
    )


trees = st.recursive(leaves.filter(is_taken), _groups, max_leaves=8).filter(is_taken)
values = st.one_of(st.sampled_from(WORDS), st.text(alphabet="浙AB12", min_size=1, max_size=5))
own_places = st.fixed_dictionaries({}, optional={
    "卡口编号": st.sampled_from(("c1", "c2", "C3", "c4", "unknown")),
    "抓拍设备地址": st.sampled_from(("10.0.0.1", "10.0.0.2", "10.0.0.4", "10.0.0.5", "10.0.0.9")),
})  # fmt: skip
own_values = st.dictionaries(
    st.sampled_from(("车牌号码", "车牌逐字置信度", "车辆颜色", "车辆品牌", "车速")),
    st.one_of(
        values, st.integers(-2, 100),
        st.sampled_from(("识别异常", "浙A?2345", "浙A-12345", "99,99,99,40,99,99,99", *MISREAD)),
    ),
)
own_ways = st.fixed_dictionaries({}, optional={
    "行驶方向": st.sampled_from(("由西向东", "1", "9", "3", "northbound", "NE", "前进", "识别异常", 0, "西向北")),
    "车道编号": st.sampled_from((1, "02", "第1车道", 3, "左转")),
})  # fmt: skip
records = st.builds(lambda one, other, way: one | other | way, own_values, own_places, own_ways)
moments = st.lists(st.integers(1_772_000_000_000, 1_774_000_000_000), max_size=2)
