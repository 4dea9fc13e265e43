"""A matrix whose every cell is absent is drawn as one of nothing."""

from __future__ import annotations

from mats.model import AbsenceKind, Absent, Chart, Column, Observation, Table
from mats.reports._figures import figures_of


def test_a_matrix_of_which_nothing_was_seen_can_be_drawn() -> None:
    unseen = Absent(AbsenceKind.NOT_TESTED, "not tried")
    columns = (Column("from"), Column("to"), Column("way"))
    table = Table("ways", "Ways", columns, (("0", "1", unseen),), Chart.matrix("from", "to", "way"))

    figures = figures_of(Observation(tables=(table,)))

    assert all(figure.data for figure in figures)
