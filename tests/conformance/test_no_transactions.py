"""Transactions are not served yet: foreign clients get an immediate error."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer

from deploy.servers.databus import RunningBroker
from deploy.servers.process import class_path
from deploy.setup.java import ensure_java
from deploy.setup.server_jars import kafka_jars

PATIENCE_S = 60
"""How long a client waits that treats the answer as temporary."""

PROGRAM = """
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Begin {
    public static void main(String[] arguments) {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", arguments[0], "transactional.id", "tx", "max.block.ms", "60000");
        var bytes = new ByteArraySerializer();
        try (var producer = new KafkaProducer<>(settings, bytes, bytes)) {
            producer.initTransactions();
        } catch (RuntimeException error) {
            System.out.println(error);
        }
    }
}
"""


def test_init_transactions_of_librdkafka_ends_at_once_with_a_fatal_error(
    own_broker: RunningBroker,
) -> None:
    """It treats any other answer as temporary and retries until its own timeout, whose error is not
    fatal."""
    producer = Producer({"bootstrap.servers": own_broker.bootstrap, "transactional.id": "tx"})
    with pytest.raises(KafkaException) as caught:
        producer.init_transactions(PATIENCE_S)
    error = caught.value.args[0]
    assert error.fatal()
    assert "transactions are not served here" in error.str()


@pytest.mark.java
@pytest.mark.slow
def test_init_transactions_of_java_ends_at_once(own_broker: RunningBroker, tmp_path: Path) -> None:
    """Java's client retries for 60 s if it considers the error temporary."""
    source = tmp_path / "Begin.java"
    source.write_text(PROGRAM)
    done = subprocess.run(
        [
            str(ensure_java()),
            "-cp",
            class_path(kafka_jars()),
            str(source),
            own_broker.bootstrap,
        ],
        capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    if "jdk.compiler" in done.stderr:
        pytest.skip("this Java cannot compile; install a JDK")
    assert "TransactionalIdAuthorizationException" in done.stdout, done.stderr
