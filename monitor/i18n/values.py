"""What devices write, in Chinese and English: the one table of value translations.

A value that no line has is shown as it came. A Chinese word has one line; of several lines with the
same English word the first is the Chinese for it.
"""

from __future__ import annotations

_COLOURS = (
    ("白色", "white"), ("黑色", "black"), ("灰色", "grey"), ("深灰色", "dark grey"),
    ("银色", "silver"), ("红色", "red"), ("蓝色", "blue"), ("深蓝色", "dark blue"),
    ("绿色", "green"), ("黄色", "yellow"), ("棕色", "brown"), ("褐色", "brown"),
    ("橙色", "orange"), ("紫色", "purple"), ("粉色", "pink"), ("青色", "cyan"), ("金色", "gold"),
    ("米色", "beige"), ("香槟色", "champagne"), ("黄绿色", "yellow and green"),
    ("渐变绿色", "green gradient"), ("白", "white"), ("黑", "black"), ("灰", "grey"),
    ("银", "silver"), ("红", "red"), ("蓝", "blue"), ("绿", "green"), ("黄", "yellow"),
    ("棕", "brown"), ("橙", "orange"), ("紫", "purple"), ("粉", "pink"), ("青", "cyan"),
)  # fmt: skip
_TYPES = (
    ("轿车", "car"), ("小型轿车", "small car"), ("小型客车", "small passenger car"),
    ("越野车", "off-road vehicle"), ("面包车", "van"), ("商务车", "people carrier"),
    ("客车", "coach"), ("中型客车", "medium coach"), ("大型客车", "large coach"),
    ("公交车", "city bus"), ("校车", "school bus"), ("出租车", "taxi"), ("皮卡", "pickup"),
    ("货车", "lorry"), ("小货车", "small lorry"), ("大货车", "large lorry"),
    ("轻型货车", "light lorry"), ("中型货车", "medium lorry"), ("重型货车", "heavy lorry"),
    ("牵引车", "tractor unit"), ("挂车", "trailer"), ("罐车", "tanker"), ("渣土车", "tipper"),
    ("危化品车", "dangerous goods vehicle"), ("工程车", "construction vehicle"),
    ("救护车", "ambulance"), ("消防车", "fire engine"), ("警车", "police car"),
    ("摩托车", "motorcycle"), ("三轮车", "tricycle"), ("电动车", "electric bicycle"),
    ("自行车", "bicycle"), ("非机动车", "not a motor vehicle"), ("机动车", "motor vehicle"),
)  # fmt: skip
_BRANDS = (
    ("大众", "Volkswagen"), ("丰田", "Toyota"), ("本田", "Honda"), ("日产", "Nissan"),
    ("比亚迪", "BYD"), ("特斯拉", "Tesla"), ("吉利", "Geely"), ("长安", "Changan"),
    ("长城", "Great Wall"), ("哈弗", "Haval"), ("奇瑞", "Chery"), ("红旗", "Hongqi"),
    ("蔚来", "NIO"), ("理想", "Li Auto"), ("小鹏", "XPeng"), ("荣威", "Roewe"), ("名爵", "MG"),
    ("奥迪", "Audi"), ("宝马", "BMW"), ("奔驰", "Mercedes-Benz"), ("沃尔沃", "Volvo"),
    ("雷克萨斯", "Lexus"), ("保时捷", "Porsche"), ("路虎", "Land Rover"), ("别克", "Buick"),
    ("福特", "Ford"), ("雪佛兰", "Chevrolet"), ("现代", "Hyundai"), ("起亚", "Kia"),
    ("马自达", "Mazda"), ("标致", "Peugeot"), ("雪铁龙", "Citroën"), ("斯柯达", "Škoda"),
    ("五菱", "Wuling"), ("金杯", "Jinbei"), ("江淮", "JAC"), ("江铃", "JMC"), ("福田", "Foton"),
    ("金龙", "King Long"), ("宇通", "Yutong"), ("东风", "Dongfeng"), ("解放", "FAW Jiefang"),
    ("重汽", "Sinotruk"), ("陕汽", "Shacman"), ("依维柯", "Iveco"),
)  # fmt: skip
_PEOPLE = (
    ("男", "male"), ("女", "female"), ("男性", "male"), ("女性", "female"), ("是", "yes"),
    ("否", "no"), ("有", "yes"), ("无", "no"), ("普通眼镜", "glasses"), ("墨镜", "sunglasses"),
    ("太阳镜", "sunglasses"), ("人", "person"), ("行人", "pedestrian"), ("人员", "person"),
)  # fmt: skip
_DIRECTIONS = (
    ("由南向北", "northbound"), ("由北向南", "southbound"), ("由西向东", "eastbound"),
    ("由东向西", "westbound"), ("由西南向东北", "north-eastbound"),
    ("由东北向西南", "south-westbound"), ("由西北向东南", "south-eastbound"),
    ("由东南向西北", "north-westbound"),
)  # fmt: skip
_UNREAD = (
    ("识别异常", "not readable"), ("未识别", "not recognised"), ("未知", "unknown"),
    ("无车牌", "no plate"), ("无牌", "no plate"), ("无牌车", "no plate"), ("其他", "other"),
    ("其它", "other"), ("移动物体", "mover"),
)  # fmt: skip
VALUES: tuple[tuple[str, str], ...] = (
    *_COLOURS, *_TYPES, *_BRANDS, *_PEOPLE, *_DIRECTIONS, *_UNREAD,
)  # fmt: skip
# Inside the name of a series ("2018 朗逸 1.5L") only these words are Chinese.
SERIES_WORDS: tuple[tuple[str, str], ...] = (
    ("朗逸", "Lavida"), ("帕萨特", "Passat"), ("卡罗拉", "Corolla"), ("雅阁", "Accord"),
    ("秦", "Qin "), ("宋", "Song "), ("帝豪", "Emgrand"), ("指南者", "Compass"),
    ("荣光", "Rongguang"), ("多利卡", "Duolika "), ("途观", "Tiguan"), ("凯美瑞", "Camry"),
    ("思域", "Civic"), ("轩逸", "Sylphy"), ("汉", "Han "), ("元", "Yuan "),
)  # fmt: skip

_ENGLISH = dict(VALUES)
_CHINESE: dict[str, str] = {}
for _chinese, _english in VALUES:
    _CHINESE.setdefault(_english.lower(), _chinese)


def value_words(language: str) -> dict[str, str]:
    """What the browser needs to show values in a language: the value as it came, its word."""
    return _CHINESE if language == "zh" else _ENGLISH


def value_text(value: str, language: str, *, is_series: bool = False) -> str:
    """A value of a device in a language; as it came when it has no line."""
    if language == "zh":
        return _CHINESE.get(value.strip().lower(), value)
    if is_series:
        return _series(value)
    return _ENGLISH.get(value.strip(), value)


def device_values(text: str) -> list[str]:
    """What devices may have written for a word that a person typed: all Chinese words for an
    English one, and always what was typed.
    """
    meant = text.strip().lower()
    return [*(zh for zh, en in VALUES if en.lower() == meant), text]


def _series(value: str) -> str:
    for chinese, english in SERIES_WORDS:
        value = value.replace(chinese, english)
    return " ".join(value.split())
