"""Checks a `[runner]` table against the kind that it names; the kinds are handed in, none is imported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swarmd.config.complaints import complaints, number_complaints
from swarmd.config.kinds import Kinds
from swarmd.config.problems import Complaint, did_you_mean, expected_found, one_of, shown

MEASURED = ("tokens_per_session",)
"""Limits that only some runners can hold to."""
ASKED = (
    (("sandbox", "network"), False, "offline", "calls its model over the network, and could do nothing"),
)
"""Settings that only runners with a capability can do with: field, value, capability, and why."""


def check_runner(
    table: object, kinds: Kinds, *, partial: bool = False
) -> tuple[str, dict[str, Any], list[Complaint]]:
    """Kind and options as JSON values, and all complaints; of a `partial` table nothing but the kind is required."""
    if not isinstance(table, Mapping):
        return "", {}, []  # the model has complained already
    kind = table.get("kind")
    if not isinstance(kind, str) or kind not in kinds:
        return "", {}, [_kind_complaint(table, kinds)]
    raw = {name: value for name, value in table.items() if name != "kind"}
    odd = number_complaints(raw, ("runner",))
    if odd:
        return kind, {}, odd
    try:
        options, found = complaints(kinds[kind].options, raw, under=("runner",))
    except Exception as error:  # noqa: BLE001 - a stranger's code must not stop the files of other kinds
        return (
            kind,
            {},
            [Complaint(path=("runner",), text=f"the runner {kind!r} failed to check it: {error!r}")],
        )
    if partial:
        found = [complaint for complaint in found if complaint.text != "is missing"]
    return kind, options.model_dump(mode="json") if options is not None else {}, found


def measure_complaints(limits: object, kind: str, kinds: Kinds) -> list[Complaint]:
    """Limits that are set and that a runner of this kind could not hold to."""
    if not isinstance(limits, Mapping) or kind not in kinds:
        return []
    return [
        Complaint(
            path=("limits", name),
            text=f"a limit that the runner cannot measure: {kind!r} tells too late, or not, how many tokens it uses",
            found=shown(limits[name]),
        )
        for name in MEASURED
        if name in limits and name not in kinds[kind].measures
    ]


def capability_complaints(raw: Mapping[str, Any], kind: str, kinds: Kinds) -> list[Complaint]:
    """What the file asks for and a runner of this kind cannot do."""
    found = []
    for path, value, capability, why in ASKED:
        table = raw.get(path[0])
        asked = isinstance(table, Mapping) and table.get(path[1]) is value
        if asked and kind in kinds and capability not in kinds[kind].capabilities:
            found.append(Complaint(path=path, text=f"{kind!r} {why}", found=shown(value)))
    return found


def _kind_complaint(table: Mapping[str, Any], kinds: Kinds) -> Complaint:
    path = ("runner", "kind")
    expected = one_of(sorted(kinds))
    if "kind" not in table:
        return Complaint(path=path, text=f"is missing; expected {expected}", expected=expected)
    kind = table["kind"]
    return Complaint(
        path=path,
        text=expected_found(expected, shown(kind)),
        found=shown(kind),
        expected=expected,
        hint=did_you_mean(kind, kinds),
    )
