"""The limit of a reply, apart from what asks for one: datasets hold what came in one, and are bound by it, too."""

from __future__ import annotations

#: The default limit of a reply's size, in bytes after decompression.
MAX_REPLY_BYTES = 64 * 1024 * 1024
