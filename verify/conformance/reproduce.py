"""A program that shows a violation with the implementation's own library alone."""

from __future__ import annotations

from typing import Any

from verify.claim import Case
from verify.conformance.engine import Records
from verify.conformance.examine import Record

_ARRAYS = {
    "numpy": ("import numpy", "numpy.array({}, dtype=numpy.{})"),
    "torch": ("import torch", "torch.tensor({}, dtype=torch.{})"),
    "jax": (
        "import jax\njax.config.update('jax_enable_x64', True)",
        "jax.numpy.array({}, dtype='{}')",
    ),
    "lists": ("", "{}"),
}


def script(records: Records, record: Record) -> str:
    """The program, or "" for a case that is not the arguments of one call."""
    arguments = _arguments(records.declaration.role, record.asked or record.case)
    if not arguments:
        return ""
    place, _, name = records.name.rpartition(":")
    setup, form = _ARRAYS[records.declaration.library or "numpy"]
    lines = [f'"""{record.property}: {record.says}"""', ""]
    if place.endswith(".py"):
        lines += ["import runpy", setup, "", f"found = runpy.run_path({place!r})[{name!r}]"]
    else:
        first, *rest = name.split(".")
        path = "".join(f".{part}" for part in rest)
        lines += [setup, f"from {place} import {first}", "", f"found = {first}{path}"]
    dtype = records.declaration.dtype or "float64"
    for label, value in arguments.items():
        text = form.format(value, dtype) if isinstance(value, list) else repr(value)
        lines.append(f"{label} = {text}")
    lines += [f"print('implementation:', found({', '.join(arguments)}))"]
    for label, value in record.answers.items():
        if label != "implementation":
            lines.append(f"print({label + ':'!r}, {_plain(value)!r})")
    return "\n".join(line for line in lines if line is not None) + "\n"


def _arguments(role: str, case: Case | None) -> dict[str, Any]:
    if case is None:
        return {}
    if role in ("lloyd_step", "transformer") and "X" in case and "C" in case:
        found = {"X": _plain(case["X"]) * int(case.get("repeat", 1)), "C": _plain(case["C"])}
        return found | ({"steps": int(case.get("steps", 1))} if role == "transformer" else {})
    if role in ("weights", "surrogate") and "r" in case:
        return {"r": _plain(case["r"]), "tau": float(case["tau"])}
    if role == "attention" and "Q" in case:
        return {
            n: _plain(case[n]) if n != "scale" else float(case[n]) for n in ("Q", "K", "V", "scale")
        }
    return {}


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value if isinstance(value, (bool, str)) or value is None else float(value)
