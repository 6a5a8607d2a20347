"""Functions, methods and layers give PyTorch's results; expected numbers are those of PyTorch 2.13."""

import copy
import math

import numpy as np
import pytest

import treadle.compat.torch as torch
import treadle.compat.torch.nn.functional as F  # noqa: N812
from treadle.compat.torch import nn

X = torch.from_numpy(np.arange(12, dtype=np.float32).reshape(3, 4))
A = X.numpy()


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (lambda: X.roll(1, 0), np.roll(A, 1, 0)),
        (lambda: X.roll(1), np.roll(A, 1)),
        (lambda: torch.std(X, 0), A.std(0, ddof=1)),
        (lambda: X.std(0, False), A.std(0)),
        (lambda: X.var(correction=0), A.var()),
        (lambda: X.norm(3), (A**3).sum() ** (1 / 3)),
        (lambda: torch.expm1(X), np.expm1(A)),
        (lambda: torch.atan2(X, X + 1), np.arctan2(A, A + 1)),
        (lambda: torch.outer(X[0], X[1]), np.outer(A[0], A[1])),
        (lambda: X.repeat_interleave(2, 0), A.repeat(2, 0)),
        (lambda: torch.vstack([X, X]), np.vstack([A, A])),
        (lambda: torch.diag(X[0]), np.diag(A[0])),
        (lambda: X.diagonal(1), A.diagonal(1)),
        (lambda: torch.trace(X), A.trace()),
        (lambda: X.movedim(0, 1), A.T),
        (lambda: X[:, torch.tensor([True, False, True, False])], A[:, [0, 2]]),
        (lambda: X[torch.tensor([0, 2]), torch.tensor([1, 3])], A[[0, 2], [1, 3]]),
        (lambda: X[None][:, torch.tensor([0, 2]), torch.tensor([1, 3])], A[None][:, [0, 2], [1, 3]]),
        (lambda: torch.meshgrid(X[0], X[:, 0], indexing="xy")[1], np.meshgrid(A[0], A[:, 0])[1]),
        (lambda: torch.cdist(X, X), np.linalg.norm(A[:, None] - A[None], axis=-1)),
        (lambda: torch.tensordot(X, X.T, dims=1), A @ A.T),
        (lambda: torch.median(X), 5),
        (lambda: X.median(1).indices, [1, 1, 1]),
        (lambda: torch.unique(torch.tensor([3, 1, 3])), [1, 3]),
        (lambda: torch.add(X, X, alpha=2), A * 3),
        (lambda: torch.where(X[0] > 1)[0], [2, 3]),
        (lambda: torch.nan_to_num(torch.tensor([float("nan"), 1.0])), [0, 1]),
        (lambda: torch.tensor([5, 2]) >> 1, [2, 1]),
        (lambda: torch.round(torch.tensor([0.126]), decimals=2), [0.13]),
        (lambda: F.interpolate(X[None, None], scale_factor=2)[0, 0], A.repeat(2, 0).repeat(2, 1)),
        (lambda: F.adaptive_avg_pool1d(torch.arange(7.0)[None, None], 3), [[[1, 3, 5]]]),
        (lambda: F.softshrink(torch.tensor([-2.0, 0.1, 2.0])), [-1.5, 0, 1.5]),
        (lambda: X.new_ones(2), [1, 1]),
        (lambda: X.type(torch.int32), A.astype(int)),
    ],
)
def test_functions_agree_with_numpy(made, expected):
    """
    Eagerly and in a script.
    """
    for result in (made(), torch.jit.script(_calls)(made)):
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-5, atol=1e-6)


def _calls(made):
    return made()


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: torch.tensor([1]) ** -1, RuntimeError, "Integers to negative integer powers are not allowed."),
        (lambda: X - True, RuntimeError, "Subtraction, the `-` operator, with a bool tensor is not supported."),
        (lambda: X.T.view(-1), RuntimeError, "view size is not compatible with input tensor's size and stride"),
        (lambda: X.unsqueeze(5), IndexError, "Dimension out of range (expected to be in range of [-3, 2], but got 5)"),
        (lambda: X.narrow(1, 3, 2), RuntimeError, "start (3) + length (2) exceeds dimension size (4)."),
        (lambda: X.permute(0), RuntimeError, "input.dim() = 2 is not equal to len(dims) = 1"),
        (lambda: X.expand(3, 5), RuntimeError, "The expanded size of the tensor (5) must match the existing size (4)"),
        (lambda: X[::-1], ValueError, "step must be greater than zero"),
        (lambda: torch.arange(3).var(), RuntimeError, "std and var only support floating point and complex dtypes"),
        (lambda: torch.cat([]), ValueError, "expected a non-empty list of Tensors"),
    ],
)
def test_errors_have_pytorchs_type_and_message(call, kind, message):
    """
    Programs that catch PyTorch's errors work unchanged.
    """
    with pytest.raises(kind) as caught:
        call()
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (torch.tensor([[1.5, 2.25], [3.0, 4.0]]), "tensor([[1.5000, 2.2500],\n        [3.0000, 4.0000]])"),
        (torch.tensor(1.5), "tensor(1.5000)"),
        (torch.tensor([True]), "tensor([True])"),
        (torch.tensor([1.0, 2.0]), "tensor([1., 2.])"),
        (torch.zeros(2, 0), "tensor([], size=(2, 0))"),
        (torch.tensor([1e10, 1.0]), "tensor([1.0000e+10, 1.0000e+00])"),
        (torch.tensor([1, 2], dtype=torch.int32), "tensor([1, 2], dtype=torch.int32)"),
    ],
)
def test_tensors_print_as_in_pytorch(tensor, text):
    """
    The text of repr is the same.
    """
    assert repr(tensor) == text


def test_a_tensor_of_one_number_is_formatted_as_the_number():
    """
    Programs print f"{loss:.2f}".
    """
    assert f"{torch.tensor(1.504):.2f}" == "1.50"
    assert f"{torch.tensor(3)}" == "3"


def test_finfo_and_iinfo():
    """
    Programs fill masks with finfo(dtype).min.
    """
    assert torch.finfo(torch.float32).min == np.finfo(np.float32).min
    assert torch.finfo(torch.bfloat16).eps == 0.0078125
    assert torch.iinfo(torch.int32).max == 2**31 - 1
    with pytest.raises(TypeError, match="requires an integer input type"):
        _ = torch.iinfo(torch.float32).max


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_lstm_is_its_recurrence():
    """
    Two bidirectional layers, compared with the equations in NumPy; a scripted module gives the same result.
    """
    layer = nn.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True).eval()
    x = torch.rand(2, 5, 3)
    states, (h, c) = layer(x)
    weights = {name: each.numpy() for name, each in layer.named_parameters()}

    inner = x.numpy()
    for at in range(2):
        sides = []
        for side, end in enumerate(("", "_reverse")):
            state, cell = np.zeros((2, 4)), np.zeros((2, 4))
            found = np.zeros((2, 5, 4))
            for time in range(5) if not side else reversed(range(5)):
                w_i, w_h, b_i, b_h = (
                    weights[f"{n}_l{at}{end}"] for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
                )
                sums = inner[:, time] @ w_i.T + b_i + state @ w_h.T + b_h
                i, f, g, o = np.split(sums, 4, axis=1)
                cell = _sigmoid(f) * cell + _sigmoid(i) * np.tanh(g)
                state = _sigmoid(o) * np.tanh(cell)
                found[:, time] = state
            np.testing.assert_allclose(h.numpy()[2 * at + side], state, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(c.numpy()[2 * at + side], cell, rtol=1e-4, atol=1e-5)
            sides.append(found)
        inner = np.concatenate(sides, -1)
    np.testing.assert_allclose(states.numpy(), inner, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(torch.jit.script(layer)(x)[0].numpy(), states.numpy())


def test_gru_cells_are_steps_of_gru():
    """
    A cell with the weights of the layer has the same states.
    """
    layer, cell = nn.GRU(3, 4).eval(), nn.GRUCell(3, 4)
    cell.load_state_dict(
        {name: getattr(layer, f"{name}_l0") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
    )
    x = torch.rand(5, 2, 3)
    states, last = layer(x)
    h = torch.zeros(2, 4)
    for time in range(5):
        h = cell(x[time], h)
        np.testing.assert_allclose(h.numpy(), states.numpy()[time], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(h.numpy(), last.numpy()[0], rtol=1e-5, atol=1e-6)


def test_multi_head_attention_is_attention_per_head():
    """
    The weights sum to 1, masked positions have weight 0, and encoders of several layers can be scripted.
    """
    attention = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x = torch.rand(2, 5, 8)
    hidden = torch.tensor([[False] * 5, [False, False, False, True, True]])
    result, weights = attention(x, x, x, key_padding_mask=hidden)
    np.testing.assert_allclose(weights.numpy().sum(-1), np.ones((2, 5)), rtol=1e-5)
    assert not weights.numpy()[1, :, 3:].any()
    alone = attention(x[1:, :3], x[1:, :3], x[1:, :3])[0]
    np.testing.assert_allclose(result.numpy()[1:, :3], alone.numpy(), rtol=1e-4, atol=1e-6)

    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2).eval()
    plain = encoder(x)
    np.testing.assert_array_equal(torch.jit.script(copy.deepcopy(encoder))(x).numpy(), plain.numpy())


def test_initializers_write_in_place():
    """
    nn.init fills parameters within the documented ranges.
    """
    weight = nn.Parameter(torch.empty(40, 30))
    memory = weight.numpy()
    assert nn.init.xavier_uniform_(weight) is weight
    assert 0.1 < np.abs(memory).max() <= (6 / 70) ** 0.5
    nn.init.trunc_normal_(weight, std=3.0)
    assert np.abs(memory).max() <= 2
    nn.init.constant_(weight, 3)
    assert (memory == 3).all()


def test_an_index_out_of_range_raises_indexerror():
    """
    In the first call, in later ones with the same signature, and in scripts.
    """
    places = torch.tensor([0, 7])
    for _ in range(2):
        with pytest.raises(IndexError, match="out of range"):
            X[places]
        with pytest.raises(IndexError, match="out of range"):
            F.embedding(places, X)
        with pytest.raises(IndexError, match="out of range"):
            torch.jit.script(_looked_up)(places)


def _looked_up(places):
    return F.embedding(places, X)


def test_relu_in_place_changes_its_input():
    """
    As a function and as a layer.
    """
    x, y = torch.tensor([-1.0, 2.0]), torch.tensor([-1.0, 2.0])
    assert F.relu(x, inplace=True) is x
    nn.ReLU(inplace=True)(y)
    assert x.tolist() == y.tolist() == [0, 2]


def test_out_receives_the_result():
    """
    The call returns the tensor passed as out=.
    """
    out = torch.empty(3, 3)
    assert torch.mm(X, X.T, out=out) is out
    np.testing.assert_array_equal(out.numpy(), A @ A.T)


def test_a_trace_takes_arguments_by_name():
    """
    With example_kwarg_inputs; calls may pass other arrays of the same shapes.
    """
    traced = torch.jit.trace(_difference, example_kwarg_inputs={"x": X, "y": X + 1})
    np.testing.assert_array_equal(traced(y=X, x=X * 3).numpy(), A * 5)
    np.testing.assert_array_equal(torch.jit.trace(_difference, [X, X])(X, X).numpy(), A)


def _difference(x, y):
    return x * 2 - y


def test_then_calls_a_callback_with_the_future():
    """
    Annotations may name the type of the result.
    """
    future = torch.jit.fork(torch.relu, torch.tensor([-1.0, 1.0]))
    assert future.then(lambda done: done.wait() + 1).wait().tolist() == [1, 2]
    assert torch.jit.Future[torch.Tensor] is torch.jit.Future


def test_a_missing_method_says_what_to_use():
    """
    The message is a sentence, not a list of all methods.
    """
    with pytest.raises(AttributeError, match=r"no 'softmx': did you mean Tensor.softmax"):
        _ = X.softmx
    with pytest.raises(AttributeError, match="does not train"):
        X.sum().backward()


def test_attention_takes_pytorchs_arguments():
    """
    A scale of 0, and fewer key heads than query heads; a mask with is_causal, and dropout, are refused.
    """
    q, k = torch.ones(1, 4, 3, 8), torch.arange(48.0).reshape(1, 2, 3, 8)
    attend = F.scaled_dot_product_attention
    repeated = np.repeat(k.numpy(), 2, axis=1)

    even = attend(q, k, k, scale=0.0, enable_gqa=True)

    np.testing.assert_allclose(
        even.numpy(), np.broadcast_to(repeated.mean(2, keepdims=True), repeated.shape), rtol=1e-6
    )
    with pytest.raises(RuntimeError, match="either a mask or is_causal"):
        attend(k, k, k, torch.ones(3, 3), is_causal=True)
    with pytest.raises(NotImplementedError, match="dropout_p=0"):
        attend(k, k, k, dropout_p=0.5)


def test_fully_masked_attention_is_zero():
    """
    Batches for text generation have padded tokens, whose rows must not spread NaN to later rows.
    """
    q = torch.arange(48.0).reshape(1, 2, 3, 8) / 48
    mask = torch.tensor([[False, False, False], [True, False, False], [True, True, False]])

    found = F.scaled_dot_product_attention(q, q, q, mask).numpy()

    assert not found[:, :, 0].any()
    np.testing.assert_array_equal(found[:, :, 1], q.numpy()[:, :, 0])
    np.testing.assert_array_equal(
        found, F.scaled_dot_product_attention(q, q, q, torch.where(mask, 0.0, -math.inf)).numpy()
    )


def test_addmm_does_not_read_an_input_scaled_by_zero():
    """
    PyTorch programs pass beta=0 with uninitialized memory.
    """
    empty, ones = torch.full((2, 2), math.nan), torch.ones(2, 2)

    assert torch.addmm(empty, ones, ones, beta=0).tolist() == [[2, 2], [2, 2]]
    assert torch.baddbmm(empty[None], ones[None], ones[None], beta=0, alpha=2).tolist() == [[[4, 4], [4, 4]]]


def test_any_and_all_of_no_elements():
    """
    any is False and all is True; an empty list of axes reduces all axes.
    """
    nothing = torch.zeros(2, 0) > 1

    assert not nothing.any()
    assert nothing.all()
    assert torch.any(nothing, 1).tolist() == [False, False]
    assert torch.mean(torch.ones(2, 3), dim=[]).shape == ()


def test_hypot_neither_overflows_nor_underflows():
    """
    The squares of its operands would.
    """
    found = torch.hypot(torch.tensor([3e25, 3e-30, math.inf]), torch.tensor([4e25, 4e-30, math.nan]))

    np.testing.assert_allclose(found.numpy(), [5e25, 5e-30, np.inf], rtol=1e-6)


def test_invalid_halves_and_pieces_raise_as_in_pytorch():
    """
    No elements are dropped, and there is no division by zero.
    """
    with pytest.raises(RuntimeError, match="Halving dimension must be even, but dimension 0 is size 3"):
        F.glu(torch.ones(3))
    with pytest.raises(RuntimeError, match="greater than 0, got: 0"):
        torch.chunk(torch.ones(3), 0)


@pytest.mark.parametrize(
    ("layer", "text"),
    [
        (torch.nn.Conv2d(1, 6, 5), "Conv2d(1, 6, kernel_size=(5, 5), stride=(1, 1))"),
        (
            torch.nn.Conv1d(4, 8, 3, 2, 1, 2, 4, bias=False),
            "Conv1d(4, 8, kernel_size=(3,), stride=(2,), padding=(1,), dilation=(2,), groups=4, bias=False)",
        ),
        (torch.nn.Conv2d(3, 8, 3, padding="same"), "Conv2d(3, 8, kernel_size=(3, 3), stride=(1, 1), padding=same)"),
        (
            torch.nn.ConvTranspose2d(3, 8, 3, stride=2, output_padding=1),
            "ConvTranspose2d(3, 8, kernel_size=(3, 3), stride=(2, 2), output_padding=(1, 1))",
        ),
    ],
)
def test_convolutions_print_as_in_pytorch(layer, text):
    """
    A printed model shows channels and kernels.
    """
    assert repr(layer) == text
