"""Whether two clusters may be mirrored at all. Pure.

In: cluster ids and site numbers. Out: nothing, or `SitesError` with the remedy in both languages.
"""

from __future__ import annotations

from dr_mirror.topics.states import Language


class SitesError(ValueError):
    """The pair is refused; `text` says in one language what to change."""

    def __init__(self, text_en: str, text_zh: str) -> None:
        super().__init__(text_en)
        self._texts = {"en": text_en, "zh": text_zh}

    def text(self, language: Language) -> str:
        """In one language."""
        return self._texts[language]


def check_clusters(source_cluster_id: str, target_cluster_id: str) -> None:
    """Raises SitesError where both are one."""
    if source_cluster_id == target_cluster_id:
        raise SitesError(
            f"source and target are one cluster ({source_cluster_id}): set "
            "mirror.source_bootstrap_servers and mirror.target_bootstrap_servers to two clusters; "
            "a copied data directory keeps its cluster id, so format the second site's anew",
            f"源端与目标端是同一集群({source_cluster_id}):请将 mirror.source_bootstrap_servers 与 "
            "mirror.target_bootstrap_servers 设为两个集群;"
            "复制的数据目录会保留集群 ID,请重新格式化第二站点",
        )


def check_sites(
    source_cluster_id: str,
    target_cluster_id: str,
    source_site: int | None,
    target_site: int | None,
) -> None:
    """Raises SitesError. A site number that a cluster does not show is None: Apache Kafka gives out
    producer ids as site 0 does."""
    check_clusters(source_cluster_id, target_cluster_id)
    if (source_site or 0) == (target_site or 0):
        number = source_site or 0
        raise SitesError(
            f"both sites have site.number={number}: a mirrored batch could meet a local producer "
            "of the same id; set another site.number (1-255) at the target's brokers and restart "
            "them; Apache Kafka counts as 0",
            f"两个站点的 site.number 均为 {number}:镜像批次可能与本地生产者 ID 冲突;"
            "请在目标端 broker 设置不同的 site.number(1-255)并重启;Apache Kafka 视为 0",
        )
