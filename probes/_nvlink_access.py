"""Why two GPUs do not reach each other directly, as far as the facts of the machine tell."""

from __future__ import annotations

import re

from mats.facts import MachineFacts

from ._health_card import Card

_CONSUMER = re.compile(r"GeForce|TITAN", re.IGNORECASE)


def reasons(machine: MachineFacts, first: Card | None, second: Card | None, said: str = "") -> list[str]:
    """What is known to keep GPUs from each other, each a clause, without what was ``said`` already."""
    cards = [card for card in (first, second) if card is not None]
    wddm = any(isinstance(card.gpu.driver_model, str) and card.gpu.driver_model == "WDDM" for card in cards)
    known = (
        ("MIG", any(card.sliced for card in cards), "MIG is on, and its instances reach no other GPU"),
        ("virtual", any(card.virtual for card in cards), "a virtual GPU reaches no other one"),
        ("WSL", machine.host.wsl is True, "under WSL the driver gives no peer access"),
        ("WDDM", wddm, "under Windows' display driver model (WDDM) there is no peer access"),
        (
            "consumer",
            bool(cards) and all(_CONSUMER.search(card.name) for card in cards),
            "NVIDIA's driver gives consumer cards no peer access over PCIe",
        ),
    )
    return [clause for word, is_so, clause in known if is_so and word not in said]


def in_the_way(machine: MachineFacts, first: Card | None, second: Card | None) -> list[str]:
    """What may slow or send round what goes directly: a hint, not a finding."""
    found = []
    if machine.host.iommu == "on":
        found.append("the IOMMU is on: with translation for these devices direct copies go by way of it")
    if any(card is not None and card.in_guest for card in (first, second)):
        found.append("this is a virtual machine: its host decides how PCIe switches send peer traffic (ACS)")
    return found


def why_no_access(machine: MachineFacts, first: Card | None, second: Card | None, said: str) -> str:
    """The driver's word and what is known beside it, in one clause."""
    known = [said.strip().rstrip(".")] if said.strip() else []
    known += reasons(machine, first, second, said) or in_the_way(machine, first, second)
    return "; ".join(known)
