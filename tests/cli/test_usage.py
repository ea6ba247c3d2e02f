"""What is not known is shown as unknown, and a sum that lacks something as a least."""

from tests.cli.documents import listing

SUM = {"sessions": 3, "tokens_in": 1200, "tokens_out": 30, "cache_read": 0, "cache_write": None, "usd": 12.5,
       "tokens_unknown": 0, "usd_unknown": 0}  # fmt: skip
NOTHING = {**dict.fromkeys(SUM), "sessions": 1, "tokens_unknown": 1, "usd_unknown": 1}
LACKING = {**SUM, "usd": 0.01234, "tokens_unknown": 1, "usd_unknown": 2}


def document(by, *rows, left_out=0, total=LACKING):
    return {"by": by, **listing(*rows), "left_out": left_out, "total": total}


def cells(line):
    return [cell for cell in line.split("  ") if cell]


def test_a_table_with_its_sum(swarmd):
    rows = [{"agent": "game", **SUM}, {"agent": "art", **NOTHING}, {"agent": "studio", **LACKING}]
    ran = swarmd("usage", usage=document("agent", *rows, left_out=4))
    lines = [[cell.strip() for cell in cells(line)] for line in ran.text.splitlines()]
    assert lines == [
        ["AGENT", "SESSIONS", "IN", "OUT", "FROM_CACHE", "TO_CACHE", "COST"],
        ["game", "3", "1,200", "30", "0", "unknown", "$12.50"],
        ["art", "1", "unknown", "unknown", "unknown", "unknown", "unknown"],
        ["studio", "3", "1,200+", "30+", "0+", "unknown", "at least $0.0123"],
        ["all", "3", "1,200+", "30+", "0+", "unknown", "at least $0.0123"],
    ]
    assert "4 more" in ran.err
    assert ran.calls == [("usage", {"by": "agent"})]


def test_by_what_is_asked_for(swarmd):
    ran = swarmd(
        "usage",
        "--by",
        "model",
        "--since",
        "2026-11-01",
        "-n",
        "5",
        usage=document("model", {"model": None, **SUM}),
    )
    assert ran.text.splitlines()[1].startswith("unknown ")
    assert ran.calls[0][1]["by"] == "model"
    ran = swarmd("usage", "--by", "subtree", usage=document("subtree", {"agent": "house", **SUM}))
    assert ran.text.startswith("AGENT")
    assert swarmd("usage", "--by", "moon").status == 2


def test_nothing_leaves_the_pipe_empty(swarmd):
    ran = swarmd("usage", usage=document("agent"))
    assert (ran.out, ran.err) == (b"", "swarmd: no session has ended\n")


def test_log_and_status_say_it_in_a_line(swarmd):
    from tests.cli.documents import AT, SAMPLES

    row = {"at": AT, "kind": "session", "agent": "a", "session": 7, "what": "committed", "by": "schedule",
           "tokens_in": 1000, "tokens_out": 20, "cache_read": 300, "cache_write": None, "usd": None}  # fmt: skip
    assert swarmd("log", log=listing(row)).text.strip().endswith("1,320 tokens, cost unknown")
    assert "1,000 in, 20 out, 300 from cache, cost unknown" in swarmd("log", "--stat", log=listing(row)).text
    assert "today" in swarmd("status", status=SAMPLES["status"]).text
    assert (
        "3 sessions, 1,200+ tokens in, 30+ out, cost at least $0.5000"
        in swarmd("status", status=SAMPLES["status"]).text
    )
