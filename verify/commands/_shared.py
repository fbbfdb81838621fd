"""What the commands about claims share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from verify import claims, ledger
from verify.claim import Claim, show
from verify.collection import OWN, Collection, CollectionError, UnknownClaimError, load
from verify.console import CommandError, Exit


def of_collection(command: Callable[..., Any]) -> Callable[..., Any]:
    """The option --claims; the command gets the `Collection` as `collection`."""
    return click.option(
        "--claims",
        "collection",
        metavar="PACKAGE",
        multiple=True,
        callback=_loaded,
        help="Claims of another paper: a package that can be imported from here, or the name of "
        "an installed collection; may be repeated, and `leanlloyd` stands for our own.",
    )(command)


def _loaded(_: click.Context, __: click.Parameter, names: tuple[str, ...]) -> Collection:
    try:
        return load(*(names or (OWN,)))
    except CollectionError as error:
        raise CommandError(str(error)) from None


def claim_named(claim_id: str, collection: Collection | None = None) -> Claim:
    try:
        return (collection or claims.collection()).get(claim_id)
    except UnknownClaimError as error:
        raise CommandError(str(error)) from None


def reference_ledger(collection: Collection | None = None) -> dict[str, Any] | None:
    try:
        return ledger.reference(collection or claims.collection())
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
