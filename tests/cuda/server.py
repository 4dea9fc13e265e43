"""The lending process of suite_meeting, on the fake driver.

Each line of its standard input names a GPU, a meeting place and commands for the fake driver. It lends the GPU once,
says what it does meanwhile, and at last how it ended and what was left on its devices; each as a line of JSON.
"""

from __future__ import annotations

import ctypes
import json
import sys
from dataclasses import asdict

from mats.devices import _cuda_ipc
from mats.peer.meeting import serve
from mats.target import Target

WAITING_S = 30.0


def tell(**what: object) -> None:
    print(json.dumps(what), flush=True)


def main() -> None:
    driver = ctypes.CDLL("libcuda.so.1")
    for line in sys.stdin:
        gpu, path, setting = line.split()
        if driver.fake_control(f"restart=;reset=;{setting}".encode()):
            raise ValueError(f"the fake driver does not know {setting}")
        options = {"mode": "server", "gpu": gpu, "socket": path}
        lender = serve(_cuda_ipc.open_family(Target("cuda", "all")), options, WAITING_S)
        try:
            served = lender.serve(lambda: "", lambda text: tell(progress=text))
        finally:
            lender.close()
        left = {what: driver.fake_query(what.encode()) for what in ("allocations", "events", "streams")}
        tell(**asdict(served), left=left)


if __name__ == "__main__":
    main()
