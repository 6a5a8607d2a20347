"""Sessions with skip_padding compute the tokens of padded texts only, and say where that is not possible."""

from __future__ import annotations

import numpy as np
import pytest

import treadle
from tests.models import encoders
from tests.models.encoders import encoder, feed
from treadle.errors import InputError

LENGTHS = [3, 17, 1, 9]
LONGEST = 17

PROVED = {
    "first token": encoder(encoders.first_token),
    "first slice": encoder(encoders.first_slice),
    "masked mean": encoder(encoders.masked_mean),
    "masked greatest": encoder(encoders.masked_greatest),
    "mask of -10000": encoder(encoders.masked_mean, mask=encoders.added(-10000.0)),
    "mask of -inf": encoder(encoders.masked_mean, mask=encoders.chosen),
    "mask by indices": encoder(encoders.masked_mean, mask=encoders.indexed),
    "one projection": encoder(encoders.masked_mean, attention=encoders.by_one_projection),
    "scaled by text": encoder(encoders.masked_mean, attention=encoders.scaled_by_text),
    "several outputs": encoder(encoders.first_token, encoders.masked_mean),
}

REFUSED = {
    "no mask": (encoder(encoders.masked_mean, mask=encoders.unmasked), "Softmax", "no mask hides the keys"),
    "inverted mask": (encoder(encoders.masked_mean, mask=encoders.inverted), "Add", "more to the scores"),
    "mask by token numbers": (
        encoder(encoders.masked_mean, mask=encoders.by_token_numbers),
        "Where",
        "more to the scores",
    ),
    "weak mask": (encoder(encoders.masked_mean, mask=encoders.weak), "Add", "more to the scores"),
    "mask of queries": (encoder(encoders.masked_mean, mask=encoders.by_queries), "Add", "more to the scores"),
    "mean of all": (encoder(encoders.mean_of_all), "ReduceMean", "mixes the rows of padding"),
    "last position": (encoder(encoders.last_position), "Gather", "mixes the rows of padding"),
    "all rows": (encoder(encoders.all_rows), None, "output 'y' has rows for padding"),
}


@pytest.mark.parametrize("name", PROVED)
def test_tokens_alone_give_what_padded_texts_give(name: str) -> None:
    """
    Embeddings are those of a session that computes padding, for any lengths, with one plan; tokens in the place of
    padding change no bit.
    """
    skipping, padded = treadle.Session(PROVED[name], skip_padding=True), treadle.Session(PROVED[name])

    assert skipping.why_padded() is None
    for lengths, longest in ((LENGTHS, LONGEST), ([5], 5), ([1], 9), ([2, 40, 40, 3, 11, 1], 40)):
        given = feed(lengths, longest)
        other = {**given, "ids": np.where(given["mask"] == 1, given["ids"], 7)}
        found, wanted = skipping.run(given), padded.run(given)
        for output, array in skipping.run(other).items():
            assert array.tobytes() == found[output].tobytes()
            np.testing.assert_allclose(array, wanted[output], rtol=1e-5, atol=1e-6)
    assert skipping.compiles == 1


@pytest.mark.parametrize("name", REFUSED)
def test_what_stands_in_the_way_is_named(name: str) -> None:
    """
    A session for which nothing can be proved is refused, with the node that stands in the way.
    """
    model, op, reason = REFUSED[name]
    with pytest.raises(InputError, match=reason) as caught:
        treadle.Session(model, skip_padding=True)

    assert "skip_padding" in str(caught.value)
    node = next((node for node in model.graph.node if node.name == caught.value.node), None)
    assert node is not None
    assert op is None or node.op_type == op


def test_fixed_sizes_are_refused() -> None:
    """
    Batch and length must be open.
    """
    model = encoder(encoders.masked_mean)
    for port in model.graph.input:
        for dim, size in zip(port.type.tensor_type.shape.dim, (4, 17), strict=True):
            dim.dim_value = size
    with pytest.raises(InputError, match="no input is an attention mask of open batch and length"):
        treadle.Session(model, skip_padding=True)


def test_rows_are_computed_for_outputs_that_have_them() -> None:
    """
    A model with a pooled output and one of all rows skips padding where the pooled one alone is wanted, and says why it
    does not for both.
    """
    model = encoder(encoders.masked_mean, encoders.all_rows)
    skipping, padded = treadle.Session(model, skip_padding=True), treadle.Session(model)
    given = feed(LENGTHS, LONGEST)
    why = skipping.why_padded()

    assert why is not None
    assert "'y1' has rows for padding" in str(why)
    assert skipping.why_padded(["y"]) is None
    both = skipping.run(given)
    for name, array in padded.run(given).items():
        np.testing.assert_array_equal(both[name], array)
    np.testing.assert_allclose(skipping.run(given, ["y"])["y"], both["y"], rtol=1e-5, atol=1e-6)


def test_tokens_may_lie_anywhere() -> None:
    """
    Texts padded at the left and masks with holes give what padded texts give.
    """
    model = encoder(encoders.masked_mean, mask=encoders.chosen)
    skipping, padded = treadle.Session(model, skip_padding=True), treadle.Session(model)
    given = feed(LENGTHS, LONGEST)
    holes = np.random.default_rng(1).integers(0, 2, given["mask"].shape)
    holes[:, 5] = 1
    for mask in (given["mask"][:, ::-1].copy(), holes, np.ones_like(holes)):
        given["mask"] = mask
        np.testing.assert_allclose(skipping.run(given)["y"], padded.run(given)["y"], rtol=1e-5, atol=1e-6)
    assert skipping.compiles == 1


def _without_tokens(mask: np.ndarray) -> None:
    mask[1] = 0


def _first_is_padding(mask: np.ndarray) -> None:
    mask[2, 0] = 0
    mask[2, 3] = 1


def _weighted(mask: np.ndarray) -> None:
    mask[0, 0] = 2


@pytest.mark.parametrize("change", [_without_tokens, _first_is_padding, _weighted])
def test_masks_that_the_proof_does_not_cover_compute_padding(change) -> None:
    """
    A text without tokens, a first position that is padding, and numbers other than 0 and 1 give the bits of a session
    that computes padding.
    """
    model = encoder(encoders.first_token, mask=encoders.added(-10000.0))
    skipping, padded = treadle.Session(model, skip_padding=True), treadle.Session(model)
    given = feed(LENGTHS, LONGEST)
    change(given["mask"])

    assert skipping.run(given)["y"].tobytes() == padded.run(given)["y"].tobytes()
    assert skipping.compiles == 2


def test_results_do_not_depend_on_threads() -> None:
    """
    Every thread setting gives the same bits.
    """
    session = treadle.Session(encoder(encoders.masked_mean), skip_padding=True)
    given = feed([3, 50, 8, 29, 64, 1, 17, 12], 64)
    found = {
        session.run(given, intra_op=intra_op, inter_op=inter_op)["y"].tobytes()
        for intra_op, inter_op in ((1, 1), (2, 1), (3, 2), (8, 8))
    }

    assert len(found) == 1


def test_plans_and_asynchronous_runs() -> None:
    """
    A session shows the plan of a run without padding, and runs it in the background.
    """
    session = treadle.Session(encoder(encoders.first_token), skip_padding=True)
    given = feed(LENGTHS, LONGEST)
    (plan,) = session.plans_for(given)

    assert any(call.spec is not None and call.spec.family == "attention" for call in plan.calls)
    assert any(port.shape == (sum(LENGTHS),) for port in plan.inputs)
    assert session.run_async(given).result()["y"].tobytes() == session.run(given)["y"].tobytes()
    session.trim()


@pytest.mark.parametrize("value", [1, "yes", None])
def test_other_values_are_refused(value) -> None:
    """
    skip_padding is True or False.
    """
    with pytest.raises(InputError, match="skip_padding"):
        treadle.Session(encoder(encoders.first_token), skip_padding=value)


def test_exact_arithmetic_is_refused() -> None:
    """
    math="exact" promises sums in the model's order, which packed attention does not keep.
    """
    with pytest.raises(InputError, match="exact"):
        treadle.Session(encoder(encoders.first_token), skip_padding=True, math="exact")
