"""The store: SQLite and the memory folders that are its published copy. SQL stands only here."""
