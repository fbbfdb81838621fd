"""What every test relies on: one thread, no display, one Hypothesis profile, no leaked state."""

from __future__ import annotations

import os

# before numpy, torch or pyplot is imported: with more threads, xdist workers wait for each other,
# and sums come out in another order
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
os.environ["MPLBACKEND"] = "Agg"

from collections.abc import Iterator  # noqa: E402
from importlib import metadata  # noqa: E402
from typing import Any  # noqa: E402

import hypothesis  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402

torch.set_num_threads(1)

PROFILE = "leanlloyd"
hypothesis.settings.register_profile(
    PROFILE,
    deadline=None,  # a busy core is not a failure
    database=None,  # workers would share it
    derandomize=True,
    print_blob=True,
)
hypothesis.settings.load_profile(PROFILE)

LIBRARIES = ("numpy", "torch", "python-flint", "array-api-strict", "hypothesis", "scikit-learn")


def pytest_report_header() -> list[str]:
    profile = hypothesis.settings.get_profile(PROFILE)
    loaded = " ".join(f"{name} {metadata.version(name)}" for name in LIBRARIES)
    return [
        f"libraries: {loaded}",
        f"hypothesis profile in force: {PROFILE} (deadline {profile.deadline}, database "
        f"{profile.database}, derandomize {profile.derandomize}, max_examples "
        f"{profile.max_examples})",
        f"threads: torch {torch.get_num_threads()}, OMP {os.environ['OMP_NUM_THREADS']}; "
        f"CUDA: {torch.cuda.is_available()}",
    ]


def _global_state() -> dict[str, Any]:
    return {
        "torch default dtype": torch.get_default_dtype(),
        "torch default device": str(torch.get_default_device()),
        "torch threads": torch.get_num_threads(),
        "torch deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "torch gradients on": torch.is_grad_enabled(),
        "float32 matmul precision": torch.get_float32_matmul_precision(),
        # a subnormal is 0 when some library has switched the processor to flush them
        "subnormal numbers kept": bool(np.float64(5e-324) * np.float64(1.0) > 0),
        "numpy errstate": np.geterr(),
        "numpy print options": str(np.get_printoptions()),
        "working directory": os.getcwd(),
    }


@pytest.fixture(autouse=True)
def nothing_leaks() -> Iterator[None]:
    """Fail the test that leaves global state changed, not the one that runs after it."""
    before = _global_state()
    yield
    after = _global_state()
    assert after == before, "this test changed global state"


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A generator of random numbers that depends on the test's name only."""
    name = f"{request.node.nodeid.rsplit('::', 1)[-1]}".encode()
    return np.random.default_rng(list(name))
