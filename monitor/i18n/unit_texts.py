"""Texts of units, districts and what is visible to whom: the same keys in both languages."""

from __future__ import annotations

ZH: dict[str, str] = {
    "accounts.unit": "单位",
    "accounts.districts": "负责区域（不选为全部）",
    "accounts.set_unit": "设置单位和区域",
    "accounts.unit_set": "{name} 的单位和区域已设置。",
    "accounts.fault_unit": "单位名称为 1 至 40 个字符，不含逗号、分号、引号、* 和 |。",
    "accounts.fault_districts": "最多 100 个区域编号，且不含逗号。",
    "column.unit": "单位",
    "column.districts": "区域",
    "account.unit": "单位",
    "account.districts": "负责区域",
    "account.no_unit": "无",
    "account.all_units": "可见全部单位",
    "account.all_districts": "全部",
    "watch.visible_to": "可见单位（空为全部，逗号分隔）",
    "column.visible_to": "可见单位",
    "watch.visible_to_all": "全部",
    "watch.fault_not_visible": "您自己将看不到此规则：请同时写上本单位，或由这些单位的人员布控",
    "watch.fault_hidden_proposal": "此规则有一项您看不到的提案待审批，须先由可见者处理",
    "watch.fault_id_not_free": "该编号已占用，请换一个",
    "watch.fault_unit_count": "最多 20 个单位，且不重复",
    "watch.fault_unit_name": "单位名称为 1 至 40 个字符，不含逗号、分号、引号、* 和 |",
    "alarm.fault_not_visible": "该账户看不到此告警",
    "alarm.scope_mine": "本辖区",
    "alarm.scope_all": "全部辖区",
    "alarm.scope_note": "仅显示您负责区域、位置未知及指定本单位的告警",
    "alarm.visible_to": "可见单位",
    "alarm.district_filter": "区域",
    "alarm.kind_filter": "类别",
}

EN: dict[str, str] = {
    "accounts.unit": "Unit",
    "accounts.districts": "Districts (none: all)",
    "accounts.set_unit": "Set unit and districts",
    "accounts.unit_set": "Unit and districts of {name} are set.",
    "accounts.fault_unit": "A unit has 1 to 40 characters, no comma, semicolon, quotation mark, * "
    "or | among them.",
    "accounts.fault_districts": "At most 100 ids of districts, none with a comma.",
    "column.unit": "Unit",
    "column.districts": "Districts",
    "account.unit": "Unit",
    "account.districts": "Districts",
    "account.no_unit": "none",
    "account.all_units": "sees all units",
    "account.all_districts": "all",
    "watch.visible_to": "Visible to units (empty: all; commas between)",
    "column.visible_to": "Visible to",
    "watch.visible_to_all": "all",
    "watch.fault_not_visible": "you would not see this rule yourself: name your unit too, or let "
    "somebody of those units put it",
    "watch.fault_hidden_proposal": "a proposal for this rule waits that you do not see; somebody "
    "who sees it has to settle it first",
    "watch.fault_id_not_free": "this id is not free, choose another",
    "watch.fault_unit_count": "at most 20 units, each once",
    "watch.fault_unit_name": "a unit has 1 to 40 characters, no comma, semicolon, quotation mark, *"
    " or | among them",
    "alarm.fault_not_visible": "this account does not see the alarm",
    "alarm.scope_mine": "My districts",
    "alarm.scope_all": "All districts",
    "alarm.scope_note": "Only alarms of your districts, of unknown places, and those that name your"
    " unit",
    "alarm.visible_to": "Visible to",
    "alarm.district_filter": "District",
    "alarm.kind_filter": "Kind",
}
