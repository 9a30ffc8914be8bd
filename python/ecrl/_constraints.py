"""Constraints as users write them: numbers by name, or text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Union

Constraints = Union[Mapping[str, Union[float, str]], Sequence[str], str]

_TEXT = re.compile(r"\s*(?:(?P<how>\w+)\s*\(\s*(?P<of>[^()\s]+)\s*\)|(?P<name>[^()\s<]+))\s*<=\s*(?P<bound>\S+)\s*")


def as_texts(constraints: Constraints) -> list[str]:
    """One text for each: `name<=bound` where only a number was given."""
    if isinstance(constraints, str):
        return [constraints]
    if not isinstance(constraints, Mapping):
        if not isinstance(constraints, Sequence) or not all(isinstance(text, str) for text in constraints):
            raise TypeError(f"constraints is {constraints!r}; expected bounds by name, text, or a list of texts")
        return list(constraints)
    texts = []
    for name, bound in constraints.items():
        if not isinstance(bound, str):
            try:
                texts.append(f"{name}<={float(bound)!r}")
            except TypeError:
                raise TypeError(f"the bound of {name} is {bound!r}; expected a number or text") from None
        elif "<=" not in bound:
            texts.append(f"{name}<={bound}")
        elif (found := _TEXT.fullmatch(bound)) and (found["of"] or found["name"]) != name:
            raise ValueError(f"constraint '{bound}' is given for {name}; expected one that bounds it")
        else:
            texts.append(bound)
    return texts


def written_out(constraints: Constraints | None) -> list[str]:
    """The same with their aggregates: the sum over an episode where none is named, as is usual of costs."""
    out: list[str] = []
    for text in [] if constraints is None else as_texts(constraints):
        found = _TEXT.fullmatch(text)
        if not found:
            raise ValueError(f"constraint '{text}': expected name<=number, or mean(name)<=number or sum(name)<=number")
        how, name = found["how"] or "sum", found["of"] or found["name"]
        if how not in ("mean", "sum"):
            raise ValueError(f"constraint '{text}': '{how}' is unknown; expected mean or sum")
        try:
            float(found["bound"])
        except ValueError:
            raise ValueError(f"constraint '{text}': '{found['bound']}' is no number") from None
        whole = f"{how}({name})<={found['bound']}"
        if any(other.split("<=")[0] == f"{how}({name})" for other in out):
            raise ValueError(f"{how}({name}) is bounded twice; expected one bound for each")
        out.append(whole)
    return out


def names(texts: list[str]) -> list[str]:
    """The costs that written-out constraints bound."""
    return [text.split("<=")[0].split("(", 1)[1].rstrip(")") for text in texts]
