"""Traces PyTorch's functions for open sizes: expressions become its symbols, and what it assumes becomes guards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.utils._sympy.value_ranges import ValueRanges

from treadle.dtypes import DType
from treadle.frontends.faults import Unsupported
from treadle.frontends.torch.dtypes import example_of
from treadle.frontends.torch.symbols import holds
from treadle.graph.dim import DimExpr, RealExpr, hint_of


class OpenTrace:
    """Arguments of one trace, of which some sizes are expressions.

    PyTorch decides by the sample sizes, as the expressions do. `assume` takes its decisions over: each is proved, or
    becomes a guard of the plan.
    """

    def __init__(self) -> None:
        self._env = ShapeEnv()
        self._mode = FakeTensorMode(shape_env=self._env, allow_non_fake_inputs=True)
        self._numbers: dict[float, Any] = {}
        self._known: dict[str, float] = {}

    def example(self, dtype: DType, shape: Sequence[int]) -> Any:
        """Returns a tensor without memory of these sizes."""
        sizes = [self.number(size) for size in shape]
        with self._mode:
            return example_of(dtype, sizes)

    def number(self, number: float) -> Any:
        """Returns a symbolic number of PyTorch for an expression; other numbers themselves."""
        if not isinstance(number, DimExpr | RealExpr):
            return number
        if number not in self._numbers:
            self._numbers[number] = self._symbol(number)
        return self._numbers[number]

    def _symbol(self, number: float) -> Any:
        env, hint, source = self._env, hint_of(number), ConstantSource(f"size{len(self._numbers)}")
        if not isinstance(number, DimExpr):
            symbol = env.create_unspecified_symbol(hint, source, DimDynamic.DYNAMIC)
            made = env.create_symfloatnode(symbol, hint=hint, source=source)
        else:
            least, most = (int(bound) for bound in (max(number.least, -_MOST), min(number.most, _MOST)))
            symbol = env.create_symbol(hint, source, DimDynamic.DYNAMIC, positive=None, do_not_specialize_zero_one=True)
            env.var_to_range[symbol] = ValueRanges(least, most)
            made = env.create_symintnode(symbol, hint=hint, source=source)
        self._known[str(symbol)] = number
        return made

    def trace(self, function: Callable[..., Any], examples: Sequence[Any], *, pre_dispatch: bool) -> fx.GraphModule:
        """Returns the ATen ops that `function` calls for `examples`."""
        with self._mode:
            module: fx.GraphModule = make_fx(function, tracing_mode="real", pre_dispatch=pre_dispatch)(*examples)
        return module

    def assume(self) -> None:
        """Proves or assumes what PyTorch has decided. Raises Unsupported if that cannot be expressed."""
        for guard in self._env.guards:
            if not holds(guard.expr, self._known):
                raise Unsupported(f"PyTorch's decomposition holds only for {guard.expr}")


_MOST = torch.iinfo(torch.int64).max // 2
