"""What a terminal shows: formulas without a backslash, and one name for one thing."""

from __future__ import annotations

import click
import pytest

from verify import claims
from verify.cli import COMMANDS, leanlloyd
from verify.report.terminal import in_unicode


@pytest.mark.parametrize(
    ("tex", "text"),
    [
        (r"\tau\,\frac{k-1}{4k}", "τ (k − 1)/(4k)"),
        (r"\min_j r_j \le \tfrac12", "minⱼ rⱼ ≤ 1/2"),
        (r"\lVert x \rVert_\infty^2 < \sqrt{2n}", "‖x‖_∞² < √(2n)"),
        (r"c_j^{(t)} \in \mathbb{R}^d", "cⱼ⁽ᵗ⁾ ∈ ℝ^d"),
        (r"\text{see the table}", "see the table"),
    ],
)
def test_formulas(tex: str, text: str) -> None:
    assert in_unicode(tex) == text


def test_every_formula_of_every_claim() -> None:
    for claim in claims.all_claims():
        for tex in (claim.statement, claim.bound):
            text = in_unicode(tex)
            assert text, claim.id
            assert "\\" not in text, claim.id
            assert "\n" not in text


TOGETHER = ({"-d", "--d"}, {"-k", "--k"}, {"-n", "--n"}, {"-j", "--jobs"})
ONE_NAME = {
    "gamma": "--gamma",
    "inverse_temperature": "--gamma",
    "tau": "--tau",
    "temperature": "--tau",
    "temperatures": "--tau",
    "code": "--code",
    "codes": "--code",
    "regularizer": "--regularizer",
    "seed": "--seed",
    "first_seed": "--seed",
    "out": "--out",
    "as_json": "--json",
}


@pytest.mark.parametrize("name", list(COMMANDS))
def test_the_same_thing_has_the_same_name_in_every_command(name: str) -> None:
    command = leanlloyd.get_command(click.Context(leanlloyd), name)
    assert command is not None
    assert "Example" in (command.help or "")
    for option in command.params:
        if isinstance(option, click.Option):
            names = set(option.opts)
            for group in TOGETHER:
                assert not names & group or group <= names, (name, names)
            assert ONE_NAME.get(option.name or "", option.opts[0]) in names
