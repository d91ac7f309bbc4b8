"""For examples in docstrings and on pages too: the figures that a test opens are closed."""

import sys

import pytest


@pytest.fixture(autouse=True)
def close_figures():
    """Close all figures after each test."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
