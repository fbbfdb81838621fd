r"""Formulas: TeX to SVG for the page, TeX that code hosts accept for Markdown.

The SVG is drawn by ziamath. Its glyphs are pulled out into one sheet per page, so that a glyph
that appears a thousand times is stored once; lengths are in em, so that a formula scales with the
text around it.
"""

from __future__ import annotations

import re
import warnings
import xml.etree.ElementTree as ET
from html import escape

with warnings.catch_warnings():  # ziamath reads its font the old way; nothing we can change
    warnings.simplefilter("ignore", DeprecationWarning)
    import ziamath
    from ziamath.tex import tex2mml

_SIZE = 16.0
_SVG = "{http://www.w3.org/2000/svg}"
_MATHML = "{http://www.w3.org/1998/Math/MathML}"

# what the TeX reader of ziamath does not know, in terms of what it knows
_REWRITES = (
    (re.compile(r"\\operatorname\*?\s*\{([^{}]*)\}"), lambda m: _operator(m[1])),
    (re.compile(r"\\(mathbf|mathbb|mathcal|mathrm|mathsf)\s+([A-Za-z0-9])"), r"\\\1{\2}"),
    (re.compile(r"\\(?:lVert|rVert|Vert)(?![A-Za-z])"), r"\\|"),
    (re.compile(r"\\(?:lvert|rvert|vert)(?![A-Za-z])"), "|"),
    (re.compile(r"\\[bB]igg?[lrm]?\s*(?=\\[{}|]|[\[\]()|])"), ""),
    (re.compile(r"\\!"), ""),
    (re.compile(r"\\(?:lt)(?![A-Za-z])"), "<"),
    (re.compile(r"\\(?:gt)(?![A-Za-z])"), ">"),
)
_UNDER = {"sup", "inf", "max", "min", "lim", "argmax", "argmin", "limsup", "liminf"}
_FUNCTIONS = _UNDER | {"log", "ln", "exp", "sin", "cos", "Pr", "det", "rank", "Var", "tr"}
_FENCES = set("⌈⌉⌊⌋‖|")
_BOLD_DIGITS = {ord("0") + i: 0x1D7CE + i for i in range(10)}
_CLOSING = set(")]}⟩⌉⌋")
_CROWDED = {("‖", "["), ("‖", "("), ("]", "‖"), (")", "‖")}
_RELATIONS = set("~⊂⊆⊃⊇∼≈≍∝≪≫≲≳≡⟺⟸⟹⇔")
_BINARY = set("×∘⋅±")


class Formulas:
    """The formulas of one page.

    `svg` draws a formula and remembers its glyphs, `sheet` returns them. A formula that cannot be
    drawn is shown as its TeX and listed in `failed`.
    """

    def __init__(self) -> None:
        self.failed: list[str] = []
        self._drawn: dict[str, str] = {}
        self._glyphs: dict[str, tuple[str, str]] = {}

    def svg(self, tex: str) -> str:
        """A formula as an inline SVG element in the color of the text."""
        if tex not in self._drawn:
            try:
                self._drawn[tex] = self._draw(tex)
            except Exception:  # whatever ziamath chokes on; the reader still gets the TeX
                self.failed.append(tex)
                self._drawn[tex] = f'<code class="tex">{escape(tex)}</code>'
        return self._drawn[tex]

    def width(self, tex: str) -> float:
        """How wide the formula is, in em; 0 when it could not be drawn."""
        found = re.search(r"style=\"width:([\d.]+)em", self.svg(tex))
        return float(found[1]) if found else 0.0

    def sheet(self) -> str:
        """An invisible SVG element with the glyphs of all formulas drawn so far."""
        symbols = "".join(symbol for _, symbol in self._glyphs.values())
        return f'<svg width="0" height="0" class="glyphs" aria-hidden="true">{symbols}</svg>'

    def _draw(self, tex: str) -> str:
        drawing = ziamath.Math(mathml(tex), size=_SIZE).svgxml()
        left, top, width, height = (float(v) for v in drawing.attrib["viewBox"].split())
        body = []
        for element in drawing:
            tag = element.tag.removeprefix(_SVG)
            if tag == "symbol":
                self._keep(element)
            elif tag == "use":
                glyph = self._glyphs[element.attrib["href"].removeprefix("#")][0]
                box = "".join(f' {n}="{element.attrib[n]}"' for n in ("x", "y", "width", "height"))
                body.append(f'<use href="#{glyph}"{box}/>')
            else:
                body.append(_markup(element))
        label = escape(tex)
        return (
            f'<svg class="tex" role="img" aria-label="{label}" fill="currentColor" '
            f'style="width:{width / _SIZE:.3f}em;height:{height / _SIZE:.3f}em;'
            f'vertical-align:{-(top + height) / _SIZE:.3f}em" '
            f'viewBox="{left:g} {top:g} {width:g} {height:g}">'
            f"<title>{label}</title>{''.join(body)}</svg>"
        )

    def _keep(self, symbol: ET.Element) -> None:
        name = symbol.attrib["id"]
        if name not in self._glyphs:
            glyph = f"g{len(self._glyphs)}"
            paths = "".join(_markup(child) for child in symbol)
            self._glyphs[name] = (
                glyph,
                f'<symbol id="{glyph}" viewBox="{symbol.attrib["viewBox"]}" '
                f'overflow="visible">{paths}</symbol>',
            )


def for_code_host(tex: str) -> str:
    r"""TeX that survives Markdown and the filters of code hosts: no pipe (it would end a table
    cell), no angle bracket (it would start a tag), no \operatorname (GitHub rejects it)."""
    tex = re.sub(r"\\operatorname\*\s*\{([^{}]*)\}", r"\\mathop{\\mathrm{\1}}\\limits", tex)
    tex = re.sub(r"\\operatorname\s*\{([^{}]*)\}", r"\\mathop{\\mathrm{\1}}", tex)
    tex = tex.replace(r"\|", r"\Vert ").replace("|", r"\vert ")
    tex = tex.replace("<", r"\lt ").replace(">", r"\gt ")
    return " ".join(tex.split())


def _operator(name: str) -> str:
    words = re.sub(r"\\[,;: ]|~|\s", " ", name).split()
    joined = "".join(words)
    if joined in _UNDER or len(words) == 1:
        return rf"\operatorname{{{joined}}}"
    return rf"{{\text{{{' '.join(words)}}}}}"


def mathml(tex: str) -> ET.Element:
    for pattern, replacement in _REWRITES:
        tex = pattern.sub(replacement, tex)
    root = ET.fromstring(tex2mml(tex))
    for element in root.iter():
        element.tag = element.tag.removeprefix(_MATHML)
    for parent in list(root.iter()):
        _tidy(parent)
    return root


def _tidy(parent: ET.Element) -> None:
    """Spacing and limits as TeX sets them. ziamath's em is 4/3 of the font size."""
    base = _text(parent[0]) if len(parent) else ""
    if parent.tag == "msub" and base in _UNDER:
        parent.tag = "munder"
    for i, child in reversed(list(enumerate(parent))):
        text = _text(child)
        if child.tag == "mn" and child.get("mathvariant") == "bold":
            child.text = text.translate(_BOLD_DIGITS)
        elif text in _FENCES and child.tag in ("mi", "mo") and child.get("stretchy") is None:
            child.tag = "mo"
            child.attrib.update(stretchy="false", lspace="0", rspace="0")
        elif text == ",":
            child.attrib.update(form="infix", lspace="0", rspace="0.13em")
        elif text in _RELATIONS:
            child.attrib.update(form="infix", lspace="0.21em", rspace="0.21em")
        elif text in _BINARY and 0 < i < len(parent) - 1:
            child.attrib.update(form="infix", lspace="0.17em", rspace="0.17em")
        elif parent.tag in ("mrow", "math", "mstyle"):
            name = _text(child[0]) if child.tag in ("msub", "msup", "munder") else text
            if name in _FUNCTIONS:
                # min, max and lim bring their own space when something stands below them
                spaced = child.tag == "munder" and name in ("min", "max", "lim")
                if i + 1 < len(parent) and not spaced and _is_operand(parent[i + 1]):
                    parent.insert(i + 1, ET.Element("mspace", {"width": "0.13em"}))
                if i and (_is_operand(parent[i - 1]) or _text(parent[i - 1]) in _CLOSING):
                    parent.insert(i, ET.Element("mspace", {"width": "0.13em"}))
        if i and (_text(parent[i - 1]), text) in _CROWDED:
            parent.insert(i, ET.Element("mspace", {"width": "0.06em"}))


def _is_operand(element: ET.Element) -> bool:
    text = _text(element)
    return (element.tag not in ("mo", "mspace") or text == "⟨") and text not in _FUNCTIONS | _FENCES


def _text(element: ET.Element) -> str:
    return (element.text or "").strip()


def _markup(element: ET.Element) -> str:
    """An element without namespace, in the color of the text."""
    attributes = dict(element.attrib)
    for name in ("fill", "stroke"):
        if attributes.get(name) == "black":
            attributes[name] = "currentColor"
    inner = "".join(_markup(child) for child in element)
    text = "".join(f' {name}="{escape(value)}"' for name, value in attributes.items())
    return f"<{element.tag.removeprefix(_SVG)}{text}>{inner}</{element.tag.removeprefix(_SVG)}>"
