"""Lends the tests an authority and brokers whose doors speak TLS."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))

from fourfold import name  # noqa: E402, F401
from kit import authority, secure, serve  # noqa: E402, F401
