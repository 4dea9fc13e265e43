"""One side of a session as a process of its own, which can be told to die, to hang or to fall silent at a step.

``python side.py`` is started once and forks: a start of Python for each process would be the most of a test's time. It
reads commands as lines of JSON, ``{"start": [ARGUMENTS], "output": PATH}`` and ``{"wait": PID, "seconds": N}``, and
answers each with a number: the process, its exit code (negative: the signal), or null where it has not ended. A side
writes lines of JSON, the last of which tells how it ended: 0 when all was in order, 3 when not, 1 for a mistake.
"""

from __future__ import annotations

import argparse
import codecs
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from mats.cli.main import main as command_line
from mats.device import Device, DeviceError
from mats.devices._library import library
from mats.devices._sim_ipc import open_family
from mats.fabric import Copy
from mats.peer.channel import SOCKET
from mats.peer.client import borrow
from mats.peer.greeting import Deadlines
from mats.peer.meeting import Borrowed
from mats.peer.server import Server
from mats.registry import probes
from mats.target import Target

PLAN = "links_healthy"
SIZE = 2 << 20
DEADLINES = Deadlines(waiting=10.0, knocking=10.0, greeting=5.0, step=5.0, silence=5.0, quiet=20.0)


def tell(**what: object) -> None:
    print(json.dumps(what), flush=True)


def watch_for(step: str, what: str) -> Callable[[str], None]:
    """Do something to this process when the step comes."""
    doing = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "interrupt": signal.SIGINT}

    def watch(now: str) -> None:
        if now != step:
            return
        if what == "hang":
            time.sleep(60)
        os.kill(os.getpid(), doing[what])

    return watch


def serve(path: Path, gpu: str, watch: Callable[[str], None], deadlines: Deadlines) -> int:
    """Lend a card; SIGINT ends it in order."""
    stopped: list[str] = []
    signal.signal(signal.SIGINT, lambda _number, _frame: stopped.append("interrupted (Ctrl-C)"))
    server = Server(path, open_family(Target("sim", PLAN), refuse).open_member(gpu), deadlines, watch)
    try:
        served = server.serve(lambda: stopped[0] if stopped else "", lambda text: tell(progress=text))
    finally:
        server.close()
    tell(lent=served.lent, calls=served.calls, borrower=served.borrower, broken=served.broken, mapped=lent_memory())
    return 3 if served.broken else 0


def work(path: Path, gpu: str, wanted: str, watch: Callable[[str], None], deadlines: Deadlines) -> int:
    """A session with each kind of call, its data checked; card ``gpu`` works with the server's ``wanted``."""
    family = open_family(Target("sim", PLAN), refuse)
    member = family.open_member(gpu)
    remote = borrow(path, member, family.find(wanted), deadlines, watch)
    fabric = Borrowed(family.join((member.device, remote)), remote)
    try:
        own, other = fabric.members()
        there, here = other.allocate(SIZE), own.allocate(SIZE)
        other.copy(there, b"\x5a" * SIZE)
        took = fabric.exchange([Copy(1, there, 0, here)], 2, 1.0)
        arrived = own.fetch(here, 0, SIZE) == b"\x5a" * SIZE
        own.copy(here, bytes(range(256)) * (SIZE // 256))
        other.launch("copy_sweep", 1, destination=there, source=here)
        answered = other.fetch(there, 0, 256) == bytes(range(256))
        other.free(there)
    finally:
        fabric.close()
    tell(took=took, arrived=arrived, answered=answered, mapped=lent_memory())
    return 0 if arrived and answered else 3


def lent_memory() -> int:
    """How much of this process' memory and open files is lent memory."""
    text = Path("/proc/self/maps").read_text(encoding="ascii", errors="replace")
    links = [link for link in Path("/proc/self/fd").iterdir() if "lent memory" in _aim(link)]
    return text.count("lent memory") + len(links)


def _aim(link: Path) -> str:
    try:
        return os.readlink(link)
    except OSError:  # the folder's own
        return ""


def refuse(target: Target) -> Device:
    raise AssertionError(f"{target.name} was to be opened")


def main(arguments: list[str]) -> int:
    """``mats ARGUMENTS``: the command. Else one side: ``server|client FOLDER [--at STEP --do WHAT] [--gpu N] ...``."""
    if arguments[0] == "mats":
        return command_line(arguments[1:])
    parser = argparse.ArgumentParser()
    parser.add_argument("side", choices=("server", "client"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--at", default="")
    parser.add_argument("--do", default="kill")
    parser.add_argument("--gpu", default="")
    parser.add_argument("--wanted", default="0")
    parser.add_argument("--user", type=int, default=0)
    parser.add_argument("--step", type=float, default=DEADLINES.step)
    given = parser.parse_args(arguments)
    if given.user:
        os.setgroups([])
        os.setgid(given.user)
        os.setuid(given.user)
    watch = watch_for(given.at, given.do)
    path, deadlines = given.folder / SOCKET, replace(DEADLINES, step=given.step)
    try:
        if given.side == "server":
            return serve(path, given.gpu or "0", watch, deadlines)
        return work(path, given.gpu or "1", given.wanted, watch, deadlines)
    except DeviceError as error:
        tell(error=str(error), kind=type(error).__name__, mapped=lent_memory())
        return 3


def start(arguments: list[str], output: str) -> int:
    """Fork a process that is one side, writing to a file; gives its number."""
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        os.setsid()
        file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for number in (1, 2):
            os.dup2(file, number)
        code = main(arguments)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def wait(process: int, seconds: float) -> int | None:
    """Its exit code, or None where it has not ended in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    return None


if __name__ == "__main__":
    probes()  # once for all that are forked
    library()  # before a fork becomes a user who may not read it
    codecs.lookup("ascii")
    for line in sys.stdin:
        command = json.loads(line)
        if "start" in command:
            answer: int | None = start(command["start"], command["output"])
        else:
            answer = wait(command["wait"], command["seconds"])
        print(json.dumps(answer), flush=True)
