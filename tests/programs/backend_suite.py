"""Runs the onnx package's suite for backends on treadle and prints what came of it as JSON.

    python -m tests.programs.backend_suite            its models
    python -m tests.programs.backend_suite --nodes    its nodes, too; says which share of all passes

The suite's real models are no part of the package. A process of its own: without --nodes the suite is made without its
node tests, which take ten seconds to make and run as sessions in other tests.
"""

import json
import sys
import unittest

from onnx.backend.test import BackendTest, loader

from treadle.compat.onnx_backend import TreadleBackend

KINDS = ("Simple", "PyTorchConverted", "PyTorchOperator")

if __name__ == "__main__":
    kinds = KINDS
    if "--nodes" in sys.argv[1:]:
        kinds = ("Node", *KINDS)
    else:
        loader.load_node_model_tests = list
    suites = BackendTest(TreadleBackend, __name__).exclude("cuda").test_cases
    report = {}
    for kind in kinds:
        result = unittest.TestResult()
        unittest.defaultTestLoader.loadTestsFromTestCase(suites[f"OnnxBackend{kind}ModelTest"]).run(result)
        run, failed = result.testsRun - len(result.skipped), [*result.failures, *result.errors]
        report[kind] = {
            "run": run,
            "share": 1 - len(failed) / run,
            "failed": [text for _, text in failed],
            "skipped": [case.id().split(".")[-1] for case, why in result.skipped if "cuda" not in why],
        }
    print(json.dumps(report))
