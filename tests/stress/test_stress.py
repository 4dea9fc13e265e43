"""The memory test as a whole, on simulated cards and on the host."""

from __future__ import annotations

import dataclasses

import pytest

from mats.device import DeviceLost
from mats.devices._plans import MIB, SimFault, built_in
from mats.devices.host import HostDevice
from mats.devices.sim import SimDevice
from mats.judge import judge
from mats.model import Absent, Observation, Quantity, Result, Unit, Verdict
from mats.probe import UsageError
from mats.probes import _session as session

from .bench import STRESS, Bench, measurement, reading, simulate, table, value


def verdict(observation: Observation, kind: str = "sim") -> Verdict:
    return judge(observation, STRESS.limits, kind)[0]


def test_a_healthy_card_passes_with_nothing_out_of_order() -> None:
    # when
    observation = simulate("healthy")
    # then
    assert judge(observation, STRESS.limits, "sim") == (Verdict.PASS, "", ())
    assert value(observation, "memory.errors") == 0
    assert value(observation, "memory.bytes_verified") > 50 * 16 * MIB
    assert value(observation, "memory.error_bound") == pytest.approx(
        3.0 / value(observation, "memory.bytes_verified"), rel=0.01
    )


def test_coverage_adds_up_to_the_whole_card() -> None:
    observation = simulate("healthy", size=8 * MIB)
    rows = table(observation, "coverage").rows
    assert sum(int(str(row[1])) for row in rows) == 16 * MIB + 16 * MIB // 64
    assert rows[0] == ("tested", 8 * MIB)


def test_a_stuck_line_is_found_named_and_confined() -> None:
    # when
    observation = simulate("stuck_dq")
    # then
    status, _, findings = judge(observation, STRESS.limits, "sim")
    assert status is Verdict.FAIL
    assert findings[0].code == "MEM-001"
    assert findings[0].fault == "stuck_dq"
    assert any("address slices" in line for line in findings[0].evidence)


def test_memory_that_fails_everywhere_is_verified_with_values_that_tell_an_address_from_a_line() -> None:
    # given: so many words fail that the first tests alone count more errors than are wanted
    observation = simulate("fake_capacity", capacity=32 * MIB)
    # then
    assert [diagnosis.fault for diagnosis in observation.diagnoses] == ["address_alias"]
    assert any(row[0] == "rotated_address" and row[5] for row in table(observation, "tests").rows)


def test_the_bad_ranges_hold_every_error() -> None:
    observation = simulate("stuck_dq", size=8 * MIB)
    ranges = [(int(str(row[0]), 16), int(str(row[1]), 16)) for row in table(observation, "bad_ranges").rows]
    addresses = {int(str(row[0]), 16) for row in table(observation, "errors").rows}
    assert addresses
    assert all(any(start <= address < end for start, end in ranges) for address in addresses)


def test_a_run_without_errors_has_the_tables_that_files_are_made_of() -> None:
    observation = simulate("healthy", size=8 * MIB, tests="own_address")
    assert [table(observation, name).rows for name in ("errors", "bad_ranges")] == [(), ()]


def test_sums_of_the_histograms_agree() -> None:
    observation = simulate("byte_lane", size=8 * MIB)
    errors = value(observation, "memory.errors")
    assert sum(int(str(row[1])) for row in table(observation, "popcount_histogram").rows) == errors
    assert sum(int(str(row[1])) for row in table(observation, "page_errors").rows) == errors
    bits = sum(int(str(row[1])) + int(str(row[2])) for row in table(observation, "bit_histogram").rows)
    assert bits == sum(int(str(row[0])) * int(str(row[1])) for row in table(observation, "popcount_histogram").rows)


def test_forced_errors_are_found_one_by_one() -> None:
    observation = simulate("healthy", force_errors=True)
    assert verdict(observation) is Verdict.FAIL
    assert value(observation, "memory.errors") == 8
    assert any("made on purpose" in note for note in observation.notes)


def test_a_tester_that_finds_nothing_is_unknown_not_healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    # given: a device whose verify kernel never runs
    device = SimDevice(built_in("healthy", capacity=8 * MIB))
    launch = device.launch

    def deaf(kernel: str, tiles: int, **arguments: object) -> float:
        return 1e-3 if kernel == "pattern_verify" else launch(kernel, tiles, **arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(device, "launch", deaf)
    # when
    observation = STRESS.measure(device, Bench())
    device.close()
    # then
    status, _, findings = judge(observation, STRESS.limits, "sim")
    assert status is Verdict.UNKNOWN
    assert "MEM-004" in [finding.code for finding in findings]


def test_a_test_that_was_cut_short_says_so_and_is_not_healthy() -> None:
    # given: stopped in the middle of the second test
    context = Bench({"tests": "page-ids,own-address,checkerboard"}, polls=30)
    # when
    observation = simulate("healthy", context=context)
    # then
    assert observation.partial == "interrupted by the user"
    assert verdict(observation) is Verdict.UNKNOWN


def test_ctrl_c_leaves_the_test_partial_and_is_no_end_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    # given: the words of a signal
    context = Bench({"tests": "page-ids,own-address"})
    monkeypatch.setattr(context, "stopping", lambda: "stopped by Ctrl-C" if len(context.told) > 10 else "")
    # when
    observation = simulate("healthy", context=context)
    # then
    assert observation.partial == "stopped by Ctrl-C"
    assert not any("The test stopped" in note for note in observation.notes)


def test_ctrl_c_while_memory_is_allocated_ends_at_once_with_nothing_tested() -> None:
    observation = simulate("healthy", capacity=64 * MIB, context=Bench(polls=3))

    reading = observation.measurements[0].reading
    assert isinstance(reading, Absent)
    assert reading.reason == "interrupted by the user while memory was being had"
    assert verdict(observation) is Verdict.UNKNOWN


@pytest.mark.parametrize(("tests", "told"), [("march-c,own-address", True), ("own-address", False)])
def test_how_far_a_march_was_ordered_is_told(tests: str, told: bool) -> None:
    observation = simulate("healthy", capacity=4 * MIB, tests=tests)
    notes = [note for note in observation.notes if note.startswith("Block-ordered: march_c;")]
    assert bool(notes) is told


def test_a_second_read_that_the_cache_may_answer_is_not_counted() -> None:
    observation = simulate("healthy", capacity=4 * MIB, tests="mats-plus-plus")
    # elements 2 and 3, and the sweep that reads past the cache
    assert value(observation, "memory.bytes_verified") == 3 * 4 * MIB


def test_a_duration_repeats_the_tests_and_ends() -> None:
    observation = simulate("healthy", capacity=4 * MIB, tests="own-address", duration=1.0)
    assert value(observation, "memory.complementary_passes") > 2
    assert observation.partial == ""
    assert verdict(observation) is Verdict.PASS


def test_a_time_too_short_for_both_values_of_each_bit_is_unknown() -> None:
    observation = simulate("healthy", tests="own-address", duration=0.01)
    assert verdict(observation) is Verdict.UNKNOWN
    assert any("too short" in note for note in observation.notes)


def test_the_first_error_ends_the_test_when_asked() -> None:
    observation = simulate("stuck_dq", stop_on_error=True)
    assert verdict(observation) is Verdict.FAIL
    assert [row[0] for row in table(observation, "tests").rows][-1] == "own_address"


def test_heat_ends_the_test_and_leaves_it_unknown() -> None:
    plan = dataclasses.replace(built_in("healthy", capacity=8 * MIB), temperature=89.9)
    observation = simulate(plan)
    assert verdict(observation) is Verdict.UNKNOWN
    assert "temperature" in observation.partial


def test_a_full_card_tests_nothing_and_is_unknown() -> None:
    # given
    device = SimDevice(built_in("healthy", capacity=4 * MIB))
    device.allocate(4 * MIB)
    # when
    observation = STRESS.measure(device, Bench())
    device.close()
    # then
    assert verdict(observation) is Verdict.UNKNOWN
    assert isinstance(reading(observation, "memory.errors"), Absent)


def test_a_resumed_run_adds_up_and_skips_what_was_done() -> None:
    # given
    plan = built_in("healthy", capacity=8 * MIB)
    first = Bench({"tests": "page-ids,own-address"})
    before = simulate(plan, context=first)
    status, reason, findings = judge(before, STRESS.limits, "sim")
    second = Bench({"tests": "page-ids,own-address,checkerboard"})
    second.resumed = Result(
        "stress",
        "?",
        "sim:healthy",
        status,
        reason,
        before,
        findings,
        STRESS.limits,
        "2026-01-01T00:00:00+00:00",
        Quantity(1.0, Unit.SECOND),
    )
    # when
    after = simulate(plan, context=second)
    # then
    assert {str(row[0]): row[3] for row in table(after, "tests").rows} == {
        "page_ids": 1,
        "own_address": 1,
        "checkerboard": 1,
    }
    assert value(after, "memory.bytes_verified") == value(before, "memory.bytes_verified") + 2 * 8 * MIB
    assert any("Resumed" in note for note in after.notes)


def test_a_run_whose_tester_contradicted_itself_is_not_continued() -> None:
    # given
    before = simulate("counter_corrupt", capacity=4 * MIB, tests="own-address")
    second = Bench({"tests": "own-address"})
    status, reason, findings = judge(before, STRESS.limits, "sim")
    started, took = "2026-01-01T00:00:00+00:00", Quantity(1.0, Unit.SECOND)
    second.resumed = Result("stress", "?", "sim:x", status, reason, before, findings, STRESS.limits, started, took)
    # then
    with pytest.raises(UsageError, match="contradict each other"):
        simulate("healthy", capacity=4 * MIB, context=second)


def test_a_small_test_on_a_large_cache_is_called_cache_resident() -> None:
    device = HostDevice(workers=1)
    observation = STRESS.measure(device, Bench({"size": 4 * MIB, "tests": "own-address"}))
    device.close()
    if isinstance(device.describe().cache_size, Absent):
        pytest.skip("this machine does not tell its cache size")
    assert "fits into the cache" in observation.notes[0]
    assert "MEM-008" in [finding.code for finding in judge(observation, STRESS.limits, "host")[2]]


def test_the_host_is_really_tested_and_gives_its_memory_back() -> None:
    # given
    device = HostDevice()
    # when
    observation = STRESS.measure(
        device, Bench({"size": 32 * MIB, "tests": "own-address,march-c,bit-fade", "dwell": 0.1})
    )
    # then
    assert value(observation, "memory.errors") == 0
    assert value(observation, "memory.copy_traffic") > 0
    assert measurement(observation, "memory.write_latency").samples
    device.close()


def test_a_lost_device_is_an_error_and_what_was_seen_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    # given: a device that is lost at the 200th launch
    device = SimDevice(built_in("healthy", capacity=8 * MIB))
    launch, count = device.launch, 0

    def lost(kernel: str, tiles: int, **arguments: object) -> float:
        nonlocal count
        count += 1
        if count >= 200:
            raise DeviceLost("the device answers no more")
        return launch(kernel, tiles, **arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(device, "launch", lost)
    context = Bench()
    # when
    with pytest.raises(DeviceLost):
        STRESS.measure(device, context)
    device.close()
    # then
    assert value(context.saved[-1], "memory.bytes_verified") > 0


def test_two_faults_at_once_are_both_seen() -> None:
    healthy = built_in("healthy", capacity=16 * MIB)
    line = sum(1 << bit for bit in range(3, 64, 32))
    two = dataclasses.replace(
        healthy, faults=(SimFault("stuck_bits", line, 0, channel=3), SimFault("stuck_bits", 2, 2, sector=77, word=1))
    )
    observation = simulate(two)
    assert observation.diagnoses[0].fault == "stuck_dq"
    assert verdict(observation) is Verdict.FAIL


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("0xdeadbeef", 0xDEADBEEFDEADBEEF),
        ("A5", 0xA5A5A5A5A5A5A5A5),
        ("0xff0", 0x0FF00FF00FF00FF0),
        ("0123456789abcdef", 0x0123456789ABCDEF),
    ],
)
def test_a_short_pattern_is_repeated(text: str, word: int) -> None:
    assert session.read_pattern(text) == word


@pytest.mark.parametrize("text", ["", "0x", "xyz", "0x11223344556677889", "-1", "0x 1"])
def test_a_bad_pattern_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="hexadecimal"):
        session.read_pattern(text)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tests": "marche-c"}, "no test named 'marche_c'"),
        ({"tests": ""}, "no test named ''"),
        ({"tests": "user-pattern"}, "needs --pattern"),
        ({"passes": 0}, "--passes must be at least 1"),
        ({"duration": 0.0}, "--duration must be above 0"),
        ({"coverage": 0.0}, "--coverage must be above 0"),
        ({"size": 1 << 20}, "--size must be at least 2 MiB"),
        ({"size": 1 << 40}, "the device has"),
    ],
)
def test_bad_options_get_one_sentence(options: dict[str, object], message: str) -> None:
    device = SimDevice(built_in("healthy", capacity=4 * MIB))
    with pytest.raises(UsageError, match=message):
        STRESS.measure(device, Bench(options))
    device.close()


def test_progress_never_goes_back_and_reaches_its_end() -> None:
    context = Bench({"tests": "own-address,checkerboard"})
    simulate("healthy", capacity=8 * MIB, context=context)
    done = [told[0] for told in context.told]
    assert done == sorted(done)
    assert context.told[-1][0] <= context.told[-1][1] * 1.001
    assert context.told[-1][0] > 0.6 * context.told[-1][1]
