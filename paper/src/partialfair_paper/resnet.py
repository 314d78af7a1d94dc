"""A ResNet-18 in plain torch with the parameter names of torchvision, whose weights it loads."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

_WIDTHS = (64, 128, 256, 512)


class _Block(nn.Module):
    """Two 3 × 3 convolutions with a shortcut, which is a 1 × 1 convolution where the shape changes."""

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(n_in, n_out, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(n_out)
        self.conv2 = nn.Conv2d(n_out, n_out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(n_out)
        self.downsample: nn.Module | None = None
        if stride != 1 or n_in != n_out:
            self.downsample = nn.Sequential(
                nn.Conv2d(n_in, n_out, 1, stride, bias=False), nn.BatchNorm2d(n_out)
            )

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        shortcut = x if self.downsample is None else self.downsample(x)
        return torch.relu(shortcut + self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x))))))


class ResNet18(nn.Module):
    """ResNet-18 (He et al. 2016); parameters have torchvision's names and shapes.

    Parameters
    ----------
    n_outputs : int, default=1
        Number of outputs of the last layer, ``fc``; a single output is a score.
    """

    def __init__(self, n_outputs: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, _WIDTHS[0], 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(_WIDTHS[0])
        self.maxpool = nn.MaxPool2d(3, 2, padding=1)
        self.layer1, self.layer2, self.layer3, self.layer4 = (
            nn.Sequential(_Block(n_in, n_out, stride), _Block(n_out, n_out, 1))
            for n_in, n_out, stride in zip((64, *_WIDTHS), _WIDTHS, (1, 2, 2, 2), strict=False)
        )
        self.fc = nn.Linear(_WIDTHS[-1], n_outputs)

    def features(self, x: Tensor) -> Tensor:
        """Return the input of the last layer, (n, 512)."""
        x = self.maxpool(torch.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return x.mean(dim=(2, 3))

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs, (n, n_outputs)."""
        outputs: Tensor = self.fc(self.features(x))
        return outputs

    def load_backbone(self, state: Mapping[str, Tensor]) -> None:
        """Load the weights of all layers except the last; raise ValueError if names do not match."""
        own = {name for name in self.state_dict() if not name.startswith("fc.")}
        given = {name: value for name, value in state.items() if not name.startswith("fc.")}
        if set(given) != own:
            odd = sorted(set(given) ^ own)[0]
            raise ValueError(f"these are not the weights of a ResNet-18: {odd} is missing or unexpected")
        self.load_state_dict(given, strict=False)


def fresh_statistics(model: nn.Module) -> None:
    """Reset the statistics of batch norms; passes in training mode then estimate them again."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.reset_running_stats()
