"""Whether the store is whole: what SQLite says, whether every text is there, which files should be on disk."""

from __future__ import annotations

import sqlite3


def integrity(connection: sqlite3.Connection) -> list[str]:
    """SQLite's own word on the file; empty when all is well."""
    rows = [row[0] for row in connection.execute("PRAGMA integrity_check(20)")]
    return [] if rows == ["ok"] else rows


def broken_texts(connection: sqlite3.Connection) -> list[str]:
    """Memory revisions whose text is gone or is not what its digest says; one that several have is named once."""
    from swarmd.store.rows import is_text

    rows = connection.execute(
        "SELECT r.agent, r.path, max(r.rev) AS rev, r.hash, b.data FROM revisions r LEFT JOIN blobs b "
        "ON b.hash = r.hash WHERE r.hash IS NOT NULL GROUP BY r.hash ORDER BY r.agent, r.path, r.rev"
    )
    return [
        f"the text of {row['agent']}:{row['path']} revision {row['rev']} is damaged or gone"
        for row in rows
        if not is_text(row["data"], row["hash"])
    ]


def published_files(connection: sqlite3.Connection) -> list[tuple[str, str, bool]]:
    """Every memory file that should be on disk: agent, path, and whether its publishing waits."""
    rows = connection.execute(
        "SELECT h.agent, h.path, p.phase = 'todo' AS waits FROM heads h LEFT JOIN pending p "
        "ON p.agent = h.agent AND p.path = h.path WHERE h.hash IS NOT NULL ORDER BY h.agent, h.path"
    )
    return [(row["agent"], row["path"], bool(row["waits"])) for row in rows]
