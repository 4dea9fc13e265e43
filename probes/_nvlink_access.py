"""Why two GPUs do not reach each other directly, as far as the facts of the machine tell."""

from __future__ import annotations

import re

from mats.facts import MachineFacts

from ._health_card import Card

_CONSUMER = re.compile(r"GeForce|TITAN", re.IGNORECASE)


def reasons(machine: MachineFacts, first: Card | None, second: Card | None) -> list[str]:
    """What is known to keep GPUs from each other, each a clause; empty where nothing of it is told."""
    cards = [card for card in (first, second) if card is not None]
    found = []
    if any(card.sliced for card in cards):
        found.append("MIG is on, and its instances reach no other GPU")
    if any(card.virtual for card in cards):
        found.append("a virtual GPU reaches no other one")
    if machine.host.wsl is True:
        found.append("under WSL the driver gives no peer access")
    if any(isinstance(card.gpu.driver_model, str) and card.gpu.driver_model == "WDDM" for card in cards):
        found.append("under Windows' display driver model (WDDM) there is no peer access")
    if cards and all(_CONSUMER.search(card.name) for card in cards):
        found.append("NVIDIA's driver gives consumer cards no peer access over PCIe")
    return found


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
    known += reasons(machine, first, second) or in_the_way(machine, first, second)
    return "; ".join(known)
