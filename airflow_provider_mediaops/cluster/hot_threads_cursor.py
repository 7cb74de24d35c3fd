"""A place in a hot-threads text that moves on by one line, by a broken line, or by a whole stack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_mediaops.cluster.hot_threads_lines import (
    HEADER,
    SAMPLING,
    THREAD_NAME,
    content_of,
    read_frame,
    read_group,
    starts_thread,
)

if TYPE_CHECKING:
    from collections.abc import Callable

# Into how many more lines people and terminals are known to break one.
_MOST_CONTINUATIONS = 3

# Frames repeat from stack to stack and are shared. Bounded, for a text in which no two are the same.
_MOST_SHARED_FRAMES = 5_000


class Cursor:
    """The current line of a text.

    :ivar start: where it begins in the text.
    :ivar end: where the next one begins.
    :ivar line: its number, from 1.
    :ivar content: what it says, without margin and line end.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.start = self.end = 0
        self.line = 0
        self.content = ""
        self._height = 1
        self._frames: dict[str, str] = {}

    def advance(self) -> bool:
        """Go to the next line; False at the end of the text, where `start` is the text's length."""
        self.start = self.end
        if self.start == len(self.text):
            return False
        self.line += self._height
        self._height = 1
        self.end = self._line_end(self.start)
        self.content = content_of(self.text[self.start : self.end])
        return True

    def mend(self, is_complete: Callable[[str], bool]) -> bool:
        """Join the lines into which the current one was broken, if that makes it complete.

        :param is_complete: whether a line's content is all of it.
        :returns: whether the current line is complete now; if not, it is left as it was.
        """
        content, end = self.content, self.end
        if is_complete(content):
            return True
        for height in range(2, 2 + _MOST_CONTINUATIONS):
            start, end = end, self._line_end(end)
            following = content_of(self.text[start:end])
            if not following or _starts_part(following):
                break
            # A break inside a thread's name may be the name's own; any other was a blank.
            content += ("\n" if THREAD_NAME in content else " ") + following
            if is_complete(content):
                self.content, self.end, self._height = content, end, height
                return True
        return False

    def take_frames(self, frames: list[str], most: int) -> None:
        """Move on over frames and blank lines until `frames` holds `most` or another line comes."""
        text, known, end, line = self.text, self._frames, self.end, self.line + self._height - 1
        size = len(text)
        missing = most - len(frames)
        while missing > 0 and end < size:
            next_end = text.find("\n", end) + 1 or size
            raw = text[end:next_end]
            frame = known.get(raw)
            if frame is None:
                content = content_of(raw)
                frame = read_frame(content)
                if frame is None and content:
                    break
                if frame is not None and len(known) < _MOST_SHARED_FRAMES:
                    known[raw] = frame
            if frame is not None:
                frames.append(frame)
                missing -= 1
            end = next_end
            line += 1
        self.end, self.line, self._height = end, line, 1

    def _line_end(self, start: int) -> int:
        return self.text.find("\n", start) + 1 or len(self.text)


def _starts_part(content: str) -> bool:
    return (
        content.startswith((HEADER, SAMPLING))
        or starts_thread(content)
        or read_group(content) is not None
        or read_frame(content) is not None
    )
