"""Java's administration as Spark's connector uses it, while the leader it knows is dead."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bus.client.kafka.admin import Admin
from bus.settings import BusSettings
from deploy.servers.databus_cluster import RunningCluster, start_cluster
from deploy.servers.process import class_path
from deploy.setup.class_archive import spark_jars
from deploy.setup.jars import spark_connector_jars
from deploy.setup.java import ensure_java

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

PROGRAM = """
import java.io.*;
import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.common.TopicPartition;

public class Ends {
    public static void main(String[] arguments) throws Exception {
        var settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        var in = new BufferedReader(new InputStreamReader(System.in));
        try (var admin = Admin.create(settings)) {
            while (in.readLine() != null) {
                var asked = Map.of(new TopicPartition("topic", 0), OffsetSpec.latest());
                System.out.println(admin.listOffsets(asked).all().get().size());
            }
        }
    }
}
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RunningCluster]:
    with start_cluster(tmp_path, 3) as running:
        yield running


def test_ends_are_told_by_the_next_leader_while_the_last_one_stays_dead(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    """Regression: kafka-clients 3.9.2 asked the dead leader until it was back, or for a minute."""
    bus = BusSettings(bootstrap_servers=cluster.bootstrap)
    (source := tmp_path / "Ends.java").write_text(PROGRAM)
    command = [str(ensure_java()), "-cp", class_path([*spark_connector_jars(), *spark_jars()])]
    with (
        closing(Admin(bus, client_id="test")) as admin,
        subprocess.Popen(
            [*command, str(source), cluster.bootstrap],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        ) as asking,
    ):  # fmt: skip
        assert asking.stdin is not None
        assert asking.stdout is not None
        admin.create_topic("topic", 1, replication_factor=3)
        for _ in range(3):
            asking.stdin.write("ask\n")
            assert asking.stdout.readline() == "1\n"
            leader = admin.describe_topic("topic").partitions[0].leader
            cluster.kill(leader)
            asking.stdin.write("ask\n")
            assert asking.stdout.readline() == "1\n"
            cluster.restart(leader)
        asking.stdin.close()
