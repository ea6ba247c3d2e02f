"""Who answers: inside a session its desk and nothing else; for an operator reader, socket or lock, in that order."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from swarmd.cli.client import OperatorClient, Options, SessionClient, choose, in_session
from swarmd.errors import Refused, StoreUnusable
from swarmd.service.reading import OPERATORS_ACTS, OPERATORS_ONLY
from tests.cli.conftest import IN_SESSION


@dataclass
class Doors:
    """The service, open or shut door by door."""

    readable: bool = True
    daemon: bool = True
    writable: bool = True
    used: list[tuple[str, str, str | None]] = field(default_factory=list)

    def open_reader(self, where):
        if not self.readable:
            raise PermissionError(13, "Permission denied")
        return Door(self, "reader")

    def socket_client(self, where):
        return Door(self, "socket")

    @contextmanager
    def open_local(self, where, as_agent):
        if not self.writable:
            raise PermissionError(13, "Permission denied")
        yield Door(self, "local", as_agent)

    def run_local(self, where, name, args, as_agent):
        self.used.append(("daemon for it", name, as_agent))
        return "ran"


@dataclass
class Door:
    doors: Doors
    name: str
    as_agent: str | None = None

    def call(self, name: str, args: Any, as_agent: str | None = None) -> str:
        if self.name == "socket" and not self.doors.daemon:
            raise ConnectionRefusedError(111, "Connection refused")
        self.doors.used.append((self.name, name, as_agent or self.as_agent))
        return self.name


def operator(doors: Doors, **options: Any) -> OperatorClient:
    return OperatorClient(Options(state="/nowhere/.swarmd", **options), {}, doors)


def test_a_read_does_not_need_the_daemon():
    assert operator(Doors(daemon=False)).call("status", {}) == "reader"


def test_who_may_not_read_the_store_asks_the_daemon():
    assert operator(Doors(readable=False)).call("status", {}) == "socket"


def test_without_both_the_state_is_named_and_the_next_step():
    with pytest.raises(
        StoreUnusable, match=r"/nowhere/.swarmd: you may not read the store \(Permission denied\)"
    ):
        operator(Doors(readable=False, daemon=False)).call("status", {})


def test_an_act_goes_to_the_daemon_and_else_takes_the_lock(capsys):
    assert operator(Doors()).call("ctx_set", {}) == "socket"
    assert operator(Doors(daemon=False)).call("ctx_set", {}) == "local"
    assert capsys.readouterr().err == "swarmd: acted on /nowhere/.swarmd\n" * 2


def test_a_run_without_a_daemon_is_a_daemon_for_that_long():
    doors = Doors(daemon=False)
    assert operator(doors).call("run", {"mode": "commit"}) == "ran"
    assert operator(doors).call("run", {"mode": "dry_run"}) == "local"
    assert operator(Doors()).call("run", {"mode": "commit"}) == "socket"


def test_an_act_on_the_systems_state_does_not_say_so(capsys):
    OperatorClient(Options(state="/var/lib/swarmd"), {}, Doors()).call("pause", {})
    assert capsys.readouterr().err == ""


def test_an_act_that_nobody_may_do_is_one_sentence():
    with pytest.raises(StoreUnusable, match="you may not write the store"):
        operator(Doors(daemon=False, writable=False)).call("pause", {})


@pytest.mark.parametrize("doors", [Doors(), Doors(readable=False), Doors(daemon=False)])
def test_as_goes_with_every_call(doors):
    client = operator(doors, as_agent="studio")
    client.call("status", {})
    client.call("pause", {})
    assert {as_agent for _, _, as_agent in doors.used} == {"studio"}


@pytest.mark.parametrize("environ", [{"SWARMD_SESSION": ""}, {"SWARMD_TOKEN": ""}, {"SWARMD_SESSION": "7"}])
def test_an_empty_variable_counts_as_a_session(environ):
    assert in_session(environ)


@pytest.mark.parametrize(
    "environ",
    [
        {"SWARMD_SESSION": ""},
        {"SWARMD_TOKEN": ""},
        {"SWARMD_SESSION": "7", "SWARMD_SOCKET": "/s"},
        {"SWARMD_TOKEN": "t"},
        {"SWARMD_TOKEN": "t", "SWARMD_SOCKET": ""},
    ],
)
def test_inside_a_session_without_a_token_nothing_is_done_as_operator(environ):
    with pytest.raises(Refused, match="inside a session"):
        choose(Options(state="/elsewhere", agents="/elsewhere", runtime="/elsewhere"), environ)


def test_no_global_option_leads_out_of_a_session():
    client = choose(Options(state="/elsewhere", runtime="/elsewhere", as_agent="studio"), IN_SESSION)
    assert client == SessionClient(socket="/nowhere", token="t")


def test_a_session_may_not_name_another_agent():
    with pytest.raises(Refused, match="as no other, also not operator"):
        choose(Options(as_agent="operator"), IN_SESSION)


@pytest.mark.parametrize("call", sorted(OPERATORS_ACTS | OPERATORS_ONLY))
def test_what_only_operators_have_is_refused_in_a_session_in_the_same_words(call):
    with pytest.raises(
        Refused, match=r"^`swarmd [a-z -]+` is an operator's command; a session may not use it$"
    ):
        choose(Options(), IN_SESSION).call(call, {})


@pytest.mark.parametrize(
    ("command", "args"),
    [
        ("approval list", ""), ("approval show", "1"), ("approval approve", "1"), ("approval deny", "1"),
        ("memory forget-subject", "a b"), ("memory consolidate", "a"), ("memory import", "x --agent a"),
        ("memory conflicts --take", "ours 1"), ("agent rename", "a b"), ("agent forget", "a"), ("session trace", "1"),
        ("status", ""), ("verify", ""), ("backup", "x"), ("check", ""), ("run", "a"), ("memory compact", ""),
    ],
)  # fmt: skip
def test_a_session_is_told_of_an_operators_command_by_the_name_that_was_typed(command, args, real):
    ran = real(*command.split(), *args.split(), env=IN_SESSION)
    told = f"swarmd: `swarmd {command}` is an operator's command; a session may not use it\n"
    assert (ran.returncode, ran.stderr.decode()) == (3, told)


def test_a_session_whose_socket_is_gone_is_refused():
    with pytest.raises(Refused, match="has ended"):
        choose(Options(), IN_SESSION).call("ctx_list", {})
