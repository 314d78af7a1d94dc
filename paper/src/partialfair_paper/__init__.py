"""Runs the paper's experiments, stores each run on disk under a key, and makes figures and tables of them."""

__all__ = ["register"]


def register() -> None:
    """Register the data set and the classes that model files may hold (group ``partialfair.extensions``)."""
    from partialfair.extension import register_dataset, register_saved_classes
    from partialfair_paper.celeba import ENTRY
    from partialfair_paper.penalty import Penalty
    from partialfair_paper.projected import ProjectedGradient
    from partialfair_paper.quadratic import InterGroupPairwise, IntraGroupPairwise, QuadraticGroupAUC

    register_dataset(ENTRY)
    register_saved_classes(
        InterGroupPairwise, IntraGroupPairwise, Penalty, ProjectedGradient, QuadraticGroupAUC
    )
