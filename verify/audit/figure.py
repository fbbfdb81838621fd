"""The figure of an audit: gaps against the temperature, error bounds against the inverse one."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from verify.audit.conclusion import lacking_steps, short
from verify.audit.gaps import REGULARIZERS

FORMATS = (".svg", ".png")
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
_DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))


def draw(found: dict[str, Any], path: Path) -> bytes:
    """The figure as the bytes of an SVG or PNG file, by the ending of `path`; nothing is written.

    The bytes are the same for the same findings.
    """
    import matplotlib
    from matplotlib.figure import Figure

    style = {"svg.hashsalt": "leanlloyd", "svg.fonttype": "none", "font.size": 9}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(10, 4.2), layout="constrained")
        left, right = figure.subplots(1, 2)
        _gaps(left, found)
        _bounds(right, found)
        data = found["data"]
        source = Path(data["source"]).name
        figure.suptitle(f"{source}: n = {data['n']}, d = {data['d']}, k = {data['k']}")
        buffer = io.BytesIO()
        kind = path.suffix.lower().lstrip(".")
        metadata = {"Date": None} if kind == "svg" else {}
        figure.savefig(buffer, format=kind, dpi=150, metadata=metadata)
    return buffer.getvalue()


def _gaps(axes: Any, found: dict[str, Any]) -> None:
    part = found["temperature"]["final"]
    axes.set_title(f"Gap of the regularized loss after {found['data']['steps']} steps")
    axes.set_xlabel("temperature τ")
    curve, objective = part["curve"], part["objective"]
    if not curve:
        _say(axes, "no curve: one center, or beyond float64")
        return
    relative = bool(objective)
    for name, color, dash in zip(REGULARIZERS, _COLORS, _DASHES, strict=False):
        pairs = [
            (t, g / objective if relative else g)
            for t, g in zip(curve["tau"], curve[name], strict=True)
            if isinstance(g, float) and g > 0
        ]
        if pairs:
            axes.plot(*zip(*pairs, strict=True), color=color, linestyle=dash, label=name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylabel("gap / k-means loss" if relative else "gap")
    if relative:
        bottom, top = axes.get_ylim()
        axes.set_ylim(max(bottom, 1e-6), top)
        for share, label in ((0.01, "1 %"), (0.1, "10 %")):
            axes.axhline(share, color="#999999", linewidth=0.7)
            axes.annotate(
                label,
                (1, share),
                xycoords=("axes fraction", "data"),
                xytext=(3, 0),
                textcoords="offset points",
                va="center",
                color="#666666",
            )
    star = part["tau_star"]["value"]
    if isinstance(star, float):
        if curve["tau"][0] <= star <= curve["tau"][-1]:
            axes.axvline(star, color="#444444", linewidth=0.9)
            axes.annotate(
                "τ*",
                (star, 1),
                xycoords=("data", "axes fraction"),
                xytext=(3, -10),
                textcoords="offset points",
                color="#444444",
            )
        else:
            axes.plot([], [], " ", label=f"τ* = {short(star)} (outside)")
    axes.legend(frameon=False)


def _bounds(axes: Any, found: dict[str, Any]) -> None:
    section = found["finite"]
    axes.set_title("Certified error of one layer, hardest step")
    axes.set_xlabel("inverse temperature γ")
    drawn = False
    for row, color, dash in zip(section["codes"], _COLORS, _DASHES, strict=True):
        pairs = [
            (g, b)
            for g, b in zip(row["curve"]["gamma"], row["curve"]["bound"], strict=True)
            if isinstance(b, float) and b > 0
        ]
        if pairs:
            drawn = True
            axes.plot(*zip(*pairs, strict=True), color=color, linestyle=dash, label=row["code"])
        for kind, marker in (("float64", "o"), ("float32", "x")):
            measured = row[kind]["measured"]
            if isinstance(measured, float) and measured > 0:
                axes.plot(
                    [row["at_gamma"]],
                    [measured],
                    marker,
                    color=color,
                    markersize=5,
                    fillstyle="none",
                )
    if not drawn:
        reasons = "\n".join(lacking_steps(section))
        _say(axes, "no certificate" + (f"\n{reasons}" if reasons else ""))
        return
    axes.set_xscale("log")
    axes.set_yscale("log")
    highest = max(b for r in section["codes"] for b in r["curve"]["bound"] if isinstance(b, float))
    axes.set_ylim(section["epsilon"] * 1e-6, 10 * max(highest, section["epsilon"]))
    axes.axhline(section["epsilon"], color="#999999", linewidth=0.7)
    axes.annotate(
        "ε",
        (1, section["epsilon"]),
        xycoords=("axes fraction", "data"),
        xytext=(3, 0),
        textcoords="offset points",
        va="center",
        color="#666666",
    )
    axes.set_ylabel("distance from Lloyd's center")
    axes.plot([], [], "o", color="#666666", label="run in float64", markersize=5, fillstyle="none")
    axes.plot([], [], "x", color="#666666", label="run in float32", markersize=5)
    axes.legend(frameon=False, fontsize=8)


def _say(axes: Any, text: str) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes, wrap=True)
