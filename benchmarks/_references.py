"""The lowest objective ever recorded for each problem, in a file; lowered whenever a better model is seen.

A reference is a model that keeps the promise by `partialfair.metrics` and has no more ties than the
unconstrained one, up to .01. Its proof is ``"global"`` where a sweep or a mixed-integer program shows that
there is no better one, else ``"best known"``. Its coefficients lie in a second file beside the first, so that
anybody can judge it again.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from _design import Design
from _judging import ROUNDING, Case, Model, Ties
from partialfair.data.categoricals import CategoricalCodes

GLOBAL, BEST_KNOWN = "global", "best known"
DIGITS_OF_PROOFS = 1e-6
"""Objectives that are lower by no more do not refute a proof, which has so many digits."""


@dataclass(frozen=True)
class Reference:
    """What is known of one problem.

    Attributes
    ----------
    data
        Digest of the rows: a reference of other rows means nothing.
    free_objective, free_gap, free_ties
        Of the unconstrained model.
    objective, gap, ties, method
        Of the best model that keeps the promise, and how it was found; None if there is none.
    proof
        ``"global"`` or ``"best known"``.
    """

    data: str
    free_objective: float
    free_gap: float
    free_ties: Ties
    objective: float | None = None
    gap: float | None = None
    ties: Ties | None = None
    method: str = ""
    proof: str = BEST_KNOWN

    @property
    def price(self) -> float:
        """What the promise costs at least: ``f* − f_unc``."""
        return float("nan") if self.objective is None else self.objective - self.free_objective


class References:
    """The file, and the rule by which it is changed.

    Parameters
    ----------
    path
        Where it lies; it need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        text = path.read_text() if path.exists() else "{}"
        self.digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        self._entries = {key: _read(entry) for key, entry in json.loads(text).items()}
        self._models: dict[str, Any] = {}
        if self._archive.exists():
            with np.load(self._archive) as models:
                self._models = {_name(key): models[key] for key in models.files}

    @property
    def _archive(self) -> Path:
        return self.path.with_suffix(".npz")

    def of(self, case: Case) -> Reference | None:
        """Return what is known of a problem; None if it is not this one's data."""
        found = self._entries.get(case.key)
        return found if found is not None and found.data == digest_of(case) else None

    def model_of(self, case: Case) -> Model | None:
        """Return the reference's model with its scores."""
        known = self.of(case)
        if known is None or known.objective is None or case.key not in self._models:
            return None
        kept = self._models[case.key]
        return Design.of(case).model(kept[:, :-1].copy(), kept[:, -1].copy())

    def begin(self, case: Case, free: Model) -> Reference:
        """Note the unconstrained model, unless a better one is known; offer it as an answer too."""
        known, objective = self.of(case), case.objective(free)
        if known is None or objective < known.free_objective - ROUNDING:
            blank = Reference(
                digest_of(case), objective, case.judged_gap(free.scores), case.ties(free.scores)
            )
            self._entries[case.key] = blank
            if known is not None and known.objective is not None:  # what is feasible stays so
                kept = {**vars(known), **{name: getattr(blank, name) for name in _OF_FREE}}
                self._entries[case.key] = Reference(**kept)
        self.offer(case, free, "the unconstrained model")
        return self._entries[case.key]

    def offer(self, case: Case, model: Model, method: str, proof: str = BEST_KNOWN) -> bool:
        """Take a model if it is better than what is known, keeps the promise, and has no more ties."""
        known = self._entries[case.key]
        objective = case.objective(model)
        if known.objective is not None and objective > known.objective - ROUNDING:
            if proof == GLOBAL:
                self.prove(case)
            return False
        gap, ties = case.judged_gap(model.scores), case.ties(model.scores)
        if gap > case.max_gap + ROUNDING or not ties.within(known.free_ties):
            return False
        lowered = np.inf if known.objective is None else known.objective - objective
        proven = known.proof if lowered <= DIGITS_OF_PROOFS else BEST_KNOWN
        free = {name: getattr(known, name) for name in ("data", *_OF_FREE)}
        self._models[case.key] = np.column_stack([model.coef, model.intercept])
        self._entries[case.key] = Reference(
            **free,
            objective=objective,
            gap=gap,
            ties=ties,
            method=method,
            proof=GLOBAL if GLOBAL in (proof, proven) else BEST_KNOWN,
        )
        return True

    def prove(self, case: Case) -> None:
        """Note that nothing better than what is known exists, or that nothing exists."""
        self._entries[case.key] = Reference(**{**vars(self._entries[case.key]), "proof": GLOBAL})

    def save(self) -> None:
        """Write the file, wholly or not at all."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        scratch = self.path.with_suffix(".part")
        lines = [
            f"{json.dumps(key, ensure_ascii=False)}: {json.dumps(asdict(entry), ensure_ascii=False)}"
            for key, entry in sorted(self._entries.items())
        ]
        models = self._archive.with_suffix(".part.npz")
        known = {_file_name(key): self._models[key] for key in sorted(self._models) if key in self._entries}
        np.savez_compressed(models, **known)
        models.replace(self._archive)
        scratch.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        scratch.replace(self.path)


_OF_FREE = ("free_objective", "free_gap", "free_ties")


def digest_of(case: Case) -> str:
    """Return a digest of the rows."""
    X = case.X.to_csr() if isinstance(case.X, CategoricalCodes) else case.X
    arrays = [X.indptr, X.indices, X.data] if sparse.issparse(X) else [np.asarray(X, dtype=float)]
    digest = hashlib.sha256()
    for array in (*arrays, case.signs, case.codes):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:12]


def _file_name(key: str) -> str:
    """Return a key as a name inside an archive, where "/" would be a directory."""
    return key.replace("/", "|")


def _name(file_name: str) -> str:
    return file_name.replace("|", "/")


def _read(entry: dict[str, Any]) -> Reference:
    ties = {name: entry[name] and Ties(**entry[name]) for name in ("free_ties", "ties")}
    return Reference(**{**entry, **ties})
