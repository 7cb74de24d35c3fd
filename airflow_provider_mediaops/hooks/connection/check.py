"""What the test of a connection found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quota:
    """
    The daily quota of a key.

    :param left: the requests that are left today.
    :param total: the requests of a day.
    """

    left: int
    total: int


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """
    What a service answered to the test of a connection.

    :param sentence: one sentence for the connection page.
    :param quota: the key's quota, if the service has a call for it.
    """

    sentence: str
    quota: Quota | None = None


@dataclass(frozen=True, slots=True)
class ConnectionCheck:
    """
    What the check of a connection found.

    :param works: whether it works, and no field is misspelt.
    :param message: sentences that say so, or name the fault and the correction; free of secrets.
    :param quota: the key's quota; None if the service has no call for it, or the connection does not work.
    :param version: the product and version of the service; None if it does not say.
    :param version_problem: why the version is not known, if the service was asked and did not say.
    """

    works: bool
    message: str
    quota: Quota | None = None
    version: str | None = None
    version_problem: str | None = None
