"""Texts of the search for faces. The same keys in both languages."""

from __future__ import annotations

ZH: dict[str, str] = {
    "nav.faces": "人脸检索",
    "faces.find": "查找此人",
    "faces.choose": "从人脸记录检索：打开一条人脸记录，点击“查找此人”；"
    "从人脸库检索：在“布控名单”中打开人脸库，点击一行。",
    "faces.no_photos": "不能用照片检索：没有从照片提取特征的插件。",
    "faces.of_record": "人脸记录：{place}，{when}",
    "faces.of_entry": "人脸库 {list}，编号 {entry}",
    "faces.model": "模型 {model}（{measure}），阈值 {threshold}",
    "faces.threshold": "阈值",
    "faces.wrong_number": "请填写数值",
    "faces.similar": "相似的人脸，最相似的在前",
    "faces.begun": "正在检索…",
    "faces.read": "已查看 {read} 条，比对 {compared} 条，命中 {hits} 条",
    "faces.done": "已全部查看：{read} 条，比对 {compared} 条，命中 {hits} 条",
    "faces.limit": "已查看至 {since}：{read} 条，比对 {compared} 条，命中 {hits} 条；"
    "更早的尚未查看",
    "faces.best": "（显示最相似的 {shown} 条）",
    "faces.stop": "停止",
    "faces.go_on": "继续查看更早的",
    "faces.fault_no_feature": "此记录没有人脸特征，或未注明特征模型",
    "faces.fault_feature": "此记录的内容不是该模型的特征",
    "faces.fault_unknown_model": "本站没有此记录的特征模型，不能比对",
    "faces.fault_threshold": "此模型不可能有这样的阈值",
    "faces.fault_not_found": "没有这条记录，或人脸库中没有此编号",
    "faces.fault_no_face": "请只指定一张人脸：一条记录，或人脸库的一个编号",
    "column.face_score": "相似度",
}
EN: dict[str, str] = {
    "nav.faces": "Faces",
    "faces.find": "Find this person",
    "faces.choose": "By a record: open a face record and click “Find this person”. By a gallery:"
    " open it on the page Lists and click an entry.",
    "faces.no_photos": "Not by a photo: no plug-in that makes features of photos is there.",
    "faces.of_record": "Face record: {place}, {when}",
    "faces.of_entry": "Gallery {list}, entry {entry}",
    "faces.model": "Model {model} ({measure}), threshold {threshold}",
    "faces.threshold": "Threshold",
    "faces.wrong_number": "Write a number",
    "faces.similar": "Faces that resemble it, best first",
    "faces.begun": "Looking …",
    "faces.read": "{read} looked at, {compared} compared, {hits} found",
    "faces.done": "All looked at: {read}, {compared} compared, {hits} found",
    "faces.limit": "Looked at back to {since}: {read}, {compared} compared, {hits} found;"
    " earlier ones not yet",
    "faces.best": " (the {shown} best are shown)",
    "faces.stop": "Stop",
    "faces.go_on": "Go on with earlier ones",
    "faces.fault_no_feature": "This record has no feature of a face, or does not say of which model"
    " it is",
    "faces.fault_feature": "What this record has is no feature of its model",
    "faces.fault_unknown_model": "The model of this record is not known here; its features cannot"
    " be compared",
    "faces.fault_threshold": "No score of this model can be near that threshold",
    "faces.fault_not_found": "There is no such record, or no such entry in a gallery",
    "faces.fault_no_face": "Name one face: a record, or an entry of a gallery",
    "column.face_score": "Resemblance",
}
