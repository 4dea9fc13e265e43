"""Tables with charts: as lines of marks, short tables and matrices in a terminal, as plots on the page."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mats.model import AbsenceKind, Absent, Chart, Column, Observation, Run, Table, Unit, Verdict
from mats.reports._chart_figures import chart_figures
from mats.reports._charts import bins_of, heat_map
from mats.reports._plot import Figure
from mats.reports.console import render_console
from mats.reports.html import render_page

from .example_charts import charted, deviation_table, ladder_table, pair_tables, region_table, transfers_table
from .example_runs import host_target, result, run
from .strategies import cells, charts

BLOCK = re.compile("[\u2580-\u259f]")


def run_of(*tables: Table) -> Run:
    return run((host_target(),), (result("host", Verdict.PASS, Observation(tables=tables), limits=()),))


def section(text: str, title: str) -> list[str]:
    """The lines below the heading that starts with ``title``, up to the next empty line."""
    lines = text.splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith(title))
    return lines[start + 1 : lines.index("", start)]


def figures(table: Table) -> tuple[Figure, ...]:
    made: tuple[Figure, ...] = chart_figures(Observation(tables=(table,)))
    return made


def place_table(*values: float | Absent) -> Table:
    return Table("p", "Places", (Column("delay", Unit.SECOND),), tuple((v,) for v in values), Chart.heat_map("delay"))


def test_noise_is_a_flat_map_and_the_late_region_its_highest_mark() -> None:
    text = render_console(run_of(region_table()), width=80, colour=False)

    marks = "".join(line.split()[1] for line in section(text, "Latency of each region") if re.match(r" *\d+ ", line))
    assert marks == "=" * 17 + "#" + "=" * 72 + "?" + "=" * 59


def test_a_map_says_in_words_what_its_marks_mean() -> None:
    text = render_console(run_of(region_table()), width=160, colour=False)

    assert (
        "(one mark for each region: = is the median of 560.1 ns, . 504.1 ns, # 823.2 ns, ? not seen (1 region))" in text
    )


@pytest.mark.parametrize(("blocks", "drawn"), [(True, True), (False, False)])
def test_block_characters_are_used_only_where_the_terminal_has_them(blocks: bool, drawn: bool) -> None:
    text = render_console(charted(), width=80, colour=False, blocks=blocks)

    assert bool(BLOCK.search(text)) is drawn


def test_the_marks_of_both_kinds_say_the_same() -> None:
    plain = render_console(charted(), width=80, colour=False)

    blocks = render_console(charted(), width=80, colour=False, blocks=True)

    assert blocks.translate(str.maketrans("\u2581\u2582\u2583\u2584\u2586\u2587\u2588", ".:-=+*#")) == plain


@pytest.mark.parametrize("count", [1, 64, 384, 3000])
def test_a_map_is_at_most_four_lines_and_no_outlier_is_lost(count: int) -> None:
    values = [1e-6] * count
    values[count // 2] = 2e-6

    text = render_console(run_of(place_table(*values)), width=80, colour=False)

    lines = [line for line in section(text, "Places") if re.match(r" *[0-9,]+ [^ ]+$", line)]
    assert 1 <= len(lines) <= 4
    assert "".join(lines).count("#") == (1 if count > 1 else 0)


def test_a_line_of_a_map_starts_with_the_name_of_its_first_place() -> None:
    text = render_console(run_of(place_table(*[1e-6] * 384)), width=80, colour=False)

    assert [line.split()[0] for line in section(text, "Places")[:4]] == ["0", "128", "256", "(one"]


def test_what_is_lower_than_the_median_is_told_apart_from_what_is_higher() -> None:
    seen = heat_map(table := place_table(1e-6, 1e-6, 1e-6, 0.5e-6, 3e-6), table.chart or Chart.histogram("x"), 9)

    assert seen is not None
    assert [seen.level(value, 3) for value in (1e-6, 0.5e-6, 3e-6)] == [0, -3, 3]


def test_a_map_of_which_nothing_was_seen_is_not_drawn_and_told_among_the_gaps() -> None:
    unseen = Absent(AbsenceKind.NOT_TESTED, "the walk was refused")
    table = place_table(unseen, unseen)

    text = render_console(run_of(table), width=80, colour=False)

    assert "Places" not in text
    assert "p.delay (every cell), not seen: the walk was refused" in text
    assert not figures(table)


def test_a_curve_is_a_short_table_with_its_first_and_last_point() -> None:
    text = render_console(run_of(ladder_table()), width=80, colour=False)

    lines = section(text, "Latency by the size")
    assert len(lines) == 2 + 14 + 1
    assert re.match(r" +4 KiB +L1 +1\.20 +#$", lines[2])
    assert re.match(r" +256 MiB +DRAM +92\.50 +#{24}$", lines[-2])
    assert lines[-1] == "(14 of 65 points; the HTML report and the saved run (JSON) have them all)"


def test_lines_over_the_same_places_stand_side_by_side_each_cell_in_its_own_prefix() -> None:
    text = render_console(run_of(transfers_table()), width=80, colour=False)

    lines = section(text, "Duration of a transfer")
    assert lines[1].split() == ["bytes", "device", "host"]
    assert lines[2].split() == ["4", "KiB", "2.063", "\u00b5s", "2.556", "\u00b5s"]
    assert lines[-1].split() == ["1", "GiB", "42.78", "ms", "40.83", "ms"]


@pytest.mark.parametrize(("count", "width", "parts"), [(8, 80, 1), (16, 80, 2), (16, 160, 1)])
def test_a_matrix_is_cut_into_blocks_of_columns_that_fit(count: int, width: int, parts: int) -> None:
    text = render_console(run_of(pair_tables(count)[0]), width=width, colour=False)

    heads = [line.split()[1:] for line in text.splitlines() if line.startswith("from\\to")]
    assert len(heads) == parts
    assert [name for head in heads for name in head] == [str(at) for at in range(count)]
    assert "no room" not in text
    assert max(len(line) for line in text.splitlines()) <= width


def test_a_matrix_tells_its_unit_its_diagonal_and_what_was_not_seen() -> None:
    lines = section(render_console(run_of(pair_tables()[0]), width=80, colour=False), "Bandwidth one way [GB/s]")

    assert lines[1].split()[:3] == ["0", "-", "178.4"]
    assert lines[6].split()[:4] == ["5", "391.2", "392.2", "?"]
    assert lines[-1] == "(?: not seen, the reasons are told below)"


def test_a_matrix_of_words_is_one_too() -> None:
    lines = section(render_console(run_of(pair_tables()[1]), width=80, colour=False), "How the GPUs are joined")

    assert lines[1].split() == ["0", "-", "NV8", *["NV18"] * 6]


def test_ends_of_two_kinds_are_not_mixed() -> None:
    columns = (Column("host"), Column("gpu"), Column("bandwidth", Unit.BYTE_PER_SECOND))
    table = Table(
        "h", "H", columns, (("node 0", "0", 25e9), ("node 0", "1", 24e9)), Chart.matrix("host", "gpu", "bandwidth")
    )

    lines = section(render_console(run_of(table), width=80, colour=False), "H [GB/s]")

    assert [line.split() for line in lines] == [["host\\GPU", "0", "1"], ["node", "0", "25.00", "24.00"]]


def test_bins_hold_every_value_and_the_highest_is_in_the_last() -> None:
    bins = bins_of([1.0, 1.1, 1.2, 1.3, 5.0], 4)

    assert sum(bins.counts) == 5
    assert (bins.edges[0], bins.edges[-1]) == (1.0, 5.0)
    assert (bins.counts[0], bins.counts[-1]) == (4, 1)


@pytest.mark.parametrize(
    ("table", "kinds"),
    [
        (region_table(), ["heatmap", "bar"]),
        (ladder_table(), ["scatter"]),
        (transfers_table(), ["scatter"]),
        (deviation_table(), ["bar"]),
        (pair_tables()[0], ["heatmap"]),
        (pair_tables()[1], ["heatmap"]),
    ],
)
def test_plotly_accepts_the_plots_of_every_kind(table: Table, kinds: list[str]) -> None:
    import plotly.graph_objects as plotly

    made = figures(table)

    assert [figure.data[0]["type"] for figure in made] == kinds
    for figure in made:
        plotly.Figure({"data": list(figure.data), "layout": figure.layout})
        assert figure.grid and figure.grid.rows


def test_a_map_is_drawn_in_lines_around_its_median_and_tells_of_each_place() -> None:
    trace: dict[str, Any] = figures(region_table())[0].data[0]
    colours = figures(region_table())[0].layout["coloraxis"]

    assert [len(line) for line in trace["z"]] == [64, 64, 64]
    assert trace["y"] == ["0", "64", "128"]
    assert trace["z"][0][17] == 823.2
    assert trace["z"][1][90 - 64] is None
    assert trace["text"][0][17] == "region 17<br>latency 823.2 ns<br>excess 47.00 %<br>address 0x7f3a84000000"
    assert colours["cmid"] == pytest.approx(560.1, abs=0.1)
    assert colours["cmax"] - colours["cmid"] == pytest.approx(colours["cmid"] - colours["cmin"])


def test_a_logarithmic_axis_has_round_sizes_with_their_prefix() -> None:
    across = figures(ladder_table())[0].layout["xaxis"]

    assert across["type"] == "log"
    assert across["ticktext"] == [
        "4 KiB",
        "16 KiB",
        "64 KiB",
        "256 KiB",
        "1 MiB",
        "4 MiB",
        "16 MiB",
        "64 MiB",
        "256 MiB",
    ]


def test_a_matrix_is_drawn_with_its_figures_in_it_and_a_dash_on_its_diagonal() -> None:
    figure = figures(pair_tables()[0])[0]

    assert figure.data[0]["z"][0][:3] == [None, 178.4, 393.2]
    assert figure.data[0]["text"][5][:3] == ["391.2", "392.2", "?"]
    assert sorted(note["text"] for note in figure.layout["annotations"]) == ["-"] * 8 + ["?"]


def test_markup_in_a_cell_that_is_drawn_is_not_obeyed() -> None:
    table = dataclasses.replace(pair_tables()[1], rows=(("<b>0</b>", "1", "<a href=x>NV</a>"),))

    trace = figures(table)[0].data[0]

    assert "<b>" not in trace["customdata"][0][0]
    assert "<a" not in str(trace["text"])


def test_a_chart_comes_before_the_tables_and_its_table_stands_with_it_alone() -> None:
    text = render_page(charted(), lambda: "")

    assert text.index("Latency of each region of the memory") < text.index("<h4>Readings</h4>")
    assert text.count('<th scope="col">address</th>') == 1


@settings(max_examples=40, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_any_chart_of_any_cells_can_be_drawn_and_printed(data: st.DataObject) -> None:
    columns = (Column("a", Unit.BYTE), Column("b", Unit.SECOND), Column("c", Unit.RATIO), Column("d"))
    rows = data.draw(st.lists(st.tuples(*(cells for _ in columns)), min_size=1, max_size=12))
    chart = data.draw(charts(["a", "b", "c", "d"], ["a", "b", "c"]))
    made = run_of(Table("t", "T", columns, tuple(rows), chart))

    text = render_console(made, width=80, colour=False, blocks=data.draw(st.booleans()))
    page = render_page(made, lambda: "")

    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)
    assert page.encode("utf-8").endswith(b"</html>\n")
