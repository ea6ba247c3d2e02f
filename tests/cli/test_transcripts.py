"""A transcript for a reader: texts plainly, calls in a line, results in a few, and nothing that a terminal obeys."""

from tests.cli.documents import LOG, NASTY

USAGE = {
    "turn": 2,
    "model": "m",
    "tokens_in": 1200,
    "tokens_out": 30,
    "cache_read": 45_000,
    "cache_write": 0,
    "usd": 0.01234,
}
EVENTS = [
    {"kind": "started", "runner": "anthropic", "model": "claude-x"},
    {"kind": "thinking", "turn": 1, "text": "hm\n" * 500},
    {"kind": "text", "turn": 1, "text": "I will look.\nThen I write."},
    {
        "kind": "tool_call",
        "turn": 1,
        "id": "1",
        "name": "ctx_set",
        "input": {"key": "status", "value": "x" * 500},
    },
    {"kind": "tool_result", "id": "1", "text": "line\n" * 30, "error": False},
    {"kind": "tool_call", "turn": 1, "id": "2", "name": "odd", "input": None},
    {"kind": "tool_result", "id": "2", "text": "no such tool", "error": True},
    {"kind": "tool_result", "id": "3", "text": "", "error": False},
    {"kind": "usage", **USAGE},
    {"kind": "usage", **dict.fromkeys(USAGE), "turn": 3},
    {"kind": "usage", **USAGE, "turn": 4, "usd": None},
    {"kind": "retry", "reason": "overloaded", "attempt": 2, "wait_seconds": 4.5},
    {"kind": "compaction", "before": 9, "after": None, "text": "sum"},
    {"kind": "warning", "text": NASTY},
    {"kind": "refused", "act": "handoff_send", "reason": "not below"},
    {"kind": "ended", "exit": 0, "signal": None, "leftovers": 2},
    {"kind": "later", "what": {"a": 1}},
    {"kind": "text", "turn": 5, "text": "All done."},
    {"kind": "result", "outcome": "success", "reason": "", "text": "All done."},
]
LINES = """\
-- anthropic, claude-x
I will look.
Then I write.
! no such tool
  done
-- turn 2: 1,200 in, 30 out, 45,000 from cache, $0.0123
-- turn 3: usage unknown
-- turn 4: 1,200 in, 30 out, 45,000 from cache, cost unknown
-- again in 4.5 s (attempt 2): overloaded
-- the history was summarized: 9 tokens before, - after
-- refused: handoff_send: not below
-- the program has ended: exit 0, 2 processes were left behind
-- later: {"what": {"a": 1}}
-- result: success
-- the program's output:
"""


def log(events, **more):
    return {
        **LOG,
        "output": "",
        "events": events,
        "events_next": 5,
        "output_next": 0,
        "events_more": False,
        **more,
    }


def test_each_kind_has_its_line(swarmd):
    ran = swarmd("session", "log", "7", session_log=log(EVENTS, output="printed\n"))
    shown = ran.text.splitlines()
    assert [line for line in LINES.splitlines() if line not in shown] == []
    assert shown.count("All done.") == 1, "a result that says what was just said is not said twice"
    assert "\x1b" not in ran.text
    assert shown[-1] == "printed"
    call = next(line for line in shown if line.startswith("> ctx_set("))
    assert call.startswith('> ctx_set(key="status", value="xxx')
    assert len(call) < 180
    assert sum(line == "  line" for line in shown) == 8
    assert "  ... 110 more characters" in shown


def test_a_result_of_its_own_is_shown(swarmd):
    events = [{"kind": "result", "outcome": "failed", "reason": "refusal", "text": "I will not."}]
    assert (
        swarmd("session", "log", "7", session_log=log(events)).text
        == "-- result: failed: refusal\n  I will not.\n"
    )


def test_all_pages_make_one_document(swarmd):
    pages = [
        log(
            [{"kind": "text", "turn": 1, "text": "one"}],
            output="all\n",
            output_next=4,
            events_next=50,
            events_more=True,
        ),
        log([{"kind": "text", "turn": 1, "text": "two"}], events_next=90),
    ]
    ran = swarmd("session", "log", "studio", "--json", session_log=pages)
    assert [e["text"] for e in ran.json["events"]] == ["one", "two"]
    assert ran.json["output"] == "all\n"
    assert ran.calls[1] == ("session_log", {"session": "7", "events_from": 50, "output_from": 4})


def test_following_asks_on_at_once_while_there_is_more_and_goes_on_to_the_end(swarmd):
    def text(word, place, *, done, more=False):
        return log(
            [{"kind": "text", "turn": 1, "text": word}], events_next=place, events_more=more, done=done
        )

    pages = [text("a", 10, done=False), text("b", 20, done=True, more=True), text("c", 30, done=True)]
    ran = swarmd("session", "log", "studio", "-f", session_log=pages)
    assert ran.text == "a\nb\nc\n"
    assert [args.get("events_from") for _, args in ran.calls] == [0, 10, 20]


def test_costs_are_shown_with_a_session(swarmd):
    from tests.cli.documents import SESSION

    used = [{**USAGE, "model": "m", "priced_by": "list"}, {**USAGE, "model": None, "usd": None}]
    ran = swarmd("session", "show", "7", session_show={**SESSION, "usd": 0.01, "usage": used})
    assert "m: 1,200 in, 30 out, 45,000 from cache, $0.0123\n" in ran.text
    assert "model unknown: 1,200 in, 30 out, 45,000 from cache, cost unknown\n" in ran.text
