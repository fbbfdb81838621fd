"""What the commands about claims share."""

from __future__ import annotations

from typing import Any

from verify import claims, ledger
from verify.claim import Claim, show
from verify.claims import UnknownClaimError
from verify.console import CommandError, Exit


def claim_named(claim_id: str) -> Claim:
    try:
        return claims.get(claim_id)
    except UnknownClaimError as error:
        raise CommandError(str(error)) from None


def reference_ledger() -> dict[str, Any] | None:
    path = ledger.reference_path()
    if not path.exists():
        return None
    try:
        return ledger.load(path)
    except ledger.LedgerError as error:
        raise CommandError(str(error), Exit.INFRASTRUCTURE) from None


def short(value: Any) -> str:
    return "-" if value is None else show(value)


def require_device(device: str) -> None:
    """Raise `CommandError` unless torch can compute there."""
    import torch

    if device not in ("cpu", "cuda"):
        raise CommandError(f"--device {device} is not known; allowed: cpu, cuda")
    if device == "cuda" and not torch.cuda.is_available():
        raise CommandError("--device cuda: torch finds no CUDA device here", Exit.INFRASTRUCTURE)
