"""Read the lines of a reply as RFC 9112 has them; http.client is more lenient than that."""

from __future__ import annotations

import io

from airflow_provider_mediaops.http.framing import FramingError


class ReplyLines(io.BufferedReader):
    """
    The bytes of one reply, with strict lines: the status, the headers, the sizes of chunks and the trailers.

    http.client takes a lone CR for the end of a header, so a part of a header's value could be taken for the length of
    the body. It takes the end of the connection for the end of the headers. And it keeps blanks at the end of a value,
    so it does not understand ``chunked`` with a blank behind it.
    """

    _has_begun = False

    def readline(self, size: int | None = -1, /) -> bytes:
        """
        Read one line.

        :param size: the limit in bytes; of a longer line, only the start is returned.
        :returns: the line, without blanks before its end; empty if the connection ended before the first line.
        :raises FramingError: if a CR in it is not followed by LF, or the connection ended before its end.
        """
        line = super().readline(size)
        if not line.endswith(b"\n"):
            if len(line) != size and (line or self._has_begun):
                raise FramingError("the connection ended within its headers")
            return line
        self._has_begun = True
        content = line[:-2] if line.endswith(b"\r\n") else line[:-1]
        if b"\r" in content:
            raise FramingError("one of its lines holds a carriage return")
        # A line of blanks must not become an empty one, which ends the headers.
        return content.rstrip(b" \t") + b"\r\n" if content.strip(b" \t") else line
