"""What is often said wrong about an architecture, and how it is."""

from __future__ import annotations

from mats.architectures.capabilities import Architecture, version_of

_BY_CAPABILITY = {
    "8.0": (
        "A100, A30 and A800 are 8.0; every other Ampere card is 8.6 (Jetson Orin 8.7). "
        "Code for sm_86 does not run here.",
    ),
    "8.6": ("GeForce RTX 30, A10, A16, A40 and RTX A are 8.6; A100 and A30 are 8.0, though they are Ampere too.",),
    "8.9": (
        "Every GeForce RTX 40, desktop and laptop, the RTX 4070 among them, is 8.9: Ada Lovelace, not Ampere. "
        "8.6 is GeForce RTX 30, A10, A40 and RTX A. Code built for sm_86 runs here too and loses little.",
    ),
    "10.0": ("Blackwell is two families: B200 and its like are 10.x, GeForce RTX 50 and RTX PRO 12.x.",),
    "10.7": ("Announced; what stands here is not confirmed: judge no hardware by it.",),
    "12.0": (
        "Blackwell is two families: GeForce RTX 50 and RTX PRO are 12.x, B200 and its like 10.x. "
        "Neither runs machine code of the other.",
    ),
}
_WITH_RT_CORES = ("7.5", "8.6", "8.7", "8.9", "12.0")
_NO_SWITCH = (
    "A -gencode flag says for which GPUs code is compiled, and switches nothing on or off in one: there is no "
    '"RT core path" to it. RT cores trace rays and take no part in memory, matrix or attention work.'
)


def notes(known: Architecture) -> tuple[str, ...]:
    """Sentences for whoever is about to compile for this architecture."""
    said = list(_BY_CAPABILITY.get(known.capability, ()))
    if known.formerly:
        said.append(f"It was called {known.formerly}.")
    if known.cuda_last:
        said.append(
            f"CUDA {version_of(known.cuda_last)[0] + 1} does not compile for it any more: stay with CUDA "
            f"{known.cuda_last} and what was built with it."
        )
    if known.capability in _WITH_RT_CORES:
        said.append(_NO_SWITCH)
    return (*said, *_suffixes(known))


def _suffixes(known: Architecture) -> tuple[str, ...]:
    """What the targets with a letter are for; mats itself needs none."""
    if not known.specific_first:
        return ()
    number = known.number
    text = (
        f"sm_{number}a (from CUDA {known.specific_first}) unlocks instructions that only this capability has; "
        "such code and such PTX run on no other, not even on later ones."
    )
    if known.family_first:
        later = f"{known.capability} and later {version_of(known.capability)[0]}.x"
        text += f" sm_{number}f (from CUDA {known.family_first}) runs on {later}."
    return (f"{text} Take them for libraries that ask for them; plain sm_{number} is right for everything else.",)
