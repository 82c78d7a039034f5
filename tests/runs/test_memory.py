import pytest

from deqcli.errors import InputError
from deqcli.runs import memory

GB = 10**9


@pytest.fixture
def root(tmp_path):
    """Make a false ``/proc`` and ``/sys`` with 8 GB free."""

    def write(name, text):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")

    write("proc/meminfo", "MemTotal: 9 kB\nMemAvailable: 8000000 kB")
    return tmp_path, write


def test_the_kernel_figure_is_used_without_control_groups(root):
    assert memory.available_bytes(root[0]) == 8_000_000 * 1024


def test_version_2_limit_of_an_ancestor_counts_and_page_cache_does_not(root):
    folder, write = root
    write("proc/self/cgroup", "0::/batch/job")
    write("sys/fs/cgroup/batch/job/memory.max", "max")
    write("sys/fs/cgroup/batch/job/memory.current", 1)
    write("sys/fs/cgroup/batch/memory.max", 4 * GB)
    write("sys/fs/cgroup/batch/memory.current", 3 * GB)
    write("sys/fs/cgroup/batch/memory.stat", f"anon 5\ninactive_file {GB}")
    assert memory.available_bytes(folder) == 2 * GB


def test_version_1_limit_at_the_top_of_a_container(root):
    folder, write = root
    write("proc/self/cgroup", "3:cpu:/docker/x\n4:memory:/docker/x")
    write("sys/fs/cgroup/memory/memory.limit_in_bytes", 2 * GB)
    write("sys/fs/cgroup/memory/memory.usage_in_bytes", 3 * GB)
    assert memory.available_bytes(folder) == 0


def test_unknown_elsewhere(tmp_path):
    assert memory.available_bytes(tmp_path) is None


def test_what_does_not_fit_is_refused_with_both_sizes_and_the_remedy(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: 3 * GB)
    memory.check(3 * GB, "A run", "lower `n`")
    with pytest.raises(InputError, match=r"A run: 28\.8 GB .* 3 GB available; lower `n`\."):
        memory.check(8 * 60_000**2, "A run", "lower `n`")
    monkeypatch.setattr(memory, "available_bytes", lambda: None)
    memory.check(10**30, "A run", "lower `n`")


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (999_999, "1 MB"),
        (8e8, "800 MB"),
        (2e13, "20 TB"),
    ],
)
def test_sizes(count, text):
    assert memory.format_bytes(count) == text
