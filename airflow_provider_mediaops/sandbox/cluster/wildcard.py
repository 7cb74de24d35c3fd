"""Names with wildcards, as the cluster takes them."""

from __future__ import annotations

import re


def matches(pattern: str, name: str) -> bool:
    """
    Return whether a pattern means a name.

    :param pattern: a name, in which ``*`` stands for any characters.
    :param name: the name.
    """
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name) is not None
