"""Complex numbers between real tensors, as in rotary embeddings and spectrograms."""

from __future__ import annotations

import torch

from tests.unit.frontends.torch.op_cases import Case, seeded

PAIRS = seeded(2, 5, 4, 8)
TURNS = torch.polar(torch.ones(5, 4), torch.outer(torch.arange(5.0), 1.0 / 10 ** torch.linspace(0, 1, 4)))


def rotated(x: torch.Tensor) -> torch.Tensor:
    """Returns RoPE as in Llama's reference."""
    turned = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2)) * TURNS.view(1, 5, 1, 4)
    return torch.view_as_real(turned).flatten(3).type_as(x)


def arithmetic(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    z = torch.view_as_complex(x.reshape(-1, 2))
    w = torch.complex(x.flatten()[:160], x.flatten()[160:])
    found = (z + w, z - w, z * w, z / (w + 2), 3 - z, z * 1j, -z, z.conj() * w, z**3, torch.exp(z / 3), 2.0 * z)
    return tuple(torch.view_as_real(each) for each in found)


def parts(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    z = torch.view_as_complex(x.reshape(-1, 2))
    return z.abs(), z.angle(), z.real, z.imag, torch.hypot(z.real, z.imag)


def moved(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    z = torch.view_as_complex(x.reshape(2, 20, 4, 2))
    found = (z.transpose(0, 1), z[:, 3], z[:, ::2], z.unsqueeze(1).expand(2, 3, 20, 4), torch.cat([z, z], 1), z.sum(1))
    found += (torch.stack([z[0], z[1].conj()]), z.reshape(8, 20).mT @ z.reshape(8, 20), z.mean(), *z.chunk(2, -1))
    return tuple(torch.view_as_real(each) for each in found)


CASES: dict[str, Case] = {
    "complex_rotary": (rotated, (PAIRS,)),
    "complex_rotary_inside": (
        lambda x: torch.view_as_real(
            torch.view_as_complex(x.view(2, 5, 4, 4, 2)) * torch.polar(x[..., :4].abs(), x[..., 4:])
        ),
        (PAIRS,),
    ),
    "complex_arithmetic": (arithmetic, (PAIRS,)),
    "complex_parts": (parts, (PAIRS,)),
    "complex_moved": (moved, (PAIRS,)),
    "complex_sizes_that_squares_overflow": (lambda x: torch.complex(1e30 * x, 1e-30 * x).abs(), (PAIRS,)),
    "spectrogram": (
        lambda x: torch.stft(x, 16, 4, window=torch.hann_window(16), return_complex=True).abs() ** 2,
        (seeded(2, 100),),
    ),
}  # fmt: skip
