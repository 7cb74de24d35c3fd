"""What Airflow keeps of a trigger in its database: the class, and the arguments that make the trigger again."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.triggers.base import BaseTrigger


def serialized(trigger: BaseTrigger) -> tuple[str, dict[str, Any]]:
    """
    Give a trigger's class and arguments.

    The arguments come in the order in which the constructor has them. That is to stay as it is: Airflow tells a trigger
    that watches an asset from others by a hash of it, and would start it anew.

    :param trigger: keeps each argument of its constructor in an attribute of the same name.
    :returns: the path of the class, and the arguments by their names.
    """
    kind = type(trigger)
    arguments = {name: getattr(trigger, name) for name in inspect.signature(kind).parameters}
    return f"{kind.__module__}.{kind.__qualname__}", arguments
