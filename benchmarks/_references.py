"""The lowest recorded objective of each problem, in a file that is updated when a better model is found.

A reference is a model that satisfies the constraint by `partialfair.metrics` and has no more ties than the
unconstrained one, up to 0.01. Its proof is ``"global"`` if a sweep or a mixed-integer program shows that no
model is better, else ``"best known"``. A second file has its coefficients, so that it can be evaluated again.
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
"""Tolerance of a proof: objectives that are lower by less do not refute it."""


@dataclass(frozen=True)
class Reference:
    """The reference of one problem.

    Attributes
    ----------
    data
        Digest of the rows; a reference for other rows is invalid.
    free_objective, free_gap, free_ties
        Values of the unconstrained model.
    objective, gap, ties, method
        Values of the best feasible model and the method that found it; None if there is no such model.
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
        """The increase of the optimal objective by the constraint: ``f* − f_unc``."""
        return float("nan") if self.objective is None else self.objective - self.free_objective


class References:
    """The file of references, and the rule for updates.

    Parameters
    ----------
    path
        The file, which need not exist yet.
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
        """Return the reference of a problem; None if it belongs to other data."""
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
        """Record the unconstrained model, unless a better one is known; also offer it as a reference."""
        known, objective = self.of(case), case.objective(free)
        if known is None or objective < known.free_objective - ROUNDING:
            blank = Reference(
                digest_of(case), objective, case.judged_gap(free.scores), case.ties(free.scores)
            )
            self._entries[case.key] = blank
            if known is not None and known.objective is not None:  # a feasible reference remains feasible
                kept = {**vars(known), **{name: getattr(blank, name) for name in _OF_FREE}}
                self._entries[case.key] = Reference(**kept)
        self.offer(case, free, "the unconstrained model")
        return self._entries[case.key]

    def offer(self, case: Case, model: Model, method: str, proof: str = BEST_KNOWN) -> bool:
        """Record a model that is better than the reference and feasible, without more ties."""
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
        """Record that no better model than the reference exists, or no feasible model at all."""
        self._entries[case.key] = Reference(**{**vars(self._entries[case.key]), "proof": GLOBAL})

    def save(self) -> None:
        """Write the file atomically."""
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
