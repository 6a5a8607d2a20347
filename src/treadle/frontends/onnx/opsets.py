"""Operator sets: which domains and versions are known, and the signature of each operator in them."""

from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any, cast

import onnx
from onnx import defs

from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.onnx.formal import Formal, Signature
from treadle.frontends.onnx.microsoft import DOMAIN as MICROSOFT
from treadle.frontends.onnx.microsoft import IN_STANDARD_DOMAIN
from treadle.frontends.onnx.microsoft import SIGNATURES as OF_MICROSOFT

OLDEST = 7
"""The oldest version of the default domain: before it, operators had other broadcasting rules."""

STANDARD = ""


def domain_of(name: str) -> str:
    """The domain as schemas write it: `ai.onnx` is the empty string."""
    return STANDARD if name == "ai.onnx" else name


@cache
def newest() -> dict[str, int]:
    """Domain -> the newest version the onnx package knows."""
    found: dict[str, int] = {}
    for schema in defs.get_all_schemas_with_history():
        found[schema.domain] = max(found.get(schema.domain, 0), schema.since_version)
    found[STANDARD] = max(found[STANDARD], defs.onnx_opset_version())
    return found


def versions(imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    """Domain -> version of a model's or function's imports.

    Raises Fault for a domain that is imported twice, Unsupported for a version that is not known.
    Unknown domains are kept; each node that uses one is a fault.
    """
    found: dict[str, int] = {}
    for entry in imports:
        domain = domain_of(entry.domain)
        if found.get(domain, entry.version) != entry.version:
            raise Fault(f"domain {title(domain)} is imported in versions {found[domain]} and {entry.version}")
        found[domain] = entry.version
        last = newest().get(domain)
        first = OLDEST if domain == STANDARD else 1
        if last is not None and not first <= entry.version <= last:
            raise Unsupported(
                f"version {entry.version} of domain {title(domain)} is imported; treadle with this onnx package "
                f"({onnx.__version__}) knows versions {first} to {last}: "
                + (
                    "upgrade the onnx package, or export the model for an older opset"
                    if entry.version > last
                    else f"export the model for opset {first} or newer, or convert it with onnx.version_converter"
                )
            )
    return found


def title(domain: str) -> str:
    """A domain's name for messages."""
    return domain or "ai.onnx"


@lru_cache(4096)
def signature(domain: str, op: str, version: int) -> Signature | None:
    """The signature of `op` in this version of its domain, or None if there is none."""
    if domain == MICROSOFT or (domain == STANDARD and op in IN_STANDARD_DOMAIN):
        return OF_MICROSOFT.get(op)
    if not defs.has(op, domain):
        return None
    try:
        schema = defs.get_schema(op, version, domain)
    except defs.SchemaError:
        return None
    types = {entry.type_param_str: frozenset(entry.allowed_type_strs) for entry in schema.type_constraints}
    option = defs.OpSchema.FormalParameterOption

    def formal(parameter: defs.OpSchema.FormalParameter) -> Formal:
        variable = parameter.type_str
        return Formal(
            parameter.name,
            variable,
            types.get(variable, frozenset((variable,))),
            parameter.option == option.Optional,
            parameter.option == option.Variadic,
            parameter.is_homogeneous,
        )

    return Signature(
        op,
        tuple(map(formal, schema.inputs)),
        tuple(map(formal, schema.outputs)),
        schema.min_input,
        schema.max_input,
        schema.min_output,
        schema.max_output,
        {name: int(cast(Any, attribute.type)) for name, attribute in schema.attributes.items()},
        frozenset(name for name, attribute in schema.attributes.items() if attribute.required),
        schema.deprecated,
        schema.since_version,
    )
