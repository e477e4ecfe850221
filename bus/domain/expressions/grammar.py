"""The grammar of a rule's text, in lark's notation, and how its signs are called in an error."""

from __future__ import annotations

GRAMMAR = r"""
?start: alternatives
?alternatives: sequence (OR sequence)* -> disjunction
?sequence: condition (AND condition)* -> conjunction
?condition: NOT condition -> negation
    | LPAR alternatives RPAR -> group
    | NAME test -> comparison
    | NAME NOT test -> negated_comparison
    | DURING days [times] [IN ZONE] -> window_of_days
    | DURING times [IN ZONE] -> window_of_times
    | IN DISTRICT names -> in_district
    | ON ROAD names [FROM value TO value] -> on_road
    | HEADING names -> heading
    | AT CHECKPOINT names -> at_checkpoint
    | AT DEVICE names -> at_device
    | WITHIN LPAR corner (COMMA corner)* RPAR -> within
test: IN LPAR value (COMMA value)* RPAR -> one_of
    | EQUAL value -> equal
    | UNEQUAL value -> unequal
    | LIKE value -> like
    | CONTAINS value -> contains
    | MATCHES value -> matches
    | RESEMBLES value [UP TO NUMBER] -> resembles
    | ON value [THRESHOLD NUMBER] -> listed
    | SIGN NUMBER -> compared
    | BETWEEN [ABOVE] NUMBER AND [BELOW] NUMBER -> between
    | IS PRESENT -> present
    | IS ABSENT -> absent
?value: STRING | WORD
names: value | LPAR value (COMMA value)* RPAR
corner: NUMBER NUMBER
days: day_range (COMMA day_range)*
day_range: DAY [DASH DAY]
times: TIME DASH TIME

OR: "or"i
AND: "and"i
NOT: "not"i
IN: "in"i
LIKE: "like"i
CONTAINS: "contains"i
MATCHES: "matches"i
RESEMBLES: "resembles"i
ON: "on"i
THRESHOLD: "threshold"i
UP: "up"i
TO: "to"i
BETWEEN: "between"i
ABOVE: "above"i
BELOW: "below"i
IS: "is"i
PRESENT: "present"i
ABSENT: "absent"i
DURING: "during"i
AT: "at"i
DISTRICT: "district"i
ROAD: "road"i
CHECKPOINT: "checkpoint"i
DEVICE: "device"i
WITHIN: "within"i
HEADING: "heading"i
FROM: "from"i
DAY: /(mon|tue|wed|thu|fri|sat|sun)/i
LPAR: /[(（]/
RPAR: /[)）]/
COMMA: /[,，、]/
DASH: /[-–]/
EQUAL: "="
UNEQUAL: "!="
SIGN: ">=" | "<=" | ">" | "<"
NUMBER: /-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?/i
TIME: /[0-9]{1,2}:[0-9]{2}/
ZONE: /[a-z][a-z0-9_+\/-]*/i
NAME: /[a-z_][a-z0-9_]*/i
STRING: /"(""|[^"])*"|“[^”]*”/
WORD: /[^\s"“”()（）,，、=<>!]+/
WHITESPACE: /\s+/
%ignore WHITESPACE
"""

WORDS = {
    "LPAR": "(", "RPAR": ")", "COMMA": ",", "DASH": "-", "EQUAL": "=", "UNEQUAL": "!=",
    "SIGN": ">, >=, <, <=", "NUMBER": "a number", "TIME": "a time as 08:30", "NAME": "an attribute",
    "ZONE": "a time zone", "STRING": "a text in quotation marks", "WORD": "a value",
    "DAY": "mon, tue, wed, thu, fri, sat, sun", "$END": "the end",
}  # fmt: skip
"""A terminal in an error; keywords stand for themselves."""
