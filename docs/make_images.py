"""Draw the frontier of the page on choosing: ``python docs/make_images.py [DIRECTORY]``."""

import sys
from pathlib import Path

import pandas as pd

from partialfair import PartialFairClassifier, fairness_path
from partialfair.datasets import make_admissions

MAX_GAPS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.5)


def main(directory: Path) -> None:
    """Trace the path of the page's example, with more gaps than it has."""
    data, new = make_admissions(3000), make_admissions(6000, seed=1)
    columns = pd.get_dummies(data.X, dtype=float)

    def prepare(X: pd.DataFrame) -> pd.DataFrame:
        X = pd.get_dummies(X, dtype=float).reindex(columns=columns.columns, fill_value=0)
        return ((X - columns.mean()) / columns.std()).fillna(0)

    path = fairness_path(
        PartialFairClassifier(interval=(0.15, 0.40)),
        prepare(data.X),
        data.y,
        sensitive_features=data.sensitive_features,
        max_gaps=MAX_GAPS,
        validation=(prepare(new.X), new.y, new.sensitive_features),
        random_state=0,
    )
    path.plot().figure.savefig(directory / "frontier.png", dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "images")
