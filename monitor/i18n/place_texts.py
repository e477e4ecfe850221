"""Texts of places and quiet times: the same keys in both languages."""

from __future__ import annotations

ZH: dict[str, str] = {
    "watch.quiet_s": "静默时间（秒）",
    "watch.fault_quiet_time": "静默时间为 0（无）至 86400 秒",
    "detail.further": "后续经过",
    "detail.further_passages": "静默时间内另有 {count} 次",
    "tree.at_district": "位于区域 {names}",
    "tree.at_road": "位于道路 {names}",
    "tree.at_checkpoint": "位于卡口 {names}",
    "tree.at_device": "由设备 {names} 抓拍",
    "tree.within": "位于 {count} 个顶点的多边形内（{corners} …）",
    "watch.fault_polygon_corners": "多边形须有 3 至 1000 个顶点",
    "watch.fault_polygon_corner_twice": "相邻顶点重复；最后一点自动与第一点相连",
    "watch.fault_polygon_crosses": "多边形在此处自相交或相接；请按环绕顺序写出顶点",
    "watch.fault_no_place": "此处不是有效位置：先经度、后纬度，单位为度（WGS 84）",
    "watch.fault_too_many_corners": "多边形顶点总数超过 5000 个，请拆分为多条规则",
}

EN: dict[str, str] = {
    "watch.quiet_s": "Quiet time (seconds)",
    "watch.fault_quiet_time": "The quiet time is 0 (none) to 86400 seconds",
    "detail.further": "Further passages",
    "detail.further_passages": "+ {count} within the quiet time",
    "tree.at_district": "in district {names}",
    "tree.at_road": "on road {names}",
    "tree.at_checkpoint": "at checkpoint {names}",
    "tree.at_device": "by device {names}",
    "tree.within": "within a polygon of {count} corners ({corners} …)",
    "watch.fault_polygon_corners": "A polygon has 3 to 1000 corners",
    "watch.fault_polygon_corner_twice": "The same corner twice in a row; the last one is joined to "
    "the first by itself",
    "watch.fault_polygon_crosses": "The polygon crosses or touches itself here; write its corners "
    "in their order around it",
    "watch.fault_no_place": "No place: longitude, then latitude, in degrees (WGS 84)",
    "watch.fault_too_many_corners": "More than 5000 corners of polygons in all; make several rules",
}
