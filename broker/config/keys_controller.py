"""The controller: roles, quorum, heartbeats, metadata log.

One row per key: type, Kafka 4.4's default, what it does here.
"""

from __future__ import annotations

from broker.config.checks import at_least, between, each_one_of, not_empty, one_of
from broker.config.key import (
    BOOLEAN,
    CLASS,
    INT,
    LIST,
    LONG,
    STRING,
    ConfigKey,
    key,
)

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ZOOKEEPER_AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"
SUPER_USERS, ALLOW_WITHOUT_ACLS = "super.users", "allow.everyone.if.no.acl.found"
AUTHORIZER_KEYS = {
    one.name: one
    for one in (
        key(SUPER_USERS, STRING, "", "Principals that may do everything: User:a;User:b."),
        key(ALLOW_WITHOUT_ACLS, BOOLEAN, False,
            "Whether everybody may do what no ACL is about."),
    )
}  # fmt: skip
"""Keys of these authorizers; they are in no table of Kafka's."""

# fmt: off
KEYS: tuple[ConfigKey, ...] = (
    key("process.roles", LIST, ("broker", "controller",),
        "What this process is: broker, controller or both.",
        check=not_empty(each_one_of("broker", "controller"))),
    key("node.id", INT, 1,
        "The number of this process in the cluster.",
        check=at_least(0)),
    key("broker.id", INT, -1,
        "The older name of node.id."),
    key("site.number", INT, 0,
        "A key of our own: the number of this site, which stands in bits 48 to 55 of every "
        "producer id that this cluster gives out; a mirror refuses two sites of the same number.",
        check=between(0, 255)),
    key("controller.listener.names", LIST, ("CONTROLLER",),
        "Which listeners belong to the controller."),
    key("controller.quorum.voters", LIST, (),
        "The voters as id@host:port, for a quorum that does not change."),
    key("controller.quorum.bootstrap.servers", LIST, (),
        "Where to ask for the quorum, if it may change."),
    key("controller.quorum.auto.join.enable", BOOLEAN, False,
        "Whether a new controller adds itself to the voters."),
    key("controller.quorum.append.linger.ms", INT, 25,
        "How long a leader gathers records before writing them.",
        check=at_least(0)),
    key("controller.quorum.election.timeout.ms", INT, 1000,
        "How long without a leader before an election.",
        check=at_least(0)),
    key("controller.quorum.election.backoff.max.ms", INT, 1000,
        "The longest wait before another election.",
        check=at_least(0)),
    key("controller.quorum.fetch.timeout.ms", INT, 2000,
        "How long a voter goes on without a successful fetch.",
        check=at_least(0)),
    key("controller.quorum.fetch.max.bytes", INT, 1_048_576,
        "How much one fetch of the metadata log brings.",
        check=at_least(1)),
    key("controller.quorum.fetch.snapshot.max.bytes", INT, 1_048_576,
        "How much one fetch of a snapshot brings.",
        check=at_least(1)),
    key("controller.quorum.request.timeout.ms", INT, 2000,
        "How long a request of the quorum may take.",
        check=at_least(0)),
    key("controller.quorum.retry.backoff.ms", INT, 20,
        "How long to wait before such a request is sent again.",
        check=at_least(0)),
    key("controller.quota.window.num", INT, 11,
        "How many samples the controller's quota is measured over.",
        check=at_least(1)),
    key("controller.quota.window.size.seconds", INT, 1,
        "How long one such sample is.",
        check=at_least(1)),
    key("controller.socket.timeout.ms", INT, 30_000,
        "How long a request to the controller may take."),
    key("broker.heartbeat.interval.ms", INT, 2000,
        "How often a broker reports to the controller."),
    key("broker.session.timeout.ms", INT, 9000,
        "A broker that was silent for so long is fenced."),
    key("initial.broker.registration.timeout.ms", INT, 60_000,
        "How long a starting broker tries to register."),
    key("metadata.log.dir", STRING, None,
        "Where the metadata log lies, if not in the first log directory."),
    key("metadata.log.segment.bytes", INT, 1_073_741_824,
        "Segment size of the metadata log.",
        check=at_least(8388608)),
    key("metadata.log.segment.ms", LONG, 604_800_000,
        "Longest span of a segment of the metadata log."),
    key("metadata.log.max.record.bytes.between.snapshots", LONG, 20_971_520,
        "How much is appended to the metadata log between two snapshots at most.",
        check=at_least(1)),
    key("metadata.log.max.snapshot.interval.ms", LONG, 3_600_000,
        "How much time passes between two snapshots at most.",
        check=at_least(0)),
    key("metadata.max.idle.interval.ms", INT, 500,
        "A no-op record is written when nothing else came for so long; 0 is never.",
        check=at_least(0)),
    key("metadata.max.retention.bytes", LONG, 104_857_600,
        "How large metadata log and snapshots together become."),
    key("metadata.max.retention.ms", LONG, 604_800_000,
        "How old metadata log and snapshots become."),
    key("authorizer.class.name", STRING, "",
        "The authorizer: Kafka's StandardAuthorizer (KRaft) or AclAuthorizer (ZooKeeper); empty "
        "allows everybody everything.",
        check=one_of("", STANDARD_AUTHORIZER, ZOOKEEPER_AUTHORIZER)),
    key("create.topic.policy.class.name", CLASS, None,
        "Accepted for compatibility; Java classes have no effect here."),
    key("alter.config.policy.class.name", CLASS, None,
        "Accepted for compatibility; Java classes have no effect here."),
    key("client.quota.callback.class", CLASS, None,
        "Accepted for compatibility; Java classes have no effect here."),
)
# fmt: on
