"""Runs the model tests of the onnx package's suite for backends on treadle and prints what came of them as JSON.

A process of its own: the suite is made without the package's node tests, which take ten seconds to make and run as
sessions in other tests.
"""

import json
import unittest

from onnx.backend.test import BackendTest, loader

from treadle.compat.onnx_backend import TreadleBackend

KINDS = ("Simple", "PyTorchConverted", "PyTorchOperator")

if __name__ == "__main__":
    loader.load_node_model_tests = list
    suites = BackendTest(TreadleBackend, __name__).exclude("cuda").test_cases
    report = {}
    for kind in KINDS:
        result = unittest.TestResult()
        unittest.defaultTestLoader.loadTestsFromTestCase(suites[f"OnnxBackend{kind}ModelTest"]).run(result)
        report[kind] = {
            "run": result.testsRun - len(result.skipped),
            "failed": [text for _, text in (*result.failures, *result.errors)],
            "skipped": [case.id().split(".")[-1] for case, why in result.skipped if "cuda" not in why],
        }
    print(json.dumps(report))
