"""The machine's clock, its boot, and the kind of a file system, as far as the operating system says."""

from __future__ import annotations

import os
import time
from functools import cache
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# The column of the mount point.
_MOUNT_POINT = 4
_MOUNTS = Path("/proc/self/mountinfo")
# Network file systems by their names in Linux. Of those in user space, only known ones: many are local.
_NETWORK: tuple[str, ...] = (
    "nfs",
    "cifs",
    "smb",
    "ceph",
    "gluster",
    "fuse.gluster",
    "fuse.sshfs",
    "fuse.s3fs",
    "fuse.gcsfuse",
    "9p",
    "lustre",
    "afs",
    "beegfs",
    "gpfs",
    "fuse.ceph",
    "fuse.blob",
)


def clock() -> float:
    """
    Return seconds that all processes of this machine share and that no correction of the date moves.

    On Linux they go on while the machine is suspended (``CLOCK_BOOTTIME``). Elsewhere it is the monotonic clock, which
    macOS shares between processes. Both begin anew when the machine boots.
    """
    try:
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    except (AttributeError, OSError):
        return time.monotonic()


def boot_id() -> str:
    """Return the name of this boot of the machine; empty if the operating system has none."""
    try:
        return _read_boot_id()
    except (OSError, ValueError):
        return ""


@cache
def _read_boot_id() -> str:
    # A process lives within one boot. To open a file of the kernel takes longer than a transaction of SQLite.
    return _BOOT_ID.read_text(encoding="ascii").strip()


def network_file_system(path: Path, mounts: str | None = None) -> str | None:
    """
    Return the kind of network file system that holds a path.

    :param path: an existing path.
    :param mounts: the table of mounts, as Linux writes ``mountinfo``; that of this machine by default.
    :returns: for example ``nfs4``; None for a local one, and if the operating system does not say.
    """
    try:
        table = mounts if mounts is not None else _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    target, found, kind = os.path.realpath(path), "", ""
    for line in table.splitlines():
        before, separator, after = line.partition(" - ")
        fields = before.split(" ")
        if not separator or len(fields) <= _MOUNT_POINT:
            continue
        # Blanks are written as octal escapes.
        point = fields[_MOUNT_POINT].replace("\\040", " ")
        # Of mounts over each other, the last counts.
        if len(point) >= len(found) and (target == point or target.startswith(point.rstrip("/") + "/")):
            found, kind = point, after.split(" ")[0]
    return kind if kind.startswith(_NETWORK) else None
