"""What loading a model says to models that cannot be used, word for word."""

import os

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

import treadle
from tests.models import small
from tests.unit.frontends.onnx.sample_models import CONVOLUTION, FUNCTION, parsed
from treadle import frontends
from treadle.errors import LimitError, ModelError, ModelFormatError, UnsupportedModelError
from treadle.frontends.onnx import load


def message(model, kind=ModelError):
    """The text of the error that loading `model` raises, which must be exactly of type `kind`."""
    with pytest.raises(kind) as caught:
        load(model)
    assert type(caught.value) is kind
    return str(caught.value)


def of(text):
    """A model of opset 17 with the given inputs, outputs and nodes."""
    return parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]>\n{text}').SerializeToString()


def faults(text):
    """The sentences about a model in text form, without the heading."""
    return message(of(text)).splitlines()[1:]


class TestFiles:
    def test_a_missing_file(self, tmp_path):
        assert message(tmp_path / "none.onnx", ModelFormatError) == (
            "the model 'none.onnx' cannot be read: No such file or directory; "
            f"check the path {str(tmp_path / 'none.onnx')!r} and its permissions"
        )

    def test_a_folder(self, tmp_path):
        assert message(tmp_path, ModelFormatError) == (
            f"the model {tmp_path.name!r} cannot be read: Is a directory; "
            f"check the path {str(tmp_path)!r} and its permissions"
        )

    def test_a_current_folder_that_is_gone(self, tmp_path, monkeypatch):
        (tmp_path / "gone").mkdir()
        monkeypatch.chdir(tmp_path / "gone")
        (tmp_path / "gone").rmdir()
        onnx.save(small.add(), tmp_path / "here.onnx")

        with pytest.raises(ModelFormatError, match=r"'here\.onnx' cannot be read: there is no current folder any more"):
            treadle.Session("here.onnx")
        assert treadle.Session(tmp_path / "here.onnx").inputs

    def test_a_path_of_bytes(self, tmp_path):
        class Bytes(os.PathLike):
            def __fspath__(self):
                return os.fsencode(tmp_path / "any.onnx")

        with pytest.raises(ModelFormatError, match=r"'any\.onnx' cannot be read: No such file"):
            treadle.Session(Bytes())
        onnx.save(small.add(), tmp_path / "any.onnx")
        assert treadle.Session(Bytes()).inputs

    def test_a_name_too_long_for_the_system(self, tmp_path):
        with pytest.raises(ModelFormatError) as caught:
            treadle.Session(tmp_path / ("x" * 5000))
        assert " cannot be read: File name too long; check the path " in str(caught.value)

    def test_a_pipe_is_refused_at_once(self, tmp_path):
        os.mkfifo(tmp_path / "pipe.onnx")
        assert message(tmp_path / "pipe.onnx", ModelFormatError) == (
            "the model 'pipe.onnx' is no regular file; wanted an ONNX file"
        )

    def test_an_empty_file(self, tmp_path):
        (tmp_path / "empty.onnx").touch()
        assert message(tmp_path / "empty.onnx", ModelFormatError) == (
            "the model 'empty.onnx' is empty; wanted an ONNX model"
        )

    def test_a_truncated_file(self, tmp_path):
        content = parsed(CONVOLUTION).SerializeToString()
        (tmp_path / "cut.onnx").write_bytes(content[:-100])
        assert message(tmp_path / "cut.onnx", ModelFormatError) == (
            f"the model 'cut.onnx' is no ONNX model: its {len(content) - 100} bytes are not a protobuf message, "
            "or were cut short; export or download it again"
        )

    def test_another_protobuf_message(self):
        assert message(helper.make_opsetid("", 17).SerializeToString(), ModelFormatError) == (
            "the model given as bytes is no ONNX model: it lacks the field `graph`; export or download it again"
        )

    def test_a_name_that_is_no_text(self):
        content = of("g (float[1] xxxx) => (float[1] y) { y = Relu(xxxx) }").replace(b"xxxx", b"\xff\xfe\xfd\xfc")
        assert message(content, ModelFormatError) == (
            "the model given as bytes is damaged: it holds the name b'\\xff\\xfe\\xfd\\xfc', which is not UTF-8; "
            "export or download it again"
        )

    def test_something_that_is_no_model(self):
        with pytest.raises(ModelFormatError) as caught:
            frontends.load(17)
        assert str(caught.value) == (
            "cannot load a model from an object of type int; wanted a path, bytes, an onnx.ModelProto, "
            "a torch.nn.Module, a torch.export.ExportedProgram, a TensorFlow GraphDef or a treadle Graph"
        )


class TestStructure:
    def test_every_fault_is_listed_in_one_error(self):
        text = message(
            of(
                "g (float[2] x) => (float[2] y, float[2] z) {"
                "  a = Frobnicate(x)  b = Add(x)  c = Relu(missing)  d = com.acme.Gizmo(x)  y = Add(a, c) }"
            )
        )
        assert text == (
            "the model given as bytes cannot be used, for 5 reasons:\n"
            "  - node 'Frobnicate_0' (Frobnicate): no operator of this name is in version 17 of domain ai.onnx, "
            "and the model defines no such function; export the model with standard ONNX operators\n"
            "  - node 'Add_1' (Add): it needs 2 inputs, got 1\n"
            "  - node 'Relu_2' (Relu): it reads 'missing', which nothing defines\n"
            "  - node 'Gizmo_3' (Gizmo of com.acme): the model imports no version of domain com.acme, "
            "and defines no such function\n"
            "  - output 'z': no node, input or initialiser has this name"
        )

    def test_only_unknown_operators_make_an_unsupported_model(self):
        text = message(of("g (float[2] x) => (float[2] y) { a = Foo(x) y = Bar(a) }"), UnsupportedModelError)
        assert text.splitlines()[0] == "the model given as bytes cannot be used, for 2 reasons:"

    def test_nodes_of_one_op_share_a_line(self):
        text = message(of("g (float[2] x) => (float[2] y) { a = Foo(x) b = Foo(a) c = Add(b) y = Foo(c) }"))
        assert text == (
            "the model given as bytes cannot be used, for 2 reasons:\n"
            "  - node 'Foo_0' (Foo) and 2 more: no operator of this name is in version 17 of domain ai.onnx, "
            "and the model defines no such function; export the model with standard ONNX operators\n"
            "  - node 'Add_2' (Add): it needs 2 inputs, got 1"
        )

    def test_a_cycle_is_named(self):
        assert faults("g (float[2] x) => (float[2] c) { a = Add(x, c) b = Relu(a) c = Relu(b) }") == [
            (
                "  - graph: its nodes form a cycle, so none of them can run first: "
                "'Add_0' reads 'Relu_2' reads 'Relu_1' reads 'Add_0'"
            )
        ]

    def test_two_values_of_one_name(self):
        assert faults("g (float[2] x) => (float[2] y) { y = Relu(x) y = Abs(x) }") == [
            "  - node 'Abs_1' (Abs): its output 'y' has the name of another value"
        ]

    def test_attributes_that_the_operator_does_not_have(self):
        assert faults(
            "g (float[2] x) => (float[2] y, float[2] z) { y = Relu <alpha = 1.0> (x) z = Elu <alpha = 1> (x) }"
        ) == [
            "  - node 'Relu_0' (Relu): attribute 'alpha' is unknown; Relu-14 has: none",
            "  - node 'Elu_1' (Elu): attribute 'alpha' must be of type FLOAT, got INT",
        ]

    def test_operands_whose_types_do_not_fit(self):
        assert faults(
            "g (float[2] x, int64[2] n, bool[2] b) => (float[2] y, bool[2] z) { y = Add(x, n) z = Neg(b) }"
        ) == [
            "  - node 'Add_0' (Add): its inputs 'x' (f32) and 'n' (i64) must have one element type",
            "  - node 'Neg_1' (Neg): its input 'X' ('b') is bool; wanted f64, f32, f16, bf16, i64, i32, i16, i8",
        ]

    def test_outputs_that_are_of_another_type_than_stated(self):
        assert faults("g (float[2] x) => (int64[2] y, float[7] z) { y = Relu(x) z = Abs(x) }") == [
            "  - output 'y': the model states it as i64, but it is f32"
        ]

    def test_operands_whose_shapes_do_not_fit(self):
        (fault,) = faults("g (float[2, 3] x, float[4, 5] w) => (float[2, 5] y) { y = MatMul(x, w) }")
        assert fault.startswith("  - node 'MatMul_0' (MatMul): ")
        assert "[2, 3]" in fault
        assert "[4, 5]" in fault

    def test_an_opset_too_old(self):
        model = parser.parse_model(
            '<ir_version: 3, opset_import: ["": 6]> g (float[2] x) => (float[2] y) { y = Relu(x) }'
        )
        newest = onnx.defs.onnx_opset_version()
        assert message(model, UnsupportedModelError) == (
            "the ModelProto cannot be used, for 1 reason:\n"
            f"  - opset_import: version 6 of domain ai.onnx is imported; treadle with this onnx package "
            f"({onnx.__version__}) knows versions 7 to {newest}: "
            "export the model for opset 7 or newer, or convert it with onnx.version_converter"
        )

    def test_an_opset_too_new(self):
        model = parser.parse_model(
            '<ir_version: 8, opset_import: ["": 999]> g (float[2] x) => (float[2] y) { y = Relu(x) }'
        )
        assert message(model, UnsupportedModelError).endswith(
            "upgrade the onnx package, or export the model for an older opset"
        )


class TestTensors:
    def test_an_initialiser_with_too_little_data(self):
        model = parsed(CONVOLUTION)
        model.graph.initializer[0].raw_data = b"\0" * 8
        assert message(model).splitlines()[1:] == [
            "  - initialiser 'w': FLOAT[4, 3, 3, 3] needs 432 bytes of data, but the model holds 8"
        ]

    def test_a_shape_that_would_take_all_memory_allocates_nothing(self):
        model = parsed(CONVOLUTION)
        model.graph.initializer[0].dims[:] = [2**62, 2**62]
        assert message(model).splitlines()[1:] == [
            (
                "  - initialiser 'w': shape [4611686018427387904, 4611686018427387904] has "
                "21267647932558653966460912964485513216 elements; at most 1099511627776 are allowed"
            )
        ]


class TestLimits:
    def test_functions_that_call_each_other(self):
        model = parsed(FUNCTION)
        scaled = next(function for function in model.functions if function.name == "scaled")
        scaled.opset_import.add(domain="local", version=1)
        scaled.node.append(helper.make_node("twice", ["v"], ["again"], domain="local"))
        assert message(model).splitlines()[1:] == [
            "  - functions: functions call each other in a circle: local.scaled -> local.twice -> local.scaled"
        ]

    def test_calls_nested_too_deep(self):
        model = parsed(FUNCTION)
        del model.functions[:]
        for level in range(101):
            callee = helper.make_node(f"f{level + 1}", ["v"], ["w"], domain="local")
            node = callee if level < 100 else helper.make_node("Relu", ["v"], ["w"])
            imports = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
            model.functions.append(helper.make_function("local", f"f{level}", ["v"], ["w"], [node], imports))
        with pytest.raises(LimitError) as caught:
            load(model)
        assert str(caught.value) == "calls of function local.f0 nest 101 deep; at most 100 are allowed"

    def test_functions_that_expand_to_too_many_nodes(self):
        model = parsed(FUNCTION)
        del model.functions[:]
        for level in range(40):
            inner = f"f{level + 1}" if level < 39 else "Relu"
            domain = "local" if level < 39 else ""
            nodes = [helper.make_node(inner, ["v"], [name], domain=domain) for name in ("w", "unused")]
            imports = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
            model.functions.append(helper.make_function("local", f"f{level}", ["v"], ["w"], nodes, imports))
        model.graph.node[0].op_type = "f0"
        del model.graph.node[0].attribute[:]
        del model.graph.node[1:]
        model.graph.node[0].output[0] = "y"
        with pytest.raises(LimitError) as caught:
            load(model)
        assert str(caught.value) == "the model has more than 1048576 nodes, functions expanded"

    def test_graphs_nested_too_deep(self, monkeypatch):
        """Protobuf itself refuses little more than the 32 levels that treadle takes, so the limit is lowered here."""
        monkeypatch.setattr("treadle.frontends.onnx.check.MAX_NESTING", 1)
        inner = (
            "{ y = If (flag) <then_branch = c () => (float[2] z) { z = Relu(x) }, "
            "else_branch = d () => (float[2] z) { z = Abs(x) }> }"
        )
        text = (
            f"g (float[2] x, bool flag) => (float[2] y) {{ y = If (flag) <then_branch = a () => (float[2] y) {inner}, "
            f"else_branch = b () => (float[2] y) {inner}> }}"
        )
        with pytest.raises(LimitError) as caught:
            load(of(text))
        assert str(caught.value) == "graphs in the model nest more than 1 deep"

    def test_more_inputs_than_allowed(self):
        inputs = [helper.make_tensor_value_info(f"x{index}", TensorProto.FLOAT, [1]) for index in range(65537)]
        graph = helper.make_graph([], "wide", inputs, [])
        with pytest.raises(LimitError) as caught:
            load(helper.make_model(graph))
        assert str(caught.value) == "the model has 65537 inputs; at most 65536 are allowed"

    def test_a_sparse_tensor_that_would_take_all_memory(self):
        stored = helper.make_sparse_tensor(
            numpy_helper.from_array(np.array([1], np.float32), "w"),
            numpy_helper.from_array(np.array([0], np.int64), "i"),
            [2**20, 2**19],
        )
        graph = helper.make_graph(
            [helper.make_node("Identity", ["w"], ["y"])], "sparse", [],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], sparse_initializer=[stored],
        )  # fmt: skip
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        assert message(model).splitlines()[1:] == [
            "  - initialiser 'w': expanding the sparse tensor [1048576, 524288] would take more than 256 MiB"
        ]
