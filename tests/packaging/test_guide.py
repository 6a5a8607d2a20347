"""The guide matches the code."""

from __future__ import annotations

import inspect
import re
import runpy
from collections.abc import Iterable

import click
import pytest
from onnx import defs

import treadle
from tests.packaging.sources import ROOT
from treadle import errors, knobs
from treadle.cli.main import treadle_command
from treadle.runtime.report import VARIABLES
from treadle.runtime.run_options import RunOptions

PAGES = sorted((ROOT / "docs" / "guide").glob("*.md"))
CALL = re.compile(r"`?treadle\.((?:threads\.)?[A-Za-z_]+)\(([^()]*)\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_call_in_the_guide_exists_with_its_arguments(page) -> None:
    """
    `treadle.name(keyword=...)` names something callable that takes the keyword.
    """
    for name, arguments in CALL.findall(page.read_text(encoding="utf-8")):
        found = treadle
        for part in name.split("."):
            found = getattr(found, part)
        keywords = re.findall(r"(\w+)=", arguments)
        parameters = inspect.signature(found).parameters if keywords else {}
        for keyword in keywords:
            assert keyword in parameters, f"{page.name}: treadle.{name} takes no {keyword}="


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_variable_in_the_guide_is_read(page) -> None:
    """
    Names that begin with TREADLE_ are knobs or thread settings.
    """
    named = set(re.findall(r"\bTREADLE_[A-Z_]+\b", page.read_text(encoding="utf-8")))

    assert named <= {*knobs.KNOBS, *VARIABLES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_generated_tables_are_current(page) -> None:
    """
    `scripts/docs` would change nothing.
    """
    guide = page.read_text(encoding="utf-8")
    writer = runpy.run_path(str(ROOT / "docs" / "guide_tables.py"))

    assert writer["with_tables"](page.name, guide) == guide


def test_every_operator_is_in_the_table() -> None:
    """Those of all domains that the installed onnx package knows; every one that is refused has a reason."""
    guide = (ROOT / "docs" / "guide" / "onnx.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([\w.]+)` \|(.*)\|$", guide, re.MULTILINE))
    for schema in defs.get_all_schemas_with_history():
        assert f"`{schema.name}`" in rows[schema.domain or "ai.onnx"], schema.name
    reasons = "".join(re.findall(r"^\| [^`|]+ \|((?: `\w+`)+) \|$", guide, re.MULTILINE))
    for domain, cells in rows.items():
        for name in re.findall(r"`\w+`", cells.split("|")[2]):
            assert name in reasons, (domain, name)


ELSEWHERE = {
    "TensorFlow": """
        set_intra_op_parallelism_threads set_inter_op_parallelism_threads get_intra_op_parallelism_threads
        get_inter_op_parallelism_threads device_count intra_op_parallelism_threads inter_op_parallelism_threads
        use_per_session_threads session_inter_op_thread_pool global_name placement_period device_filters
        allow_soft_placement log_device_placement graph_options operation_timeout_in_ms isolate_session_state
        executor_type use_numa_affinity collective_deterministic_sequential_execution disable_thread_spinning use_tfrt
        trace_level timeout_in_ms inter_op_thread_pool output_partition_graphs report_tensor_allocations_upon_oom
        debug_options collective_graph_key use_run_handler_pool run_handler_pool_options ThreadPoolOptions
        TF_NUM_INTEROP_THREADS TF_NUM_INTRAOP_THREADS TF_OVERRIDE_GLOBAL_THREADPOOL TF_ENABLE_ONEDNN_OPTS
        NUM_PARALLEL_EXEC_UNITS enable_op_determinism py_function tf.data
    """,
    "PyTorch": """
        set_num_threads get_num_threads set_num_interop_threads get_num_interop_threads at::set_num_threads
        at::parallel_for parallel_info OMP_NUM_THREADS MKL_NUM_THREADS torch.jit.fork wait ATEN_THREADING MKL_THREADING
        MKLDNN_THREADING BLAS= USE_MKLDNN USE_TBB USE_OPENMP KMP_AFFINITY KMP_BLOCKTIME OMP_WAIT_POLICY OMP_PROC_BIND
        OMP_PLACES run_cpu cpp.threads TORCHINDUCTOR_CPP_DYNAMIC_THREADS compile_threads set_flush_denormal
    """,
    "ONNX Runtime": """
        intra_op_num_threads inter_op_num_threads execution_mode ORT_PARALLEL ORT_SEQUENTIAL execution_order
        use_per_session_threads use_deterministic_compute enable_mem_pattern enable_profiling
        session.intra_op.allow_spinning session.inter_op.allow_spinning spin_duration_us spin_backoff_max
        session.force_spinning_stop session.intra_op_thread_affinities session.dynamic_block_base
        session.set_denormal_as_zero session.prepack.enable_parallel ORT_INTRA_OP_NUM_THREADS ORT_INTER_OP_NUM_THREADS
        set_global_thread_pool_sizes OrtThreadingOptions SetGlobalIntraOpThreadAffinity RunOptions.terminate run_async
        KernelContext_ParallelFor
    """,
}
"""The thread settings of other systems, from their documentation, protocol buffers, headers and key tables."""


@pytest.mark.parametrize("library", ELSEWHERE)
def test_each_thread_setting_of_other_systems_has_a_line(library) -> None:
    """
    In the section of its library: the setting, its counterpart in treadle, and how that differs.
    """
    page = (ROOT / "docs" / "guide" / "threads.md").read_text(encoding="utf-8")
    section = page.split(f"\n### {library}\n")[1].split("\n### ")[0]
    rows = [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("| ")][1:]
    settings = " ".join(row[0] for row in rows)

    assert all(len(row) == 3 and row[1].strip() for row in rows)
    assert [name for name in ELSEWHERE[library].split() if name not in settings] == []


def test_the_guide_has_one_picture_and_answers_which_number_to_pick() -> None:
    """
    The file of the picture exists.
    """
    page = (ROOT / "docs" / "guide" / "threads.md").read_text(encoding="utf-8")

    assert re.findall(r"!\[[^]]+\]\(([^)]+)\)", page) == ["threads.svg"]
    assert (ROOT / "docs" / "guide" / "threads.svg").is_file()
    assert "## Which number should I pick?" in page


def arguments(*functions: object) -> Iterable[str]:
    """The names of the arguments of these functions; `**options` are those of a run."""
    for function in functions:
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                yield from RunOptions.__optional_keys__
            elif name != "self":
                yield name


PUBLIC = {
    "treadle": treadle.__all__,
    "treadle.Session": arguments(
        treadle.Session.__init__, treadle.Session.run, treadle.Session.run_async, treadle.Session.set
    ),
    "treadle.threads": [*treadle.threads.__all__, *arguments(treadle.threads.set, treadle.threads.limit)],
    "treadle.runtime.control": ["check_run"],
    "treadle.errors": [
        name for name, kind in vars(errors).items() if inspect.isclass(kind) and kind.__module__ == errors.__name__
    ],
}


@pytest.mark.parametrize("section", PUBLIC)
def test_the_reference_lists_every_public_name(section) -> None:
    """
    Names, arguments and errors, each in the section of its module.
    """
    page = (ROOT / "docs" / "guide" / "api.md").read_text(encoding="utf-8")
    part = page.split(f"\n## `{section}`\n")[1].split("\n## ")[0]

    assert [name for name in PUBLIC[section] if not re.search(rf"`[^`]*\b{name}\b", part)] == []


def test_members_that_the_reference_writes_with_brackets_are_callable() -> None:
    """
    In the row of each class. Properties are written without brackets.
    """
    page = (ROOT / "docs" / "guide" / "api.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)\([^|]*\| (.*) \|$", page, re.MULTILINE)
    classes = [(getattr(treadle, name), text) for name, text in rows if inspect.isclass(getattr(treadle, name, None))]

    assert treadle.CancelToken in [kind for kind, _ in classes]
    for kind, text in classes:
        for member in re.findall(r"`(\w+)\(", text):
            assert callable(getattr(kind, member, print)), f"{kind.__name__}.{member} is not called"


def test_the_reference_lists_every_option_of_every_command() -> None:
    """
    It lists no other options.
    """
    page = (ROOT / "docs" / "guide" / "api.md").read_text(encoding="utf-8")
    rows = dict(
        re.findall(r"^\| `treadle (\w+)[^|]*\| (.*) \|$", page.split("\n## The command line\n")[1], re.MULTILINE)
    )

    for name, command in treadle_command.commands.items():
        options = {option for part in command.params if isinstance(part, click.Option) for option in part.opts}
        assert set(re.findall(r"--\w+", rows[name])) == {option for option in options if option.startswith("--")}
    assert rows.keys() == treadle_command.commands.keys()
