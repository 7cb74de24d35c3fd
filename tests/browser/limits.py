"""The time limits of the suite, which only end what hangs."""

from __future__ import annotations

#: Of each step of the browser. Playwright's own are 30 seconds, which a busy machine may take for a picture.
MOST_SECONDS = 240
