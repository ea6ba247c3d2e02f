"""What sessions do in tests of whose lines are whose: scripts for `Swarm.play`."""

from __future__ import annotations


def adds(text, path="MEMORY.md"):
    """The session adds the text to a file of its memory."""

    async def script(part):
        part.write(path, part.files.get(path, b"").decode() + text)

    return script


def adds_line(line, path="MEMORY.md"):
    """As `adds`, with the line's end."""
    return adds(f"{line}\n", path)


def becomes(**files):
    """Each file, by its name without `.md`, becomes this text (None: it is deleted)."""

    async def script(part):
        for name, text in files.items():
            part.write(f"{name}.md", text)

    return script
