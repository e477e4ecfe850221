"""The files that close a Spark cluster of this machine."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from broker.config.properties import read_properties
from deploy.cluster.layout import ControllerKind
from deploy.cluster.layout import plan as cluster_plan
from deploy.demo.one_site import planned
from deploy.distributed.layout import CORES, plan
from deploy.distributed.spark_key_files import (
    PAGE_KEY,
    SECRET_VARIABLE,
    SparkKeyFiles,
    credentials_of,
    java_script,
)
from deploy.settings.composed import Settings, load, load_arguments
from deploy.supervisor.child import Child

SECRETS = st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_", min_size=1, max_size=127)


def secrets_of(files: SparkKeyFiles) -> list[str]:
    keys = read_properties(files.properties.read_text("ascii"))
    return [keys["spark.authenticate.secret"], keys[PAGE_KEY]]


def test_only_their_owner_reads_them_and_each_start_has_its_own(tmp_path: Path) -> None:
    files = SparkKeyFiles(tmp_path / "spark")
    files.make()
    before = secrets_of(files)
    files.make()
    assert not set(before) & set(secrets_of(files))
    assert [path.stat().st_mode & 0o777 for path in (files.properties, files.credentials)] == [0o600, 0o600]
    assert secrets_of(files)[0].encode() in files.credentials.read_bytes()
    keys = read_properties(files.properties.read_text("ascii"))
    assert keys["spark.master.rest.enabled"] == "false", "port 6066 asks for no secret"
    assert len(base64.urlsafe_b64decode(secrets_of(files)[1] + "=")) >= 32, "Spark's filter takes no shorter key"


@given(SECRETS)
def test_the_credentials_are_one_secret_in_hadoops_form(secret: str) -> None:
    """Magic, version, format; no tokens, one secret: name and value, each behind its length."""
    data = credentials_of(secret)
    assert data[:7] == b"HDTS\x00\x00\x01"
    name_end = 8 + data[7]
    assert data[8:name_end] == b"sparkCookie"
    assert data[name_end] == len(data) - name_end - 1
    assert data[name_end + 1 :].decode() == secret


def test_java_is_started_without_the_secret_and_with_every_word(tmp_path: Path) -> None:
    folder = tmp_path / "it's a folder"
    folder.mkdir()
    java, script = folder / "java", tmp_path / "script"
    java.write_text(f'#!/bin/sh\necho "${{{SECRET_VARIABLE}-unset}} $OTHER $#"\n')
    script.write_text(java_script(java))
    java.chmod(0o700)
    script.chmod(0o700)
    environment = {SECRET_VARIABLE: "secret", "OTHER": "stays"}
    done = subprocess.run(
        [script, "one two", "$three"], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "unset stays 2\n"


def product(settings: Settings) -> dict[str, Child]:
    kraft = ControllerKind.KRAFT
    brokers = cluster_plan(settings.site.data_path, brokers=3, controller=kraft, first_port=19092)
    _, processes = planned(settings, brokers, plan(settings.site.data_path, workers=2))
    return {child.name: child for child in processes}


def test_a_secured_site_has_a_closed_cluster_whose_drivers_wait_for_its_brokers(tmp_path: Path) -> None:
    """What broke: drivers that were there before their user was gave up."""
    settings = load(None, [f"site.data_dir={tmp_path}", f"security.folder={tmp_path / 'secure'}"])
    children = product(settings)
    files = SparkKeyFiles(tmp_path / "spark")
    for name in ("spark-master", "spark-worker-1", "spark-worker-2"):
        assert str(files.properties) in children[name].command
    assert children["spark-worker-2"].environment["JAVA_HOME"] == str(files.java_home)
    brokers = {name for name in children if name.startswith("broker-")}
    assert len(brokers) == 3
    for name in CORES:
        driver = children[f"streams-{name}"]
        assert brokers <= set(driver.needs)
        assert load_arguments(driver.command).streams.properties_file == str(files.properties)
    said = [text for child in children.values() for text in (*child.command, *child.environment.values())]
    assert not [text for text in said for secret in secrets_of(files) if secret in text]


def test_an_open_site_has_an_open_one(tmp_path: Path) -> None:
    children = product(load(None, [f"site.data_dir={tmp_path}"]))
    assert not [child for child in children.values() if "--properties-file" in child.command]
    assert not SparkKeyFiles(tmp_path / "spark").properties.exists()
    assert children["streams-ingest"].needs == ("spark-worker-1", "spark-worker-2")
