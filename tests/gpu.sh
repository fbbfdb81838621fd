#!/usr/bin/env bash
# All GPU checks in one go, with their evidence, in under eight minutes.
#
#   tests/gpu.sh OUT [WHEELS]
#
# OUT     folder for the evidence: versions.json, one .log a step, junit.xml, claims.json, bench.json
# WHEELS  folder of wheels, for a machine without network that lacks one of the small packages:
#         pip download -d WHEELS --only-binary=:all: --python-version 3.12 \
#           --platform manylinux_2_28_x86_64 --no-deps array-api-compat array-api-strict python-flint
#
# Needs a Python (PYTHON, default python3) with torch built for CUDA, CuPy, and the packages of
# leanlloyd[test]; no tox. A GPU that is missing is a failure here, never a skip.
# Exit code 0 if every step passed.

set -uo pipefail

if [ $# -lt 1 ] || [ $# -gt 2 ]; then
    echo "usage: tests/gpu.sh OUT [WHEELS]" >&2
    exit 2
fi
mkdir -p "$1" || exit 2
out=$(cd "$1" && pwd)
wheels=${2:+$(cd "$2" && pwd)} || exit 2
python=${PYTHON:-python3}
cd "$(dirname "$0")/.." || exit 2

export LEANLLOYD_REQUIRE_GPU=1 OMP_NUM_THREADS=1 MPLBACKEND=Agg PYTHONUNBUFFERED=1
# full float32 products in CuPy; torch has them unless somebody turns TF32 on
export CUPY_TF32=0
failed=0

step() { # name, seconds at most, command...
    local name=$1 limit=$2 code=0 start=$SECONDS
    shift 2
    timeout --kill-after=10 "$limit" "$@" >"$out/$name.log" 2>&1 || code=$?
    if [ "$code" -eq 0 ]; then
        echo "ok      $name ($((SECONDS - start)) s)"
    else
        failed=1
        echo "FAILED  $name (exit code $code, $((SECONDS - start)) s); the end of $name.log:"
        tail -n 8 "$out/$name.log" | sed 's/^/        /'
    fi
}

if [ -n "$wheels" ]; then
    libraries=$(mktemp -d)
    trap 'rm -rf "$libraries"' EXIT
    step install 60 "$python" -m pip install --no-deps --no-index --target "$libraries" "$wheels"/*.whl
    export PYTHONPATH="$libraries${PYTHONPATH:+:$PYTHONPATH}"
fi

# What is really here. Fails unless a kernel ran in torch on CUDA and in CuPy.
step versions 60 "$python" - "$out/versions.json" <<'PYTHON'
import json
import platform
import sys

from verify import arithmetic

found = {"python": platform.python_version(), "arithmetics": arithmetic.settings()}
with open(sys.argv[1], "w", encoding="utf-8") as file:
    json.dump(found, file, indent=1, sort_keys=True)
sys.exit("\n".join(arithmetic.missing()))
PYTHON

step tests 120 "$python" -m pytest -p no:cacheprovider tests/backends \
    -k "cuda or cupy or gpu" --junitxml "$out/junit.xml"

# The claims about arithmetics, without the others: these need solvers that may not be here.
step claims 100 "$python" - "$out/claims.json" <<'PYTHON'
import json
import sys
from importlib import import_module

from verify import arithmetic
from verify.claim import PROFILES, Run, verdict_of

names = tuple(a.name for a in arithmetic.ARITHMETICS if a.gpu)
run = Run(PROFILES["smoke"], arithmetics=("fmpq", "numpy64", *names))
found, wrong = {}, []
for module in ("same_bits", "rounding_bounds", "determinism"):
    claim = import_module(f"verify.claims.arithmetic.{module}").CLAIM
    evidence = [check.run(claim, run) for check in claim.checks]
    found[claim.id] = {
        "verdict": verdict_of(claim, evidence),
        "evidence": [e.to_json() for e in evidence],
    }
    wrong += [f"{claim.id}: {e.violated} violated {e.problem}" for e in evidence
              if e.violated or e.problem]
with open(sys.argv[1], "w", encoding="utf-8") as file:
    json.dump(found, file, indent=1)
sys.exit("\n".join(wrong))
PYTHON

step bench 130 "$python" -m verify bench --device cuda --rounds 3 --out "$out/bench.json"

exit "$failed"
