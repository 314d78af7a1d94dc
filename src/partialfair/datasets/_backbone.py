"""Where the weights lie that networks for images begin with."""

from __future__ import annotations

from pathlib import Path

from partialfair.datasets._source import DATA_VARIABLE, PathLike, find_named, searched
from partialfair.exceptions import DataFetchError

__all__ = ["resnet18_backbone"]

_WEIGHTS = "weights/resnet18_imagenet1k_backbone_fp16.pth"


def resnet18_backbone(*, path: PathLike | None = None) -> Path:
    """Return the file of the weights of a ResNet-18 trained on ImageNet, which is not read here.

    It holds a state dict with torchvision's names, for `torch.load` with ``weights_only=True`` and the method
    ``load_backbone`` of `partialfair_paper.resnet.ResNet18`, which ignores the last layer. The statistics
    of its batch norms may be of other images: estimate them anew by ``fresh_statistics``. Nothing is
    downloaded.

    Parameters
    ----------
    path
        The file, under any name, or the directory that holds it. Otherwise it is looked for in
        ``$PARTIALFAIR_DATA``, then in the user's cache.
    """
    found = find_named(_WEIGHTS, path)
    if found is None:
        raise DataFetchError(
            f"there is no {_WEIGHTS} in {searched(path)}, and it is never downloaded; torchvision's resnet18"
            " state dict works too, saved under that name in a directory that path= or"
            f" ${DATA_VARIABLE} names"
        )
    return found
