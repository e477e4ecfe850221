"""One part of a batch as a task of Spark writes it, in this process, into a real HBase."""

from __future__ import annotations

import os
import uuid
from typing import Any

import pyarrow as pa
import pytest

from bus.contracts.register import Register
from bus.settings import BusSettings, SiteSettings
from deploy.servers.hbase import Hbase
from deploy.servers.tcp_proxy import TcpProxy
from ingest.store.hbase.writer import HbaseStore
from ingest.store.open import hbase_connection, open_store
from spark_apps.apps.ingest import store_batch
from spark_apps.tasks.executor_writer import Job, rows_written
from spark_apps.tasks.judge import judge_batches
from tests.ingest.store.made import position
from tests.spark_apps.repeated_tasks import message
from tests.spark_apps.test_judge import batch
from tests.spark_apps.test_judge import row as record

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(200)]
RECORDS = 20


def judged(rows: list[tuple[Any, ...]]) -> pa.Table:
    """Messages as they come from the stage before."""
    made = [
        record(topic, offset, value, **{key: text.decode() for key, text in headers})
        for topic, _, offset, _, value, headers in rows
    ]
    return pa.Table.from_batches(judge_batches([batch(made)], Register(), "Asia/Shanghai"))


def test_a_thrift_server_that_never_answers_is_left_for_the_next_one(hbase: Hbase) -> None:
    """It takes requests and says nothing. What broke: one time-out was as long as all the time a
    task has, so that the second server was never asked. It answers late, when others have written:
    nothing changes."""
    host, _, port = hbase.address.partition(":")
    with TcpProxy(host, int(port)) as proxy:
        proxy.be_silent()
        servers = [proxy.address, hbase.address]
        if os.getpid() % 2:
            servers.reverse()  # this process begins with the silent one
        name = f"s{uuid.uuid4().hex}"
        store = HbaseStore(hbase_connection(f"hbase://{hbase.address}/{name}")[0])
        attempt = store.begin([position(RECORDS)])
        assert attempt is not None
        job = Job(f"hbase://{','.join(servers)}/{name}", BusSettings(), SiteSettings(), attempt)
        table = judged([message(offset, offset) for offset in range(1, RECORDS)])
        changes = rows_written(table, job, store_batch)
        assert changes
        proxy.speak()
        assert rows_written(table, job, store_batch) == changes, "the same again"
        store.commit(attempt, [position(RECORDS)])
        store.close()
        reader = open_store(f"hbase://{hbase.address}/{name}")
        assert reader.positions("ingest")[0].end_offset == RECORDS
        reader.close()
