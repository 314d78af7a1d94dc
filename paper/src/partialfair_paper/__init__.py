"""The paper's experiments as records: runs with keys, kept on disk, resumed, read as figures and tables."""

__all__ = ["register"]


def register() -> None:
    """Register the data sets of this package: its entry point in the group ``partialfair.extensions``."""
    from partialfair.extension import register_dataset
    from partialfair_paper.celeba import ENTRY

    register_dataset(ENTRY)
