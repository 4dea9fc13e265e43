"""What has to be said before either side can be opened."""

from __future__ import annotations

import pytest

from mats.devices._sim_ipc import open_family
from mats.peer.channel import LONGEST_PATH
from mats.peer.meeting import join, serve
from mats.probe import UsageError
from mats.target import Target

from .bench import refuse
from .side import PLAN


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"mode": "server"}, "--mode server needs --gpu: the GPU to lend"),
        ({"mode": "server", "gpu": ""}, "--mode server needs --gpu"),
        ({"mode": "server", "gpu": "0", "socket": "/" + "x" * LONGEST_PATH}, "the path of the socket has"),
        ({"mode": "client", "server-gpu": "0"}, "--mode client needs --gpu: the GPU of this process"),
        ({"mode": "client", "gpu": "1", "server-gpu": None}, "--mode client needs --server-gpu"),
        ({"mode": "client", "gpu": "1", "server-gpu": "7"}, "has no card '7'"),
    ],
)
def test_what_is_missing_or_cannot_be_is_named(options: dict[str, object], why: str) -> None:
    family = open_family(Target("sim", PLAN), refuse)

    with pytest.raises(UsageError, match=why):
        (serve if options["mode"] == "server" else join)(family, options, None)
