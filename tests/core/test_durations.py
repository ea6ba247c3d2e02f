import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarmd.core.durations import MAX_SECONDS, DurationError, format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("0s", 0),
        ("90s", 90),
        ("15m", 900),
        ("2h", 7200),
        ("1d", 86_400),
        ("1h30m", 5400),
        ("1d2h3m4s", 93_784),
        ("PT15M", 900),
        ("PT0S", 0),
        ("P1D", 86_400),
        ("P2W", 1_209_600),
        ("P1DT12H", 129_600),
        ("PT1H30M15S", 5415),
        ("3650d", MAX_SECONDS),
    ],
)
def test_a_duration_is_read_in_seconds(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it is empty"),
        ("  ", "it is empty"),
        ("15", "the unit is missing"),
        ("-5m", "it takes no sign"),
        ("+5m", "it takes no sign"),
        ("1 h", "it takes no spaces"),
        (" 1h", "it takes no spaces"),
        ("1h\n", "it takes no spaces"),
        ("1.5h", "only whole numbers"),
        ("PT0,5H", "only whole numbers"),
        ("15M", "write 15m"),
        ("pt15m", "write PT15M"),
        ("P1M", "years and months have no fixed length"),
        ("P1Y", "years and months have no fixed length"),
        ("P", "no duration"),
        ("PT", "no duration"),
        ("P1DT", "no duration"),
        ("nan", "no duration"),
        ("inf", "no duration"),
        ("1e3s", "no duration"),
        ("30m1h", "no duration"),
        ("1h1h", "no duration"),
        ("٣m", "no duration"),
        ("5min", "no duration"),
        ("3651d", "longer than the ten years allowed"),
        ("999999999999s", "longer than the ten years allowed"),
        ("9" * 5000 + "s", "no duration"),
    ],
)
def test_what_is_no_duration_is_refused_with_the_reason(text, words):
    with pytest.raises(DurationError, match=words) as caught:
        parse_duration(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


@given(st.integers(min_value=0, max_value=MAX_SECONDS))
def test_a_formatted_duration_reads_back_the_same(seconds):
    assert parse_duration(format_duration(seconds)) == seconds


def test_durations_are_formatted_short():
    assert [format_duration(s) for s in (0, 90, 3600, 5400, 86_400, -60)] == [
        "0s",
        "1m30s",
        "1h",
        "1h30m",
        "1d",
        "-1m",
    ]
