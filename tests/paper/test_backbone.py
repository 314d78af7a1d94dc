from __future__ import annotations

import pytest

from partialfair.datasets import source
from partialfair.exceptions import DataFetchError
from partialfair_paper.networks import resnet18_backbone

WEIGHTS = "resnet18_imagenet1k_backbone_fp16.pth"


@pytest.mark.parametrize("folder", ["", "weights"])
def test_the_weights_are_found_in_both_layouts(tmp_path, folder):
    file = tmp_path / folder / WEIGHTS
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"weights")
    assert resnet18_backbone(path=tmp_path) == file
    assert resnet18_backbone(path=str(file)) == file


def test_the_variable_comes_before_the_cache(tmp_path, cache, monkeypatch):
    for place in (cache, tmp_path / "variable"):
        (place / "weights").mkdir(parents=True)
        (place / "weights" / WEIGHTS).write_bytes(b"weights")
    assert resnet18_backbone().is_relative_to(cache)
    monkeypatch.setenv(source.DATA_VARIABLE, str(tmp_path / "variable"))
    assert resnet18_backbone().is_relative_to(tmp_path / "variable")


def test_missing_weights_are_one_sentence(tmp_path, cache):
    for path in (tmp_path, None):
        with pytest.raises(DataFetchError, match="torchvision's resnet18 state dict works too") as caught:
            resnet18_backbone(path=path)
        assert f"weights/{WEIGHTS}" in str(caught.value)
        assert "\n" not in str(caught.value)
