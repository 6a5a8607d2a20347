"""treadle.threads.info(): everything about threads as plain data."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time

from tests.unit.runtime.slow_models import X, python_tasks

import treadle
from treadle.runtime.threads import Threads
from treadle.runtime.topology import Topology


def info(**environment):
    return Threads("test", environment, lambda: Topology(online=8, allowed=6, quota=None, quota_source=None)).info()


def test_every_setting_has_a_value_and_a_source():
    """
    Limits, spin and pinning; what the environment says is listed as it was found.
    """
    facts = info(TREADLE_INTER_OP_THREADS="2", KMP_BLOCKTIME="1", OMP_PROC_BIND="false", PATH="x")

    assert facts["intra_op"] == {"value": 6, "source": "automatic (default): affinity mask, 6 of 8 CPUs"}
    assert facts["inter_op"] == {"value": 2, "source": "TREADLE_INTER_OP_THREADS"}
    assert facts["spin_us"] == {"value": 1000, "source": "KMP_BLOCKTIME"}
    assert facts["cpus"] == {"value": [], "source": "OMP_PROC_BIND"}
    assert facts["environment"] == {"TREADLE_INTER_OP_THREADS": "2", "KMP_BLOCKTIME": "1", "OMP_PROC_BIND": "false"}


def test_machine_and_build_are_named():
    """
    Topology, quota, CPU, compiler, backend.
    """
    facts = info()

    assert facts["topology"]["available"] == 6
    assert set(facts["topology"]) >= {"online", "allowed", "quota", "quota_source", "available", "reason"}
    assert facts["cpu"]["model"]
    assert facts["build"]["compiler"].startswith(("GCC", "Clang"))
    assert facts["build"]["treadle"] == treadle.__version__
    assert facts["build"]["backend"] == facts["backend"]["value"]
    assert facts["backend"]["source"]
    assert isinstance(facts["cpu"]["features"], list)


def test_the_instruction_set_in_use_is_that_of_the_kernels_loaded():
    """
    None without any, one, or several where TREADLE_ISA was changed between sessions.
    """
    body = """
import gc, os, treadle
from tests.models import small
print(treadle.threads.info()["cpu"]["isa"])
one = treadle.Session(small.add())
os.environ["TREADLE_ISA"] = "generic"
other = treadle.Session(small.add())
isas = sorted({p.target.isa for s in (one, other) for p in s.plans()})
print(treadle.threads.info()["cpu"]["isa"] == ", ".join(isas))
del one
gc.collect()
print(treadle.threads.info()["cpu"]["isa"])
"""
    done = subprocess.run([sys.executable, "-c", body], capture_output=True, text=True, timeout=60, check=False)

    assert done.stdout.splitlines() == ["None", "True", "generic"], done.stderr


def test_the_backend_has_its_source_and_library():
    """
    The report names the setting that chose the backend and the library that runs the loops.
    """
    body = """
import treadle
treadle.threads.set_backend("openmp")
facts = treadle.threads.info()
print(facts["backend"], facts["build"]["backend_library"] is not None)
"""
    done = subprocess.run([sys.executable, "-c", body], capture_output=True, text=True, timeout=60, check=False)

    assert done.stdout == "{'value': 'openmp', 'source': \"set_backend('openmp')\"} True\n", done.stderr


def test_info_is_json():
    """
    Even where nothing ends.
    """
    facts = json.loads(json.dumps(info(OMP_WAIT_POLICY="active"), allow_nan=False))

    assert facts["spin_us"]["value"] == "infinite"


def test_pools_report_their_status():
    """
    Name, limits, threads, slots in use, runs in progress and waiting; a pool that has ended is not listed.
    """
    pool = treadle.Pool("busy", intra_op=1, inter_op=1)
    go, inside = threading.Event(), threading.Event()
    session = python_tasks([lambda: (inside.set(), go.wait(20))], pool=pool)
    clients = [threading.Thread(target=session.run, args=(X,)) for _ in range(3)]
    for client in clients:
        client.start()
    assert inside.wait(10)
    while pool.threads.status()["waiting"] < 2:
        time.sleep(0.001)
    facts = {entry["name"]: entry for entry in treadle.threads.info()["pools"]}
    go.set()
    for client in clients:
        client.join()

    assert facts["busy"] == {
        "name": "busy", "intra_op": 1, "inter_op": 1, "intra_source": "Pool(intra_op=1)",
        "inter_source": "Pool(inter_op=1)", "threads": 0, "slots": 1, "spinning": 0, "runs": 3, "waiting": 2,
        "pin_fault": None, "thread_fault": None,
    }  # fmt: skip
    assert "main" in facts
    del pool, session, clients, client
    assert "busy" not in {entry["name"] for entry in treadle.threads.info()["pools"]}
