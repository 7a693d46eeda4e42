"""A broker whose disk can be filled and freed again, on any machine: it keeps a reserve of nearly all that is free, and a
file takes the rest.

The margins on both sides bear that others write to the same disk meanwhile.
"""

import os
import pathlib
import tempfile

from fourfold import Broker

MARGIN_MAX = 512 << 20


class FullDisk(Broker):
    """Use `take` and `give_back`; `close` gives back too."""

    def __init__(self, *options):
        volume = os.statvfs(tempfile.gettempdir())
        free = volume.f_bavail * volume.f_frsize
        self.margin = min(MARGIN_MAX, free // 8)
        super().__init__("--storage-reserve-bytes", str(free - 2 * self.margin), *options)
        self.file = pathlib.Path(self.home) / "somebody-elses"

    def take(self):
        """Somebody else fills the disk."""
        with open(self.file, "wb") as taken:
            os.posix_fallocate(taken.fileno(), 0, 4 * self.margin)

    def give_back(self):
        self.file.unlink()
