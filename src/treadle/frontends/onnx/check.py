"""The structure of a model, checked before anything is translated: names, order, operators, sizes, limits."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest

import onnx
from onnx import AttributeProto, TensorProto

from treadle.errors import LimitError
from treadle.frontends.faults import Fault, Faults, Unsupported
from treadle.frontends.onnx.attribute_bounds import check_attributes
from treadle.frontends.onnx.formal import Signature
from treadle.frontends.onnx.functions import Functions, Key, key_of
from treadle.frontends.onnx.microsoft import DOMAIN as MICROSOFT
from treadle.frontends.onnx.microsoft_refused import REFUSED
from treadle.frontends.onnx.names import captured, execution_order, graphs_of, node_name, place
from treadle.frontends.onnx.opsets import domain_of, signature, title
from treadle.frontends.onnx.opsets import versions as versions_of
from treadle.frontends.onnx.reader import External
from treadle.frontends.onnx.tensors import check_tensor, is_external, read_external
from treadle.frontends.order import Cycle

MAX_NODES = 1 << 20
MAX_PORTS = 1 << 16
MAX_NESTING = 32
MAX_SAMPLES = 1 << 20
"""Points that a RoiAlign may sample in one region: the onnx package lists each as a Python object."""


def check_model(
    model: onnx.ModelProto,
    functions: Functions,
    external: External,
    faults: Faults,
    payloads: Sequence[memoryview | None] = (),
) -> None:
    """Add every structural fault of `model` to `faults`. `payloads` are as `reader.Source` has them.

    External data of tensors in attributes and nested graphs is read into the model here.
    Raises LimitError if the model has more nodes, inputs, outputs or nesting than the limits allow.
    """
    _check_limits(model, functions)
    checker = _Checker(functions, external, faults)
    try:
        versions = versions_of(model.opset_import)
    except Fault as fault:
        faults.add("opset_import", fault)
        return
    checker.graph(model.graph, (), versions, top=True)
    for key, function in functions.items():
        try:
            inner = versions_of(function.opset_import)
        except Fault as fault:
            faults.add(f"function {title(key[0])}.{key[1]}", fault)
            continue
        checker.nodes(function.node, set(), set(function.input), function.output, inner, top=True)
    if faults:  # else the importer checks each one as it turns it into an array: touching them twice costs time
        checker.stored(model.graph, keep_external=True, payloads=payloads)


def _check_limits(model: onnx.ModelProto, functions: Functions) -> None:
    for what, ports in (("inputs", model.graph.input), ("outputs", model.graph.output)):
        if len(ports) > MAX_PORTS:
            raise LimitError(f"the model has {len(ports)} {what}; at most {MAX_PORTS} are allowed")
    sizes: dict[Key, int] = {}
    for key, function in functions.items():  # callees come first
        sizes[key] = _expanded(function.node, sizes)
    _expanded(model.graph.node, sizes)


def _expanded(nodes: Iterable[onnx.NodeProto], sizes: Mapping[Key, int]) -> int:
    """How many nodes `nodes` are when nested graphs count and functions are expanded, whose `sizes` are known.

    Raises LimitError if there are too many, if one has too many inputs or outputs, or if graphs nest too deep.
    """
    total = 0
    waiting: list[tuple[int, Iterable[onnx.NodeProto]]] = [(0, nodes)]
    while waiting:
        depth, level = waiting.pop()
        if depth > MAX_NESTING:
            raise LimitError(f"graphs in the model nest more than {MAX_NESTING} deep")
        for node in level:
            total += 1 + sizes.get(key_of(node), 0)
            if total > MAX_NODES:
                raise LimitError(f"the model has more than {MAX_NODES} nodes, functions expanded")
            if len(node.input) > MAX_PORTS or len(node.output) > MAX_PORTS:
                raise LimitError(f"{place(node, node.name)} has more than {MAX_PORTS} inputs or outputs")
            waiting.extend((depth + 1, graph.node) for graph in graphs_of(node))
    return total


class _Checker:
    def __init__(self, functions: Functions, external: External, faults: Faults) -> None:
        self._functions = functions
        self._external = external
        self._faults = faults

    def graph(
        self, graph: onnx.GraphProto, outside: Collection[str], versions: dict[str, int], *, top: bool = False
    ) -> None:
        """Check a graph whose surroundings define the names `outside`."""
        own = [value.name for value in graph.input]
        self._once(own, "input")
        stored = [tensor.name for tensor in graph.initializer]
        stored += [tensor.values.name for tensor in graph.sparse_initializer]
        self._once(stored, "initialiser")
        if not top:
            self.stored(graph, keep_external=False)
        for sparse in graph.sparse_initializer:
            for tensor in (sparse.values, sparse.indices):
                self._tensor(tensor, f"sparse initialiser {sparse.values.name!r}", keep_external=False)
        outputs = [value.name for value in graph.output]
        self.nodes(graph.node, set(outside), {*own, *stored}, outputs, versions, top=top)

    def stored(
        self, graph: onnx.GraphProto, *, keep_external: bool, payloads: Sequence[memoryview | None] = ()
    ) -> None:
        """Check the sizes of a graph's initialisers."""
        for tensor, payload in zip_longest(graph.initializer, payloads):
            self._tensor(tensor, f"initialiser {tensor.name!r}", payload, keep_external=keep_external)

    def nodes(
        self,
        nodes: Iterable[onnx.NodeProto],
        outside: set[str],
        given: set[str],
        outputs: Iterable[str],
        versions: dict[str, int],
        *,
        top: bool,
    ) -> None:
        """Check nodes that may read `outside`, their graph's own `given` names and each other, and that `outputs`
        exist.

        A name may hide one of `outside`, but no other of its own graph.
        """
        listed = list(nodes)
        names = [node_name(node, index) for index, node in enumerate(listed)]
        made = set(given)
        for node, name in zip(listed, names, strict=True):
            for output in filter(None, node.output):
                if output in made:
                    self._faults.add(place(node, name), f"its output {output!r} has the name of another value")
                made.add(output)
        defined = outside | made
        for node, name in zip(listed, names, strict=True):
            for value in dict.fromkeys((*node.input, *captured(node))):
                if value and value not in defined:
                    self._faults.add(place(node, name), f"it reads {value!r}, which nothing defines")
            self._node(node, name, versions)
            for graph in graphs_of(node):
                self.graph(graph, defined, versions)
        for output in outputs:
            if output not in defined:
                self._faults.add(f"output {output!r}", "no node, input or initialiser has this name")
        self._order(listed, names, given, top=top)

    def _order(self, nodes: list[onnx.NodeProto], names: list[str], given: set[str], *, top: bool) -> None:
        try:
            order = execution_order(nodes, given)
        except Cycle as cycle:
            circle = [names[index] for index in cycle.indices]
            shown = " reads ".join(repr(name) for name in (*circle[:20], circle[0]))
            self._faults.add("graph", f"its nodes form a cycle, so none of them can run first: {shown}")
            return
        if not top and order != list(range(len(nodes))):
            self._faults.add("graph", f"a nested graph reads a value before the node that makes it: near {names[0]!r}")

    def _once(self, names: Iterable[str], what: str) -> None:
        seen: set[str] = set()
        for name in names:
            if not name:
                self._faults.add(f"an {what}", "it has no name")
            elif name in seen:
                self._faults.add(f"{what} {name!r}", f"two {what}s have this name")
            seen.add(name)

    def _tensor(
        self, tensor: TensorProto, where: str, payload: memoryview | None = None, *, keep_external: bool
    ) -> None:
        try:
            check_tensor(tensor, payload)
            if is_external(tensor) and not keep_external:
                tensor.raw_data = bytes(read_external(tensor, self._external))
                tensor.ClearField("external_data")
                tensor.ClearField("data_location")
        except Fault as fault:
            self._faults.add(where, fault)

    def _node(self, node: onnx.NodeProto, name: str, versions: dict[str, int]) -> None:
        where = place(node, name)
        check_attributes(node, name)
        for attribute in node.attribute:
            for tensor in _tensors(attribute):
                self._tensor(tensor, f"{where}: attribute {attribute.name!r}", keep_external=False)
        try:
            function = self._functions.get(key_of(node))
            if function is not None:
                _check_call(function, node)
                return
            _check_signature(_signature(node, versions), node)
            _check_work(node)
        except Fault as fault:
            self._faults.add(where, fault)


def _tensors(attribute: AttributeProto) -> Iterator[TensorProto]:
    if attribute.HasField("t"):
        yield attribute.t
    yield from attribute.tensors
    if attribute.HasField("sparse_tensor"):
        yield attribute.sparse_tensor.values
        yield attribute.sparse_tensor.indices
    for sparse in attribute.sparse_tensors:
        yield sparse.values
        yield sparse.indices


def _signature(node: onnx.NodeProto, versions: dict[str, int]) -> Signature:
    domain = domain_of(node.domain)
    version = versions.get(domain)
    if version is None:
        raise Fault(f"the model imports no version of domain {title(domain)}, and defines no such function")
    found = signature(domain, node.op_type, version)
    if found is None and domain == MICROSOFT and node.op_type in REFUSED:
        raise Unsupported(f"treadle does not compute this operator: {REFUSED[node.op_type]}")
    if found is None:
        raise Unsupported(
            f"no operator of this name is in version {version} of domain {title(domain)}, and the model defines "
            "no such function; export the model with standard ONNX operators"
        )
    return found


def _check_call(function: onnx.FunctionProto, node: onnx.NodeProto) -> None:
    for what, came, wanted in (
        ("inputs", len(node.input), len(function.input)),
        ("outputs", len(node.output), len(function.output)),
    ):
        if came > wanted:
            raise Fault(f"the function takes at most {wanted} {what}, got {came}")
    missing = set(function.attribute) - {attribute.name for attribute in node.attribute}
    if missing:
        raise Fault(f"the function needs the attribute {min(missing)!r}")


def _check_signature(wanted: Signature, node: onnx.NodeProto) -> None:
    inputs, outputs = _given_inputs(wanted, node), _trimmed(node.output)
    for what, count, least, most in (
        ("inputs", len(inputs), wanted.min_inputs, wanted.max_inputs),
        ("outputs", len(outputs), wanted.min_outputs, wanted.max_outputs),
    ):
        if not least <= count <= most:
            bounds = f"{least}" if least == most else f"{least} to {most}" if most < MAX_PORTS else f"{least} or more"
            raise Fault(f"it needs {bounds} {what}, got {count}")
    for index, name in enumerate(inputs):
        formal = wanted.input(index)
        if not name and not formal.optional and not formal.variadic:
            raise Fault(f"its input {formal.name!r} (number {index}) is missing")
    seen: set[str] = set()
    for attribute in node.attribute:
        _check_attribute(wanted, attribute, seen)
    missing = wanted.required - seen
    if missing:
        raise Fault(f"its attribute {min(missing)!r} is missing")


def _given_inputs(wanted: Signature, node: onnx.NodeProto) -> list[str]:
    """The inputs of `node` without empty ones at the end, but for those that it has to list."""
    inputs = _trimmed(node.input)
    while len(inputs) < min(len(node.input), wanted.min_inputs) and wanted.input(len(inputs)).optional:
        inputs.append("")
    return inputs


def _check_work(node: onnx.NodeProto) -> None:
    """Raise Fault if a number in the node asks for work, or memory, that no size of an input bounds."""
    if node.op_type != "RoiAlign" or domain_of(node.domain):
        return
    given = {attribute.name: attribute.i for attribute in node.attribute}
    height, width, ratio = (
        max(given.get(name, default), 1)
        for name, default in (("output_height", 1), ("output_width", 1), ("sampling_ratio", 0))
    )
    if height * width * ratio * ratio > MAX_SAMPLES:
        raise Fault(
            f"it samples {height} x {width} bins of {ratio} x {ratio} points in each region; "
            f"at most {MAX_SAMPLES} points are allowed"
        )


def _check_attribute(wanted: Signature, attribute: AttributeProto, seen: set[str]) -> None:
    kind = wanted.attributes.get(attribute.name)
    if kind is None:
        known = ", ".join(sorted(wanted.attributes)) or "none"
        raise Fault(f"attribute {attribute.name!r} is unknown; {wanted.name}-{wanted.since} has: {known}")
    if attribute.name in seen:
        raise Fault(f"attribute {attribute.name!r} is given twice")
    if attribute.type != kind:
        texts = [AttributeProto.AttributeType.Name(number) for number in (kind, attribute.type)]
        raise Fault(f"attribute {attribute.name!r} must be of type {texts[0]}, got {texts[1]}")
    seen.add(attribute.name)


def _trimmed(names: Iterable[str]) -> list[str]:
    listed = list(names)
    while listed and not listed[-1]:
        listed.pop()
    return listed
