"""
Partial responses: the ``fields`` parameter of Google's APIs.

A selector is a list of paths, separated by commas: ``nextPageToken,items(id,snippet/title)``. ``/`` or ``.`` leads to a
field of a field, parentheses hold several of them, and ``*`` stands for every field.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

#: The names from the top of a reply down to a field.
Path: TypeAlias = "tuple[str, ...]"
#: The fields of a reply, each with the fields below it.
Tree: TypeAlias = "Mapping[str, Tree]"

_NAME = re.compile(r"[A-Za-z0-9_$-]+")
_PIECE = re.compile(rf"{_NAME.pattern}|.", re.DOTALL)
_STEPS = ("/", ".")
# No reply is this deep. Longer paths are refused before they cost time.
_MAX_DEPTH = 20


class SelectorError(ValueError):
    """
    A selector is malformed or names a field that the reply does not have.

    :param path: the path at fault, as far as it was read.
    """

    def __init__(self, path: str) -> None:
        super().__init__(f"Error expanding 'fields' parameter. Cannot find matching fields for path '{path}'.")


def parse(selector: str) -> list[Path]:
    """
    Read a selector.

    :param selector: the value of the ``fields`` parameter.
    :returns: the paths in it, with their parentheses resolved.
    :raises SelectorError: if it is malformed.
    """
    pieces = deque(_PIECE.findall(selector))
    try:
        paths = _paths(pieces, ())
    except IndexError:  # it ends too early
        raise SelectorError(selector) from None
    if pieces:
        raise SelectorError(selector)
    return paths


def _paths(pieces: deque[str], prefix: Path) -> list[Path]:
    """Take paths that are separated by commas; ``prefix`` leads to the parentheses in which they stand."""
    found: list[Path] = []
    while True:
        path = (*prefix, _name(pieces))
        while pieces and pieces[0] in _STEPS and len(path) <= _MAX_DEPTH:
            pieces.popleft()
            path = (*path, _name(pieces))
        if len(path) > _MAX_DEPTH:
            raise SelectorError("/".join(path))
        if pieces and pieces[0] == "(":
            pieces.popleft()
            found += _paths(pieces, path)
            if pieces.popleft() != ")":
                raise SelectorError("/".join(path))
        else:
            found.append(path)
        if not pieces or pieces[0] != ",":
            return found
        pieces.popleft()


def _name(pieces: deque[str]) -> str:
    name = pieces.popleft()
    if name != "*" and not _NAME.fullmatch(name):
        raise SelectorError(name)
    return name


def tree_of(selector: str) -> Tree:
    """
    Build the tree of a reply's fields.

    :param selector: all its fields, written as a selector without ``*``.
    :returns: the tree.
    """
    tree: dict[str, Any] = {}
    for path in parse(selector):
        branch = tree
        for name in path:
            branch = branch.setdefault(name, {})
    return tree


def matching(paths: Iterable[Path], tree: Tree) -> set[Path]:
    """
    Resolve ``*`` and check that every path leads to a field.

    :param paths: the paths of a selector.
    :param tree: the fields that the reply may have.
    :returns: the paths without ``*``.
    :raises SelectorError: if a path leads nowhere.
    """
    found: set[Path] = set()
    for path in dict.fromkeys(paths):
        here = set(_resolved(path, tree))
        if not here:
            raise SelectorError("/".join(path))
        found |= here
    return found


def _resolved(path: Path, tree: Tree) -> Iterator[Path]:
    if not path:
        yield ()
        return
    for name, below in tree.items():
        if path[0] in (name, "*"):
            yield from ((name, *rest) for rest in _resolved(path[1:], below))


def select(value: Any, paths: set[Path]) -> Any:
    """
    Keep the selected fields of a reply.

    :param value: JSON values; a path leads through each element of a list.
    :param paths: resolved paths.
    :returns: a copy with those fields that are selected and present.
    """
    if () in paths:
        return value
    if isinstance(value, list):
        return [select(each, paths) for each in value]
    if not isinstance(value, dict):
        return value
    names = {path[0] for path in paths}
    return {
        name: select(below, {path[1:] for path in paths if path[0] == name})
        for name, below in value.items()
        if name in names
    }
