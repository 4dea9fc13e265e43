"""``nvidia-smi -q -x``: XML of DTD v9 to v13, whole or cut. Nothing that the XML declares is ever expanded."""

from __future__ import annotations

import re
from xml.parsers import expat

from mats.facts import MachineFacts
from mats.sources._smi_machine import build_machine
from mats.sources._smi_values import Section, SmiError, key

_ROOT = "nvidia_smi_log"
_DEEPEST = 40
_MOST = 200_000
"""Elements of one log; each GPU has up to 4,000, most of them clocks that it supports."""
_LONGEST = 4096
"""Characters of one value; process names are the longest."""
_BARE = re.compile(r"&(?!(?:amp|lt|gt|quot|apos);)")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")
_DOCUMENT = re.compile(r"<\?xml|<nvidia_smi_log")


def looks_like_xml(text: str) -> bool:
    """Whether a log of nvidia-smi in XML is in it."""
    return f"<{_ROOT}" in text


def parse_xml(text: str) -> MachineFacts:
    """The last whole log of the text, else the one that is cut. Raises SmiError for XML of another kind."""
    machines = [_parse_one(document) for document in _documents(text)]
    whole = [machine for machine in machines if not machine.partial]
    if not machines:
        raise SmiError("this XML holds no log of nvidia-smi")
    return (whole or machines)[-1]


def _documents(text: str) -> list[str]:
    """Each log by itself: ``-l`` writes one after the other, and a saved terminal has lines around them."""
    starts = [match.start() for match in _DOCUMENT.finditer(text)]
    pieces = [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
    joined: list[str] = []
    for piece in pieces:
        if joined and joined[-1].startswith("<?xml") and f"<{_ROOT}" not in joined[-1] and not piece.startswith("<?"):
            joined[-1] += piece
        else:
            joined.append(piece)
    return [piece for piece in joined if f"<{_ROOT}" in piece]


class _Builder:
    """Builds the tree while the parser runs, so that a cut log leaves what was whole."""

    def __init__(self) -> None:
        self.root = Section("")
        self.open = [self.root]
        self.finished = False
        self.elements = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.elements += 1
        if len(self.open) > _DEEPEST or self.elements > _MOST:
            raise SmiError("this XML is too deep or has too many elements to be of nvidia-smi")
        children = [Section(key(word), value[:_LONGEST]) for word, value in attributes.items()]
        section = Section(key(name), children=children)
        self.open[-1].children.append(section)
        self.open.append(section)

    def end(self, name: str) -> None:
        section = self.open.pop()
        section.text = section.text.strip()
        self.finished = self.finished or key(name) == _ROOT

    def characters(self, data: str) -> None:
        section = self.open[-1]
        if len(section.text) < _LONGEST:
            section.text += data[:_LONGEST]

    def drop_unfinished(self) -> None:
        """A value whose end tag is missing may itself be cut short."""
        last, parent = self.open[-1], self.open[-2] if len(self.open) > 1 else None
        if parent is not None and not last.children:
            parent.children.remove(last)
        for section in self.open:
            section.open = True


def _refuse(*_: object) -> None:
    raise SmiError("this XML declares entities, which nvidia-smi never does; it is not read")


def _parse_one(document: str) -> MachineFacts:
    if document.count("<") > 3 * _MOST:
        raise SmiError("this XML has too many elements to be of nvidia-smi")
    builder = _Builder()
    parser = expat.ParserCreate()
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.characters
    parser.EntityDeclHandler = _refuse
    parser.buffer_text = True
    why = ""
    clean = _CONTROL.sub("?", _BARE.sub("&amp;", document))
    clean = re.sub(r"^<\?xml[^>]*\?>", "", clean)  # the text is decoded already, whatever encoding it names
    try:
        parser.Parse(clean, True)
    except expat.ExpatError as error:
        if not builder.finished:
            builder.drop_unfinished()
            at_end = error.lineno >= clean.count("\n")
            why = "the XML is cut off" if at_end else f"the XML is broken at its line {error.lineno}"
    root = builder.root.child(_ROOT)
    if root is None:
        raise SmiError("this XML is no log of nvidia-smi")
    return build_machine(root, list(root.all("gpu")), why)
