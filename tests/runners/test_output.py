"""A session's output costs constant memory, whatever it is."""

import errno
import os
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from swarmd.runners.capture import HEAD_BYTES, TAIL_BYTES, Capture
from swarmd.runners.masking import Masker, mask
from swarmd.runners.workspace import LOG_BYTES, OutputLog
from tests.runners.machines import text_of


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_endless_output_without_a_newline_costs_constant_memory(machine, monkeypatch):
    peak = 0

    def look(self, chunk, feed=Capture.feed):
        nonlocal peak
        peak = max(peak, _resident())
        feed(self, chunk)

    monkeypatch.setattr(Capture, "feed", look)
    before = _resident()
    script = "printf first; head -c 200000000 /dev/zero; printf last; head -c 20000000 /dev/zero | tr '\\0' '\\n' >&2"
    result = await machine.run("sh", "-c", script, secrets=("some-secret",))
    assert result.outcome == "success"
    assert peak - before < 20_000_000
    assert (len(result.stdout.head), len(result.stdout.tail)) == (HEAD_BYTES, TAIL_BYTES)
    assert result.stdout.dropped == 200_000_009 - HEAD_BYTES - TAIL_BYTES
    assert result.stdout.head.startswith(b"first\0")
    assert result.stdout.tail.endswith(b"\0last")
    log = machine.state / "sessions/1/output.log"
    assert LOG_BYTES <= log.stat().st_size < LOG_BYTES + 100
    left_out = 220_000_009 - LOG_BYTES
    assert f"\n[... {left_out} bytes left out ...]\n".encode() in log.read_bytes()


async def test_the_log_of_much_output_keeps_its_beginning_and_its_end(machine):
    script = "echo HEADMARK; head -c 12000000 /dev/zero | tr '\\0' 'x'; echo TAILMARK"
    result = await machine.run("sh", "-c", script)
    assert result.outcome == "success"
    log = (machine.state / "sessions/1/output.log").read_bytes()
    left_out = 12_000_000 + len(b"HEADMARK\nTAILMARK\n") - LOG_BYTES
    assert log.startswith(b"HEADMARK\nxxx")
    assert log.endswith(b"xxxTAILMARK\n")
    assert log.count(f"\n[... {left_out} bytes left out ...]\n".encode()) == 1
    assert LOG_BYTES <= len(log) < LOG_BYTES + 100


def test_a_log_of_just_what_it_may_have_is_whole(tmp_path):
    whole = bytes(range(256)) * 100
    log = OutputLog(str(tmp_path / "log"), limit=len(whole), tail=1000)
    for start in range(0, len(whole), 700):
        log.write("stdout", whole[start : start + 700])
    log.close()
    assert (tmp_path / "log").read_bytes() == whole


def test_what_a_full_disk_does_not_take_of_the_log_comes_at_the_end_if_there_is_room_by_then(
    tmp_path, monkeypatch
):
    log = OutputLog(str(tmp_path / "log"))
    log.write("stdout", b"one\n")
    with monkeypatch.context() as full:
        full.setattr("swarmd.runners.workspace.os.write", _raises_no_space)
        log.write("stdout", b"two\n")
    log.write("stdout", b"three\n")
    log.close()
    assert (tmp_path / "log").read_bytes() == b"one\ntwo\nthree\n"


def _raises_no_space(*_args):
    raise OSError(errno.ENOSPC, "no space left on device")


async def test_endless_lines_end_at_the_deadline(machine):
    result = await machine.run("yes", timeout_seconds=1)
    assert result.outcome == "timed_out"
    assert result.stdout.dropped > 1_000_000


async def test_bytes_are_kept_as_they_are(machine):
    script = machine.python("import os; os.write(1, bytes(range(256)) * 3); os.write(2, b'caf\\xe9\\0')")
    result = await machine.run(script)
    assert result.stdout.head == bytes(range(256)) * 3
    assert result.stderr.head == b"caf\xe9\0"


async def test_a_program_may_close_its_output(machine):
    result = await machine.run("sh", "-c", "exec >&- 2>&-; sleep 0.2; exit 4")
    assert (result.exit, result.reason) == (4, "exit status 4")


async def test_a_program_may_write_to_its_output_by_name(machine):
    result = await machine.run("sh", "-c", "echo a >/dev/stdout; echo b >/proc/self/fd/2; echo c >/dev/null")
    assert (text_of(result), result.stderr.head) == ("a\n", b"b\n")


def _chunks(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    return [data[a:b] for a, b in pairwise(places)]


_few = st.text(alphabet="abé", min_size=8, max_size=12)


@given(
    secrets=st.lists(_few, max_size=4),
    pieces=st.lists(st.one_of(_few, st.text(alphabet="abé ", max_size=6))),
    cuts=st.lists(st.integers(0, 200), max_size=10),
)
def test_masking_does_not_depend_on_the_chunks(secrets, pieces, cuts):
    data = "".join([*pieces, *secrets]).encode()
    masker = Masker(secrets)
    masked = b"".join(masker.feed(chunk) for chunk in _chunks(data, cuts)) + masker.close()
    assert masked == mask(data, secrets)
    assert masked == _masked_the_slow_way(data, secrets)


def _masked_the_slow_way(data: bytes, secrets: list[str]) -> bytes:
    spans: list[list[int]] = []
    for start in range(len(data)):
        ends = [start + len(s.encode()) for s in secrets if data.startswith(s.encode(), start)]
        if not ends:
            continue
        if spans and start < spans[-1][1]:
            spans[-1][1] = max(spans[-1][1], *ends)
        else:
            spans.append([start, max(ends)])
    out, at = b"", 0
    for start, end in spans:
        out, at = out + data[at:start] + b"[secret]", end
    return out + data[at:]


def test_short_values_are_not_secrets():
    assert mask(b"the cat sat", ["cat", "", "the cat"]) == b"the cat sat"


def test_only_what_may_become_a_secret_is_held_back():
    masker = Masker(["secret-value", "-----KEY"])
    assert masker.feed(b"a line\n") == b"a line\n"
    assert masker.feed(b"a sec") == b"a "
    assert masker.feed(b"ond\n") == b"second\n"
    assert masker.feed(b"secret-valu") == b""
    assert masker.feed(b"e!") == b"[secret]!"


def test_a_capture_keeps_head_and_tail():
    capture = Capture(())
    for number in range(100_000):
        capture.feed(f"{number}\n".encode())
    kept = capture.close()
    whole = b"".join(f"{number}\n".encode() for number in range(100_000))
    assert kept.head == whole[:HEAD_BYTES]
    assert kept.tail == whole[-TAIL_BYTES:]
    assert kept.dropped == len(whole) - HEAD_BYTES - TAIL_BYTES
