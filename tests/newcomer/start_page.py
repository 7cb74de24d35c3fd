"""The lines to type and the files to save of docs/start.md, read from the page itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<content>.*?)^```$", re.MULTILINE | re.DOTALL)
_SAVED_AS = re.compile(r"[Ss]ave this as\s+`(?P<path>[^`]+)`")


@dataclass(frozen=True)
class Command:
    """
    A line to type.

    :param printed: the lines that the page shows as its output; `…` stands for anything.
    """

    line: str
    printed: tuple[str, ...]


@dataclass(frozen=True)
class Step:
    """
    A block of the page.

    :param language: `console`: lines to type; `bash`: values of one's own; `python`: a file to save.
    :param section: the heading of the second level that it is under.
    """

    language: str
    content: str
    words: str
    section: str

    @property
    def file(self) -> str | None:
        """The file that the block is saved as."""
        named = _SAVED_AS.search(self.words)
        return named["path"] if named else None

    @property
    def is_in_a_second_terminal(self) -> bool:
        """Whether its lines are typed in another terminal, where the last one keeps running."""
        return "second terminal" in self.words and "in the first terminal" not in self.words

    @property
    def is_looked_at_again(self) -> bool:
        """Whether its lines are to be repeated until they print what is shown."""
        return "until" in self.words

    @property
    def variables(self) -> list[str]:
        """The environment variables that it sets."""
        return re.findall(r"^export (\w+)=", self.content, flags=re.MULTILINE)

    @property
    def commands(self) -> list[Command]:
        """The lines to type, each with what it prints."""
        pieces = self.content.replace("\\\n", "").split("$ ")
        if pieces[0]:
            raise ValueError(f"This block does not begin with a command:\n{self.content}")
        found = [piece.rstrip("\n").split("\n") for piece in pieces[1:]]
        return [Command(line, tuple(printed)) for line, *printed in found]


def steps(page: str) -> Iterator[Step]:
    """Yield the blocks of a page, in order."""
    for block in _BLOCK.finditer(page):
        before = page[: block.start()].rstrip()
        section = re.findall(r"^## (.+)$", before, flags=re.MULTILINE)[-1]
        yield Step(block["language"], block["content"], before.rpartition("\n\n")[2], section)


def shows(output: str, line: str) -> bool:
    """Return whether an output has a line as the page shows it, however wide its columns are."""
    words = [re.escape(word) if word != "…" else ".*" for word in line.split()]
    return re.search(r"\s*".join(words), output) is not None
