"""Prices come from the list that is installed, or are unknown; nothing is fetched."""

import subprocess
import sys

import pytest

from swarmd.core.wire import Usage
from swarmd.runners.prices import price

MILLION = 1_000_000


def test_what_goes_in_from_the_cache_and_into_it_has_prices_of_its_own():
    model = "claude-sonnet-4-5"
    assert price(model, Usage(tokens_in=MILLION // 10, tokens_out=0)) == pytest.approx(0.3)
    assert price(model, Usage(tokens_in=0, tokens_out=MILLION // 10)) == pytest.approx(1.5)
    assert price(model, Usage(tokens_in=0, tokens_out=0, cache_read=100_000)) == pytest.approx(0.03)
    assert price(model, Usage(tokens_in=0, tokens_out=0, cache_write=100_000)) == pytest.approx(0.375)
    assert price(model, Usage(tokens_in=0, tokens_out=0)) == 0.0


@pytest.mark.parametrize(
    ("model", "usage"),
    [
        ("", Usage(tokens_in=1, tokens_out=1)),
        ("no-such-model", Usage(tokens_in=1, tokens_out=1)),
        ("claude-sonnet-4-5", Usage()),
        ("claude-sonnet-4-5", Usage(tokens_in=1)),
        ("claude-sonnet-4-5", Usage(tokens_in=-5, tokens_out=1)),
        ("claude-sonnet-4-5", Usage(tokens_in=1, tokens_out=1, cache_read=-5)),
    ],
)
def test_what_is_not_known_stays_unknown(model, usage):
    assert price(model, usage) is None


def test_nothing_is_fetched_and_the_list_is_loaded_only_when_a_price_is_asked_for():
    code = (
        "import socket, sys\n"
        "def no(*a, **k): raise SystemExit('a connection was tried')\n"
        "socket.socket.connect = socket.create_connection = socket.getaddrinfo = no\n"
        "from swarmd.runners.prices import price\n"
        "from swarmd.core.wire import Usage\n"
        "assert 'genai_prices' not in sys.modules\n"
        "assert price('gpt-5', Usage(tokens_in=1000, tokens_out=1000))\n"
        "assert price('no-such-model', Usage(tokens_in=1000, tokens_out=1000)) is None\n"
        "import threading; assert threading.active_count() == 1\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
