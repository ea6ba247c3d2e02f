"""The front matter of a Markdown file: YAML between two lines `---`, read as plain texts, lists and tables.

Whoever wrote the file may mean ill. So the part has a bound, every value is a text (a date or a number is what stands
there), tags make nothing, and aliases, by which a few lines become gigabytes, are refused.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

MOST_CHARS = 16 * 1024
DEEPEST = 8
"""Tables in tables: what a person writes has two or three."""

_FENCE = "---"
_LINE_END = re.compile(r"\r\n|\n|\r")


class FrontMatterError(ValueError):
    """There is none, or it cannot be read; the sentence says why."""


def front_matter(text: str) -> Mapping[str, Any]:
    """The fields at the top of the text, in whatever form its lines end. Raises FrontMatterError."""
    lines = _LINE_END.split(text[: MOST_CHARS + 64].removeprefix("\ufeff"))
    if lines[0].rstrip() != _FENCE:
        raise FrontMatterError("it has no front matter: its first line must be ---")
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE), None)
    if end is None:
        bound = f" within {MOST_CHARS:,} characters" if len(text) > MOST_CHARS else ""
        raise FrontMatterError(f"its front matter has no end{bound}: a line --- is expected after it")
    found = _read("\n".join(lines[1:end]))
    if not isinstance(found, Mapping):
        raise FrontMatterError("its front matter has no fields: lines such as `name: ...` are expected")
    return found


def _read(text: str) -> Any:
    import yaml  # dear to load, and few agents have skills

    try:
        return yaml.load(text, Loader=_loader())  # noqa: S506 - this loader makes nothing but texts, lists and tables
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 2}: " if error.problem_mark is not None else ""
        hint = " (a text with ': ' in it stands in quotes)" if "mapping values" in str(error.problem) else ""
        raise FrontMatterError(f"its front matter is no YAML: {line}{error.problem}{hint}") from None
    except yaml.YAMLError as error:
        said = " ".join(str(error).split())[:200]
        raise FrontMatterError(f"its front matter is no YAML: {said}") from None
    except (RecursionError, ValueError, OverflowError) as error:
        raise FrontMatterError(f"its front matter cannot be read: {error}") from None


@functools.cache
def _loader() -> Any:
    import yaml

    class Plain(yaml.BaseLoader):  # type: ignore[misc]
        """Texts only; no aliases, and a bound on how deep it goes."""

        depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            """As the library's, within bounds."""
            if self.check_event(yaml.AliasEvent):
                raise FrontMatterError("its front matter has an alias (*): write the value out")
            self.depth += 1
            if self.depth > DEEPEST:
                raise FrontMatterError(f"its front matter is nested more than {DEEPEST} deep")
            try:
                return super().compose_node(parent, index)
            finally:
                self.depth -= 1

    return Plain
