"""Runs the paper's experiments as records with keys, stored on disk, and reads them as figures and tables."""

__all__ = ["register"]


def register() -> None:
    """Register data sets and classes in models' files: the entry point of ``partialfair.extensions``."""
    from partialfair.extension import register_dataset, register_saved_classes
    from partialfair_paper.celeba import ENTRY
    from partialfair_paper.penalty import Penalty
    from partialfair_paper.projected import ProjectedGradient
    from partialfair_paper.quadratic import InterGroupPairwise, IntraGroupPairwise, QuadraticGroupAUC

    register_dataset(ENTRY)
    register_saved_classes(
        InterGroupPairwise, IntraGroupPairwise, Penalty, ProjectedGradient, QuadraticGroupAUC
    )
