"""The programs and APIs that run a session, behind one contract (core.wire.Runner); none of them sees the store."""
