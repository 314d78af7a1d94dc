"""How processes of ``torch.distributed`` end in tests."""

import os
import time
from pathlib import Path

import torch.distributed as dist


def leave_together(out: str, seconds: float = 300.0) -> None:
    """End this process once all have come here.

    A process that leaves while another still receives breaks the connection. And gloo's threads may abort a
    process that ends normally ("terminate called without an active exception"): it ends without destructors.
    """
    rank, size = dist.get_rank(), dist.get_world_size()
    arrivals = [Path(f"{out}.{each}-of-{size}.arrived") for each in range(size)]
    arrivals[rank].touch()
    end = time.monotonic() + seconds
    while not all(arrival.exists() for arrival in arrivals):
        if time.monotonic() > end:
            os._exit(1)
        time.sleep(0.01)
    os._exit(0)
