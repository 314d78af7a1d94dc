"""Look for better references of the real settings on a GPU, where `optimality.py --make` would take days.

Three steps, of which only the second needs a machine with a CUDA device, PyTorch and NumPy (neither this
package nor its data; a GPU with fast double precision and 40 GB of memory, such as an A100 or H100):

1. ``python benchmarks/gpu_references.py export build/gpu`` writes the tables, the unconstrained models, the
   references known so far and the scripts of the search, some 3 MB: all that the other machine needs.
2. ``python build/gpu/gpu_references.py search build/gpu FOUND --part 0 --parts 4 --seconds 500`` there;
   ``FOUND/part-0-cuda.npz`` is written after every setting and every 20 seconds. Parts share the settings of
   each table, and may share a GPU. ``--device cpu`` is for trying it out.
3. ``python benchmarks/gpu_references.py collect build/gpu FOUND`` judges every model anew, exactly as
   `optimality` does, and lowers ``results/references.json`` where it is better; ``--merge FILE`` offers the
   references of another such file too. Steps 1 to 3 can be repeated: what was found is where the next search
   starts.

The search (`_gpu_search`): descents on the objective plus the excess of the smoothed gap, hundreds at once,
whose aims are corrected by the exact gap; then random steps on the exact metric, thousands at once: in the
metric of the objective's Hessian, along few coefficients, towards cheaper models that break the promise,
along differences of models, and against the objective's gradient. It is no part of ``make bench``.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

# The steps import what they need themselves: there is no package where the GPU is, and no PyTorch elsewhere.
ORDER = ("bank", "adult", "acs_income", "a9a", "law_school")
WEIGHTS = {"bank": 1.0, "adult": 1.0, "acs_income": 1.6, "a9a": 1.0, "law_school": 0.6}
"""Shares of the seconds for a setting of each table."""
METHODS = {
    "cuda": "GPU search: descents and random steps in batches",
    "cpu": "the GPU search's descents and random steps, on a CPU",
}
"""How a reference was found, by the device."""
EXPORTED = 8
"""Models of each κ that the search hands back."""


def _settings(arguments: argparse.Namespace) -> Iterator[tuple[str, str, list[Any]]]:
    """Yield each setting's name, its table and its problems."""
    from _real import real_settings

    for setting in real_settings(arguments.data, lambda key: arguments.table in key):
        name = setting[0].key.rsplit(" κ=", 1)[0]
        yield name, name.split()[0].removeprefix("real/"), setting


def _stored(name: str) -> str:
    """Return a setting's name as a name inside an archive, where "/" would be a directory."""
    return name.replace("/", "|")


def _as_array(model: Any) -> Any:
    return np.column_stack([model.coef, model.intercept])


def export(arguments: argparse.Namespace) -> None:
    """Write tables, settings and models."""
    from _references import References

    arguments.folder.mkdir(parents=True, exist_ok=True)
    references, settings, models = References(arguments.references), {}, {}
    free: dict[tuple[str, str | None], Any] = {}
    found = _found(arguments.found)
    for name, table, setting in _settings(arguments):
        case = setting[0]
        if not any(own == table for own, _ in free):
            _export_table(arguments.folder / f"{table}.npz", case)
        if (table, case.group_terms) not in free:
            free[table, case.group_terms] = case.model_of(case.fitted(constraint=None, tol=1e-8))
        model = free[table, case.group_terms]
        known = [kept for one in setting if (kept := references.model_of(one)) is not None]
        ties = case.ties(model.scores)
        settings[name] = {
            "table": table,
            "kind": case.kind,
            "interval": case.interval,
            "absolute": case.scale == "absolute",
            "alpha": case.alpha,
            "terms": case.group_terms is not None,
            "max_gaps": [one.max_gap for one in setting if case.gap(model.scores) > one.max_gap],
            "free_ties": [ties.block, ties.band],
        }
        models[_stored(name) + "|free"] = _as_array(model)
        models[_stored(name) + "|known"] = np.array(
            [_as_array(model), *map(_as_array, known), *(v for v, _ in found.get(name, []))]
        )
        print(name, settings[name]["max_gaps"], len(known), flush=True)
    (arguments.folder / "settings.json").write_text(json.dumps(settings))
    np.savez_compressed(arguments.folder / "models.npz", **models)
    here = Path(__file__)
    for script in (here, here.with_name("_gpu_search.py"), here.with_name("_gpu_problem.py")):
        (arguments.folder / script.name).write_text(script.read_text())


def _export_table(path: Path, case: Any) -> None:
    """Write features, labels and groups, in the order of groups."""
    from scipy import sparse

    from _design import Design

    X, order = Design.of(case).X, np.argsort(case.codes, kind="stable")
    arrays = {"signs": case.signs[order].astype(np.int8), "codes": case.codes[order].astype(np.int8)}
    if sparse.issparse(X):
        X = X[order].tocsr()
        arrays |= {"data": X.data, "indices": X.indices.astype(np.uint16), "indptr": X.indptr}
        arrays |= {"shape": np.array(X.shape)}
    else:
        arrays["columns"] = np.ascontiguousarray(np.asarray(X)[order].T)
    np.savez_compressed(path, **arrays)


def _found(folder: Path | None) -> dict[str, list[tuple[Any, str]]]:
    """Return what earlier searches found, and on what device, by setting."""
    found: dict[str, list[tuple[Any, str]]] = {}
    for path in sorted(folder.rglob("part-*-*.npz")) if folder else []:
        device = path.stem.rsplit("-", 1)[1]
        with np.load(path) as models:
            for key in models.files:
                found.setdefault(key.replace("|", "/"), []).extend((v, device) for v in models[key])
    return found


def search(arguments: argparse.Namespace) -> None:
    """Search for some of the settings of each table."""
    settings = json.loads((arguments.folder / "settings.json").read_text())
    by_table = {table: [n for n, s in settings.items() if s["table"] == table] for table in ORDER}
    mine = [
        name
        for own in by_table.values()
        for name in own[arguments.part :: arguments.parts]
        if arguments.table in name and settings[name]["max_gaps"]
    ]
    end = time.time() + arguments.seconds
    arguments.found.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {}
    for at, name in enumerate(mine):
        weights = [WEIGHTS[settings[other]["table"]] for other in mine[at:]]
        seconds = (end - time.time()) * weights[0] / sum(weights)
        _search_setting(arguments, name, settings[name], time.time() + seconds, results)


def _search_setting(
    arguments: argparse.Namespace, name: str, setting: dict[str, Any], end: float, results: dict[str, Any]
) -> None:
    """Descend, climb, and write the best models."""
    import torch

    from _gpu_search import Search

    start, path = time.time(), arguments.found / f"part-{arguments.part}-{arguments.device}.npz"
    with np.load(arguments.folder / "models.npz") as models:
        free, known = (models[f"{_stored(name)}|{what}"] for what in ("free", "known"))
    problem = _problem(arguments, setting, free)
    hunt = Search(problem, setting["max_gaps"], arguments.seed)
    hunt.consider(torch.as_tensor(known, device=arguments.device))

    def values() -> list[float]:
        kept = [hunt.best(gap, 1) for gap in setting["max_gaps"]]
        return [float(problem.objective(v, problem.scores(v))) if len(v) else np.nan for v in kept]

    def saved() -> None:
        best = torch.cat([hunt.best(gap, EXPORTED) for gap in setting["max_gaps"]])
        results[_stored(name)] = best.cpu().numpy()
        part = path.with_name("new-" + path.name)
        np.savez_compressed(part, **results)
        part.replace(path)

    before, share = values(), arguments.share_of_descents
    hunt.descents(arguments.descents, arguments.steps, 3, start + share * (end - start))
    while time.time() < end and not all(len(hunt.best(gap, 1)) for gap in setting["max_gaps"]):
        hunt.descents(arguments.descents, arguments.steps, 3, end)  # nothing to take random steps from yet
    saved()
    between, descended = values(), time.time() - start
    n_candidates = min(4096, max(256, 80_000_000 // len(problem.signs)))
    rounds = hunt.climb(n_candidates if arguments.device == "cuda" else 64, end, saved)
    saved()
    told = {
        "free": float(hunt.values[1]),
        "before": before,
        "descents": between,
        "after": values(),
        "seconds of descents": round(descended, 1),
        "rounds": rounds,
        "seconds": round(time.time() - start, 1),
    }
    print(name, json.dumps(told), flush=True)


def _problem(arguments: argparse.Namespace, setting: dict[str, Any], free: Any) -> Any:
    """Return the setting on the device."""
    import torch

    from _gpu_problem import Problem

    with np.load(arguments.folder / f"{setting['table']}.npz") as table:
        arrays = {key: table[key] for key in table.files}
    if "columns" in arrays:
        X = arrays["columns"].T
    else:
        X = np.zeros(arrays["shape"])
        X[np.repeat(np.arange(len(X)), np.diff(arrays["indptr"])), arrays["indices"]] = arrays["data"]
    X = torch.as_tensor(np.column_stack([X, np.ones(len(X))]), device=arguments.device)
    n_first = int((arrays["codes"] == 0).sum())
    return Problem.of(
        (X[:n_first], X[n_first:]) if setting["terms"] else (X,),
        torch.as_tensor(arrays["signs"].astype(float), device=arguments.device),
        torch.as_tensor(free, device=arguments.device),
        n_first=n_first,
        kind=setting["kind"],
        interval=tuple(setting["interval"]),
        absolute=setting["absolute"],
        alpha=setting["alpha"],
        free_ties=tuple(setting["free_ties"]),
    )


def collect(arguments: argparse.Namespace) -> None:
    """Judge what was found, and offer it to the references."""
    from _climbing import rescaled
    from _design import Design
    from _references import References

    references, found = References(arguments.references), _found(arguments.found)
    others = [References(path) for path in arguments.merge]
    with np.load(arguments.folder / "models.npz") as models:
        free = {key: models[key] for key in models.files if key.endswith("|free")}
    for name, _, setting in _settings(arguments):
        design = Design.of(setting[0])
        own = found.get(name, [])
        vectors = (free[_stored(name) + "|free"], *(v for v, _ in own))
        models = [design.model(v[:, :-1].copy(), v[:, -1].copy()) for v in vectors]
        better = [rescaled(setting[0], model) for model in models[1:]]
        for case in setting:
            if not own and not any(source.of(case) for source in (references, *others)):
                continue  # nothing is known of it, and nothing was found
            before = references.begin(case, models[0])
            for other in others:
                if (known := other.of(case)) and (model := other.model_of(case)) is not None:
                    references.offer(case, model, known.method, known.proof)
            between = references.of(case)
            for model, (_, device) in zip(better, own, strict=True):
                references.offer(case, model, METHODS[device])
            _tell(case.key, before, between, references.of(case))
        references.save()


def _tell(key: str, before: Any, between: Any, after: Any) -> None:
    """Print what each of the two sources improved, in shares of the price."""
    share = [
        (old.objective - after.objective) / max(after.price, 1e-300) if old.objective is not None else np.nan
        for old in (before, between)
    ]
    print(
        f"{key}: {after.objective} of price {after.price:.6f}, {after.method}; lower by {share}", flush=True
    )


def main() -> None:
    """Take one of the three steps."""
    results = Path(__file__).resolve().parent / "results"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("step", choices=["export", "search", "collect"])
    parser.add_argument("folder", type=Path, help="of what is exported")
    parser.add_argument("found", type=Path, nargs="?", help="folder of what is found")
    parser.add_argument("--table", default="", help="only settings whose name has this in it")
    parser.add_argument("--references", type=Path, default=results / "references.json")
    parser.add_argument("--merge", type=Path, nargs="*", default=[], help="other files of references")
    parser.add_argument("--data", type=Path, default=None, help="directory of the data files")
    parser.add_argument("--part", type=int, default=0)
    parser.add_argument("--parts", type=int, default=1)
    parser.add_argument(
        "--seconds", type=float, default=500.0, help="of the search, for all settings of the part"
    )
    parser.add_argument("--share-of-descents", type=float, default=0.45, help="of the seconds, at most")
    parser.add_argument("--descents", type=int, default=48, help="at once, for each κ")
    parser.add_argument("--steps", type=int, default=70, help="of a descent, for each width")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda", choices=list(METHODS))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    {"export": export, "search": search, "collect": collect}[arguments.step](arguments)


if __name__ == "__main__":
    main()
