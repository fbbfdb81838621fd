"""The report: what is in it, that it stands alone, and that nothing breaks it."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import re
import subprocess
import sys
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from verify import claims, ledger
from verify.claim import PROFILES, Case, Evidence, Kind, Method, Run, Verdict
from verify.report import ledger_schema, render, status_table, update_readme
from verify.report.findings import findings
from verify.report.markdown import BEGIN, END
from verify.runner import run_check
from verify.search import describe

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = jsonschema.Draft202012Validator(ledger_schema())
NASTY = 'a < b & c | d <script>alert(1)</script> "q" `x|y` $u_1 < 2$ *s* [l](http://x.y) {{ 7*7 }}'


def evidence(**changes: Any) -> dict[str, Any]:
    row = Evidence("some-check", Method.PROPERTY, "k <= 8", cases=12, seed=3953097441537618491)
    row.bound, row.measured, row.ratio = Fraction(1, 8), Fraction(1, 9), Fraction(8, 9)
    row.witness = Case(r=[Fraction(0), Fraction(1, 2)], tau=Fraction(1))
    return row.to_json() | {"sentence": describe(row)} | changes


def claim(claim_id: str = "some-claim", **changes: Any) -> dict[str, Any]:
    case = {"r": ["0", "1/2"], "tau": "1"}
    worst = {"check": "some-check", "bound": "1/8", "measured": "1/9", "ratio": "8/9"}
    row: dict[str, Any] = {
        "id": claim_id,
        "section": "surrogates",
        "title": "A claim",
        "says": "Something holds.",
        "statement": r"\sup_r g(r) \le \tfrac{1}{8}",
        "bound": r"\tfrac{1}{8}",
        "kind": "upper",
        "verdict": "confirmed",
        "hypotheses": [],
        "sources": [{"document": "summary", "place": "p. 3"}],
        "result": worst | {"witness": case, "witness_id": "0123456789"},
        "counts": {"cases": 12, "violated": 0, "undecided": 0, "excluded": 0},
        "evidence": [evidence()],
        "counterexample": None,
        "falsify": "an r with a larger gap",
        "theory": "surrogates.md#gap",
        "conflict": "",
        "replay": f"leanlloyd replay {claim_id} 0123456789",
        "fingerprint": "0123456789abcdef",
    }
    return row | changes


def book(*rows: dict[str, Any], **changes: Any) -> dict[str, Any]:
    verdicts = [row["verdict"] for row in rows]
    found: dict[str, Any] = {
        "schema": 1,
        "project": "leanlloyd",
        "version": "0.1.0",
        "packages": ["leanlloyd"],
        "title": "What the paper claims, and what was measured",
        "note": "",
        "sections": {"expressivity": "Expressivity"},
        "paper": "A. Author: A paper. arXiv:2610.09760, 2026",
        "documents": {"summary": "a summary of the paper"},
        "profile": "smoke",
        "seed": 7,
        "summary": {
            "claims": len(rows),
            "verdicts": {v: verdicts.count(v) for v in dict.fromkeys(verdicts)},
            "cases": sum(row["counts"]["cases"] for row in rows),
            "undecided": 0,
        },
        "claims": list(rows),
        "conflicts": [],
        "speed": [],
    }
    return found | changes


COUNTEREXAMPLE = {
    "id": "ef5c929b27",
    "case": {"X": [["0"], ["1"], ["2"]], "C": [["0"], ["2"]], "code": "binary"},
    "check": "as-stated",
    "assuming": [],
    "variant": "",
    "measured": "1/2",
    "bound": "0",
    "answers": {"Lloyd": [["1/2"], ["2"]], "transformer": [["0"], ["2"]]},
    "note": "point 1 is equally near to both centers",
    "script": "print('a < b & c')\n",
}
TABLE: dict[str, Any] = {
    "name": "by-k",
    "title": "Gap by k",
    "columns": ["k", "bound", "measured"],
    "rows": [[2, "1/8", 0.12], [10, "9/40", 0.22], [100, 0.2475, None]],
    "plot": {
        "x": "k",
        "lines": ["bound"],
        "points": ["measured"],
        "x_label": "number of centers k",
        "y_label": "gap / tau",
        "log_x": True,
        "log_y": False,
        "caption": "The gap stays below the bound.",
    },
}


def table(**changes: Any) -> dict[str, Any]:
    plot = {k: changes.pop(k) for k in list(changes) if k in TABLE["plot"]}
    return TABLE | {"plot": TABLE["plot"] | plot} | changes


ODD = book(
    claim("symbolic-only", result=dict.fromkeys(claim()["result"]), evidence=[], bound=""),
    claim(
        "huge",
        result=claim()["result"] | {"measured": 10**80, "bound": "1/" + "9" * 400, "ratio": "inf"},
        says="A very long text. " * 200,
        evidence=[evidence(witness={"X": [[str(i)] * 5 for i in range(200)]})],
    ),
    claim(
        "refuted-one",
        verdict="refuted",
        counterexample=COUNTEREXAMPLE,
        evidence=[evidence(violated=1, counterexample=COUNTEREXAMPLE["case"], card={})],
    ),
    claim("unplaced", section="a-new-section", verdict="open", evidence=[evidence(problem="no")]),
    claim(
        "tables",
        evidence=[
            evidence(
                tables=[
                    table(),
                    table(name="empty", rows=[]),
                    table(name="no-such-column", x="missing"),
                    table(name="names", rows=[["NE", 1, 2], ["L2", "inf", "nan"]], log_x=True),
                    table(name="masked", rows=[[1, 0, -1], [2, "0", 1]], log_y=True),
                    table(name="no-numbers", rows=[["a", None, "b"]]),
                    table(name="one-point", rows=[[2, "1/8", 0.12]]),
                    table(name="plain", plot=None) | {"plot": None},
                ]
            ),
            evidence(check="second", tables=[table(rows=[[1, 2, 3], [2, 3, 4]])]),
        ],
    ),
    claim("iff", kind="iff", result=claim()["result"] | {"measured": True, "bound": True}),
    speed=[
        {
            "where": "measured on a day on a <machine>",
            "tables": [
                {
                    "name": "bench-some",
                    "title": "Some | bench",
                    "columns": ["d", "fast / slow"],
                    "rows": [[4, 30.25]],
                }
            ],
        }
    ],
    conflicts=[
        {
            "topic": "sign",
            "says": {"summary": "above", "review": "below"},
            "claims": [{"id": "iff", "verdict": "confirmed"}, {"id": "later", "verdict": None}],
        }
    ],
)


class Page(HTMLParser):
    """What a test wants to know about a page, and whether its tags are balanced."""

    VOID = frozenset(("meta", "br", "link", "img", "input", "hr"))

    def __init__(self, source: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.headings: list[int] = []
        self.headers_without_scope = 0
        self.unnamed_drawings = 0
        self.text = ""
        self._open: list[str] = []
        self.feed(source)
        assert not self._open, f"never closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.tags.append(tag)
        self.ids += [str(named["id"])] if "id" in named else []
        self.links += [str(v) for n, v in attrs if n in ("href", "src", "xlink:href", "srcset")]
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append(int(tag[1]))
        self.headers_without_scope += tag == "th" and "scope" not in named
        hidden = named.get("aria-hidden") == "true"
        self.unnamed_drawings += tag == "svg" and not hidden and not named.get("aria-label")
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open[-1:] == [tag], f"</{tag}> closes nothing"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def real() -> tuple[dict[str, Any], dict[str, Any]]:
    """A ledger as a run writes it: one claim with proofs and figures, one with a counterexample."""
    run = Run(PROFILES["smoke"])
    done = [
        run_check(i, check.name, run)
        for i in ("thm-2.1", "sharp-gap-l2")
        for check in claims.get(i).checks
        if check.name in ("as-stated", "small-grids", "identity", "constants")
    ]
    return ledger.build(done, run), ledger.volatile(done, run, 1.0)


@pytest.fixture(scope="module")
def files(real: tuple[dict[str, Any], dict[str, Any]]) -> dict[str, str | bytes]:
    return render(*real)


@pytest.fixture(scope="module")
def odd_files() -> dict[str, str | bytes]:
    return render(ODD, {})


@pytest.fixture(params=["real", "odd"])
def source(request: pytest.FixtureRequest) -> str:
    """The page of the real and of the odd ledger."""
    name = {"real": "files", "odd": "odd_files"}[request.param]
    return str(request.getfixturevalue(name)["report.html"])


# the ledger and its schema


def test_a_built_ledger_is_valid(real):
    SCHEMA.validate(json.loads(ledger.dumps(real[0])))


def test_the_odd_ledger_is_valid_too():
    SCHEMA.validate(ODD)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda found: found.pop("seed"),
        lambda found: found["claims"][0].update(verdict="verified"),
        lambda found: found["claims"][0]["counts"].update(cases=-1),
        lambda found: found["claims"][0].update(comment="new"),
        lambda found: found["claims"][0].update(evidence=[{}]),
    ],
)
def test_the_schema_rejects(spoil):
    found = copy.deepcopy(ODD)
    spoil(found)
    assert not SCHEMA.is_valid(found)


@pytest.mark.parametrize(
    ("name", "enum"), [("verdict", Verdict), ("kind", Kind), ("method", Method)]
)
def test_the_schema_names_every_member(name, enum):
    assert ledger_schema()["$defs"][name]["enum"] == [member.value for member in enum]


def test_the_published_files(files, real):
    assert json.loads(files["ledger.json"]) == json.loads(ledger.dumps(real[0]))
    assert json.loads(files["run.json"]) == real[1]
    assert json.loads(files["ledger.schema.json"]) == ledger_schema()
    assert "figures/sharp-gap-l2--sharp-constants.svg" in files


# the page


def test_the_page_stands_alone(source):
    page = Page(source)
    outside = [link for link in page.links if not link.startswith("#")]
    assert outside == ["https://arxiv.org/abs/2610.09760"]
    assert not {"script", "link", "img", "iframe", "object", "foreignobject"} & set(page.tags)
    assert not re.search(r"url\((?!#)|@import|@font-face", source)
    assert not re.search(r"https?://(?!arxiv\.org)", source)


def test_the_page_is_accessible(source):
    page = Page(source)
    assert '<html lang="en">' in source
    assert len(set(page.ids)) == len(page.ids), "an id repeats"
    broken = {link for link in page.links if link[0] == "#" and link[1:] not in page.ids}
    assert not broken
    assert page.headings[0] == 1
    assert page.headings.count(1) == 1
    steps = zip(page.headings, page.headings[1:], strict=False)
    assert all(after <= before + 1 for before, after in steps)
    assert page.headers_without_scope == 0
    assert page.unnamed_drawings == 0


def test_every_claim_is_in_both_reports(files, real):
    page = Page(str(files["report.html"]))
    for row in real[0]["claims"]:
        assert row["id"] in page.ids
        assert f'<a id="{row["id"]}"></a>' in str(files["report.md"])
        assert row["replay"] in page.text


def test_a_counterexample_is_a_card(files):
    page = Page(str(files["report.html"]))
    assert "Counterexample without the hypothesis “no ties”" in page.text
    assert "(1/2, 2)" in page.text
    assert "from fractions import Fraction" in page.text  # the script
    assert "Lloyd        (1/2, 2)\ntransformer  (0, 2)" in str(files["report.md"])


def test_failed_checks_are_said_on_the_first_screen(odd_files):
    page = Page(odd_files["report.html"])
    assert "1 check did not do its job" in page.text
    assert page.text.index("1 check did not") < page.text.index("A verdict is computed")


def test_unchecked_conflicts_say_so(odd_files):
    assert "later: not checked yet" in Page(odd_files["report.html"]).text
    assert "later: not checked yet" in odd_files["report.md"]


def test_kept_measurements_are_shown_with_their_machine(odd_files):
    page, text = str(odd_files["report.html"]), str(odd_files["report.md"])
    assert "measured on a day on a &lt;machine&gt;" in page.lower()
    assert "Some | bench" in page
    assert "30.25" in page
    assert "How fast it is" in text
    assert "30.25" in text
    assert "How fast it is" not in str(render(book(), {})["report.html"])


def test_an_empty_ledger_has_a_report():
    page = Page(str(render(book(), {})["report.html"]))
    assert "Nothing was found that contradicts a claim" in page.text


def test_claim_texts_cannot_become_markup():
    fields = ("title", "says", "falsify", "conflict", "theory", "statement", "bound")
    nasty = claim(
        **dict.fromkeys(fields, NASTY),
        verdict="refuted",
        hypotheses=[{"name": NASTY, "says": NASTY, "extra": True}],
        sources=[{"document": "summary", "place": NASTY}],
        counterexample=COUNTEREXAMPLE
        | {"case": {"x": NASTY}, "answers": {NASTY: NASTY, "b": "c"}, "note": NASTY}
        | {"script": NASTY, "variant": NASTY},
        evidence=[
            evidence(
                sentence=NASTY,
                scope=NASTY,
                tables=[table(title=NASTY, caption=NASTY, columns=["k", "bound", "measured"])],
            )
        ],
    )
    found = book(
        nasty, conflicts=[{**ODD["conflicts"][0], "topic": NASTY, "says": {"summary": NASTY}}]
    )
    run = {"checks": [{"claim": NASTY, "check": NASTY, "seconds": 1.0}], "machine": NASTY}
    files = render(found, run)
    page = Page(str(files["report.html"]))
    assert "script" not in page.tags
    assert "<script>alert(1)</script>" in page.text
    assert "{{ 7*7 }}" in page.text
    markdown = str(files["report.md"])
    bare = re.sub(r"```.*?```|`[^`\n]*`", "", markdown, flags=re.DOTALL)
    assert "<script" not in bare.replace(r"\<", "")
    assert "](http://x.y)" not in bare.replace(r"\]", "")


def test_table_cells_keep_their_pipes_to_themselves():
    row = claim(title="P(a | b)", statement=r"P(a | b) < \|c\|", bound=r"P(a | b) < \|c\|")
    for line in status_table(book(row)).splitlines():
        assert len(re.findall(r"(?<!\\)\|", line)) == 6


# the same bytes


def test_the_same_ledger_gives_the_same_bytes_in_another_process(tmp_path, odd_files):
    (tmp_path / "ledger.json").write_text(json.dumps(ODD))
    program = (
        "import hashlib, json, sys; from verify.report import render\n"
        "files = render(json.load(open(sys.argv[1])), {})\n"
        "text = lambda c: c if isinstance(c, bytes) else c.encode()\n"
        "print(json.dumps({n: hashlib.sha256(text(c)).hexdigest() for n, c in files.items()}))"
    )
    other = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "ledger.json")],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "1"},
    )
    here = {
        name: hashlib.sha256(c if isinstance(c, bytes) else c.encode()).hexdigest()
        for name, c in odd_files.items()
    }
    assert json.loads(other.stdout) == here


# figures and findings


def test_figures_of_tables_with_the_same_name_are_two_files(odd_files):
    names = [name for name in odd_files if name.startswith("figures/")]
    assert "figures/tables--by-k.svg" in names
    assert "figures/tables--by-k-2.svg" in names
    assert not [n for n in names if "empty" in n or "no-such-column" in n or "plain" in n]


def test_findings_put_the_refuted_first():
    rows = [
        claim("a", verdict="sharpened", evidence=[evidence(sharper="half of it")]),
        claim("b"),
        claim("c", verdict="qualified", counterexample=COUNTEREXAMPLE)
        | {"hypotheses": [{"name": "no ties", "says": "no tie", "extra": True}]},
        claim("d", verdict="not reproduced"),
        claim("e", verdict="refuted", counterexample=COUNTEREXAMPLE),
    ]
    found = findings(book(*rows))
    assert [f.claim_id for f in found] == ["e", "c", "a", "d"]
    says = {f.claim_id: f.says for f in found}
    assert (
        "X = (0, 1, 2), C = (0, 2), code = binary: Lloyd (1/2, 2), transformer (0, 2)" in says["e"]
    )
    assert "does not state: no ties." in says["c"]
    assert "half of it. The worst case found reaches 0.8889 of the stated bound." in says["a"]


# the README


def test_the_readme_block_is_replaced():
    before, after = f"# Title\n\n{BEGIN}\nold\n{END}\n\nMore\n", update_readme
    text = after(before, ODD)
    assert text.startswith(f"# Title\n\n{BEGIN}\n| Claim | Verdict")
    assert text.endswith(f"{END}\n\nMore\n")
    assert "old" not in text
    assert after(text, ODD) == text
    for row in ODD["claims"]:
        assert f"(reports/report.md#{row['id']})" in text


@pytest.mark.parametrize("readme", ["", f"{BEGIN}\n", f"{END}\n{BEGIN}\n"])
def test_a_readme_without_markers_is_refused(readme):
    with pytest.raises(ValueError, match="status:begin"):
        update_readme(readme, ODD)
