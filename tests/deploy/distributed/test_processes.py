"""The processes of a Spark cluster and an HBase on one machine, as the supervisor gets them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from bus.domain.retention import RetentionSettings
from deploy.cluster.layout import ControllerKind
from deploy.cluster.layout import plan as cluster_plan
from deploy.demo.one_site import planned
from deploy.distributed.layout import CORES, EMBEDDED, DistributedPlan, SparkPlan, plan
from deploy.distributed.submit import command_of
from deploy.distributed.tables import NAME, missing, regions_for
from deploy.settings.composed import Settings, load
from deploy.supervisor.child import Child
from ingest.store.open import hbase_statements
from spark_apps.apps.registry import APPLICATIONS
from spark_apps.settings import APART, JobSettings, StreamsSettings

pytestmark = pytest.mark.java


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load(None, [f"site.data_dir={tmp_path}"])


def product(settings: Settings, distributed: DistributedPlan) -> dict[str, Child]:
    brokers = cluster_plan(
        settings.site.data_path, brokers=3, controller=ControllerKind.KRAFT, first_port=19092
    )
    _, processes = planned(settings, brokers, distributed)
    return {child.name: child for child in processes}


def test_every_application_has_a_driver_with_cores_on_a_cluster() -> None:
    assert CORES.keys() == APART.keys()
    assert [name for few in APART.values() for name in few] == list(APPLICATIONS)


def test_nobody_shares_a_port(settings: Settings) -> None:
    """Nor is any of them another at the next start."""
    wanted = plan(settings.site.data_path, workers=3, region_servers=3)
    assert wanted == plan(settings.site.data_path, workers=3, region_servers=3)
    children = product(settings, wanted).values()
    ports = [child.endpoint.port for child in children if child.endpoint is not None]
    assert len(ports) == len(set(ports))


def test_the_city_waits_for_every_driver(settings: Settings) -> None:
    """The drivers stand for the one driver of an embedded Spark, and nothing else changes."""
    children = product(settings, plan(settings.site.data_path, workers=2, region_servers=2))
    assert "streams" not in children
    drivers = {f"streams-{driver}" for driver in APART}
    assert drivers <= set(children)
    assert drivers <= set(children["city"].needs)
    assert {"spark-master", "hbase-region-2", "hbase-thrift-2", "edge", "watch"} <= set(children)


def test_the_writer_waits_for_tables_that_are_divided_beforehand(settings: Settings) -> None:
    """What broke: it made them itself, of one region each, and one server took all the load."""
    wanted = plan(settings.site.data_path, workers=2, region_servers=2)
    children = product(settings, wanted)
    assert NAME in children["streams-ingest"].needs
    assert NAME not in children["streams-watchlist"].needs, "alarms need no store"
    assert set(children[NAME].needs) == {"hbase-thrift-1", "hbase-thrift-2"}
    assert [regions_for(servers) for servers in (1, 2, 3, 8)] == [2, 4, 8, 16]


def test_only_tables_that_are_missing_are_made() -> None:
    statements = hbase_statements("hbase://h:1/city", RetentionSettings(), 4)
    assert missing(statements, ()) == statements
    left = missing(statements, {"city_vehicle", "city_ledger"})
    assert len(left) == len(statements) - 2
    assert not [one for one in left if "city_ledger" in one]


def test_all_roles_find_this_store_and_this_spark(settings: Settings) -> None:
    wanted = plan(settings.site.data_path, workers=2, region_servers=2)
    assert wanted.hbase is not None
    words = product(settings, wanted)["console"].command
    assert f"store.url={wanted.hbase.store_url('city')}" in words
    assert "streams.master=spark://127.0.0.1:7077" in words
    assert "streams.work_in=executors" in words


def test_without_a_plan_everything_stays_embedded(settings: Settings) -> None:
    _, processes = planned(settings, None, EMBEDDED)
    names = [child.name for child in processes]
    assert "streams" in names
    assert not [name for name in names if name.startswith(("spark-", "hbase-"))]


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
def test_one_worker_less_has_cores_for_all(workers: int) -> None:
    """With two or more workers the death of one leaves no application without an executor."""
    cluster = SparkPlan(Path("/nowhere"), 7077, workers)
    assert cluster.cores_per_worker * max(1, workers - 1) >= sum(CORES.values())


def test_an_application_is_submitted_with_what_travels() -> None:
    """The zip of our packages and the connector's jars go by Spark's own options."""
    streams = StreamsSettings(master="spark://there:7077", jars="/a.jar:/b.jar", py_files="/p.zip")
    words = command_of(JobSettings(streams=streams), Path("/job.json"), "ingest", 2)
    options = dict(pairwise(words))
    assert options["--master"] == "spark://there:7077"
    assert options["--jars"] == "/a.jar,/b.jar"
    assert options["--py-files"] == "/p.zip"
    assert options["--application"] == "ingest"
    assert "spark.cores.max=2" in words


def test_what_reads_meters_shares_a_driver() -> None:
    words = command_of(JobSettings(), Path("/job.json"), "meters", 1)
    assert words[-4:] == ["--application", "latency", "--application", "quality"]
    assert "spark.app.name=streams-meters" in words
