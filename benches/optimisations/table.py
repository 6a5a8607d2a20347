"""The optimisations that are measured: how each is left out, its files, and the models that could profit."""

from __future__ import annotations

import re
from dataclasses import dataclass

from benches.harness.process import ROOT

PACKAGE = ROOT / "src" / "treadle"
FOLDERS = ("passes", "plan", "codegen", "graph")
"""The parts of the package whose lines are counted."""

LARGE = 300
"""An optimisation of more lines than this has to pay for them."""

BOTH = ("avx512", "avx2")


@dataclass(frozen=True, slots=True)
class Optimisation:
    """A row of the table.

    `files` is a pattern of paths relative to the package. Without it means TREADLE_DISABLE=`disable`. A choice that
    only a user makes, such as a provider of matrix products, is no optimisation and has no row.
    """

    name: str
    files: str
    models: tuple[str, ...]
    disable: tuple[str, ...] = ()
    precision: str = "f32"
    isas: tuple[str, ...] = BOTH

    @property
    def lines(self) -> int:
        """Lines of code in all its files."""
        paths = [path for folder in FOLDERS for path in (PACKAGE / folder).rglob("*.py")]
        own = [path for path in paths if re.search(self.files, path.relative_to(PACKAGE).as_posix())]
        return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in own)

    def without(self) -> dict[str, str]:
        """The variables of a process without the optimisation."""
        return {"TREADLE_DISABLE": ",".join(self.disable or (self.name,))}


OPTIMISATIONS = (
    Optimisation("winograd", "winograd", ("resnet50", "googlenet", "squeezenet1_1", "unet_128")),
    Optimisation("depthwise", "depthwise", ("mobilenet_v2", "shufflenet_v2")),
    Optimisation("few_outputs", "few_outputs", ("unet_128",)),
    Optimisation("conv_pool", "conv.*pool", ("squeezenet1_1", "googlenet")),
    Optimisation("vnni", "vnni|widen_bytes", ("resnet50.qdq-s8", "minilm_s64.qdq-u8")),
    Optimisation("byte_table", "byte_table", ("minilm_s64.qdq-u8",)),
    Optimisation("flush_subnormals", "subnormals", ("ppocrv6_det",)),
    Optimisation("prefetch", "prefetch", ("resnet50", "mobilenet_v2", "gpt2_s64")),
    Optimisation("recurrent", "recurrent", ("lstm_speech", "gru_text")),
    Optimisation(
        "choose_layouts", "choose_layouts|reorder|conv.*(blocked|direct)|graph/layout", ("resnet50", "mobilenet_v2")
    ),
    Optimisation(
        "choose_precision",
        "choose_precision|bf16|bfloat",
        ("bert_base_s128", "resnet50"),
        precision="bf16",
        isas=("avx512",),  # AVX2 has no bf16 dot product
    ),
    Optimisation("fuse_epilogue", "epilogue", ("resnet50", "bert_base_s128", "mobilenet_v2")),
    Optimisation("fuse_attention", "attention", ("whisper_tiny", "bert_base_s1024", "bert_base_s128", "gpt2_s64")),
    Optimisation("fuse_bags", "fuse_bags|gather_reduce", ("embedding_bags",)),
    Optimisation("group_elementwise", "group_elementwise|build_expr", ("gpt2_s64", "efficientnet_b0")),
    Optimisation("pick_channels", "pick_channels", ("shufflenet_v2",)),
    Optimisation(
        "transposes",
        "(sink|absorb|simplify)_transposes",
        ("mobilenet_v2_nhwc", "bert_base_s128"),
        disable=("sink_transposes", "absorb_transposes"),
    ),
)

BY_NAME = {one.name: one for one in OPTIMISATIONS}
