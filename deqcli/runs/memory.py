"""How much memory there is, and a refusal in plain words before a run that cannot fit."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from pathlib import Path

from deqcli.errors import InputError

#: Bytes of a process before it has any data: Python with numpy, scipy and pandas; and what drawing
#: a figure takes beside them.
LIBRARIES, FIGURE = 135_000_000, 45_000_000


def peak(*, loading: int, held: int, work: int) -> int:
    """Return the bytes that one process of a run takes at most.

    The libraries, and the largest of three stages: samples are loaded; points are computed and
    assembled; the figure is drawn.

    Parameters
    ----------
    loading : int
        Bytes while samples are drawn or read (:meth:`deqcli.data.laws.Law.loading`).
    held, work : int
        Bytes that are kept for all points, and what one point, or their assembly, adds.

    Examples
    --------
    >>> format_bytes(peak(loading=0, held=0, work=0))
    '180 MB'
    >>> format_bytes(peak(loading=10**9, held=10**9, work=10**8))
    '1.24 GB'
    """
    return LIBRARIES + max(FIGURE, loading, held + work)


def taken() -> int:
    """Return the most bytes that this process, or one that it waited for, has had in memory.

    Examples
    --------
    >>> taken() > 10_000_000
    True
    """
    who = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    most = max(resource.getrusage(each).ru_maxrss for each in who)
    return most if sys.platform == "darwin" else 1024 * most


def format_bytes(count: float) -> str:
    """Return a size in decimal units.

    Examples
    --------
    >>> format_bytes(8 * 60_000**2), format_bytes(512)
    ('28.8 GB', '512 B')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def available_bytes(root: Path = Path("/")) -> int | None:
    """Return the memory this process may still take, or None where it cannot be known.

    The least of the kernel's ``MemAvailable`` and the room left in every control group above this
    process (version 2 or 1), which is what containers and batch systems enforce.

    Parameters
    ----------
    root : Path
        Where ``proc`` and ``sys`` are; another folder only in tests.
    """
    rooms = [_meminfo(root / "proc/meminfo"), *_control_group_rooms(root)]
    return min((room for room in rooms if room is not None), default=None)


def check(needed: int, what: str, hint: str | Callable[[], str]) -> None:
    """Refuse what cannot fit in memory.

    Parameters
    ----------
    needed : int
        Bytes.
    what : str
        Subject of the sentence, such as ``"2 jobs at n = 60000"``.
    hint : str or callable
        The remedy, such as ``"lower `n` or `jobs`"``; asked for only where there is need.

    Raises
    ------
    InputError
        If less than ``needed`` is available.

    Examples
    --------
    >>> check(8, "One number", "count on your fingers")
    """
    available = available_bytes()
    if available is not None and needed > available:
        remedy = hint if isinstance(hint, str) else hint()
        raise InputError(
            f"{what}: {format_bytes(needed)} of memory needed and {format_bytes(available)} "
            f"available; {remedy}."
        )


def _meminfo(path: Path) -> int | None:
    for line in _lines(path):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _control_group_rooms(root: Path) -> list[int | None]:
    rooms = []
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, group = line.split(":", 2)
        if not controllers:
            top, names = root / "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            top = root / "sys/fs/cgroup/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        # A limit may be set on any ancestor. Inside a container the path can be the host's and
        # absent here, while the limit stands at the top.
        folder = top / group.lstrip("/")
        rooms += [
            _room(level, *names)
            for level in (folder, *folder.parents)
            if top in (level, *level.parents)
        ]
    return rooms


def _room(group: Path, limit_name: str, usage_name: str, reclaimable_name: str) -> int | None:
    limit, usage = _lines(group / limit_name), _lines(group / usage_name)
    if not limit or not usage or limit[0] == "max":
        return None
    # The page cache counts as usage but is given back on demand.
    statistics = dict(line.split() for line in _lines(group / "memory.stat"))
    used = int(usage[0]) - int(statistics.get(reclaimable_name, 0))
    return max(int(limit[0]) - used, 0)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
