"""HBase's own shell: what an operator types, and what it answers.

In: a folder with HBase's settings, statements. Out: what the shell prints. Never: used by the
product itself.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from deploy.errors import Unavailable
from deploy.servers.hbase import OPTIONS
from deploy.servers.process import class_path
from deploy.setup.java import ensure_java
from deploy.setup.server_jars import hbase_jars, hbase_shell_jars

TIMEOUT_S = 180.0  # JRuby takes six seconds to begin on an idle machine

# HBase 2.6 has lost what the shell's command `trace` asks for. `hbase shell` itself reads
# statements in the same way; one that fails ends it.
_STATEMENTS = """
include Java
require 'hbase_constants'
$LOADED_FEATURES << 'uri:classloader:/shell/commands/trace.rb'
module Shell; module Commands; class Trace; end; end; end
require 'hbase_shell'
configuration = org.apache.hadoop.hbase.HBaseConfiguration.create
workspace = Shell::Shell.new(Hbase::Hbase.new(configuration), false).get_workspace
STDIN.each_line { |statement| workspace.evaluate(nil, statement) }
"""


def shell_command(conf: Path) -> list[str]:
    """What starts it; it reads statements from its standard input, one a line."""
    java = [str(ensure_java()), "-Xmx384m", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8"]
    jars = class_path([conf, *hbase_jars(), *hbase_shell_jars()])
    return [*java, *OPTIONS, "-cp", jars, "org.jruby.Main", "-e", _STATEMENTS]


def run_shell(conf: Path, statements: Sequence[str]) -> str:
    """Type statements, one a line; `conf` holds `hbase-site.xml`. Raises `Unavailable` with what
    the shell said where one fails."""
    ended = subprocess.run(
        shell_command(conf),
        input="\n".join(statements), text=True, capture_output=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    if ended.returncode:
        raise Unavailable(f"HBase's shell: {ended.stdout[-800:]}{ended.stderr[-800:]}")
    return ended.stdout
