"""Commands that measure nothing: judging and reporting saved runs, listing targets."""

from __future__ import annotations

from mats.cli.choose import ALL_GPUS, PRESENCE_LIMIT
from mats.cli.exits import ExitCode
from mats.cli.measure import conclude, known_limits, load_overrides
from mats.cli.options import Values, fail_on
from mats.cli.outputs import load_run, outputs
from mats.cli.world import World
from mats.device import DeviceError
from mats.judge import rejudge
from mats.model import Absent, TargetInfo
from mats.probe import UsageError
from mats.target import Target
from mats.units import GIB


def judge_saved(given: Values, world: World) -> int:
    """``mats judge``: the verdicts of a saved run by its limits with the user's overrides."""
    saved = load_run(given["run"], world)
    recorded = {limit.code: limit for result in saved.results for limit in result.limits}
    overrides = load_overrides(given, known_limits(world) | recorded, world)
    threshold = fail_on(given.get("fail-on"))
    wanted = outputs(given, world)
    wanted.check()
    return conclude(rejudge(saved, overrides), wanted, threshold)


def report_saved(given: Values, world: World) -> int:
    """``mats report``: other views of a saved run, as it was judged then."""
    saved = load_run(given["run"], world)
    wanted = outputs(given, world)
    wanted.quiet = bool(wanted.all_files)
    wanted.check()
    failed = wanted.write(saved)
    wanted.show(saved)
    for sentence in failed:
        world.tell(f"mats: {sentence}")
    return ExitCode.UNUSABLE if failed else ExitCode.OK


def list_targets(world: World) -> int:
    """``mats targets``: GPUs, host and simulator, or why there is none."""
    try:
        for info in world.discover():
            world.say(_line(info.name, info))
    except DeviceError as error:
        seen = _seen_from_outside(world)
        world.say(f"cuda:all  {seen}; no memory of it can be tested: {error}" if seen else f"cuda      none: {error}")
    try:
        device = world.open_device(Target("host"))
        try:
            world.say(_line("host", device.describe()))
        finally:
            device.close()
    except DeviceError as error:
        world.say(f"host      cannot be used: {error}")
    try:
        plans = [name for name, _summary in world.plans() if "@" not in name]
        world.open_device(Target("sim", "healthy")).close()
        world.say(f"sim:PLAN  simulated: {len(plans)} plans are built in, see mats explain sim")
    except (DeviceError, UsageError) as error:
        world.say(f"sim       cannot be used: {error}")
    return ExitCode.OK


def _seen_from_outside(world: World) -> str:
    """What passive probes can look at, or nothing."""
    try:
        source = world.open_source(ALL_GPUS, PRESENCE_LIMIT)
        try:
            return source.describe().title
        finally:
            source.close()
    except (DeviceError, UsageError):
        return ""


def _line(name: str, info: TargetInfo) -> str:
    memory = info.memory_total
    size = memory.reason if isinstance(memory, Absent) else f"{memory.value / GIB:.1f} GiB"
    identity = ", ".join(f"{key} {value}" for key, value in info.identity)
    return f"{name:<9} {info.title}, {size}" + (f" ({identity})" if identity else "")
