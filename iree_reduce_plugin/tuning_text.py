"""Reads a pasted MLIR attribute into the fields of a tuning: a small parser of our own, since IREE 3.13 refuses the old spelling.

It takes `#iree_codegen.compilation_info<...>`, or a bare `#iree_gpu.lowering_config<...>` or `#iree_codegen.translation_info<...>`,
and aliases (`#config = ...`) as `iree-opt` prints them. The grammar is looser than MLIR's; what the words mean is strict.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NoReturn

from .errors import TuningError, check

_TOKEN = re.compile(
    r'(?:\s|//[^\n]*(?:\n|\Z))*(?:(?P<word>#?[A-Za-z_][\w.$]*)|(?P<number>-?\d[\w.]*)|(?P<string>"[^"\n]*")|(?P<mark>[<>{}\[\],=:]))'
)
_REST = re.compile(r"(?:\s|//[^\n]*(?:\n|\Z))*")  # a comment ends with its line: there is one way only to match, so no backtracking
_MAX_DEPTH = 32


@dataclass(frozen=True)
class _Attribute:
    """`#name<items>`, or a dictionary (no name). An item has a key or not."""

    name: str
    items: tuple[tuple[str | None, Any], ...]


def is_attribute(text: str) -> bool:
    """Whether the text is meant as an MLIR attribute, rather than JSON or a path.

    >>> is_attribute("#iree_gpu.lowering_config<{reduction = [64]}>"), is_attribute('{"reduction": [64]}'), is_attribute("tuning.json")
    (True, False, False)
    """
    return re.match(r"\s*(#|//|\w+\s*=\s*#|\{\s*\w+\s*=)", text) is not None


def parse_attribute(text: str) -> dict[str, Any]:
    """The fields that the attribute gives, by their names in the attribute.

    Raises TuningError, which says where it stopped.

    >>> parse_attribute("#iree_gpu.lowering_config<{workgroup = [0], thread_basis = [[64], [0]]}>")
    {'workgroup': [0], 'thread_basis': [[64], [0]]}
    """
    items = _Parser(text).top()
    aliases = {key: value for key, value in items if key is not None and key.startswith("#")}
    wanted = [(key, value) for key, value in items if key is None or not key.startswith("#")]
    if not wanted:  # only definitions, as `iree-opt` prints them: the last one uses the others
        wanted = [(None, value) for value in list(aliases.values())[-1:]]
    found: dict[str, Any] = {}
    for _, value in wanted:
        _read(value, aliases, found)
    return found


def _read(value: Any, aliases: dict[str, Any], found: dict[str, Any]) -> None:
    """Adds to `found` what one attribute says."""
    seen = set()
    while isinstance(value, str) and value in aliases and value not in seen:
        seen.add(value)
        value = aliases[value]
    if isinstance(value, str) and value.startswith("#"):
        raise TuningError(f"pasted attribute: alias {value} is not defined in the text: paste what it stands for as well")
    check(isinstance(value, _Attribute), f"pasted attribute: {_show(value)} is not an attribute that holds a tuning: {_EXPECTED}")
    if value.name == "#iree_codegen.compilation_info":
        for key, part in value.items:
            check(
                key in ("lowering_config", "translation_info"),
                f"pasted attribute: key {key!r} of compilation_info is not supported: give lowering_config and translation_info only",
            )
            _read(part, aliases, found)
    elif value.name == "#iree_gpu.lowering_config":
        for key, part in value.items:
            check(
                key is None and isinstance(part, _Attribute) and part.name == "",
                "pasted attribute: lowering_config holds no {...} dictionary",
            )
            _read(part, aliases, found)
    elif value.name in ("", "#iree_codegen.translation_info"):
        for key, part in value.items:
            if key is None:  # the trailing configuration of translation_info, as a rule `{}`
                check(isinstance(part, _Attribute) and part.name == "", f"pasted attribute: {_show(part)} has no key: write key = value")
                _read(part, aliases, found)
            else:
                check(key not in found, f"pasted attribute: key {key!r} is given twice: give it once")
                found[key] = _pipeline(part) if key == "pipeline" else part
    else:
        raise TuningError(f"pasted attribute: {value.name} does not hold a tuning: {_EXPECTED}")


_EXPECTED = "give #iree_codegen.compilation_info<...> or #iree_gpu.lowering_config<{...}>"


def _pipeline(value: Any) -> Any:
    """`#iree_gpu.pipeline<VectorDistribute>` by its name alone."""
    if isinstance(value, _Attribute) and value.name == "#iree_gpu.pipeline" and len(value.items) == 1:
        return value.items[0][1]
    return value if isinstance(value, str) else _show(value)


def _show(value: Any) -> str:
    text = f"{value.name or '{...}'}" if isinstance(value, _Attribute) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


class _Parser:
    """Recursive descent over the text. `pos` is the start of the token to come."""

    def __init__(self, text: str):
        self.text = text
        self.pos = 0
        self.depth = 0
        self.kind = ""
        self.token = ""
        self.after = 0
        self._advance(0)

    def top(self) -> list[tuple[str | None, Any]]:
        """The whole text: attributes, `key = attribute` and `#alias = attribute`, with or without commas between them."""
        items = self._items("")
        if not items:
            self._stop("an attribute")
        return items

    def _advance(self, start: int) -> None:
        match = _TOKEN.match(self.text, start)
        if match is None:
            space = _REST.match(self.text, start)
            self.pos = space.end() if space else start
            self.kind, self.token, self.after = ("end" if self.pos == len(self.text) else "other"), "", self.pos
        else:
            self.kind = match.lastgroup or ""
            self.token = match[self.kind]
            self.pos, self.after = match.start(self.kind), match.end()

    def _take(self) -> str:
        token = self.token
        self._advance(self.after)
        return token

    def _accept(self, mark: str) -> bool:
        """Consumes the mark if it comes next."""
        found = self.kind == "mark" and self.token == mark
        if found:
            self._take()
        return found

    def _stop(self, expected: str) -> NoReturn:
        line = self.text.count("\n", 0, self.pos) + 1
        column = self.pos - (self.text.rfind("\n", 0, self.pos) + 1) + 1
        rest = " ".join(self.text[self.pos : self.pos + 40].split())
        before = f"before {rest!r}" if rest else "at its end"
        raise TuningError(f"pasted attribute, line {line}, column {column}: stopped {before}: expected {expected}")

    def _items(self, close: str) -> list[tuple[str | None, Any]]:
        """Items up to the closing mark (or the end of the text). `translation_info` has no commas between its first ones."""
        items: list[tuple[str | None, Any]] = []
        while not (self.kind == "end" if close == "" else self._accept(close)):
            if items:
                self._accept(",")
            value = self._value(f"key = value or '{close}'" if close else "an attribute")
            key = None
            if isinstance(value, str) and self._accept("="):
                key, value = value.strip('"'), self._value(f"the value of {value}")
                if any(key == earlier for earlier, _ in items):
                    raise TuningError(f"pasted attribute: key {key!r} is given twice: give it once")
            items.append((key, value))
        return items

    def _value(self, expected: str) -> Any:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            self._stop(f"at most {_MAX_DEPTH} levels of brackets")
        value = self._nested(expected)
        self.depth -= 1
        return value

    def _nested(self, expected: str) -> Any:
        if self.kind == "number":
            return self._number()
        if self.kind == "string":
            return self._take()
        if self.kind == "word":
            name = self._take()
            if not self._accept("<"):
                return name
            return self._numbers_of_array() if name == "array" else _Attribute(name, tuple(self._items(">")))
        if self._accept("{"):
            return _Attribute("", tuple(self._items("}")))
        if self._accept("["):
            return self._list("]")
        self._stop(expected)

    def _list(self, close: str) -> list[Any]:
        values: list[Any] = []
        while not self._accept(close):
            if values and not self._accept(","):
                self._stop(f"',' or '{close}'")
            values.append(self._value(f"a number or '{close}'"))
        return values

    def _numbers_of_array(self) -> list[Any]:
        """The rest of `array<i64: 4, 0>`."""
        if self.kind != "word":
            self._stop("the type of the array's numbers, e.g. i64")
        self._take()
        self._accept(":")
        return self._list(">")

    def _number(self) -> int:
        if not re.fullmatch(r"-?\d{1,18}", self.token):
            self._stop("a whole number")
        number = int(self._take())
        if self._accept(":"):  # a type, as in `64 : i64`
            if self.kind != "word":
                self._stop("a type, e.g. i64")
            self._take()
        return number
