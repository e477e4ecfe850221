"""The named states of a mirrored topic or partition, each with its remedy in both languages. Pure.

In: nothing. Out: `MirrorState`. Never: the decision which of them holds. To *free* a topic is to
remove its key `mirror.source.cluster.id`: as long as it has it, the target refuses its deletion.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal

Language = Literal["zh", "en"]


@dataclass(frozen=True, slots=True)
class StateText:
    """What a state means and what removes it; empty where nothing has to be done."""

    meaning_en: str
    meaning_zh: str
    remedy_en: str = ""
    remedy_zh: str = ""

    def meaning(self, language: Language) -> str:
        """In one language."""
        return self.meaning_en if language == "en" else self.meaning_zh

    def remedy(self, language: Language) -> str:
        """In one language."""
        return self.remedy_en if language == "en" else self.remedy_zh


class MirrorState(Enum):
    """Value: the word in `status --json` and in metrics. `copies`: whether records are copied."""

    copies: bool
    text: StateText

    def __new__(cls, value: str, copies: bool, text: StateText) -> MirrorState:
        """One member: its value is the word."""
        member = object.__new__(cls)
        member._value_ = value
        member.copies = copies
        member.text = text
        return member

    STARTING = "starting", False, StateText(
        "the ends of both sides are being asked", "正在查询两端的偏移量")  # fmt: skip
    COPYING = "copying", True, StateText("records are copied", "正在复制")
    SOURCE_UNAVAILABLE = "source_unavailable", False, StateText(
        "no leader of the source answers", "源端无可用的分区主副本",
        "check the brokers of the source and the link; copying goes on by itself",
        "请检查源端 broker 与链路;恢复后自动继续复制")  # fmt: skip
    TARGET_UNAVAILABLE = "target_unavailable", False, StateText(
        "no leader of the target answers", "目标端无可用的分区主副本",
        "check the brokers of the target and the link; copying goes on by itself",
        "请检查目标端 broker 与链路;恢复后自动继续复制")  # fmt: skip
    LOGIN_REFUSED = "login_refused", False, StateText(
        "a broker does not let the mirror in", "broker 拒绝镜像登录",
        "see the detail; set mirror.source_librdkafka or mirror.target_librdkafka (user, password, "
        "mechanism) to what that site takes and restart the mirror; copying goes on where it stood",
        "请看详情;请将 mirror.source_librdkafka 或 mirror.target_librdkafka(用户、密码、机制)"
        "改为该站点接受的值并重启镜像;将从原处继续复制")  # fmt: skip
    TARGET_REFUSES = "target_refuses", False, StateText(
        "the target refuses an append for now", "目标端暂时拒绝写入",
        "see the detail: a full disk, too few replicas in sync or a read-only target; "
        "the mirror tries again by itself",
        "请看详情:磁盘已满、同步副本不足或目标端只读;镜像会自动重试")  # fmt: skip
    NOT_ALLOWED = "not_allowed", False, StateText(
        "the target allows this connection no mirrored append", "目标端不允许此连接进行镜像写入",
        "point mirror.target_bootstrap_servers at the listener that the brokers of the target name "
        "in mirror.listener.name, and check the permissions of the mirror there",
        "请将 mirror.target_bootstrap_servers 指向目标端 mirror.listener.name 指定的监听器,"
        "并检查镜像账号的权限")  # fmt: skip
    FENCED = "fenced", False, StateText(
        "a newer mirror has taken over", "较新的镜像实例已接管",
        "stop this instance, or stop the other one and restart this one",
        "请停止本实例;或停止另一实例后重启本实例")  # fmt: skip
    HOLE = "hole", True, StateText(
        "the source deleted records before they were copied; copying goes on behind the hole",
        "源端在复制之前已删除部分记录;从缺口之后继续复制",
        "raise retention.ms of the topic at the source above the longest outage of the link; "
        "what is missing is stated in the detail",
        "请将源端主题的 retention.ms 调至大于链路最长中断时间;缺失范围见详情")  # fmt: skip
    SOURCE_TRUNCATED = "source_truncated", False, StateText(
        "the source ends before the target: it lost records that were copied",
        "源端末尾早于目标端:源端丢失了已复制的记录",
        "an unclean election or a lost disk at the source, or the topic was deleted and "
        "created again while the mirror was away. Keep the target as it is, and let the source "
        "catch up from it; or `databus mirror copy-anew TOPIC` puts what the target holds into "
        "files and copies the topic again",
        "源端发生了不干净选举或磁盘丢失,或主题在镜像停止期间被删除并重建。请保留目标端并由其恢复源端;"
        "或用 `databus mirror copy-anew TOPIC` 将目标端内容写入文件并重新复制")  # fmt: skip
    TARGET_TRUNCATED = "target_truncated", False, StateText(
        "the target ends before what it had acknowledged", "目标端末尾早于其已确认的位置",
        "an unclean election or a lost disk at the target; `databus mirror copy-anew "
        "TOPIC` copies the topic again from the source, or put it on mirror.black_list",
        "目标端发生了不干净选举或磁盘丢失;请用 `databus mirror copy-anew TOPIC` 从源端重新复制,"
        "或将其加入 mirror.black_list")  # fmt: skip
    DIVERGED = "diverged", False, StateText(
        "the last batch of the target is another one than the source's at the same offset",
        "目标端最后一个批次与源端同一偏移量的批次不同",
        "run `databus mirror verify` for the first differing offset; then `databus mirror "
        "copy-anew TOPIC` puts what the target holds into files and copies the topic again, or "
        "keep it and put it on mirror.black_list",
        "请运行 `databus mirror verify` 查看首个不同的偏移量;然后用 "
        "`databus mirror copy-anew TOPIC` 将目标端内容写入文件并重新复制,"
        "或保留并加入 mirror.black_list")  # fmt: skip
    CORRUPT_SOURCE = "corrupt_source", False, StateText(
        "the source sends bytes that are no batches", "源端返回的数据不是合法批次",
        "check the disks of the source's leader; the mirror tries again by itself",
        "请检查源端主副本的磁盘;镜像会自动重试")  # fmt: skip
    NOT_A_MIRROR = "not_a_mirror", False, StateText(
        "the target has a topic of this name that is not a mirror of the source",
        "目标端已有同名主题,但不是该源端的镜像",
        "delete or rename the topic at the target, or put it on mirror.black_list",
        "请删除或改名目标端主题,或将其加入 mirror.black_list")  # fmt: skip
    OTHER_SOURCE = "other_source", False, StateText(
        "the topic at the target is a mirror of another cluster", "目标端主题是另一集群的镜像",
        "two sources may not fill one topic; put it on mirror.black_list here or there",
        "两个源端不得写入同一主题;请在其中一侧加入 mirror.black_list")  # fmt: skip
    LOOP = "loop", False, StateText(
        "the topic at the source is itself a mirror of the target", "源端主题本身就是目标端的镜像",
        "nothing to do: it is not copied back",
        "无需处理:不会复制回去")  # fmt: skip
    DELETED_AT_SOURCE = "deleted_at_source", False, StateText(
        "the topic was deleted at the source; the target keeps it", "主题已在源端删除;目标端保留",
        "free and delete it at the target once nobody needs it",
        "不再需要时请在目标端解除并删除")  # fmt: skip
    RECREATED_AT_SOURCE = "recreated_at_source", False, StateText(
        "the topic was deleted and created again at the source under the same name",
        "主题在源端被删除后以同名重建",
        "the target keeps the old records. `databus mirror copy-anew TOPIC` puts them into files "
        "and begins to copy the new topic (at an ordinary target, delete the topic there)",
        "目标端保留旧记录。`databus mirror copy-anew TOPIC` 将旧记录写入文件,并开始复制新主题"
        "(普通目标端:请删除该处主题)")  # fmt: skip
    MORE_PARTITIONS = "more_partitions", True, StateText(
        "the target has more partitions than the source; those of the source are copied",
        "目标端分区数多于源端;仅复制源端已有的分区",
        "add partitions at the source, or free and delete the topic at the target to copy it again",
        "请在源端增加分区,或解除并删除目标端主题以重新复制")  # fmt: skip
    FEWER_PARTITIONS = "fewer_partitions", True, StateText(
        "the target has fewer partitions than the source and refuses more",
        "目标端分区数少于源端且拒绝增加",
        "see the detail, and add the partitions at the target; the others are copied meanwhile",
        "请看详情并在目标端增加分区;其余分区照常复制")  # fmt: skip
    DIFFERS = "differs", True, StateText(
        "a replica at the target does not hold what the source has, or cannot be read",
        "目标端某个副本与源端内容不同,或无法读取",
        "if only one broker is named for these offsets, its disk is at fault: let another broker "
        "lead the partition, stop the one that is named, move the partition's folder away, take "
        "its line out of recovery-point-offset-checkpoint beside it and start the broker again, so "
        "that it copies the partition from its leader; the next comparison says that it is well. "
        "If all brokers are named, free and delete the topic at the target to copy it again, or "
        "check the disks of the source",
        "若这些偏移量只涉及一个 broker,则是该 broker 的磁盘故障:请先让其他 broker 成为该分区主副本,"
        "停止该 broker,移走该分区目录,并从同级的 recovery-point-offset-checkpoint 中删去该分区一行,"
        "再启动,它会从主副本重新复制,下一次校验后恢复正常。"
        "若涉及全部 broker,请解除并删除目标端主题以重新复制,或检查源端磁盘")  # fmt: skip
    CREATION_REFUSED = "creation_refused", False, StateText(
        "the target refuses to create the topic", "目标端拒绝创建主题",
        "see the detail; the mirror tries again by itself",
        "请看详情;镜像会自动重试")  # fmt: skip


def state_named(word: str) -> MirrorState:
    """By its word; STARTING for one that this version does not know."""
    return next((state for state in MirrorState if state.value == word), MirrorState.STARTING)
