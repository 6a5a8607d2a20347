"""Small models, each of which shows one part of the format; written in ONNX's text form."""

import numpy as np
import onnx
from onnx import helper, numpy_helper, parser

CONVOLUTION = """
<ir_version: 8, opset_import: ["": 17]>
conv_net (float[N, 3, 16, 16] x) => (float[N, 10] y)
<float[4, 3, 3, 3] w, float[4] bias, float[10, 4] dense>
{
  a = Conv <auto_pad = "SAME_UPPER", strides = [2, 2]> (x, w, bias)
  b = Relu (a)
  c = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (b)
  d = GlobalAveragePool (c)
  e = Flatten <axis = 1> (d)
  y = Gemm <transB = 1, alpha = 0.5> (e, dense)
}
"""

SHAPES = """
<ir_version: 8, opset_import: ["": 13]>
shapes (float[batch, 2, 6] x) => (float[batch, 3, 4] y, int64[3] s)
{
  s = Shape (x)
  zero = Constant <value_ints = [0]> ()
  batch = Gather (s, zero)
  rest = Constant <value_ints = [3, 4]> ()
  shape = Concat <axis = 0> (batch, rest)
  r = Reshape (x, shape)
  parts, others = Split <axis = 2> (r)
  joined = Concat <axis = 2> (others, parts)
  y = Softmax <axis = -1> (joined)
}
"""

BRANCHES = """
<ir_version: 8, opset_import: ["": 17]>
branches (float[n] x, bool flag) => (float[n] y)
{
  two = Constant <value_float = 2.0> ()
  y = If (flag) <
    then_branch = doubled () => (float[n] out) { out = Mul (x, two) },
    else_branch = kept () => (float[n] out) { out = Identity (x) }
  >
}
"""

LOOP = """
<ir_version: 8, opset_import: ["": 17]>
loop (int64 count, float[2] x) => (float[2] last, float[n] sums)
{
  step = Constant <value_float = 1.5> ()
  last, sums = Loop (count, "", x) <
    body = body (int64 i, bool go, float[2] state) => (bool again, float[2] next, float total) {
      again = Identity (go)
      next = Add (state, step)
      total = ReduceSum <keepdims = 0> (next)
    }
  >
}
"""

FUNCTION = """
<ir_version: 8, opset_import: ["": 17, "local": 1]>
functions (float[4] x) => (float[4] y)
{
  a = local.scaled <factor = 3.0> (x)
  y = local.twice (a)
}
<domain: "local", opset_import: ["": 17]>
scaled <factor: float = 2.0> (v) => (w)
{
  f = Constant <value_float: float = @factor> ()
  w = Mul (v, f)
}
<domain: "local", opset_import: ["": 17, "local": 1]>
twice (v) => (w)
{
  once = local.scaled <factor = 2.0> (v)
  w = Identity (once)
}
"""

SEQUENCES = """
<ir_version: 8, opset_import: ["": 17]>
sequences (float[2] a, float[2] b) => (float[4] y, int64 n)
{
  s = SequenceConstruct (a, b)
  y = ConcatFromSequence <axis = 0> (s)
  n = SequenceLength (s)
}
"""

FOREIGN = """
<ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": 3]>
foreign (float[3, 4] x) => (float[3, 4] y, float[k] unique)
{
  n = ai.onnx.ml.Normalizer <norm = "L2"> (x)
  y = LpNormalization <axis = 0> (n)
  unique = Unique (n)
}
"""

OLD = """
<ir_version: 3, opset_import: ["": 7]>
old (float[2, 3, 4] x) => (float[2, 3, 4] y, float[2, 2, 2] z)
{
  p = Pad <pads = [0, 0, 1, 0, 0, 0], mode = "constant", value = 1.5> (x)
  z = Slice <starts = [0, 1], ends = [2, 3], axes = [1, 2]> (p)
  u = Unsqueeze <axes = [0]> (x)
  q = Squeeze <axes = [0]> (u)
  c = Clip <min = -0.5, max = 0.5> (q)
  y = Softmax <axis = 1> (c)
}
"""

TEXTS = (CONVOLUTION, SHAPES, BRANCHES, LOOP, FUNCTION, SEQUENCES, FOREIGN, OLD)


def parsed(text: str) -> onnx.ModelProto:
    """The model of a text; weights that it only declares become initialisers filled with seeded numbers."""
    model = parser.parse_model(text)
    for seed, declared in enumerate(model.graph.value_info):
        shape = tuple(dim.dim_value for dim in declared.type.tensor_type.shape.dim)
        filled = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
        model.graph.initializer.append(numpy_helper.from_array(filled, declared.name))
    del model.graph.value_info[:]
    return model


def quantized() -> onnx.ModelProto:
    """A model with 4-bit weights, which no treadle tensor can hold."""
    weights = helper.make_tensor("w", onnx.TensorProto.INT4, [2, 2], [1, -2, 3, -4])
    scale = numpy_helper.from_array(np.float32(0.5), "scale")
    graph = helper.make_graph(
        [
            helper.make_node("DequantizeLinear", ["w", "scale"], ["wide"], name="widen"),
            helper.make_node("MatMul", ["x", "wide"], ["y"], name="product"),
        ],
        "quantized",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [None, 2])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [None, 2])],
        [weights, scale],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def sparse() -> onnx.ModelProto:
    """A model with a sparse initialiser: [[0, 5, 0], [7, 0, 0]]."""
    stored = helper.make_sparse_tensor(
        numpy_helper.from_array(np.array([5, 7], np.float32), "w"),
        numpy_helper.from_array(np.array([1, 3], np.int64), "w_indices"),
        [2, 3],
    )
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"], name="add")],
        "sparse",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2, 3])],
        sparse_initializer=[stored],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def all_models() -> list[onnx.ModelProto]:
    """Every sample."""
    return [*map(parsed, TEXTS), quantized(), sparse()]
