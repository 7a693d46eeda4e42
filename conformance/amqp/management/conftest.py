"""Lends the tests their brokers."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))

from fourfold import broker, name, own_broker  # noqa: E402, F401

import pytest  # noqa: E402

from tools import Api  # noqa: E402


@pytest.fixture
def api(broker):
    return Api(broker)
