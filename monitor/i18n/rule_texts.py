"""Texts of a rule's tree: what it says in words, what may be wrong with it. The same keys in both
languages."""

from __future__ import annotations

ZH: dict[str, str] = {
    "watch.where": "条件表达式",
    "watch.where_hint": '例：plate_number like "浙A*123" and not vehicle_color in (白色, 黑色)',
    "watch.where_help": "可用属性：{names}。写法：in、=、!=、like（? *）、contains、matches、"
    "resembles、on 名单、>、between、is present / absent、during mon-fri 22:00-06:00，"
    "以 and、or、not 和括号组合。",
    "watch.understood": "系统的理解",
    "accepts.title": "例如，下列车牌也会命中",
    "accepts.misread": "{text} 的误识：{examples}",
    "accepts.like": "形如 {text}：{examples}",
    "accepts.contains": "包含 {text}：{examples}",
    "accepts.listed": "名单“{text}”按其自身容差判断；允许形近字符时，各组内视为相同：{examples}",
    "watch.at": "第 {column} 个字符：{fault}",
    "watch.unindexed": "此规则无法使用索引：每条记录都要逐一比对。"
    "建议加上车牌、车牌的一部分或某个取值。",
    "tree.and": "同时满足：",
    "tree.or": "满足任一：",
    "tree.not": "不满足：",
    "tree.in": "{attribute} 是 {values}",
    "tree.like": "{attribute} 形如 {text}",
    "tree.contains": "{attribute} 包含 {text}",
    "tree.regex": "{attribute} 完全匹配正则表达式 {text}",
    "tree.resembles": "{attribute} 是 {text} 或其误读（代价不超过 {price}）",
    "tree.listed": "{attribute} 在名单“{list}”中",
    "tree.range": "{attribute} 的数值{ends}",
    "tree.at_least": "不小于 {number}",
    "tree.above": "大于 {number}",
    "tree.at_most": "不大于 {number}",
    "tree.below": "小于 {number}",
    "tree.both": " 且",
    "tree.present": "{attribute} 已识别",
    "tree.time": "时间在 {days} {begin}–{end}（{zone}）",
    "tree.every_day": "每天",
    "day.mon": "周一",
    "day.tue": "周二",
    "day.wed": "周三",
    "day.thu": "周四",
    "day.fri": "周五",
    "day.sat": "周六",
    "day.sun": "周日",
    "watch.fault_unexpected": "此处不能这样写",
    "watch.fault_unclosed": "从这里开始的引号没有结束",
    "watch.fault_too_long": "表达式过长，请拆分为多条规则",
    "watch.fault_too_many_conditions": "条件超过 1000 个，请拆分为多条规则",
    "watch.fault_too_deep": "嵌套超过 32 层，请简化",
    "watch.fault_too_many_values": "取值总数超过 1000 个，请拆分为多条规则",
    "watch.fault_too_many_patterns": "正则表达式超过 20 个，请改用 like 或 contains，或拆分规则",
    "watch.fault_too_many_resemblances": "可能误读的车牌超过 50 个，请拆分为多条规则",
    "watch.fault_pattern": "条件过宽：除 ?（一个字符）和 *（任意多个字符）外，"
    "须至少有 3 个字母或数字，且总长不超过 16 个字符",
    "watch.fault_fuzzy": "~ 后须为完整车牌（至少 6 个字母或数字，不含 ? 和 *），"
    "其前可写最高代价：~0.7:浙A12345（0.5 至 2）",
    "watch.fault_parts": "and 和 or 至少需要两部分",
    "watch.fault_no_value": "至少需要一个取值",
    "watch.fault_names_nothing": "没有给出任何字符；只问是否识别请写 is present",
    "watch.fault_part_of_plate": "这是车牌的一部分，请用 like",
    "watch.fault_plate_no_number": "车牌不是数字，请用 like、contains 或 matches",
    "watch.fault_plate_only": "误读只适用于车牌；其他属性请用 in、like 或 contains",
    "watch.fault_lists_of_plates": "名单只有车牌；其他属性请用 in、like 或 contains",
    "watch.fault_highest_price": "误读的最高代价为 0.5 至 2",
    "watch.fault_resembled_plate": "resembles 后须为完整车牌（至少 6 个字母或数字，省份在最前，"
    "不含 ? 和 *）",
    "watch.fault_range_ends": "范围需要一个下限、一个上限或两者，且必须是数字",
    "watch.fault_empty_range": "范围内没有任何数字",
    "watch.fault_no_time_of_day": "时刻写作 08:30，最晚 24:00",
    "watch.fault_empty_window": "时间段为空；全天请不要写时刻",
    "watch.fault_day_twice": "每个星期日只写一次",
    "watch.fault_no_zone": "没有这个时区；写作 Asia/Shanghai，或省略以使用本站时区",
    "watch.fault_contradiction": "条件互相矛盾，没有剩下任何取值；请用 or 或一个取值列表",
    "watch.fault_pattern_length": "正则表达式最多 200 个字符",
    "watch.fault_no_pattern": "正则表达式无效",
    "watch.fault_unindexed_rules": "无法使用索引的规则（含其比对误识的车牌）最多 100 条；"
    "请加上车牌或取值，或撤控一条",
    "watch.fault_regular_expressions": "在布控的正则表达式已达 500 个；请改用 like 或 contains",
}
EN: dict[str, str] = {
    "watch.where": "Expression",
    "watch.where_hint": 'e.g. plate_number like "*A123" and not vehicle_color in (white, black)',
    "watch.where_help": "Attributes: {names}. Forms: in, =, !=, like (? *), contains, matches, "
    "resembles, on LIST, >, between, is present / absent, during mon-fri 22:00-06:00; joined by "
    "and, or, not, brackets.",
    "watch.understood": "What it means",
    "accepts.title": "Plates that are met, too, for example",
    "accepts.misread": "misreadings of {text}: {examples}",
    "accepts.like": "like {text}: {examples}",
    "accepts.contains": "containing {text}: {examples}",
    "accepts.listed": "the list “{text}” is as tolerant as it says; where it tolerates look-alikes,"
    " each of these groups is one character: {examples}",
    "watch.at": "character {column}: {fault}",
    "watch.unindexed": "No index serves this rule: every record is held against it. Add a plate, a "
    "part of one, or a value that is asked for.",
    "tree.and": "all of:",
    "tree.or": "at least one of:",
    "tree.not": "not:",
    "tree.in": "{attribute} is {values}",
    "tree.like": "{attribute} is like {text}",
    "tree.contains": "{attribute} contains {text}",
    "tree.regex": "the whole of {attribute} matches {text}",
    "tree.resembles": "{attribute} is {text} or a misreading of it (price at most {price})",
    "tree.listed": "{attribute} is on the list “{list}”",
    "tree.range": "{attribute} is {ends}",
    "tree.at_least": "at least {number}",
    "tree.above": "above {number}",
    "tree.at_most": "at most {number}",
    "tree.below": "below {number}",
    "tree.both": " and ",
    "tree.present": "{attribute} was read",
    "tree.time": "time on {days} {begin}–{end} ({zone})",
    "tree.every_day": "every day",
    "day.mon": "Mon",
    "day.tue": "Tue",
    "day.wed": "Wed",
    "day.thu": "Thu",
    "day.fri": "Fri",
    "day.sat": "Sat",
    "day.sun": "Sun",
    "watch.fault_unexpected": "this is not expected here",
    "watch.fault_unclosed": "the quotation mark that begins here has no end",
    "watch.fault_too_long": "too long; make several rules of it",
    "watch.fault_too_many_conditions": "more than 1000 conditions; make several rules of it",
    "watch.fault_too_deep": "nested more than 32 deep; write it flatter",
    "watch.fault_too_many_values": "more than 1000 values in all; make several rules of it",
    "watch.fault_too_many_patterns": "more than 20 regular expressions; write like or contains, or "
    "make several rules of it",
    "watch.fault_too_many_resemblances": "more than 50 plates that may be misread; make several "
    "rules of it",
    "watch.fault_pattern": "too little is given: at least 3 letters or digits beside ? (one "
    "character) and * (any run of them), and at most 16 characters",
    "watch.fault_fuzzy": "behind ~ stands a whole plate of at least 6 letters and digits, without "
    "? or *; before it may stand a highest price, 0.5 to 2: ~0.7:A12345",
    "watch.fault_parts": "and, or: at least two parts",
    "watch.fault_no_value": "at least one value",
    "watch.fault_names_nothing": "no character is given; to ask whether anything was read, write "
    "is present",
    "watch.fault_part_of_plate": "a part of a plate; write like",
    "watch.fault_plate_no_number": "a plate is no number; write like, contains or matches",
    "watch.fault_plate_only": "misreadings are known of plates only; write in, like or contains",
    "watch.fault_lists_of_plates": "lists are of plates; of other attributes write in, like or "
    "contains",
    "watch.fault_highest_price": "the highest price of a misreading is 0.5 to 2",
    "watch.fault_resembled_plate": "behind resembles stands a whole plate of at least 6 letters "
    "and digits, its province in front, without ? or *",
    "watch.fault_range_ends": "a range has a lower end, an upper end or both, and they are numbers",
    "watch.fault_empty_range": "no number lies within",
    "watch.fault_no_time_of_day": "a time of day is written 08:30, and 24:00 is the last",
    "watch.fault_empty_window": "the window is empty; leave the times out for the whole day",
    "watch.fault_day_twice": "each day of the week once",
    "watch.fault_no_zone": "no such time zone; write it as Asia/Shanghai, or leave it out for the "
    "site's own",
    "watch.fault_contradiction": "it contradicts itself, no value is left; write or, or one list "
    "of values",
    "watch.fault_pattern_length": "a regular expression has at most 200 characters",
    "watch.fault_no_pattern": "no regular expression of RE2",
    "watch.fault_unindexed_rules": "at most 100 rules that no index serves, and plates that they "
    "compare with misreadings, may be in force; add a plate or a "
    "value, or remove such a rule",
    "watch.fault_regular_expressions": "500 regular expressions are in force; write like or "
    "contains",
}
