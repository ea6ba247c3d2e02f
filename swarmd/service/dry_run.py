"""`swarmd run --dry-run`: what a run would start, without starting it."""

from __future__ import annotations

from swarmd.core.agent import definition_hash
from swarmd.core.consolidation import consolidating
from swarmd.core.sessions import CONSOLIDATE
from swarmd.runners import registry
from swarmd.service.prompting import assembled, definition
from swarmd.service.view import JSON, Args, View, subject_of
from swarmd.session.machine import host_of
from swarmd.session.requests import request_of


def dry_run(view: View, name: str, args: Args) -> JSON:
    """The prompt's size, the program that would be started, and the limits it would have."""
    agent, trigger = definition(view, name, args), args.get("trigger") or "manual"
    if trigger == CONSOLIDATE:
        agent = consolidating(agent)
    _, prompt = assembled(view, {**args, "trigger": trigger})
    request = request_of(agent, prompt=prompt, subject=subject_of(args))
    command_line = getattr(registry.load(agent.runner_kind), "command_line", None)
    line = command_line(request, host_of(view.places)) if command_line is not None else [agent.runner_kind]
    limits = agent.limits
    unknown = (
        "id",
        "slot",
        "queued",
        "started",
        "ended",
        "exit",
        "draft",
        "tokens_in",
        "tokens_out",
        "cache_read",
        "usd",
    )
    return {
        **dict.fromkeys(unknown), "agent": name, "attempt": 1, "trigger": trigger, "state": "ended",
        "outcome": "dry_run", "reason": "nothing was started", "subject": subject_of(args), "by": view.actor.by,
        "changes": [], "refusals": [], "superseded": [],
        "command_line": line, "prompt_tokens": prompt.tokens, "definition": definition_hash(agent),
        "would": f"start {line[0]} with a prompt of {prompt.tokens} tokens, for at most {limits.timeout_seconds:g} s",
    }  # fmt: skip
