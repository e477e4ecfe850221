"""What takes long says so again and again, with a terminal and without."""

from __future__ import annotations

import subprocess
import threading

from deploy.paths import PROJECT_ROOT
from deploy.setup.still_at_it import still_at_it


def test_a_line_comes_at_the_beginning_and_again_until_the_end() -> None:
    told: list[str] = []
    three = threading.Event()

    def tell(line: str) -> None:
        told.append(line)
        if len(told) == 3:
            three.set()

    with still_at_it("installing x", every_s=0.001, print_line=tell):
        assert three.wait(30)
    ended = len(told)
    assert told[0] == "installing x"
    assert all(line.startswith("installing x … ") for line in told[1:])
    assert len(told) == ended


def test_the_script_tells_every_five_seconds_of_a_step_without_a_terminal() -> None:
    """Four minutes of the first command were silent. Its seconds are short here."""
    script = (PROJECT_ROOT / "databus").read_text("utf-8")
    step = script[script.index("step() {") : script.index("make_environment() {")]
    shell = f"""
        venv=$(mktemp -u)
        say() {{ printf 'databus: %s\\n' "$*" >&2; }}
        sleep() {{ command sleep 0.01; }}
        {step}
        step 'set-up 3/4: installing 86 packages (this happens once)' sh -c 'sleep 2; echo done; exit 3'
    """
    done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=False)
    lines = done.stderr.splitlines()
    assert done.returncode == 3
    assert lines[0] == "databus: set-up 3/4: installing 86 packages (this happens once)"
    assert lines[1] == "databus: set-up 3/4: installing 86 packages … 5 s"
    assert lines[2] == "databus: set-up 3/4: installing 86 packages … 10 s"
    assert lines[-1] == "done"
