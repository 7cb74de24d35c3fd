"""The limit of a reply, apart from the rest: what reads the arguments of a task needs it, and loads no more."""

from __future__ import annotations

#: The default limit of a reply's size, in bytes after decompression.
MAX_REPLY_BYTES = 64 * 1024 * 1024
