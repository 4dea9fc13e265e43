"""Run by test_sanitizers.py in a process of its own: every plan of the simulator on a given build of the native module.

python simulate.py NATIVE.so          prints "PLAN: N words failed" for each plan
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys

from mats.device import Buffer
from mats.devices import sim
from mats.target import parse_target

MIB = 1 << 20
SIZE = 4 * MIB
TILES = SIZE >> 16
CAPACITY = 8
PATTERN = {"first": 0, "kind": 1, "a": 0x0123456789ABCDEF, "b": 7, "mask": 0}


def load_native(path: str) -> None:
    """Puts the module at ``path`` in the place of the installed one, before anything has asked for it."""
    name = "mats.devices._native"
    loader = importlib.machinery.ExtensionFileLoader(name, path)
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    sys.modules[name] = importlib.util.module_from_spec(spec)


def count_failed(device: sim.SimDevice, report: Buffer) -> int:
    return int.from_bytes(device.fetch(report, 0, 8), "little") & 0xFFFFFFFF


def work(device: sim.SimDevice) -> int:
    """Each kernel once or more on two chunks; gives the words that failed."""
    data, other = device.allocate(SIZE), device.allocate(SIZE)
    report, pages, records = device.allocate(2048), device.allocate(16), device.allocate(CAPACITY * 64)
    sink = device.allocate(8)
    for buffer in (report, pages, records, sink):
        device.copy(buffer, bytes(buffer.size))
    checks: dict[str, Buffer | int] = {"report": report, "pages": pages, "records": records, "capacity": CAPACITY}
    flipped = {"new_a": 1, "new_b": 3, "new_mask": (1 << 64) - 1}
    device.launch("pattern_write", TILES, data=data, descending=0, **PATTERN)
    device.wait(1.0)
    device.launch("pattern_verify", TILES, data=data, descending=1, **PATTERN, **checks)
    device.launch("pattern_exchange", TILES, data=data, descending=0, reread=1, **PATTERN, **flipped, **checks)
    device.launch("modulo_others", TILES, data=data, first=0, skip=3, value=5)
    device.launch("copy_sweep", TILES, destination=other, source=data)
    device.launch("read_sweep", TILES, data=other, sink=sink)
    device.launch("inject", 1, data=data, word=SIZE // 8 - 1, flips=1)
    device.launch(
        "row_disturb", 64, data=data, offset_words=0, step_words=64, distance_words=8192, repeats=50, sink=sink
    )
    walk(device, data, sink)
    device.launch("page_ids_write", TILES, data=data, first=0)
    device.launch("page_ids_write", TILES, data=other, first=SIZE // 8)
    device.launch("page_ids_verify", TILES, data=data, first=0, **checks)
    failed = count_failed(device, report)
    for step in range(4) if failed else ():
        device.launch("recheck", min(failed, CAPACITY), records=records, step=step)
    device.free(other)
    return failed


def walk(device: sim.SimDevice, data: Buffer, sink: Buffer) -> None:
    """A ring of two lines a region, walked with and without the nearest cache, hop by hop and in one."""
    order, report, times = device.allocate(16), device.allocate(64), device.allocate(8 * 8)
    device.copy(order, (16).to_bytes(8, "little") + (48).to_bytes(8, "little"))
    device.launch("lay_chain", TILES, data=data, stride_words=8192, order=order, lines=2)
    device.launch("evict_lines", 2, data=data, order=order, done=sink)
    for near in (0, 1):
        device.copy(report, bytes(64))
        chain: dict[str, Buffer | int] = {"data": data, "mask": SIZE // 8 - 1, "start": 16, "pages": 2, "unit": 3}
        chain["walk"] = report
        device.launch("walk_chain", 1, ahead=2, hops=8, near=near, **chain)
        device.copy(report, bytes(64))
        device.launch("time_hops", 1, hops=8, times=times, **chain)


def main(path: str) -> None:
    load_native(path)
    for name, _ in sim.memory_plans():
        if name.startswith("PLAN@"):
            name = f"stuck_cell{name.removeprefix('PLAN')}"
        device = sim.open_device(parse_target(f"sim:{name}"))
        try:
            failed = work(device)
        finally:
            device.close()
        print(f"{name}: {failed} words failed")


if __name__ == "__main__":
    main(sys.argv[1])
