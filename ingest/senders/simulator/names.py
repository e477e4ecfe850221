"""Names and shares of the invented city: districts, roads, entrances, brands, colours, plates.
There is no 云江 Yunjiang."""

from __future__ import annotations

CENTRE = (30.2500, 120.1600)  # degrees, WGS 84

# Districts as bands and blocks of the street grid: (id, name, English name).
DISTRICTS: tuple[tuple[str, str, str], ...] = (
    ("330191", "老城区", "Old Town"),
    ("330192", "湖滨区", "Lakeside"),
    ("330193", "城北区", "Chengbei"),
    ("330194", "东港区", "East Harbour"),
    ("330195", "西山区", "Xishan"),
    ("330196", "江南新区", "Jiangnan New Area"),
    ("330197", "科技城", "Science City"),
    ("330198", "空港区", "Airport"),
)

# Streets from west to east, running north to south.
NORTH_SOUTH: tuple[tuple[str, str], ...] = (
    ("西山路", "Xishan Rd"),
    ("古墩路", "Gudun Rd"),
    ("学院路", "Xueyuan Rd"),
    ("保俶路", "Baochu Rd"),
    ("中山路", "Zhongshan Rd"),
    ("建国路", "Jianguo Rd"),
    ("秋涛路", "Qiutao Rd"),
    ("钱潮路", "Qianchao Rd"),
    ("海达路", "Haida Rd"),
    ("东港大道", "Donggang Ave"),
    ("观潮路", "Guanchao Rd"),
    ("空港大道", "Airport Ave"),
)

# Streets from north to south, running west to east; the river flows between the sixth and seventh.
WEST_EAST: tuple[tuple[str, str], ...] = (
    ("石祥路", "Shixiang Rd"),
    ("文一路", "Wenyi Rd"),
    ("文三路", "Wensan Rd"),
    ("体育场路", "Tiyuchang Rd"),
    ("解放路", "Jiefang Rd"),
    ("望江路", "Wangjiang Rd"),
    ("滨江大道", "Riverside Ave"),
    ("江南大道", "Jiangnan Ave"),
)
RIVER_AFTER_ROW = 5
BRIDGE_COLUMNS = (1, 4, 6, 9)

ENTRANCES: tuple[tuple[str, str], ...] = (
    ("火车东站进站口", "East Railway Station Entrance"),
    ("城站广场", "City Station Plaza"),
    ("长途汽车站", "Coach Station"),
    ("国际机场航站楼", "Airport Terminal"),
    ("湖滨地铁站", "Lakeside Metro Station"),
    ("龙翔桥地铁站", "Longxiangqiao Metro Station"),
    ("科技城地铁站", "Science City Metro Station"),
    ("江南地铁站", "Jiangnan Metro Station"),
    ("市民中心", "Civic Centre"),
    ("人民医院", "People's Hospital"),
    ("第一中学", "No. 1 Middle School"),
    ("云江大学南门", "Yunjiang University South Gate"),
    ("银泰百货", "Yintai Department Store"),
    ("万象城", "MixC Mall"),
    ("体育馆", "Gymnasium"),
    ("会展中心", "Exhibition Centre"),
    ("翠苑小区北门", "Cuiyuan Estate North Gate"),
    ("朝晖小区东门", "Zhaohui Estate East Gate"),
    ("江南花园", "Jiangnan Garden Estate"),
    ("东港人才公寓", "East Harbour Apartments"),
    ("软件园", "Software Park"),
    ("西山公园", "Xishan Park"),
    ("农贸市场", "Farmers' Market"),
    ("空港物流园", "Airport Logistics Park"),
)

# (brand, type, series, weight)
MODELS: tuple[tuple[str, str, str, int], ...] = (
    ("大众", "轿车", "2018 朗逸 1.5L", 12),
    ("大众", "轿车", "2019 帕萨特 2.0T", 6),
    ("丰田", "轿车", "2017 卡罗拉 1.2T", 9),
    ("丰田", "SUV", "2020 RAV4 2.0L", 6),
    ("本田", "轿车", "2019 雅阁 1.5T", 7),
    ("本田", "SUV", "2018 CR-V 1.5T", 5),
    ("比亚迪", "轿车", "2022 秦PLUS DM-i", 10),
    ("比亚迪", "SUV", "2023 宋PLUS EV", 8),
    ("特斯拉", "轿车", "2021 Model 3", 5),
    ("特斯拉", "SUV", "2022 Model Y", 6),
    ("吉利", "轿车", "2020 帝豪 1.5L", 6),
    ("长安", "SUV", "2019 CS75 1.5T", 5),
    ("奥迪", "轿车", "2019 A6L 45TFSI", 4),
    ("宝马", "轿车", "2020 325Li", 4),
    ("奔驰", "轿车", "2021 E300L", 3),
    ("Jeep", "SUV", "2014 指南者 2.4L", 2),
    ("五菱", "面包车", "2018 荣光 1.5L", 5),
    ("金龙", "大型客车", "2016 XMQ6127", 2),
    ("东风", "轻型货车", "2019 多利卡D6", 3),
    ("解放", "重型货车", "2018 J6P 460", 2),
)
ELECTRIC_BRANDS = frozenset({"特斯拉", "比亚迪"})
YELLOW_PLATE_TYPES = frozenset({"大型客车", "重型货车"})

VEHICLE_COLORS: tuple[tuple[str, int], ...] = (
    ("白色", 34),
    ("黑色", 22),
    ("灰色", 15),
    ("银色", 11),
    ("红色", 6),
    ("蓝色", 6),
    ("棕色", 3),
    ("绿色", 2),
    ("黄色", 1),
)

PLATE_REGIONS: tuple[tuple[str, int], ...] = (
    ("浙A", 70),
    ("浙B", 5),
    ("浙D", 5),
    ("浙F", 4),
    ("沪A", 3),
    ("苏E", 3),
    ("皖A", 3),
    ("赣A", 2),
    ("豫A", 2),
    ("鲁B", 1),
    ("粤B", 1),
    ("京N", 1),
)
RULE_AUTHOR = "city"
RULE_REASON, RULE_CASE = "a simulated city", "simulation"

# Serials of ordinary cars never begin with the letter kept for watched cars, so that an old
# city's rules never meet a new city's ordinary traffic.
SERIAL_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXZ"
WATCHED_LETTER = "Y"

DIRECTIONS: tuple[str, ...] = ("由南向北", "由西向东", "由北向南", "由东向西")
FEATURE_MODEL = "city-face-128/1"
