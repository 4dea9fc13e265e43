"""From a name to what it may mean: the products it fits, or the nearest real ones, and never a guess.

A name fits a product when it has every word that tells the model apart and no word that the product has not. What a
name leaves open (laptop or desktop, PCIe or SXM, how much memory) gives all products that it may be.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from mats.architectures._words import DECORATION, split_glued, words_of
from mats.architectures.capabilities import Architecture, architecture, parse_capability
from mats.architectures.products import FORMS, Product
from mats.model import Absent, Quantity, Reading
from mats.units import GIB

NEAREST = 6
"""How many names are offered where none fits."""

_QUALIFIERS = re.compile(r"\d+gb|pcie|sxm\d?|nvl|laptop|maxq|server|blackwell|hbm\w+|gddr\w+")
"""Words of a product's name that a person may leave out."""


@dataclass(frozen=True, slots=True)
class Found:
    """The products a name fits, one or several; by a capability alone there may be none. ``by``: what it was."""

    products: tuple[Product, ...]
    architecture: Architecture | None = None
    """Set where the name was a compute capability."""


@dataclass(frozen=True, slots=True)
class Near:
    """No product has this name; these are the nearest that there are, if any is near."""

    products: tuple[Product, ...]


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The name is one of another maker, whose devices have no compute capability."""

    maker: str
    what: str
    advice: str


Answer = Found | Near | Elsewhere

_MAKERS = (
    (
        r"ai max.*|(?:ryzen )?ai max 3\d\d.*|.*\bmax 395\b.*|strix halo|radeon 80[0-9]0s|gfx1151",
        "AMD",
        "Ryzen AI Max is an AMD APU (Strix Halo; its GPU is a Radeon 8060S or the like, gfx1151)",
    ),
    (
        r".*\b(?:amd|radeon|ryzen|instinct|firepro|epyc|strix|rocm|gfx\d+\w*|mi\d{2,3}[a-z]?|rx \d{3,4}\w*)\b.*",
        "AMD",
        "this is a device of AMD",
    ),
    (
        r".*\b(?:intel|arc|iris|xe|uhd|gaudi\d?|ponte vecchio|[ab][35-7][1-8]0)\b.*",
        "Intel",
        "this is a device of Intel",
    ),
    (r".*\b(?:apple|m\d (?:pro|max|ultra))\b.*", "Apple", "this is a device of Apple"),
    (r".*\b(?:hygon|dcu|hy smi)\b.*", "Hygon", "this is a device of Hygon"),
)
_TOOLS = {
    "AMD": "ROCm's own tools test it (rocm-bandwidth-test, TransferBench, rvs); hipcc compiles for it",
    "Intel": "oneAPI's own tools test it (xpu-smi, ze_peak); icpx compiles for it",
    "Apple": "it is programmed with Metal",
    "Hygon": "hy-smi and the DTK, which follows ROCm, are its own tools",
}


def find(text: str, table: Sequence[Product]) -> Answer:
    """What a name, a chip, an architecture or a compute capability means. Never raises, whatever the text holds."""
    capability = parse_capability(text)
    if capability is not None:
        known = architecture(capability)
        if not isinstance(known, Absent):
            return Found(tuple(product for product in table if product.capability == capability), known)
    exact = _by_driver_name(text, table)
    if exact:
        return Found(exact)
    cards = tuple(_card(product) for product in table)
    vocabulary = _vocabulary(cards)
    given = _split(text, vocabulary)
    telling = given - DECORATION
    fitting = [card for card in cards if card.fits(given)]
    if not fitting and telling:
        fitting = [card for card in cards if telling <= card.groups]
    if fitting:
        return Found(tuple(card.product for card in fitting))
    return _elsewhere(" ".join(words_of(text))) or Near(_near(telling, cards, vocabulary))


def of_driver(name: str, table: Sequence[Product], memory: Reading) -> tuple[Product, ...]:
    """The products that a driver calls so; ``memory``, all of it in bytes, tells apart cards of one name.

    The driver writes "Laptop GPU" where it is one, so that without it a laptop's card is not meant.
    """
    exact = _by_driver_name(name, table)
    if exact:
        return exact
    cards = tuple(_card(product) for product in table)
    given = _split(name, _vocabulary(cards))
    fitting = [card.product for card in cards if card.fits(given)]
    if "laptop" not in given:
        fitting = [product for product in fitting if product.form != "laptop"]
    if isinstance(memory, Quantity) and len(fitting) > 1:
        off = {product: abs(float(product.memory.split()[0]) - memory.value / GIB) for product in fitting}
        fitting = [product for product in fitting if off[product] == min(off.values())]
    return tuple(fitting)


@dataclass(frozen=True, slots=True)
class _Card:
    """A product as words. ``models``: of each of its names the words without which it would be another card's."""

    product: Product
    names: tuple[frozenset[str], ...]
    models: tuple[frozenset[str], ...]
    groups: frozenset[str]
    """Words that stand for all cards of a kind: chip and architecture."""
    beside: frozenset[str]
    """What may be said beside the name, the groups among it."""

    def fits(self, given: frozenset[str]) -> bool:
        telling = given - DECORATION
        pairs = zip(self.models, self.names, strict=True)
        return any(model <= given and telling <= name | self.beside for model, name in pairs)


def _card(product: Product) -> _Card:
    names = tuple(frozenset(words_of(name)) for name in product.names)
    models = tuple(frozenset(word for word in name - DECORATION if not _QUALIFIERS.fullmatch(word)) for name in names)
    known = architecture(product.capability)
    title = "" if isinstance(known, Absent) else known.name
    groups = frozenset(words_of(f"{product.chip.split()[0]} {title}")) - DECORATION
    beside = groups | frozenset(words_of(f"{product.form} {product.memory} {product.memory_type}"))
    if any(word.startswith("sxm") for word in names[0]):
        beside |= {"sxm"}
    return _Card(product, names, models, groups, beside)


def _by_driver_name(text: str, table: Sequence[Product]) -> tuple[Product, ...]:
    plain = " ".join(text.split()).casefold()
    return tuple(product for product in table if product.driver_name and product.driver_name.casefold() == plain)


def _vocabulary(cards: Sequence[_Card]) -> frozenset[str]:
    words = set(DECORATION) | set(FORMS)
    return frozenset(words.union(*(card.beside.union(*card.names) for card in cards)))


def _split(text: str, vocabulary: frozenset[str]) -> frozenset[str]:
    return frozenset(part for word in words_of(text) for part in split_glued(word, vocabulary))


def _elsewhere(words: str) -> Elsewhere | None:
    for pattern, maker, what in _MAKERS:
        if re.fullmatch(pattern, words):
            return Elsewhere(maker, what, _TOOLS[maker])
    return None


def _near(telling: frozenset[str], cards: Sequence[_Card], vocabulary: frozenset[str]) -> tuple[Product, ...]:
    """Products that share the most of what was said, each word also taken for the known ones that are like it."""
    weight: dict[str, float] = {}
    for word in telling:
        alike = sorted(other for other in vocabulary - DECORATION if other[0].isdigit() == word[0].isdigit())
        for near in difflib.get_close_matches(word, alike, n=4, cutoff=0.75):
            ratio = difflib.SequenceMatcher(None, word, near).ratio()
            weight[near] = max(ratio, weight.get(near, 0.0))
    scored = []
    for place, card in enumerate(cards):
        model = frozenset().union(*card.models)
        score = sum(weight.get(word, 0.0) for word in model)
        if score:
            score += sum(weight.get(word, 0.0) for word in card.beside - model) / 10
            scored.append((-score / len(model) ** 0.25, place, card.product))
    return tuple(product for _, _, product in sorted(scored, key=lambda item: item[:2])[:NEAREST])
