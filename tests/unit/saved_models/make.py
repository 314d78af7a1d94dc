"""Save models of this version: ``python tests/unit/saved_models/make.py``, once per format of the file.

Files of older formats stay as they are: they show that what was saved can still be loaded.
"""

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from partialfair import PartialFairClassifier, load_model, save_model
from partialfair.persistence import FORMAT

HERE = Path(__file__).parent
SHOWN = 12


def people() -> pd.DataFrame:
    """Two hundred made people, with gaps."""
    rng = np.random.default_rng(0)
    n = 200
    sex, merit = rng.choice(["f", "m"], n), rng.normal(size=n)
    table = pd.DataFrame(
        {
            "sex": sex,
            "old": rng.random(n) < 0.5,
            "test": (merit - 0.5 * (sex == "f")).round(2),
            "years": rng.integers(0, 30, n),
            "school": rng.choice(["art", "law"], n),
            "hired": np.where(merit + rng.normal(size=n) > 0, "yes", "no"),
        }
    )
    table.loc[::9, "years"] = np.nan
    return table


def record(name: str, model, table: pd.DataFrame, features: list[str], groups: list[str]) -> None:
    """Write beside the model what it makes of some rows."""
    rows = table.head(SHOWN)
    arguments = (rows[features].to_numpy(), rows[groups]) if features else (rows,)
    expected = {
        "table": rows.astype(object).where(rows.notna(), None).to_dict(orient="list"),
        "features": features,
        "groups": groups,
        "scores": model.decision_function(*arguments).tolist(),
        "labels": [str(label) for label in model.predict(*arguments)],
    }
    (HERE / f"{name}.json").write_text(json.dumps(expected, indent=1) + "\n")


def make() -> None:
    """Save a classifier with crossed groups, each with an interval, and a model of the command line."""
    table = people().astype({"years": float})
    features, groups = ["test", "years"], ["sex", "old"]
    filled = table.fillna({"years": 0.0})
    interval = {(sex, old): (0.0, 0.5) if sex == "f" else (0.1, 0.6) for sex in "fm" for old in (False, True)}
    classifier = PartialFairClassifier(
        interval=interval, max_gap=0.3, enforce="surrogate", group_terms="intercept"
    )
    classifier.fit(filled[features].to_numpy(), filled["hired"], sensitive_features=filled[groups])
    save_model(classifier, HERE / f"format{FORMAT}-classifier.skops")
    record(f"format{FORMAT}-classifier", classifier, filled, features, groups)
    with TemporaryDirectory() as directory:
        path = Path(directory) / "people.csv"
        table.to_csv(path, index=False)
        out = HERE / f"format{FORMAT}-table.skops"
        run = "from partialfair.cli import main; main()"
        command = [sys.executable, "-c", run, "train", str(path), "--target", "hired", "--group", "sex"]
        options = ["--interval", "0", "1", "--max-gap", "0.3", "--out", str(Path(directory) / out.name)]
        subprocess.run([*command, *options], check=True)
        out.write_bytes((Path(directory) / out.name).read_bytes())
    record(out.stem, load_model(out), table, [], [])


if __name__ == "__main__":
    make()
