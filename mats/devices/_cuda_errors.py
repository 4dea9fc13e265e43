"""What a CUDA error means for the user: memory refused, a device that is lost, or something to be put right.

The numbers of the runtime's and the driver's errors agree (driver_types.h, cuda.h of CUDA 13.0).
"""

from __future__ import annotations

from mats.device import DeviceError, DeviceLost, OutOfMemory

OUT_OF_MEMORY = 2
NO_DRIVER = "no NVIDIA driver was found: install it, or use --target host to test this machine's memory"
INSUFFICIENT_DRIVER = 35
NO_DEVICE = 100

_LOST = {
    214: "the GPU met an ECC error it could not correct: see `mats health`, then reset the GPU",
    220: "the GPU met an NVLink error it could not correct: see `mats nvlink-test`, then reset the GPU",
    226: "the GPU contained a hardware error: see the kernel log for its Xid",
    700: "a kernel touched memory it does not own, by a fault of the GPU or of mats: see the kernel log for an Xid",
    702: "a kernel ran longer than the system allows: use a GPU without a display, or a smaller chunk",
    709: "the context was destroyed: another part of this process, or the driver, reset the GPU",
    714: "the GPU reported a hardware stack error: see the kernel log for its Xid",
    715: "the GPU met an illegal instruction: see the kernel log for its Xid",
    716: "a kernel used a misaligned address, by a fault of the GPU or of mats: see the kernel log for an Xid",
    717: "a kernel used an address of the wrong kind, by a fault of the GPU or of mats: see the kernel log for an Xid",
    718: "the GPU lost its place in a kernel: see the kernel log for its Xid",
    719: "a kernel ended by a failure of the GPU: see the kernel log for its Xid",
    999: "the driver gave up on the GPU, which may have fallen off the bus: see the kernel log for an Xid",
}
"""Errors after which the context answers nothing else: this process has lost the device."""

_ADVICE = {
    34: "a stub of the driver's library was found: remove the toolkit's stubs folder from the library path",
    INSUFFICIENT_DRIVER: "no NVIDIA driver was found, or it is too old for this CuPy",
    46: "the GPU is busy or closed to others: see its compute mode and what else runs on it",
    NO_DEVICE: "the driver sees no GPU",
    101: "there is no such GPU any more",
    205: "the driver could not map the memory: the GPU's window onto the bus (BAR1) has no room for it, or the driver "
    "was changed to offer direct access that this machine cannot give; see mats health",
    209: "this CuPy has no code for the GPU: install the one made for a newer CUDA",
    217: "the two GPUs cannot reach each other's memory",
    304: "the operating system refused a call: see the kernel log",
    701: "the kernel needs more registers than the GPU has",
    711: "the GPU is connected to as many others as it can be",
    802: "the GPUs are not ready: start the fabric manager (nvidia-fabricmanager)",
    803: "the driver and its libraries have different versions: reload the driver or reboot",
    804: "the CUDA compatibility package does not support this GPU: use the driver's own libraries",
}


def classify(status: int, text: str, device: str, doing: str) -> DeviceError:
    """The error of the device protocol for a CUDA status: one sentence with what was being done and what to do.

    ``text`` is CUDA's own name and words for the status.
    """
    if status == OUT_OF_MEMORY:
        return OutOfMemory(f"{device}: {doing} was refused: not enough free memory on the GPU")
    if status in _LOST:
        return DeviceLost(f"{device} was lost while {doing}: {_LOST[status]} ({text})")
    advice = _ADVICE.get(status, "this was not expected: please report it")
    return DeviceError(f"{device}: {doing} failed: {advice} ({text})")


def unusable(status: int, text: str, driver: int, runtime: int, visible: str | None) -> DeviceError:
    """Why no GPU can be used at all. ``driver``, ``runtime``: CUDA versions such as 12040; a driver of 0 is none."""
    if status == INSUFFICIENT_DRIVER and driver == 0:
        return DeviceError(NO_DRIVER)
    if status == INSUFFICIENT_DRIVER:
        return DeviceError(
            f"the NVIDIA driver is too old: it supports CUDA {version(driver)} and this CuPy needs {version(runtime)}; "
            "update the driver or install gpu-mats with the extra of the driver's CUDA (cuda12 or cuda13)"
        )
    if status == NO_DEVICE and visible is not None:
        return DeviceError(f"the NVIDIA driver shows no GPU to this process: CUDA_VISIBLE_DEVICES is {visible!r}")
    if status == NO_DEVICE:
        return DeviceError("the NVIDIA driver is there but sees no GPU: see lspci and the kernel log")
    return classify(status, text, "CUDA", "looking for GPUs")


def version(number: int) -> str:
    """12040 as 12.4."""
    return f"{number // 1000}.{number % 1000 // 10}"
