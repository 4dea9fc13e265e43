"""The machine around the GPUs of one ``nvidia-smi -q``, as XML or as text."""

from __future__ import annotations

from dataclasses import replace

from mats.facts import GpuFacts, MachineFacts, Text
from mats.model import AbsenceKind, Absent, Quantity, Unit
from mats.sources._smi_gpu import read_gpu
from mats.sources._smi_values import CUT_OFF, NOT_SHOWN, Fields, Section


def build_machine(root: Section, blocks: list[Section], cut: str = "") -> MachineFacts:
    """The machine of one log and its GPUs in the order of the driver. ``cut``: why it is not whole, or empty.

    The last GPU of a log that is cut may lack what stands there on a whole one, so that its gaps say so.
    """
    gap = CUT_OFF if cut else NOT_SHOWN
    fields = Fields(root, gap)
    driver = fields.text("driver version", "driver_version")
    attached = fields.count("number of GPUs", "attached_gpus")
    whole = not isinstance(attached, Absent) and attached.value == len(blocks)
    gpus = []
    for place, block in enumerate(blocks):
        last = place == len(blocks) - 1
        gpu = read_gpu(block, driver, CUT_OFF if cut and last else NOT_SHOWN)
        if isinstance(gpu.index, Absent) and (whole or (cut and len(blocks) > 1)):
            gpu = replace(gpu, index=Quantity(place, Unit.COUNT))
        gpus.append(gpu)
    return replace(
        bare_machine(gap),
        driver=driver,
        cuda=fields.text("CUDA version", "cuda_version"),
        virtualisation=virtualisation_of(gpus),
        attached=attached,
        gpus=tuple(gpus),
        taken=fields.text("time", "timestamp"),
        partial=cut,
    )


def bare_machine(gone: str = NOT_SHOWN) -> MachineFacts:
    """A machine of which nothing is known, with the reason; its log and its PCI devices are other sources' business."""
    fields = Fields(Section(""), gone)
    return MachineFacts(
        driver=fields.missing("driver version"),
        cuda=fields.missing("CUDA version"),
        kernel_module=fields.missing("version of the kernel module"),
        library=fields.missing("version of the NVML library"),
        nvml_failure=fields.missing("a failure of NVML"),
        virtualisation=fields.missing("virtualisation"),
        attached=fields.missing("number of GPUs"),
        gpus=fields.missing("GPUs"),
        pairs=fields.missing("connections between GPUs"),
        taken=fields.missing("time"),
    )


def bare_gpu(gone: str = NOT_SHOWN) -> GpuFacts:
    """A GPU of which nothing is known, with the reason."""
    return read_gpu(Section("gpu"), Fields(Section(""), gone).missing("driver version"), gone)


def virtualisation_of(gpus: list[GpuFacts]) -> Text:
    """What the GPUs say of the machine: ``Pass-Through`` and ``VGPU`` are those of virtual machines."""
    told = [gpu.virtualisation for gpu in gpus if isinstance(gpu.virtualisation, str)]
    if not told:
        return Absent(AbsenceKind.NOT_FOUND, f"virtualisation: {NOT_SHOWN}")
    return next((word for word in told if word != "None"), told[0])
