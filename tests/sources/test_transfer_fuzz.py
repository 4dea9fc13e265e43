"""Whatever the output of a test of speed has become, it ends in figures that stood there, or in one sentence."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mats.codec import from_data, to_data
from mats.facts import CurveFacts, End, MachineFacts, Place, TransferRun
from mats.model import Quantity
from mats.sources._measured import MeasuredError
from mats.sources.bandwidth_test import parse_bandwidth_test
from mats.sources.gpu_copy import parse_gpu_copy
from mats.sources.latency_curves import parse_gpu_latency, parse_latency_sweep, parse_memory_set
from mats.sources.nccl_tests import parse_nccl_tests
from mats.sources.nvbandwidth import parse_nvbandwidth
from mats.sources.p2p_test import parse_p2p_test

from . import saved

Parse = Callable[[str], MachineFacts]
PARSERS: dict[str, Parse] = {
    "nvbandwidth_v0.6_gh200.txt": parse_nvbandwidth,
    "nvbandwidth_gen3.json": parse_nvbandwidth,
    "nvbandwidth_v0.10_h100x4.txt": parse_nvbandwidth,
    "nvbandwidth_v0.7_pattern_mismatch.txt": parse_nvbandwidth,
    "all_reduce_a100x8_old.txt": parse_nccl_tests,
    "all_reduce_nv4_pair.txt": parse_nccl_tests,
    "gpu_copy_a100x2.txt": parse_gpu_copy,
    "bandwidthTest_shmoo_v100.txt": parse_bandwidth_test,
    "p2p_4090x4_no_p2p.txt": parse_p2p_test,
    "p2p_l40s_x2_pcie4.txt": parse_p2p_test,
    "latency_sweep_a100sxm.dat": parse_latency_sweep,
    "gpu_latency_v100.txt": parse_gpu_latency,
    "memtest_latency_rtx3090.json": parse_memory_set,
}
OWN = sorted(name for name in PARSERS if (saved.OWN / "links" / name).exists())


def parsed(name: str, text: str) -> MachineFacts | None:
    """The picture, or None where the text was refused in one sentence."""
    try:
        return PARSERS[name](text)
    except MeasuredError as refused:
        assert str(refused) and "\n" not in str(refused)
        return None


def figures(facts: MachineFacts) -> set[object]:
    """Every figure with what it is of; not what only the rest of a text tells, as which size is the largest."""
    found: set[object] = set()
    for run in facts.transfers:
        found |= {
            (each.test, _end(each.start), _end(each.end), each.figure, each.ways, each.reading)
            for each in run.transfers
            if not isinstance(each.size, Quantity)
        }
        found |= {(each.size, each.time, each.algorithm, each.bus, each.in_place) for each in run.collectives}
        found |= {(each.test, point) for each in run.curves for point in _complete(each)}
    return found


def _end(end: End) -> object:
    return end if end.place is Place.GPU else end.place


def _complete(curve: CurveFacts) -> list[object]:
    return [(curve.quantity, size, reading) for size, reading in curve.points if isinstance(reading, Quantity)]


@pytest.mark.parametrize("name", PARSERS)
def test_a_text_that_ends_at_any_line_tells_no_figure_that_the_whole_does_not(name: str) -> None:
    lines = saved.text(f"links/{name}").splitlines(keepends=True)
    whole = figures(PARSERS[name]("".join(lines)))
    places = range(len(lines)) if len(lines) < 80 else random.Random(1).sample(range(len(lines)), 40)

    for place in places:
        facts = parsed(name, "".join(lines[:place]))

        assert facts is None or figures(facts) <= whole


@pytest.mark.parametrize("name", PARSERS)
def test_a_text_that_ends_within_a_line_tells_no_figure_that_the_whole_does_not(name: str) -> None:
    text = saved.text(f"links/{name}")
    whole = figures(PARSERS[name](text))

    for place in random.Random(2).sample(range(len(text)), 40):
        facts = parsed(name, text[:place])

        assert facts is None or figures(facts) <= whole


@pytest.mark.parametrize("name", OWN)
@given(data=st.data())
@settings(max_examples=20)
def test_a_text_with_damaged_lines_ends_in_facts_or_one_sentence(name: str, data: st.DataObject) -> None:
    lines = saved.text(f"links/{name}").splitlines()
    place = data.draw(st.integers(0, len(lines) - 1))
    change = data.draw(st.sampled_from(["lose", "double", "word", "text"]))
    if change == "lose":
        del lines[place]
    elif change == "double":
        lines.insert(place, lines[place])
    elif change == "word":
        words = lines[place].split(" ")
        words[data.draw(st.integers(0, len(words) - 1))] = data.draw(
            st.sampled_from(["nan", "-1", "1e999", "9" * 40, "N/A", "", "0x7", "٣", "inf", "1.00"])
        )
        lines[place] = " ".join(words)
    else:
        lines[place] = data.draw(st.text(max_size=60))

    facts = parsed(name, "\n".join(lines))

    if facts is not None:
        assert from_data(MachineFacts, to_data(facts)) == facts


@pytest.mark.parametrize("parse", list(dict.fromkeys(PARSERS.values())))
@given(text=st.text(max_size=200) | st.from_regex(r"[\[{]{0,300}[0-9a-z\":,]{0,50}", fullmatch=True))
@settings(max_examples=25)
def test_any_text_ends_in_facts_or_one_sentence(parse: Parse, text: str) -> None:
    try:
        facts = parse(text)
    except MeasuredError as refused:
        assert "\n" not in str(refused)
    else:
        assert all(isinstance(run, TransferRun) for run in facts.transfers)


def test_a_very_long_text_is_refused_at_once() -> None:
    with pytest.raises(MeasuredError, match="longer than any output"):
        parse_nvbandwidth("nvbandwidth Version: v0.7\n" + "x" * (17 << 20))


def test_lines_that_never_end_are_read_in_linear_time() -> None:
    bomb = "Running " + "a" * 400_000 + "\n" + "GPU(row)" * 40_000 + "\n" + "gpu0_to_" * 40_000 + "\n" + " " * 400_000

    for parse in (parse_nvbandwidth, parse_p2p_test, parse_nccl_tests, parse_gpu_copy, parse_bandwidth_test):
        with pytest.raises(MeasuredError):
            parse(bomb)
