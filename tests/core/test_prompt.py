"""The prompt as a whole: its order, its bytes, what is left out of it.

Golden prompts stand in tests/data/prompts. After a change that is meant, renew them and read the difference:

    RENEW_PROMPTS=1 python -m pytest tests/core/test_prompt.py
"""

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from swarmd.core.agent import Agent, MemoryRules
from swarmd.core.handoffs import Status
from swarmd.core.interaction_log import HEADING, Block, written
from swarmd.core.prompt import assemble
from swarmd.core.prompt_state import BELOW_TOKENS, KEYS_TOKENS
from swarmd.core.prompt_work import HANDOFFS_TOKENS
from swarmd.core.snapshot import Aftermath, Below, ConflictSeen, ReportSeen, Trigger
from swarmd.core.standing import STANDING_COMMAND, STANDING_TOOLS
from swarmd.core.tools import TOOLS
from tests.core.prompt_samples import HOUR, NOW, document, empty, entry, full, handoff, key, words

GOLDEN = Path(__file__).parent.parent / "data" / "prompts"
NASTY = '{"a": {x}} {0} %s %(x)s $HOME ${x} \\n {{ \\ \r\n\t"""'


def crowded():
    """Each section has more than its room."""
    return full(
        agent=replace(full().agent, memory=MemoryRules(prompt_tokens=60)),
        memory=(
            document("MEMORY.md", "".join(f"- line {n} of the notes\n" for n in range(40))),
            *(document(f"topic-{n:03}.md", f"# Topic {n}\n") for n in range(20)),
        ),
        keys=tuple(key(f"key-{n:03}", "v" * 190) for n in range(100)),
        open_handoffs=tuple(handoff(n, "w" * 4000) for n in range(1, 20)),
        conflicts=tuple(
            ConflictSeen(id=n, path="MEMORY.md", line=n, ours="o" * 900, theirs="t" * 900) for n in range(20)
        ),
    )


@pytest.mark.parametrize(("name", "make"), [("empty", empty), ("full", full), ("crowded", crowded)])
def test_the_golden_prompts_still_look_like_this(name, make):
    prompt = assemble(make(), words)
    left_out = "".join(f"{s.name}: {s.tokens} tokens; {s.left_out}\n" for s in prompt.sections)
    text = f"{prompt.system}=== user\n{prompt.user}=== sections\n{left_out}"
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("RENEW_PROMPTS"):
        path.write_text(text, encoding="utf-8", newline="")
    assert path.read_bytes() == text.encode()


def user(snapshot):
    return assemble(snapshot, words).user


def section(snapshot, name):
    return next(s for s in assemble(snapshot, words).sections if s.name == name)


def test_equal_snapshots_give_equal_bytes():
    assert assemble(full(), words) == assemble(full(), words)


def test_sections_come_from_what_changes_least_to_what_changes_most():
    names = [s.name for s in assemble(full(), words).sections]
    assert names == [
        "system", "memory", "files", "keys", "below", "handoffs", "sent", "last_session", "why", "time",
    ]  # fmt: skip
    text = user(full())
    places = [text.index(f" section {name}: ") for name in names[1:]]
    assert places == sorted(places)


def test_all_tokens_belong_to_a_section():
    prompt = assemble(full(), words)
    assert prompt.tokens == sum(s.tokens for s in prompt.sections)
    assert abs(prompt.tokens - words(prompt.system + prompt.user)) <= len(prompt.sections)


def test_the_system_prompt_stands_first_byte_for_byte():
    for text in (NASTY, "no line end", "ends\n", "\ufeff  spaces \r\n"):
        prompt = assemble(empty(agent=Agent(name="studio", system_prompt=text)), words)
        assert prompt.system == text + "\n\n" + STANDING_COMMAND


def test_the_system_part_is_the_same_whatever_the_state():
    calm, busy = assemble(empty(), words), assemble(full(), words)
    assert calm.system == busy.system
    later = assemble(full(now=NOW + HOUR), words)
    assert later.system == busy.system


def test_another_kind_of_runner_can_have_other_rules():
    assert assemble(empty(), words, standing="use the tools\n").system.endswith("\n\nuse the tools\n")


def test_models_with_tools_are_told_of_tools_and_programs_of_commands():
    systems = {
        kind: assemble(empty(agent=Agent(name="studio", runner_kind=kind)), words).system
        for kind in ("command", "anthropic", "claude-code", "codex")
    }
    assert systems["command"].endswith(STANDING_COMMAND)
    assert {systems["anthropic"], systems["claude-code"], systems["codex"]} == {STANDING_TOOLS}
    named = set(re.findall(r"`([a-z]+_[a-z]+)`", STANDING_TOOLS))
    assert named <= set(TOOLS)
    assert len(named) > 15


def test_a_prompt_says_where_its_sections_end():
    prompt = assemble(full(), words)
    starts = [0, *prompt.ends[:-1]]
    pieces = [prompt.user[start:end] for start, end in zip(starts, prompt.ends, strict=True)]
    assert "".join(pieces) == prompt.user
    names = [s.name for s in prompt.sections[1:]]
    assert all(f" section {name}: " in piece for name, piece in zip(names, pieces, strict=True))


def test_texts_with_braces_percents_dollars_and_backslashes_are_byte_for_byte_everywhere():
    snapshot = empty(
        agent=Agent(name="studio", system_prompt=NASTY, description=NASTY),
        memory=(document("MEMORY.md", NASTY),),
        keys=(key("k", NASTY),),
        open_handoffs=(handoff(1, NASTY),),
        sent=(handoff(2, "x", status=Status.COMPLETED, thread=(entry("p#1", "complete", NASTY),)),),
        below=(
            Below(
                agent="p", description=NASTY, last_outcome=None, last_ended=None, open_handoffs=0,
                keys=(key("q", NASTY, agent="p"),), reports=(ReportSeen(id=1, agent="p", text=NASTY, at=NOW),),
            ),
        ),
    )  # fmt: skip
    prompt = assemble(snapshot, words)
    assert prompt.system.startswith(NASTY)
    assert prompt.user.count(NASTY) == 7  # memory, key, handoff, reply; description, key and report below


def test_old_messages_do_not_come_back():
    done = tuple(handoff(n, f"old {n}", status=Status.COMPLETED) for n in range(500))
    text = user(empty(open_handoffs=(*done, handoff(900, "new one"), handoff(901, "new two"))))
    assert text.count("begin text: handoff") == 2
    assert "new one" in text
    assert "new two" in text
    assert "age 3h" in text
    assert "old" not in text


def test_a_handoff_that_waits_for_an_answer_is_no_open_work():
    assert "empty section handoffs" in user(empty(open_handoffs=(handoff(8, status=Status.WAITING),)))


def test_urgent_work_comes_first_then_the_oldest():
    text = user(
        empty(
            open_handoffs=(
                handoff(1, created=NOW - HOUR),
                handoff(2, created=NOW - 5 * HOUR),
                handoff(3, priority="urgent", created=NOW),
                handoff(4, priority="low", created=NOW - 90 * HOUR),
            )
        )
    )
    places = [text.index(f"\nhandoff {n} from") for n in (3, 2, 1, 4)]
    assert places == sorted(places)


def test_an_overdue_handoff_is_more_urgent_and_says_why():
    assert "urgent (sent as high, overdue)" in user(full())


def test_what_does_not_fit_is_named_in_place_and_in_the_sections():
    snapshot = empty(open_handoffs=tuple(handoff(n, "w" * 8000) for n in range(1, 401)))
    found = section(snapshot, "handoffs")
    assert found.left_out.endswith("more: `swarmd handoff list`")
    assert f"({found.left_out.split('; ')[-1]})" in user(snapshot)
    assert found.tokens <= HANDOFFS_TOKENS


def test_open_work_that_the_store_did_not_give_is_counted_too():
    assert "998 more: `swarmd handoff list`" in user(
        empty(open_handoffs=(handoff(1),), more_open_handoffs=998)
    )


def test_of_a_long_thread_the_newest_entry_stays():
    thread = tuple(entry("house#5", "answer", f"answer {n} " + "w" * 8000) for n in range(8))
    text = user(empty(open_handoffs=(handoff(1, "the task", thread=thread),)))
    assert "the task" in text
    assert "answer 7 w" in text
    assert "answer 6 w" not in text
    assert "7 earlier entries of its thread left out: `swarmd handoff show 1`" in text


def memory(text, tokens=100):
    agent = Agent(name="studio", memory=MemoryRules(prompt_tokens=tokens))
    return empty(agent=agent, memory=(document("MEMORY.md", text),))


def test_memory_is_cut_at_a_line_end_and_says_how_much_more_there_is():
    text = "".join(f"line {n}\n" for n in range(1000))
    shown = user(memory(text))
    body = shown.split("begin text: MEMORY.md")[1].split("]\n", 1)[1].split("\n[", 1)[0]
    assert text.startswith(body)
    assert body.endswith("\n")
    assert words(body) <= 100 < words(body) + 5
    left = words(text[len(body) :])
    assert f"MEMORY.md goes on: {left:,} more tokens, read $SWARMD_MEMORY/MEMORY.md" in shown
    total = words(body) + left
    told = f"it takes {total:,} tokens and its room here is 100: cut at least {total - 100:,}"
    assert told in section(memory(text), "memory").left_out
    # Who cuts as much is told nothing more of it.
    assert "cut at least" not in user(memory(text[: -4 * (total - 100)]))


def logged(notes="", after="", entries=50, tokens=400):
    blocks = "".join(
        written(Block(role="Human", at=f"2026-01-01T00:00:{n:02}+00:00", text=f"entry {n}"))
        for n in range(entries)
    )
    agent = Agent(name="studio", memory=MemoryRules(prompt_tokens=tokens, log=True))
    text = f"# Notes\n{notes}\n{HEADING}\n\n{blocks}{after}"
    return text, empty(agent=agent, memory=(document("MEMORY.md", text),))


def texts_in(shown):
    """The blocks of a prompt's section of memory, byte for byte."""
    return [each.split("]\n", 1)[1].split("\n[")[0] for each in shown.split("begin text: MEMORY.md")[1:]]


def test_of_a_memory_with_a_log_that_is_past_its_room_the_oldest_entries_are_left_out():
    text, snapshot = logged(after="## More\nkept too\n")
    shown = user(snapshot)
    before, after = texts_in(shown)
    assert before == f"# Notes\n\n{HEADING}\n\n"
    assert after.startswith("### Human")
    assert after.endswith("entry 49\n\n---\n\n## More\nkept too\n")
    assert text.endswith(after)
    assert words(before) + words(after) <= 400 < words(before) + words(after) + 40
    gone = text[len(before) : len(text) - len(after)]
    told = section(snapshot, "memory").left_out
    assert (
        f"left out here: {gone.count('### Human')} older entries of its log, {words(gone):,} tokens" in told
    )
    assert "and its room here is 400: cut at least" in told


def test_of_long_notes_before_a_log_half_the_room_is_shown():
    text, snapshot = logged(notes="a note of mine\n" * 500)
    before, after = texts_in(user(snapshot))
    assert text.startswith(before)
    assert words(before) <= 200
    assert after.endswith("entry 49\n\n---\n\n")
    told = section(snapshot, "memory").left_out
    assert "left out here: the rest of what stands before its log and " in told


def test_a_log_whose_end_has_no_room_is_cut_as_any_text_is():
    _, snapshot = logged(after="x" * 4000)
    assert "MEMORY.md goes on: " in section(snapshot, "memory").left_out


def test_a_megabyte_of_log_is_not_counted_whole():
    counted = []

    def count(text):
        counted.append(len(text))
        return words(text)

    assemble(logged(entries=60, notes="n " * 400_000, tokens=4000)[1], count)
    assert sum(counted) < 400_000


def test_the_room_of_a_memory_is_no_more_than_its_summarizer_can_take():
    agent = Agent(name="studio", memory=MemoryRules(prompt_tokens=4000, context_tokens=100))
    shown = user(empty(agent=agent, memory=(document("MEMORY.md", "word " * 200),)))
    assert "its room here is 100: cut at least" in shown


def test_an_agent_that_keeps_no_memory_is_promised_none_and_shown_none():
    for kind in ("command", "anthropic"):
        agent = Agent(name="studio", runner_kind=kind, memory=MemoryRules(persistent=False))
        made = assemble(full(agent=agent, memory=(), archived=0), words)
        assert "You have none: no file of yours outlives the session" in made.system
        assert "memory append" not in made.system
        assert "memory_write" not in made.system
        assert "Keep notes by topic" not in made.system
        assert "empty section memory]" in made.user
        assert "empty section files]" in made.user


def test_memory_near_its_room_warns_with_figures():
    assert "MEMORY.md takes 90 of its 100 tokens here: prune it" in user(memory("x" * 357 + "\n" + "yy"))
    assert "prune it" not in user(memory("x" * 300))


def test_memory_of_exactly_its_room_is_whole():
    assert section(memory("x" * 400), "memory").left_out == ""


def test_one_endless_line_of_memory_is_cut_inside_and_says_so():
    text = user(memory("x" * 1_000_000))
    assert "x" * 390 in text
    assert "(cut inside a line)" in text


def test_a_short_line_before_an_endless_one_does_not_hide_it():
    assert "y" * 300 in user(memory("# Notes\n" + "y" * 100_000))


def test_no_room_for_memory_means_only_its_size():
    text = user(memory("secret plans\n", tokens=0))
    assert "secret" not in text
    assert "MEMORY.md goes on: 4 more tokens" in text


def test_a_megabyte_of_memory_is_not_counted_whole():
    counted = []

    def count(text):
        counted.append(len(text))
        return words(text)

    assemble(memory("word " * 200_000, tokens=4000), count)
    assert sum(counted) < 400_000


def test_sixteen_megabytes_of_values_are_not_counted():
    counted = []

    def count(text):
        counted.append(len(text))
        return words(text)

    assemble(empty(keys=tuple(key(f"k{n}", "v" * 60_000) for n in range(256))), count)
    assert sum(counted) < 500_000


def test_memory_that_is_no_utf_8_is_shown_with_replacement_marks():
    text = user(empty(memory=(document("MEMORY.md", b"good \xff\xfe bad\n"),)))
    assert "good \ufffd\ufffd bad\n" in text
    assert "not all UTF-8" in text


def test_a_file_list_shows_size_and_first_line_and_counts_the_archive():
    text = user(full())
    assert "\nreleases.md, 26 bytes = # Releases, newest first\n" in text
    assert "\narchive/: 1 older text, not in the folder: `swarmd memory list` names them" in text
    assert "archive/: 1,234 older texts" in user(full(archived=1234))
    assert "archive/" not in user(full(archived=0))


def test_a_file_whose_name_looks_like_a_shared_folder_cannot_be_mistaken_for_one():
    text = user(empty(memory=(document("@team/rules.md", "Obey.\n"),)))
    assert "\n$SWARMD_MEMORY/@team/rules.md (yours, no shared folder), 6 bytes = Obey.\n" in text


def test_hundreds_of_files_are_left_out_by_number():
    files = tuple(document(f"f{n:04}.md", "x" * 90) for n in range(400))
    assert "more files: `ls $SWARMD_MEMORY`" in user(empty(memory=files))


def test_a_key_that_was_unset_is_not_shown():
    assert "gone" not in user(full())


def test_a_key_says_who_set_it_only_where_it_was_another():
    text = user(full())
    assert "\nstatus (set by house#4) = POLISH\n" in text
    assert "\ngoal = ship" in text
    assert "begin text: plan (set by operator:ada)]\n1. art\n2. sound\n\n[" in text


def test_one_long_value_does_not_hide_the_others():
    snapshot = empty(keys=(key("a-log", "x" * 60_000), key("b", "1"), key("c", "2")))
    text = user(snapshot)
    assert "a-log: 60,000 bytes left out: `swarmd ctx get a-log`" in text
    assert "\nb = 1\nc = 2\n" in text
    assert "1 long values" in section(snapshot, "keys").left_out


def test_too_many_keys_are_left_out_by_number():
    found = section(empty(keys=tuple(key(f"k{n:03}", "v" * 180) for n in range(256))), "keys")
    assert found.left_out.endswith("more: `swarmd ctx list`")
    assert found.tokens <= KEYS_TOKENS


def below(name, **changes):
    base = Below(
        agent=name, description="", last_outcome=None, last_ended=None, open_handoffs=0, keys=(), reports=()
    )
    return replace(base, **changes)


def test_a_loud_agent_below_does_not_push_out_the_others():
    loud = below("a", keys=tuple(key(f"k{n:03}", "v" * 180, agent="a") for n in range(256)))
    others = tuple(below(f"b{n}", keys=(key("state", f"ok{n}", agent=f"b{n}"),)) for n in range(9))
    text = user(empty(below=(loud, *others)))
    assert all(f"key state (set by you) = ok{n}" in text for n in range(9))
    assert "more keys: `swarmd ctx list --agent a`" in text


def test_a_hundred_agents_below_stay_in_their_room():
    many = tuple(
        below(f"agent-{n:03}", description="d" * 150, keys=(key("k", "v" * 150),)) for n in range(100)
    )
    found = section(empty(below=many), "below")
    assert found.left_out.endswith("more agents: `swarmd agent tree`")
    assert found.tokens <= BELOW_TOKENS


def test_the_newest_report_comes_first():
    text = user(full())
    assert text.index("level 4 is stuck") < text.index("level 3 is done")


def test_what_was_saved_is_never_called_committed():
    for snapshot in (empty(last_started=NOW, last_outcome="committed"), full(last_outcome="committed")):
        prompt = assemble(snapshot, words)
        assert "commit" not in (prompt.system + prompt.user).lower()
        assert "ended: saved" in prompt.user


def test_a_question_about_what_was_sent_comes_first_with_how_to_answer():
    text = user(full())
    assert text.index("handoff 6 to polybreak") < text.index("handoff 5 to polybreak")
    assert "`swarmd handoff answer 6 --text TEXT`" in text


def test_a_good_session_that_left_nothing_behind_leaves_the_section_empty():
    assert "empty section last_session" in user(empty(aftermath=Aftermath(session=3, outcome="committed")))


def test_refusals_of_a_session_that_was_saved_are_told():
    after = Aftermath(session=3, outcome="committed", refusals=("handoff_send x: no agent is named 'x'",))
    assert "refusal = handoff_send x: no agent is named 'x'" in user(empty(aftermath=after))


def test_a_long_draft_is_left_out_by_number_and_does_not_hide_conflicts():
    after = Aftermath(
        session=3, outcome="failed", draft=tuple(f"ctx_set studio/{'k' * 80}{n}" for n in range(600))
    )
    conflict = ConflictSeen(id=1, path="MEMORY.md", line=4, ours="mine", theirs="")
    text = user(empty(aftermath=after, conflicts=(conflict,)))
    assert "more lines of the draft: `swarmd draft show`" in text
    assert "your lines = mine\nthe file's lines: none\n" in text


def test_the_time_has_weekday_and_zone_and_comes_last():
    lines = user(empty()).splitlines()
    assert lines[-3:-1] == [
        "It is Monday 30 November 2026, 00:30 +05:30 (Asia/Kolkata).",
        "This is your first session.",
    ]


def test_a_zone_that_is_gone_from_the_machine_does_not_stop_a_session():
    assert "19:00 +00:00 (UTC; the zone Mars/Olympus is not known here)" in user(empty(zone="Mars/Olympus"))


def test_the_slot_and_all_reasons_are_told():
    trigger = Trigger(kind="cron", slot=NOW, attempt=3, reasons=("first", "second"))
    text = user(empty(trigger=trigger))
    assert "trigger cron: your schedule came due\nslot 2026-11-30 00:30 +05:30\nattempt 3\n" in text
    assert "reason = first\nreason = second\n" in text


def test_a_trigger_of_a_later_version_is_still_told():
    assert "trigger comet: it was time\n" in user(empty(trigger=Trigger(kind="comet")))


def test_the_ratio_corrects_tokens_and_rooms():
    plain, more = (
        assemble(memory("x" * 300), words),
        assemble(replace(memory("x" * 300), token_ratio=1.5), words),
    )
    assert more.tokens == sum(s.tokens for s in more.sections)
    assert more.sections[0].tokens == -(-plain.sections[0].tokens * 3 // 2)
    assert more.sections[1].left_out
    assert not plain.sections[1].left_out


def test_the_rules_name_every_act_by_its_command():
    for command in (
        "ctx set KEY VALUE", "handoff complete ID --reply TEXT", "handoff send --to NAME --text TEXT", "memory append",
        "report TEXT", "checkpoint", "fail REASON", "draft show", "draft apply", "draft discard",
    ):  # fmt: skip
        assert f"swarmd {command}" in STANDING_COMMAND
    assert "$SWARMD_MEMORY" in STANDING_COMMAND
    assert "single observation" in " ".join(STANDING_COMMAND.split())
