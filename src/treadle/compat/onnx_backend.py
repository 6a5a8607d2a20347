"""treadle as a backend of the onnx package: `import treadle.compat.onnx_backend as backend`.

    prepared = backend.prepare(onnx.load("model.onnx"))
    outputs = prepared.run([x])

The interface is that of `onnx.backend.base`, which converters and ONNX's own test suite call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx import NodeProto, helper, version_converter
from onnx.backend.base import Backend, BackendRep, Device, DeviceType, namedtupledict

from treadle.compile import Session
from treadle.errors import InputError, ModelError

_FIRST = 7
"""The first operator set that treadle knows."""


def at_known_version(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return `model`, converted by the onnx package if it is of an operator set before 7."""
    versions = [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    return version_converter.convert_version(model, _FIRST) if versions and versions[0] < _FIRST else model


class Prepared(BackendRep):
    """A model that is ready to run.

    Args:
        session: Its session; runs have its threads.
    """

    def __init__(self, session: Session) -> None:
        self.session = session

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Compute all outputs.

        Args:
            inputs: Arrays by name, in the order of the model's inputs, or a single one for a model of one input.
                Sequences, optionals and tensors of small elements are as in Session.run.
            **kwargs: As Session.run takes them, such as `intra_op` and `timeout`.

        Returns:
            A tuple with the outputs in the model's order, which also finds them by name.

        Raises:
            InputError: There are more or fewer arrays than inputs, or one does not fit.
            RunError: A node failed.
        """
        wanted = [tensor.name for tensor in self.session.inputs]
        if not isinstance(inputs, Mapping):
            given = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
            if len(given) != len(wanted):
                raise InputError(f"inputs: wanted {len(wanted)} arrays ({', '.join(wanted)}), got {len(given)}")
            inputs = dict(zip(wanted, given, strict=True))
        results = self.session.run(inputs, **kwargs)
        made: tuple[Any, ...] = namedtupledict("Outputs", list(results))(*results.values())
        return made


class TreadleBackend(Backend):
    """What `onnx.backend.base.Backend` asks of a backend. The only device is the CPU."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Return True if prepare() would succeed; it reads and compiles the model to find out."""
        try:
            cls.prepare(model, device, **kwargs)
        except (ModelError, InputError):
            return False
        return True

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> Prepared:
        """Make a session of `model`.

        Args:
            model: The model.
            device: "CPU" or "CPU:0".
            **kwargs: As Session takes them, such as `intra_op` and `math`. A model of an operator set before 7 is
                converted first, by the onnx package.

        Raises:
            InputError: There is no such device.
            ModelError: The model cannot be used.
        """
        if not cls.supports_device(device):
            raise InputError(f"device: wanted 'CPU', got {device!r}; treadle runs on CPUs only")
        return Prepared(Session(at_known_version(model).SerializeToString(), **kwargs))

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """Return what prepare(model).run(inputs) does."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Run one operator.

        Args:
            node: The operator, of the version `opset_version`, or of the newest.
            inputs: Arrays for its inputs that are not left out, in their order, or by name.
            device: "CPU" or "CPU:0".
            outputs_info: NumPy dtype and shape of each output, if its type does not follow from the inputs.
            **kwargs: As prepare() takes them, and `opset_version`.
        """
        version = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        names = list(dict.fromkeys(filter(None, node.input)))
        arrays = dict(inputs) if isinstance(inputs, Mapping) else dict(zip(names, inputs, strict=True))
        declared = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(arrays[name].dtype), arrays[name].shape)
            for name in names
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        for output, (dtype, shape) in zip(outputs, outputs_info or (), strict=False):
            kind = helper.np_dtype_to_tensor_dtype(dtype)
            output.CopyFrom(helper.make_tensor_value_info(output.name, kind, shape))
        graph = helper.make_graph([node], "node", declared, outputs)
        imports = [helper.make_opsetid(node.domain, version)]
        return cls.run_model(helper.make_model(graph, opset_imports=imports), arrays, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return True for the CPU."""
        try:
            found = Device(device)
        except (AttributeError, ValueError):
            return False
        return bool(found.type == DeviceType.CPU and found.device_id == 0)


is_compatible = TreadleBackend.is_compatible
prepare = TreadleBackend.prepare
run_model = TreadleBackend.run_model
run_node = TreadleBackend.run_node
supports_device = TreadleBackend.supports_device
