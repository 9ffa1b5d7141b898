"""Audio to what a speech model reads: how loud each band of frequencies is over time."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

_QUIETEST = 1e-10  # of powers; also silence has a logarithm
_RANGE = 8.0  # powers of ten below the loudest that are told apart


class LogMel(torch.nn.Module):
    """The log-mel spectrum of audio that is padded to the length that a model takes.

    The Fourier transform is a product with a matrix, which has the window in it: ``torch.stft``
    transposes complex numbers, an op that ExecuTorch's dialect does not have.

    Args:
        preprocessor: what ``read_preprocessor`` gave.
    """

    waves: Tensor
    filters: Tensor

    def __init__(self, preprocessor: Any) -> None:
        super().__init__()
        self.max_samples = int(preprocessor.n_samples)
        self._silence = float(preprocessor.padding_value)
        self._width = int(preprocessor.n_fft)
        self._step = int(preprocessor.hop_length)
        filters = torch.from_numpy(preprocessor.mel_filters.T.copy())
        self.register_buffer("waves", _waves(self._width))
        self.register_buffer("filters", filters.to(torch.float32))

    def forward(self, samples: Tensor) -> Tensor:
        """``[n]``, float32, n at most ``max_samples``, to ``[1, bands, frames]``, float32."""
        missing = self.max_samples - samples.shape[0]
        whole = functional.pad(samples, [0, missing], value=self._silence)
        edge = self._width // 2  # the first frame's middle is the first sample
        mirrored = functional.pad(whole[None], [edge, edge], mode="reflect")[0]
        frames = mirrored.unfold(0, self._width, self._step)[:-1]
        powers = (frames @ self.waves).square().unflatten(1, (2, -1)).sum(1)
        logarithms = (self.filters @ powers.T).clamp(min=_QUIETEST).log10()
        heard = torch.maximum(logarithms, logarithms.max() - _RANGE)
        return ((heard + 4.0) / 4.0)[None]


def _waves(width: int) -> Tensor:
    """Cosines, then sines, of each frequency, in Hann's window: ``[width, 2 * frequencies]``."""
    window = torch.hann_window(width, dtype=torch.float64)
    spectrum = torch.fft.rfft(torch.diag(window))  # row i: a frame with nothing but sample i
    return torch.cat([spectrum.real, spectrum.imag], dim=1).to(torch.float32)
