"""Formulas for a terminal: TeX to one line of Unicode, by way of the MathML that the page is drawn
from."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from verify.report.formulas import mathml

_RAISED = str.maketrans("0123456789+-−=()nijkt′", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ⁿⁱʲᵏᵗ′")
_LOWERED = str.maketrans("0123456789+-−=()ijknt", "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎ᵢⱼₖₙₜ")
_MARKS = {"¯": "\u0304", "‾": "\u0304", "_": "\u0304", "~": "\u0303", "˜": "\u0303", "^": "\u0302"}
_SPACED = set("=<>≤≥≠∈→⇒⟹⟺⇔↦∝≈≡←+−±×")


def in_unicode(tex: str) -> str:
    """One line without a backslash. Where a power or an index has no sign of its own, it is
    written with ^ or _."""
    return re.sub(r"\s+", " ", _line(mathml(tex))).replace("( ", "(").replace(" )", ")").strip()


def _line(node: ET.Element) -> str:
    parts = [_line(child) for child in node]
    match node.tag:
        case "mfrac":
            return f"{_grouped(parts[0])}/{_grouped(parts[1])} "
        case "msqrt":
            return f"√{_grouped(' '.join(parts))}"
        case "msup":
            return parts[0] + _shifted(parts[1], _RAISED, "^")
        case "msub" | "munder":
            return parts[0] + _shifted(parts[1], _LOWERED, "_")
        case "msubsup" | "munderover":
            low, high = _shifted(parts[1], _LOWERED, "_"), _shifted(parts[2], _RAISED, "^")
            return parts[0] + low + high
        case "mover":
            mark = _MARKS.get(parts[1].strip())
            return parts[0] + (mark or _shifted(parts[1], _RAISED, "^"))
        case "mspace":
            return " "
        case "mo":
            text = (node.text or "").strip()
            return f" {text} " if text in _SPACED else text + " " * (text in ",;")
        case "mtext":
            return node.text or ""
        case "mtr":
            return " ".join(parts) + "; "
    text = (node.text or "").strip()
    # a function, such as log, is set apart from its argument
    return text + "".join(parts) + " " * (node.tag == "mi" and len(text) > 1)


def _grouped(text: str) -> str:
    text = text.strip()
    # 4k below a line would be read as k times a quarter
    return text if re.fullmatch(r"\d+|[^\W\d][₀-₉ᵢⱼₖₙₜ⁰¹²³⁴-⁹]*", text) else f"({text})"


def _shifted(text: str, table: dict[int, int], mark: str) -> str:
    text = text.strip()
    moved = text.replace(" ", "").translate(table)
    if all(ord(a) in table for a in text.replace(" ", "")):
        return moved
    return f"{mark}{text}" if len(text) == 1 or text.isalnum() else f"{mark}({text})"
