"""The settings of the mirror, table `[mirror]`.

In: values that `deploy.settings.composed` has read. Out: a frozen object. Never: reading files.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from bus.settings import BusSettings, NotNegative, PageOfMetrics, Positive, Secret
from dr_mirror.policy.picture_policy import PicturePolicy
from dr_mirror.policy.proof_pace import ProofPace
from dr_mirror.policy.selection import BLACK_LIST, WHITE_LIST, SelectionError, TopicSelection
from dr_mirror.policy.topic_names import SAME_NAMES, TopicNames

Streams = Annotated[int, msgspec.Meta(ge=1, le=16)]
"""Connections to each broker of the source over which records are fetched at once."""
ClusterAlias = Annotated[str, msgspec.Meta(pattern=r"^[a-zA-Z0-9_-]{1,50}$")]
"""What MirrorMaker 2 calls a cluster in the names of its topics."""
RefreshSeconds = Annotated[float, msgspec.Meta(ge=0.1, le=3600)]
"""How often topics and configurations of both sides are compared."""
EdgeUrl = Annotated[str, msgspec.Meta(pattern=r"^https?://[^/?#\s]+$")]
"""Without a path."""
PicturesUrl = Annotated[str, msgspec.Meta(pattern=r"^(https?://[^/?#\s]+)?$")]
"""The same, or empty."""
ProofSeconds = Annotated[float, msgspec.Meta(ge=0.1, le=30 * 86_400)]


class MirrorSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """From which cluster to which, what, and how much at once."""

    source_bootstrap_servers: str = ""  # brokers of site A, ours or Apache Kafka's
    # how they are reached, in librdkafka's keys: TLS, the login; as in [bus.librdkafka]
    source_librdkafka: dict[str, Secret] = {}
    # brokers of site B: their listener that mirror.listener.name names, or with target_api
    # "produce" any listener of any Kafka
    target_bootstrap_servers: str = ""
    target_librdkafka: dict[str, Secret] = {}
    # how records get to site B: the same bytes at the same offsets, or as any producer sends
    target_api: Literal["mirror_append", "produce"] = "mirror_append"
    # with "produce": each record once where site B has transactions; false: sooner, at least once
    target_transactions: bool = True
    # what operators call the sites, and in names of topics that "produce" makes at B
    source_cluster_alias: ClusterAlias = "A"
    target_cluster_alias: ClusterAlias = "B"
    # topics are called ALIAS.NAME at the other site: for two sites that copy to each other
    topic_prefixes: bool = False
    white_list: tuple[str, ...] = WHITE_LIST  # RE2, each for whole names
    black_list: tuple[str, ...] = BLACK_LIST  # wins over the white list
    group_white_list: tuple[str, ...] = (".*",)  # groups whose offsets are copied
    group_black_list: tuple[str, ...] = ()
    copies_acls: bool = True  # of copied topics and groups, where both sites have an authorizer
    streams: Streams = 2
    buffer_bytes: Positive = 48 * 1024 * 1024  # fetched and not acknowledged, in all
    fetch_bytes: Positive = 4 * 1024 * 1024  # one response of the source
    partition_fetch_bytes: Positive = 1024 * 1024  # of one partition in it
    append_bytes: Positive = 4 * 1024 * 1024  # one request to the target
    link_bytes_per_s: NotNegative = 0  # 0: as fast as both sides go
    socket_send_buffer_bytes: NotNegative = 0  # 0: what the kernel chooses
    socket_receive_buffer_bytes: NotNegative = 0
    topic_refresh_s: RefreshSeconds = 5.0
    replication_factor: int = -1  # of topics made at the target; -1: what its brokers say
    proof_recent_s: ProofSeconds = 3600.0  # records younger than this are compared again
    proof_interval_s: ProofSeconds = 30.0  # every so often
    proof_scrub_s: ProofSeconds = 86_400.0  # each older block of every replica once in this time
    proof_bytes_per_s: NotNegative = 0  # of disks read to compare; 0: what these times need
    carries_state: bool = True  # rules, register, orders, alarms, incidents
    # edges that have both sites, http://host:8650: what they keep is shown, and what they have sent
    # again after a forced switch is taken off what is missing
    edge_urls: tuple[EdgeUrl, ...] = ()
    # one of their reader_tokens, or their token of pages; empty: [security] page_token
    edge_token: Secret = ""
    # which pictures of records come to the other site: none, hits (of alarms only), all
    pictures: PicturePolicy = PicturePolicy.NONE
    source_pictures_url: PicturesUrl = ""  # an edge of site A that serves its pictures
    target_pictures_url: PicturesUrl = ""  # an edge of site B that takes them
    pictures_token: Secret = ""  # one of the [edge] mirror_tokens of both
    # several mirrors with these settings: one copies, the others wait until it is gone
    standby: bool = False
    metrics_host: str = "127.0.0.1"
    metrics_port: PageOfMetrics = 8660

    def __post_init__(self) -> None:
        """Refuse patterns that cannot be used, and one name for both sites."""
        if self.source_cluster_alias == self.target_cluster_alias:
            raise ValueError(f"both sites have the alias {self.source_cluster_alias!r}")
        for name in ("white_list", "black_list", "group_white_list", "group_black_list"):
            try:
                TopicSelection(getattr(self, name))
            except SelectionError as error:
                raise ValueError(f"{name}: {error}") from None
        are_edges_set = self.source_pictures_url and self.target_pictures_url
        if self.pictures is not PicturePolicy.NONE and not are_edges_set:
            raise ValueError(
                f'pictures = "{self.pictures}" needs source_pictures_url and target_pictures_url'
            )
        if self.pictures is not PicturePolicy.NONE and self.topic_prefixes:
            raise ValueError("pictures are not copied with topic_prefixes = true; leave them out")
        if self.pictures is PicturePolicy.HITS and not self.is_state_replicated:
            raise ValueError(
                'pictures = "hits" needs alarms to be carried: carries_state = true and target_api'
                ' = "mirror_append"; or write pictures = "all"'
            )

    @property
    def is_state_replicated(self) -> bool:
        """Whether rules, register, orders, alarms and incidents are carried: an ordinary target's
        topics are no mirrors, with prefixes both sites are primary, and both would notify."""
        return (
            self.carries_state and self.target_api == "mirror_append" and not self.topic_prefixes
        )

    @property
    def names(self) -> TopicNames:
        """What topics are called at the target."""
        if not self.topic_prefixes:
            return SAME_NAMES
        return TopicNames(self.source_cluster_alias, self.target_cluster_alias)

    @property
    def unset_servers(self) -> str:
        """What to say where the brokers of a site are not named; empty: both are."""
        for name in ("source_bootstrap_servers", "target_bootstrap_servers"):
            if not getattr(self, name):
                return f"mirror.{name} is empty; name the brokers as host:port,host:port"
        return ""

    @property
    def bus_by_alias(self) -> dict[str, BusSettings]:
        """Both sites, as operators call them; site A first."""
        return {
            self.source_cluster_alias: self.source_bus, self.target_cluster_alias: self.target_bus,
        }  # fmt: skip

    @property
    def source_bus(self) -> BusSettings:
        """Where site A's brokers are and how they are reached."""
        return BusSettings(
            bootstrap_servers=self.source_bootstrap_servers, librdkafka=self.source_librdkafka
        )

    @property
    def target_bus(self) -> BusSettings:
        """The same of site B."""
        return BusSettings(
            bootstrap_servers=self.target_bootstrap_servers, librdkafka=self.target_librdkafka
        )

    @property
    def proof_pace(self) -> ProofPace:
        """How often what is compared."""
        times = (self.proof_recent_s, self.proof_interval_s, self.proof_scrub_s)
        return ProofPace(*(round(1000 * each) for each in times))

    @property
    def selection(self) -> TopicSelection:
        """The lists, compiled."""
        return TopicSelection(self.white_list, self.black_list)
