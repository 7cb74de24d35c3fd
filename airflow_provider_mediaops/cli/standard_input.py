"""Read the standard input of a command, which ``-`` stands for, as bytes."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from airflow_provider_mediaops.cli.terminal import Terminal

#: The name of the standard input, and of the standard output, among files.
STANDARD_INPUT = STANDARD_OUTPUT = "-"


def input_bytes(terminal: Terminal) -> BinaryIO:
    """
    Return the standard input. Whoever sits at a terminal is told how to end it.

    :param terminal: the streams.
    """
    if terminal.answers.isatty():
        terminal.say("Reading the standard input: Ctrl-D at the beginning of a line ends it.")
    stream: BinaryIO | None = getattr(terminal.answers, "buffer", None)
    return stream or io.BytesIO(terminal.answers.read().encode("utf-8", "surrogateescape"))
