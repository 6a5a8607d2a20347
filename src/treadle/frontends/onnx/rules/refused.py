"""Operators of ai.onnx.ml that treadle refuses; the errors say what to do instead."""

from treadle.frontends.faults import Unsupported
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode


def svm_classifier(node: OnnxNode, b: Builder) -> None:  # noqa: ARG001 - a rule
    """None: it runs by ONNX's reference, whose probabilities of more than two classes are wrong."""
    classes = node.texts("classlabels_strings") or node.integers("classlabels_ints") or ()
    if len(classes) > 2 and node.has("prob_a"):
        raise Unsupported(
            "treadle has no probabilities of support vector machines for more than two classes; "
            "export the model without them (scikit-learn: SVC(probability=False))"
        )
