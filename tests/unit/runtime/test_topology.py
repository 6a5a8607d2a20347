"""The CPUs found on systems that are laid out as files in a temporary folder."""

from pathlib import Path

import pytest

from treadle.runtime.topology import Bounds, read_topology

V2_MOUNT = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n"
V1_MOUNT = "33 32 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:15 - cgroup cgroup rw,cpu,cpuacct\n"


@pytest.fixture
def system(tmp_path):
    """A system of eight CPUs; call it to write files, `None` for the topology as found."""

    class System:
        def write(self, files):
            for name, text in files.items():
                file = tmp_path / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)

        def read(self, affinity=frozenset(range(8))):
            return read_topology(tmp_path, affinity)

    system = System()
    system.write({"sys/devices/system/cpu/online": "0-7\n"})
    return system


def v2(path, quotas):
    files = {"proc/self/cgroup": f"0::{path}\n", "proc/self/mountinfo": V2_MOUNT}
    return files | {f"sys/fs/cgroup{group}/cpu.max": text for group, text in quotas.items()}


def v1(path, quotas):
    files = {"proc/self/cgroup": f"12:memory:/x\n4:cpu,cpuacct:{path}\n0::/\n", "proc/self/mountinfo": V1_MOUNT}
    for group, (quota, period) in quotas.items():
        files[f"sys/fs/cgroup/cpu,cpuacct{group}/cpu.cfs_quota_us"] = f"{quota}\n"
        files[f"sys/fs/cgroup/cpu,cpuacct{group}/cpu.cfs_period_us"] = f"{period}\n"
    return files


def test_without_bounds_all_online_cpus_are_available(system):
    """
    Nothing but CPUs: all of them count.
    """
    found = system.read()

    assert (found.online, found.allowed, found.quota, found.available) == (8, 8, None, 8)
    assert "8 CPUs online" in found.reason


def test_the_affinity_mask_counts_only_online_cpus(system):
    """
    A mask may name CPUs that are not there.
    """
    found = system.read(frozenset({1, 3, 99}))

    assert found.available == 2
    assert "affinity" in found.reason


@pytest.mark.parametrize(
    ("text", "available"),
    [("350000 100000", 3), ("max 100000", 8), ("50000 100000", 1), ("900000 100000", 8), ("200000", 2), ("", 8)],
)
def test_a_v2_quota_is_rounded_down_but_not_below_one(system, text, available):
    """
    cpu.max: `quota period`, quota alone, or `max`.
    """
    system.write(v2("/job", {"/job": text}))

    assert system.read().available == available


def test_the_tightest_quota_of_nested_groups_counts(system):
    """
    A group is bound by its ancestors too.
    """
    system.write(v2("/a/b/c", {"/a": "300000 100000", "/a/b": "max 100000", "/a/b/c": "600000 100000"}))

    found = system.read()

    assert found.quota == 3
    assert found.quota_source == "/sys/fs/cgroup/a/cpu.max"
    assert "/sys/fs/cgroup/a/cpu.max" in found.reason


def test_a_group_outside_the_mounted_namespace_uses_the_mounted_root(system):
    """
    In a container the path may be that of the host, or begin with `..`.
    """
    system.write(v2("/../../elsewhere", {"": "200000 100000"}))

    assert system.read().available == 2


def test_v1_quotas_are_read_too(system):
    """
    cpu.cfs_quota_us over cpu.cfs_period_us, -1 for none.
    """
    system.write(v1("/docker/x", {"": (-1, 100000), "/docker": (250000, 100000), "/docker/x": (-1, 100000)}))

    assert system.read().available == 2


def test_a_v1_mount_of_a_subgroup_is_followed(system):
    """
    Docker mounts the container's own group as the root of the hierarchy.
    """
    files = v1("/docker/x", {"": (100000, 50000)})
    files["proc/self/mountinfo"] = V1_MOUNT.replace("0:29 / ", "0:29 /docker/x ")
    system.write(files)

    assert system.read().available == 2


@pytest.mark.parametrize("garbage", ["", "\x00\xff", "::::", "0::", "4:cpu", "- - -\n1 2 - cgroup2"])
def test_unreadable_quotas_bound_nothing(system, garbage):
    """
    Reading the system never raises.
    """
    system.write({"proc/self/cgroup": garbage, "proc/self/mountinfo": garbage})
    assert system.read().available == 8

    system.write({"sys/devices/system/cpu/online": garbage})
    assert system.read().available >= 1


def test_an_empty_system_still_has_one_cpu(tmp_path):
    """
    Not even /proc: at least one CPU is left.
    """
    assert read_topology(tmp_path, frozenset()).available >= 1


@pytest.mark.parametrize("refusal", [PermissionError(1, "no"), OSError(38, "no"), AttributeError("no")])
def test_a_refused_affinity_call_falls_back_to_proc(system, monkeypatch, refusal):
    """
    A sandbox may forbid the call: /proc knows the mask too, and without it all CPUs that are online count.
    """

    def refuse(_process):
        raise refusal

    monkeypatch.setattr("os.sched_getaffinity", refuse)
    assert system.read(None).available == 8

    system.write({"proc/self/status": "Name:\ttreadle\nCpus_allowed:\t2c\nCpus_allowed_list:\t2-3,5\n"})
    found = system.read(None)

    assert (found.available, found.reason) == (3, "affinity mask, 3 of 8 CPUs")


def test_a_v2_cpuset_bounds_too(system):
    """
    `cpuset.cpus.effective` of the innermost group that has one.
    """
    system.write(v2("/pod/job", {}))
    system.write({"sys/fs/cgroup/pod/job/cpuset.cpus.effective": "1-2\n"})

    found = system.read()

    assert found.available == 2
    assert found.reason == "cpuset (/sys/fs/cgroup/pod/job/cpuset.cpus.effective), 2 of 8 CPUs"


def test_a_v1_cpuset_bounds_too(system):
    """
    `cpuset.cpus` in a hierarchy of its own, beside a quota in another one; an ancestor's set is wider and changes
    nothing.
    """
    files = v1("/job", {"/job": (700000, 100000)})
    files["proc/self/cgroup"] += "7:cpuset:/job\n"
    files["proc/self/mountinfo"] += "34 32 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
    files["sys/fs/cgroup/cpuset/cpuset.cpus"] = "0-7\n"
    files["sys/fs/cgroup/cpuset/job/cpuset.cpus"] = "0,4-6\n"
    system.write(files)

    assert system.read().available == 4


@pytest.mark.parametrize("garbage", ["", "none", "9-12", "3-", "\x00"])
def test_an_unreadable_cpuset_bounds_nothing(system, garbage):
    """
    Empty, unreadable, or naming only CPUs that are not there.
    """
    system.write(v2("/job", {}))
    system.write({"sys/fs/cgroup/job/cpuset.cpus.effective": garbage})

    assert system.read().available == 8


def test_the_tightest_of_mask_set_and_quota_counts(system):
    """
    Each bounds alone, and the reason names the one that decided.
    """
    system.write(v2("/job", {"/job": "250000 100000"}))
    system.write({"sys/fs/cgroup/job/cpuset.cpus.effective": "0-3\n"})

    assert system.read().reason == "cgroup quota of 2.5 CPUs (/sys/fs/cgroup/job/cpu.max)"
    assert system.read(frozenset({3})).reason == "affinity mask, 1 of 8 CPUs"
    assert system.read(frozenset({2, 3, 7})).available == 2


def test_hybrid_hosts_have_both_versions(system):
    """
    Quotas in version 1, a version 2 hierarchy beside it without controllers.
    """
    files = v1("/job", {"/job": (300000, 100000)})
    files["proc/self/mountinfo"] += "36 32 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
    system.write(files)

    assert system.read().available == 3


def test_no_sys_leaves_the_mask(tmp_path):
    """
    Some sandboxes mount no /sys: the mask and the quota's absence are all there is.
    """
    assert read_topology(tmp_path, frozenset({0, 1, 5})).available in {1, 2, 3}
    assert read_topology(tmp_path, frozenset({0})).available == 1


def test_the_real_system_is_readable():
    """
    Whatever this machine is, the answer lies within its CPUs.
    """
    found = read_topology(Path("/"))

    assert 1 <= found.available <= found.online


def test_bounds_change_with_what_a_topology_depends_on(system, tmp_path):
    """
    A quota, or the process's group: unequal. Nothing: equal.
    """
    system.write(v2("/a/b", {"/a": "max 100000\n", "/a/b": "400000 100000\n"}))
    bounds = Bounds(tmp_path)
    first = bounds()

    assert bounds() == first
    system.write({"sys/fs/cgroup/a/cpu.max": "200000 100000\n"})
    second = bounds()
    assert second != first
    system.write(v2("/c", {"/c": "100000 100000\n"}))
    assert bounds() not in (first, second)
    third = bounds()
    system.write({"sys/fs/cgroup/c/cpu.max": "300000 100000\n"})
    assert bounds() != third
