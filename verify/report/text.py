"""Numbers, cases and sentences the way people read them.

Values come from the ledger's JSON: exact rationals are texts "p/q" or "p", decimals of a known
precision may be texts too, floats are numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from typing import Any

_RATIONAL = re.compile(r"(-?\d+)(?:/(\d+))?\Z")
_DECIMAL = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?\Z", re.IGNORECASE)
_CONTEXT = Context(prec=60, Emax=999_999_999, Emin=-999_999_999)
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_LONGEST_FRACTION = 7

DASH = "–"


def number(value: Any, digits: int = 4) -> str:
    """A number for people: short fractions as they are, the rest to a few significant digits.

    Texts that are no numbers, lists and truth values are shown as well; None is a dash.
    """
    if value is None:
        return DASH
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "(" + ", ".join(number(v, digits) for v in value) + ")"
    if isinstance(value, Mapping):
        return "; ".join(f"{name} = {number(v, digits)}" for name, v in value.items())
    rational = _RATIONAL.match(value) if isinstance(value, str) else None
    if rational and rational[2] and rational[2] != "1" and len(value) <= _LONGEST_FRACTION:
        return value.replace("-", "−")
    parsed = decimal(value)
    if parsed is None:
        return str(value)
    if not parsed.is_finite():
        return {"Infinity": "∞", "-Infinity": "−∞"}.get(str(parsed), "not a number")
    return _decimal_text(parsed, digits)


def exact(value: Any) -> str:
    """Values with nothing rounded: what somebody has to type to see a case again."""
    signs = {"inf": "∞", "-inf": "−∞"}
    return _listed(value, lambda v: signs.get(str(v)) or re.sub(r"^-(?=\d)", "−", str(v)))


def shown(value: Any) -> str:
    """Results: rationals exact, floats to six digits."""
    return _listed(value, lambda v: number(v, 6) if isinstance(v, float) else exact(v))


def _listed(value: Any, one: Callable[[Any], str]) -> str:
    if isinstance(value, list):
        if value and all(isinstance(v, list) and len(v) == 1 for v in value):
            value = [v[0] for v in value]  # a table with one column reads better as a list
        return "(" + ", ".join(_listed(v, one) for v in value) + ")"
    if isinstance(value, Mapping):
        return "; ".join(f"{name} = {_listed(v, one)}" for name, v in value.items())
    if value is None:
        return DASH
    if isinstance(value, bool):
        return "true" if value else "false"
    return one(value)


def ratio(value: Any) -> str:
    """Measured over bound. A ratio near 1 keeps the digits that tell it from 1."""
    parsed = decimal(value)
    if parsed is None or not parsed.is_finite() or parsed == 1:
        return "1" if parsed == 1 else number(value)
    missing = abs(1 - parsed)
    if missing >= Decimal("0.0005"):
        return _decimal_text(parsed, 4)
    sign = "−" if parsed < 1 else "+"
    if missing < Decimal("1e-5"):
        return f"1 {sign} {_decimal_text(missing, 1)}"
    return f"{parsed:.{1 - missing.adjusted()}f}".rstrip("0")


def decimal(value: Any) -> Decimal | None:
    """The value as a decimal, or None when it is not a number."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, (int, float)):
        return Decimal(value) if isinstance(value, int) else Decimal(repr(value))
    if not isinstance(value, str):
        return None
    rational = _RATIONAL.match(value)
    if rational:
        below = Decimal(rational[2] or 1)
        return _CONTEXT.divide(Decimal(rational[1]), below) if below else None
    if _DECIMAL.match(value) or value in ("inf", "-inf", "nan"):
        return Decimal(value)
    return None


def superscript(exponent: int | str) -> str:
    return str(int(exponent)).translate(_SUPERSCRIPTS)


def count(value: int) -> str:
    return f"{value:,}"


def case_line(case: Mapping[str, Any] | None) -> str:
    """A case in one line, exact."""
    return ", ".join(f"{name} = {exact(value)}" for name, value in (case or {}).items())


def shorten(text: str, limit: int) -> str:
    """At most `limit` characters, cut at a word."""
    if len(text) <= limit:
        return text
    return text[: limit - 1].rsplit(" ", 1)[0].rstrip(",;:") + " …"


def sentence(text: str) -> str:
    """Capital first letter and a full stop, where they are missing."""
    text = text.strip()
    if not text:
        return ""
    if text[:1].islower() and (len(text) < 2 or text[1].isalpha()):
        text = text[0].upper() + text[1:]
    return text if text[-1] in ".!?…" else text + "."


_GREEK = {
    "alpha": "α",
    "beta": "β",
    "gamma": "γ",
    "delta": "δ",
    "epsilon": "ε",
    "kappa": "κ",
    "lambda": "λ",
    "omega": "ω",
    "phi": "φ",
    "rho": "ρ",
    "sigma": "σ",
    "tau": "τ",
    "theta": "θ",
}
_REPLACEMENTS = (
    (re.compile(r"\b1e\+?(-?\d+)\b"), lambda m: "10" + superscript(m[1])),
    (
        re.compile(r"\b(\d(?:\.\d+)?)e\+?(-?\d+)\b"),
        lambda m: f"{m[1]}\u00a0×\u00a010{superscript(m[2])}",
    ),
    (re.compile(r"<="), "≤"),
    (re.compile(r">="), "≥"),
    (re.compile(r"!="), "≠"),
    (re.compile(r"(?<= )->(?= )"), "→"),
    (re.compile(r"(?<=\S) ([≤≥≠=<>]) (?=\S)"), "\u00a0\\1\u00a0"),
    (re.compile(r"\.\.\."), "…"),
    (re.compile(r"\bsqrt\("), "√("),
    (re.compile(r"\bceil\(([^()]*)\)"), r"⌈\1⌉"),
    (re.compile(r"\bfloor\(([^()]*)\)"), r"⌊\1⌋"),
    (re.compile(r"\blog2\b"), "log₂"),
    (re.compile(r"\bW0\b"), "W₀"),
    (re.compile(r"\^([0-9])\b"), lambda m: m[1].translate(_SUPERSCRIPTS)),
    (re.compile(r"(?<![\w-])(-)(?=\d)"), "−"),
    (re.compile(r"\b([A-Za-z])( ?)-\2(?=\d)"), r"\1\2−\2"),
    (re.compile(r"(?<=\d)-(?=\d)"), "–"),
    (re.compile(r"(?<=\d) \* (?=\d|[a-z]\b)"), " · "),
    (re.compile(r"(?<=[a-z]{2}) - (?=[a-z]{2})"), " – "),
    (re.compile(r'(^|[\s(])"(?=\S)'), r"\1“"),
    (re.compile(r'"'), "”"),
    (re.compile(r"(?<=\w)'"), "’"),
    (re.compile(r"(?<=\()\((-?[\d/.]+)\)(?=[,)])"), r"\1"),
    (re.compile(r"(?<=, )\((-?[\d/.]+)\)(?=[,)])"), r"\1"),
    (re.compile(r"\b(" + "|".join(_GREEK) + r")\b"), lambda m: _GREEK[m[1]]),
)


def typeset(text: str) -> str:
    """Plain text with the signs that a typesetter would use: ≤, …, τ, curly quotes."""
    for pattern, replacement in _REPLACEMENTS:
        text = pattern.sub(replacement, text)
    return text


_SPANS = re.compile(r"`(?P<code>[^`\n]+)`|\$(?P<tex>[^$\n]+)\$")


def spans(text: str) -> list[tuple[str, str]]:
    """A sentence in pieces: ("text", typeset), ("code", as is) from `...`, ("tex", as is) from
    $...$."""
    pieces: list[tuple[str, str]] = []
    place = 0
    for match in _SPANS.finditer(text):
        if match.start() > place:
            pieces.append(("text", typeset(text[place : match.start()])))
        kind = "code" if match["code"] else "tex"
        pieces.append((kind, match[kind]))
        place = match.end()
    if place < len(text):
        pieces.append(("text", typeset(text[place:])))
    return pieces


_LOW = re.compile(r"(?<![A-Za-z0-9])([A-Za-zα-ω])_([A-Za-z0-9α-ω]{1,4})(?![A-Za-z0-9_])")
_HIGH = re.compile(r"(?<=[A-Za-z0-9)])\^([A-Za-z0-9]|-?\d+)(?![A-Za-z0-9])")


def with_indices(markup: str) -> str:
    """HTML text in which d_E and 2^j have a lowered and a raised part."""
    return _HIGH.sub(r"<sup>\1</sup>", _LOW.sub(r"\1<sub>\2</sub>", markup))


def plain(text: str) -> str:
    """A sentence as unmarked text, for attributes and titles."""
    return "".join(piece for _, piece in spans(text))


def _decimal_text(value: Decimal, digits: int) -> str:
    if value == 0:
        return "0"
    integral = value == value.to_integral_value() if value.adjusted() < 15 else False
    if integral:
        return f"{int(value):,}".replace("-", "−")
    rounded = Context(prec=digits, Emax=999_999_999, Emin=-999_999_999).plus(value)
    exponent = rounded.adjusted()
    if -5 < exponent < 6:
        text = f"{value:,.0f}" if exponent >= digits else f"{rounded:,f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
        return text.replace("-", "−")
    mantissa = rounded.scaleb(-exponent, context=_CONTEXT).normalize()
    return f"{mantissa:f} × 10{superscript(exponent)}".replace("-", "−", 1)
