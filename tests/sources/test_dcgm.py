"""What DCGM says, kept apart from what it means: skipped is not passed, cut is unknown, Healthy is only its word."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mats.facts import GpuFacts, LinkFacts
from mats.model import Absent, Quantity, Unit
from mats.sources import dcgm
from mats.sources._json_cut import loads
from mats.sources.dcgm import DcgmTest, Status

from . import saved

MEMORY_4 = {
    "name": "memory",
    "results": [
        {"entity_group": "GPU", "entity_group_id": 0, "entity_id": 0, "status": "Pass"},
        {
            "entity_group": "GPU",
            "entity_group_id": 0,
            "entity_id": 1,
            "status": "Fail",
            "warnings": [{"warning": "bit error", "error_id": 6, "error_category": 7, "error_severity": 2}],
        },
    ],
    "test_summary": {"status": "Fail"},
}
DIAG_4 = {
    "DCGM Diagnostic": {
        "test_categories": [
            {
                "category": "Hardware",
                "tests": [
                    MEMORY_4,
                    {
                        "name": "pulse_test",
                        "results": [{"entity_group": "GPU", "entity_id": 0, "status": "Skip"}],
                        "test_summary": {"status": "Skip"},
                    },
                ],
            }
        ]
    },
    "entity_groups": [],
    "metadata": {"version": "4.4.1", "Driver Version Detected": "580.95.05"},
}
TABLE_3 = """\
Successfully ran diagnostic for group.
+---------------------------+------------------------------------------------+
| Diagnostic                | Result                                         |
+===========================+================================================+
|-----  Metadata  ----------+------------------------------------------------|
| DCGM Version              | 3.1.7                                          |
| Driver Version Detected   | 535.86.10                                      |
| GPU Device IDs Detected   | 20b5,20b5                                      |
+-----  Integration  -------+------------------------------------------------+
| PCIe                      | Pass - All                                     |
+-----  Hardware  ----------+------------------------------------------------+
| GPU Memory                | Fail - GPUs: 0, 2                              |
| Warning                   | GPU 0: the memory test found an error, which   |
|                           | goes on in the next line                       |
+-----  Stress  ------------+------------------------------------------------+
| Targeted Power            | Skip - All                                     |
| Something New             | Wobbly                                         |
+---------------------------+------------------------------------------------+
"""


def named(diag: dcgm.DcgmDiag, name: str) -> DcgmTest:
    test = diag.named(name)
    assert isinstance(test, DcgmTest)
    return test


def test_the_saved_diagnostic_of_version_3_failed_on_three_gpus_and_skipped_the_memory_of_one() -> None:
    diag = dcgm.parse_diag(saved.text("health/dcgm3_diag_x4.json"))

    stress = named(diag, "sm stress")
    assert [stress.on(gpu) for gpu in range(4)] == [Status.FAIL, Status.PASS, Status.FAIL, Status.FAIL]
    memory = named(diag, "memory")
    assert [memory.on(gpu) for gpu in range(4)] == [Status.SKIP, *[Status.PASS] * 3]
    assert [(name, result.entity) for name, result in diag.having(Status.FAIL)] == [
        ("sm_stress", 0),
        ("sm_stress", 2),
        ("sm_stress", 3),
    ]
    nowhere = {test.name for test in diag.tests if {result.status for result in test.results} == {Status.SKIP}}
    assert nowhere == {"diagnostic", "memory_bandwidth", "targeted_stress", "targeted_power"}
    assert named(diag, "Inforom").on(3) is Status.PASS
    assert memory.results[0].warnings[0].error == 55
    assert stress.results[0].info
    assert diag.cut == ""


def test_the_saved_table_of_version_4_is_cut_and_leaves_the_second_gpu_unknown() -> None:
    diag = dcgm.parse_diag(saved.text("health/dcgm4_text_table.txt"))

    assert (diag.version, diag.driver, diag.gpus) == ("4.4.1", "580.95.05", ((0, "2331"), (1, "2331")))
    assert [named(diag, "software").on(gpu) for gpu in (0, 1)] == [Status.PASS, Status.PASS]
    assert named(diag, "memory").on(0) is Status.PASS
    assert isinstance(named(diag, "memory").on(1), Absent)
    assert diag.cut == dcgm.CUT_TABLE
    assert isinstance(diag.named("pcie"), Absent)


def test_the_saved_health_is_the_word_of_dcgm_and_its_dmon_knows_the_last_xid() -> None:
    commands = saved.text("health/recovery_action_dmon_health.txt")

    health, samples = dcgm.parse_health(commands), dcgm.parse_dmon(commands)

    assert (health.overall, health.troubles, health.cut) == ("Healthy", (), "")
    assert {sample.entity: sample.last_xid for sample in samples if sample.last_xid} == {"GPU 6": 119}
    assert len(samples) == 8


def test_the_saved_links_of_one_gpu_are_all_down() -> None:
    machine = dcgm.parse_nvlink(saved.text("links/dcgmi_nvlink_status.txt"))

    assert isinstance(machine.gpus, tuple)
    counts = [gpu.nvlink.active for gpu in machine.gpus]
    assert counts == [Quantity(number, Unit.COUNT) for number in (12, 12, 0, 12)]
    assert all(link.active is False for link in links(machine.gpus[2]))
    assert machine.gpus[2].index == Quantity(2, Unit.COUNT)
    assert machine.partial == ""


def links(gpu: GpuFacts) -> tuple[LinkFacts, ...]:
    assert isinstance(gpu.nvlink.links, tuple)
    return gpu.nvlink.links


def test_links_that_are_off_or_not_there_are_neither_up_nor_down() -> None:
    machine = dcgm.parse_nvlink("GPUs:\n    gpuId 0:\n        U D X _\n")

    assert isinstance(machine.gpus, tuple)
    assert isinstance(machine.gpus[0].nvlink.links, tuple)
    up, down, off, none = (link.active for link in machine.gpus[0].nvlink.links)
    assert (up, down) == (True, False)
    assert isinstance(off, Absent) and isinstance(none, Absent)
    assert "without its legend" in machine.partial


DIAG_3 = """{"DCGM GPU Diagnostic": {"test_categories": [{"category": "Stress", "tests": [
 {"name": "SM Stress", "results": [
  {"gpu_ids": "0,1", "status": "PASS", "info": "relative stress level 577"},
  {"gpu_id": 2, "status": "Fail", "warnings": "too slow"},
  {"gpu_ids": "3", "status": "SKIP"}]}]}],
 "version": "3.1.8", "Driver Version Detected": "535.54.03", "GPU Device IDs": ["20b5", "20b5"]}}"""


def test_version_3_lists_gpus_in_one_text_and_its_messages_may_be_plain() -> None:
    diag = dcgm.parse_diag(DIAG_3)

    stress = named(diag, "sm stress")
    assert [stress.on(gpu) for gpu in range(4)] == [Status.PASS, Status.PASS, Status.FAIL, Status.SKIP]
    assert stress.results[2].warnings[0].text == "too slow"
    assert stress.results[0].info == ("relative stress level 577",)
    assert (diag.version, diag.driver, diag.gpus) == ("3.1.8", "535.54.03", ((0, "20b5"), (1, "20b5")))


def test_version_4_names_entities_and_its_warnings_carry_numbers() -> None:
    diag = dcgm.parse_diag("noise before\n" + json.dumps(DIAG_4))

    memory = named(diag, "memory")
    assert (memory.on(0), memory.on(1), memory.summary) == (Status.PASS, Status.FAIL, Status.FAIL)
    assert memory.results[1].warnings == (dcgm.DcgmMessage("bit error", 6, 7, 2),)
    assert named(diag, "pulse test").on(0) is Status.SKIP
    assert isinstance(named(diag, "pulse test").on(1), Absent)


def test_every_iteration_is_kept() -> None:
    inner = DIAG_4["DCGM Diagnostic"]
    text = json.dumps({"DCGM Diagnostic": {"iterations": [inner, inner], "Overall Result": "Fail"}})

    assert [test.iteration for test in dcgm.parse_diag(text).tests] == [0, 0, 1, 1]


def test_a_diagnostic_that_could_not_run_says_why() -> None:
    diag = dcgm.parse_diag('{"DCGM GPU Diagnostic": {"runtime_error": "nvvs failed", "version": "3.3.0"}}')

    assert (diag.error, diag.tests, diag.version) == ("nvvs failed", (), "3.3.0")


def test_a_table_of_version_3_says_where_behind_the_word() -> None:
    diag = dcgm.parse_diag(TABLE_3)

    memory = named(diag, "GPU Memory")
    assert (memory.on(0), memory.on(2), memory.summary) == (Status.FAIL, Status.FAIL, Status.FAIL)
    assert isinstance(memory.on(1), Absent)
    assert memory.warnings[0].text.endswith("an error, which goes on in the next line")
    assert named(diag, "pcie").summary is Status.PASS
    assert named(diag, "Targeted Power").summary is Status.SKIP
    assert diag.cut == ""


def test_a_word_that_is_not_known_is_no_pass() -> None:
    text = json.dumps(DIAG_4).replace('"Pass"', '"Splendid"')

    assert named(dcgm.parse_diag(text), "memory").on(0) is Status.UNKNOWN


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7, 0.9, 0.99])
def test_a_cut_diagnostic_keeps_what_is_complete_and_says_that_it_is_cut(share: float) -> None:
    text = json.dumps(DIAG_4, indent=1)
    whole = dcgm.parse_diag(text)

    diag = dcgm.parse_diag(text[: int(len(text) * share)])

    assert diag.cut
    shown = {(test.name, result.entity): result.status for test in diag.tests for result in test.results}
    full = {(test.name, result.entity): result.status for test in whole.tests for result in test.results}
    assert all(status in (full.get(key), Status.UNKNOWN) for key, status in shown.items())


def test_a_failure_stays_known_when_its_warning_is_cut_off() -> None:
    text = json.dumps(DIAG_4, indent=1)

    diag = dcgm.parse_diag(text[: text.index("bit error")])

    assert named(diag, "memory").on(1) is Status.FAIL


def test_troubles_of_health_keep_their_place() -> None:
    text = json.dumps(
        {
            "header": ["Health Monitor Report"],
            "body": {
                "Overall Health": {"value": "Failure"},
                "GPU": {
                    "children": {
                        "3": {
                            "value": "Failure",
                            "children": {"Errors": {"children": {"Memory system": {"value": "Failure"}}}},
                        },
                        "4": {"value": "Healthy"},
                    }
                },
            },
        }
    )

    health = dcgm.parse_health(text)

    assert health.overall == "Failure"
    assert [trouble.place for trouble in health.troubles] == [("GPU", "3"), ("GPU", "3", "Errors", "Memory system")]


@pytest.mark.parametrize(
    "text", ["", "hello", "{}", '{"a": 1}', "[1]", '{"DCGM Diagnostic": 3}', "{" * 5000, '{"a": tru}']
)
def test_other_text_is_refused_in_one_sentence(text: str) -> None:
    for parse in (dcgm.parse_diag, dcgm.parse_health, dcgm.parse_dmon, dcgm.parse_nvlink):
        with pytest.raises(dcgm.DcgmError) as refused:
            parse(text)
        assert "\n" not in str(refused.value)


WORDS = ("{", "}", "[", "]", '"', ",", ":", "DCGM Diagnostic", "test_categories", "tests", "1", "| Diagnostic | x |\n")


@given(st.lists(st.sampled_from(WORDS) | st.text(max_size=5), max_size=40).map("".join))
def test_no_text_raises_anything_else(text: str) -> None:
    for parse in (dcgm.parse_diag, dcgm.parse_health, dcgm.parse_dmon, dcgm.parse_nvlink):
        try:
            parse(text)
        except dcgm.DcgmError as error:
            assert str(error)


leaf = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4)
trees = st.recursive(leaf, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner))


@given(trees, st.data())
def test_what_is_kept_of_cut_json_is_a_part_of_the_whole(tree: object, data: st.DataObject) -> None:
    text = json.dumps({"whole": tree})
    end = data.draw(st.integers(1, len(text) - 1))

    value, cut = loads(text[:end])

    assert cut
    assert part_of(value, {"whole": tree})


def part_of(part: object, whole: object) -> bool:
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(key in whole and part_of(value, whole[key]) for key, value in part.items())
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) <= len(whole) and all(part_of(one, other) for one, other in zip(part, whole, strict=False))
    return part == whole


@given(st.dictionaries(st.sampled_from(["test_categories", "metadata", "iterations", "tests"]), trees))
def test_a_diagnostic_of_any_shape_raises_nothing_else(inner: dict[str, object]) -> None:
    for root in dcgm.ROOTS:
        try:
            dcgm.parse_diag(json.dumps({root: inner}))
        except dcgm.DcgmError as error:
            assert str(error)
