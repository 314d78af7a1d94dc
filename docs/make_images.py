"""Draw the README's picture of a trained model: ``python docs/make_images.py [DIRECTORY]``."""

import sys
from pathlib import Path

import pandas as pd
from matplotlib import pyplot

from partialfair import PartialFairClassifier
from partialfair.datasets import make_admissions
from partialfair.metrics import partial_statistical_parity_difference, rank_curve
from partialfair.plotting import plot_rank_curve

MODELS = {
    "no constraint": {"constraint": None},
    "max_gap = 0.1": {
        "interval": (0.15, 0.40),
        "max_gap": 0.1,
        "enforce": "surrogate",
    },
}


def main(directory: Path) -> None:
    """Train both models of the README and draw their rank curves side by side."""
    data = make_admissions(3000)
    groups, interval = data.sensitive_features, (0.15, 0.40)
    X = pd.get_dummies(data.X, dtype=float)
    X = ((X - X.mean()) / X.std()).fillna(0)
    figure, axes = pyplot.subplots(1, 2, figsize=(9.6, 4.8), layout="constrained")
    for ax, (name, settings) in zip(axes, MODELS.items(), strict=True):
        clf = PartialFairClassifier(**settings).fit(X, data.y, sensitive_features=groups)
        scores = clf.decision_function(X)
        gap = partial_statistical_parity_difference(
            None, scores, sensitive_features=groups, interval=interval
        )
        plot_rank_curve(
            rank_curve(scores, sensitive_features=groups),
            reference="North",
            interval=interval,
            title=f"{name}: gap {gap:.2f}, accuracy {clf.score(X, data.y):.3f}",
            ax=ax,
        )
    figure.savefig(directory / "trained_rank_curves.png", dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "images")
