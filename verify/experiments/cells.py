"""A cell: one configuration, trained from several seeds. Sweeps are lists of cells."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from constructions.arrays import checked_count
from constructions.errors import InputError
from constructions.training import Settings
from verify import handed

FORMAT = 1
_DEFAULT = Settings()
_ALWAYS = ("d", "k", "n", "code", "regularizer", "temperature")  # in the name, whatever they are

_LONGEST = 160  # characters of a configuration's name: file systems allow 255 in all


@dataclass(frozen=True)
class Cell:
    """One configuration, trained from several seeds.

    Attributes
    ----------
    settings : what a model is and how it is trained
    seeds : one model each, distinct integers >= 0
    steps : training steps, at least 1
    device : "cpu" or "cuda"

    Raises
    ------
    InputError
        no seeds, repeated ones, or a number out of its range.
    """

    settings: Settings
    seeds: tuple[int, ...]
    steps: int
    device: str = "cpu"

    def __post_init__(self) -> None:
        checked_count("steps", self.steps, 1)
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise InputError(f"seeds = {list(self.seeds)}; expected distinct ones, at least one")
        for seed in self.seeds:
            checked_count("seed", seed, 0)

    @property
    def configuration(self) -> str:
        """What is trained, as a file name: the usual settings, and others if not the default."""
        s = self.settings
        short = f"{s.temperature:g}"
        tau = short if float(short) == s.temperature else s.temperature
        parts = [f"d{s.d}-k{s.k}-n{s.n}-{s.code}-{s.regularizer}-tau{tau}"]
        for f in fields(Settings):
            value = getattr(s, f.name)
            if f.name not in _ALWAYS and value != getattr(_DEFAULT, f.name):
                parts.append(f"{f.name}={value}")
        name = "-".join(parts)
        if len(name) > _LONGEST:
            name = f"{name[:_LONGEST]}-{hashlib.sha256(name.encode()).hexdigest()[:12]}"
        return name

    @property
    def name(self) -> str:
        """The configuration and the size of the run: no two cells of a sweep share it."""
        first, count = self.seeds[0], len(self.seeds)
        plain = self.seeds == tuple(range(first, first + count))
        seeds = f"{count}" if plain else "_".join(map(str, self.seeds))
        start = f"from{first}" if plain and first else ""
        return f"{self.configuration}-{self.steps}x{seeds}{start}"

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT, "settings": asdict(self.settings)} | {
            "seeds": list(self.seeds),
            "steps": self.steps,
            "device": self.device,
        }

    @classmethod
    def from_json(cls, data: Any) -> Cell:
        """What `to_json` returned; settings that an older version did not have get their default.

        Raises
        ------
        InputError
            it is of another version.
        KeyError, TypeError
            it is something else.
        """
        if data["format"] != FORMAT:
            raise InputError(f"format {data['format']}; this version reads {FORMAT}")
        settings = Settings(**data["settings"])
        return cls(settings, tuple(data["seeds"]), data["steps"], data["device"])

    @classmethod
    def load(cls, folder: Path) -> Cell:
        """The cell that is trained in a folder.

        Raises
        ------
        InputError
            there is none, or it is not one of this version.
        """
        file = folder / "settings.json"
        try:
            return cls.from_json(handed.read(file))
        except FileNotFoundError:
            raise InputError(f"{folder} holds no training run: no settings.json in it") from None
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{file} cannot be read: {error}") from None
