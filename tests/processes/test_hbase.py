"""The product with its records in a real HBase: the account balances even if HBase's servers
die."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from running_product import Demo, RunningProduct

from deploy.servers.hbase import Hbase
from ingest.store.open import open_store
from ingest.store.port import StoreError

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]
RATE = 200


def stored(url: str) -> int:
    """The number of records in the store; 0 while it does not answer."""
    try:
        with closing(open_store(url)) as reader:
            return sum(reader.counts().stored.values())
    except StoreError:
        return 0


@pytest.mark.rotates("hbase of a product")
def test_the_account_balances_in_hbase_after_the_death_of_its_servers(
    hbase: Hbase, tmp_path: Path
) -> None:
    """The Thrift server, HBase and the Spark driver are killed with -9 while records flow, then
    Ctrl-C ends the demo. `Demo.ctrl_c` checks the balance."""
    url, place = f"hbase://{hbase.address}/city", RunningProduct(tmp_path / "data")
    with Demo(place, "--rate", str(RATE), "--set", f"store.url={url}") as demo:

        def flows(what: str) -> None:
            before = stored(url)
            demo.wait_until(lambda: stored(url) >= before + RATE, what)

        demo.wait_until(lambda: place.role("city").get("state") == "running", "all run")
        flows("the first records are stored")
        hbase.kill_thrift()
        hbase.start_thrift()
        flows("records are stored after the death of the Thrift server")
        demo.kill(["streams"])
        flows("records are stored after the death of the Spark driver")
        hbase.kill_master()
        hbase.start_master()
        flows("records are stored after the death of HBase")
        account = demo.ctrl_c()
    assert account["alarms_raised"] > 0
    assert not (place.folder / "store" / "records.db").exists()
