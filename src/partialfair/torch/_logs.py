"""What a training writes while it goes on."""

from __future__ import annotations

import csv
import io
import sys
import time
from collections.abc import Sequence

from partialfair.torch.training import EpochRecord

__all__ = ["Progress", "as_csv"]

_SECONDS_BETWEEN_LINES = 10.0


class Progress:
    """Lines within long epochs, which say when the epoch ends and read nothing from the device."""

    def __init__(self, epoch: int, n_steps: int, verbose: int) -> None:
        self.epoch, self.n_steps, self.verbose, self.done = epoch, n_steps, verbose, 0
        self.start = self.last = time.monotonic()

    def tell(self) -> None:
        """Count a step, and write a line if none was written for a while."""
        self.done += 1
        now = time.monotonic()
        if not self.verbose or now - self.last < _SECONDS_BETWEEN_LINES:
            return
        self.last = now
        left = (now - self.start) / self.done * (self.n_steps - self.done)
        sys.stderr.write(
            f"epoch {self.epoch:>3}  step {self.done:,} of {self.n_steps:,}, {left:.0f} s left\n"
        )


def as_csv(history: Sequence[EpochRecord]) -> bytes:
    """Return all epochs as a table."""
    text = io.StringIO()
    rows = [record.flat() for record in history]
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()
