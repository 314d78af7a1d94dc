"""Draw the pictures of trained models: ``python docs/make_images.py [DIRECTORY]``."""

import sys
from pathlib import Path

import pandas as pd
from matplotlib import pyplot

from partialfair import PartialFairClassifier, fairness_path
from partialfair.datasets import make_admissions
from partialfair.metrics import partial_statistical_parity_difference, rank_curve
from partialfair.plotting import plot_rank_curve

MODELS = {
    "no constraint": {"constraint": None},
    "max_gap = 0.1": {"interval": (0.15, 0.40), "max_gap": 0.1},
}
MAX_GAPS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.5)


def main(directory: Path) -> None:
    """Draw everything."""
    data, new = make_admissions(3000), make_admissions(6000, seed=1)
    columns = pd.get_dummies(data.X, dtype=float)

    def prepare(X: pd.DataFrame) -> pd.DataFrame:
        X = pd.get_dummies(X, dtype=float).reindex(columns=columns.columns, fill_value=0)
        return ((X - columns.mean()) / columns.std()).fillna(0)

    X = prepare(data.X)
    draw_rank_curves(directory, data, X)
    draw_frontier(directory, data, X, (prepare(new.X), new.y, new.sensitive_features))


def draw_rank_curves(directory, data, X) -> None:
    """Train both models of the README and draw their rank curves side by side."""
    groups, interval = data.sensitive_features, (0.15, 0.40)
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


def draw_frontier(directory, data, X, validation) -> None:
    """Draw the frontier of the page on choosing, with more gaps than its example."""
    path = fairness_path(
        PartialFairClassifier(interval=(0.15, 0.40)),
        X,
        data.y,
        sensitive_features=data.sensitive_features,
        max_gaps=MAX_GAPS,
        validation=validation,
        random_state=0,
    )
    path.plot().figure.savefig(directory / "frontier.png", dpi=110)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "images")
