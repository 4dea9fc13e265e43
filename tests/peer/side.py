"""One side of a session as a process of its own, which can be told to die or to fall silent at a step.

``python side.py server|client FOLDER [--at STEP --do kill|stop|hang] [--gpu N] [--wanted N] ...``: lines of JSON go to
stdout, the last of them tells how it ended; the exit code is 0 when all was in order, 3 when not, 1 for a mistake.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from mats.device import DeviceError
from mats.devices._sim_ipc import open_family
from mats.fabric import Copy
from mats.peer.channel import SOCKET
from mats.peer.client import borrow
from mats.peer.greeting import Deadlines
from mats.peer.meeting import Borrowed
from mats.peer.server import Server
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


def refuse(target: Target) -> object:
    raise AssertionError(f"{target.name} was to be opened")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("side", choices=("server", "client"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--at", default="")
    parser.add_argument("--do", default="kill")
    parser.add_argument("--gpu", default="")
    parser.add_argument("--wanted", default="0")
    given = parser.parse_args()
    watch = watch_for(given.at, given.do)
    path = given.folder / SOCKET
    try:
        if given.side == "server":
            return serve(path, given.gpu or "0", watch, DEADLINES)
        return work(path, given.gpu or "1", given.wanted, watch, DEADLINES)
    except DeviceError as error:
        tell(error=str(error), kind=type(error).__name__, mapped=lent_memory())
        return 3


if __name__ == "__main__":
    sys.exit(main())
