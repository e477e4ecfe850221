"""Characters that stand in a text and are not seen. Pure.

Unicode's derived property Default_Ignorable_Code_Point (DerivedCoreProperties.txt, 15.0), which
Python's `unicodedata` lacks: Other_Default_Ignorable_Code_Point, the format characters and the
variation selectors, without those that are shown (U+FFF9–FFFB, prepended marks, Egyptian controls).
"""

from __future__ import annotations

from bisect import bisect_right

# First and last of each range.
_RANGES = (
    (0x00AD, 0x00AD), (0x034F, 0x034F), (0x061C, 0x061C), (0x115F, 0x1160), (0x17B4, 0x17B5),
    (0x180B, 0x180F), (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164),
    (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
)  # fmt: skip
_FIRSTS = [first for first, _ in _RANGES]


def is_ignorable(character: str) -> bool:
    """Whether a reader shows nothing for it unless it is asked to."""
    code = ord(character)
    at = bisect_right(_FIRSTS, code) - 1
    return at >= 0 and code <= _RANGES[at][1]
