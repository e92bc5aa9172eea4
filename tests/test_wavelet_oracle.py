"""Wavelet against PyWavelets, an independent implementation in C: wavelet x levels x mode x size x dtype.

All five mode names (zero, symmetric, reflect, periodic, periodization) mean the same in both, for even and odd sides,
as long as every level finds sides no shorter than the filter, which `Wavelet` demands. Below that, pytorch_wavelets'
`periodization` deviates and its `reflect` fails.
"""
import itertools
import warnings

import numpy as np
import pytest
import pywt
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shearletx_nb.core import generator, relative_error
from shearletx_nb.representation import check_laws
from shearletx_nb.wavelet import Wavelet, max_levels, wavelet_modes

SIZES = (32, 32), (64, 48), (33, 47), (40, 41), (97, 64)
WAVELETS = "haar", "db2", "db3", "db4", "sym5", "coif2", "bior2.2", "bior4.4", "rbio3.3"


def picture(shape, dtype=torch.float64, lead=(2,), seed=0):
    return torch.rand(*lead, *shape, generator=generator(seed, *shape), dtype=torch.float64).to(dtype)


def oracle(x, wavelet, levels, mode):
    "pywt.wavedec2 in our order: low-pass, then horizontal, vertical, diagonal from coarse to fine, flat."
    with warnings.catch_warnings():
        # "all coefficients will experience boundary effects": we allow that
        warnings.simplefilter("ignore", UserWarning)
        low, *details = pywt.wavedec2(x.numpy(), wavelet, mode=mode, level=levels, axes=(-2, -1))
    bands = [low, *itertools.chain.from_iterable(details)]
    whole = np.concatenate([b.reshape(*x.shape[:-2], -1) for b in bands], axis=-1)
    return torch.from_numpy(whole), [b.shape[-2:] for b in bands]


def inverse_oracle(T, c, wavelet, mode):
    "pywt.waverec2 of arbitrary coefficients; it too leaves an odd side longer by one."
    low, *rest = (b.numpy() for b in T.split(c))
    y = pywt.waverec2([low, *(tuple(rest[i:i+3]) for i in range(0, len(rest), 3))], wavelet, mode=mode, axes=(-2, -1))
    return torch.from_numpy(np.ascontiguousarray(y[..., :T.shape[0], :T.shape[1]]))


@pytest.mark.parametrize("mode", wavelet_modes())
@pytest.mark.parametrize("wavelet", WAVELETS)
def test_agrees_with_pywavelets(wavelet, mode):
    for shape in SIZES:
        for levels in range(1, min(4, max_levels(shape, pywt.Wavelet(wavelet).dec_len, mode))+1):
            T = Wavelet(shape, wavelet, levels, mode)
            # a few hundred terms per coefficient: 10 to 500 units in the last place
            for dtype, rtol in ((torch.float64, 1e-13), (torch.float32, 1e-6)):
                x = picture(shape, dtype)
                c, shapes = oracle(x.double(), wavelet, levels, mode)
                where = f"{wavelet} {mode} {shape} {levels} levels {dtype}"
                assert [b.shape for b in T.bands] == shapes, where
                ours = T.to(dtype).analyse(x)
                assert ours.dtype == dtype
                assert relative_error(ours, c) < rtol, where
                noise = torch.randn(c.shape, generator=generator(1), dtype=torch.float64)
                assert relative_error(T.synthesise(noise.to(dtype)),
                                      inverse_oracle(T, noise, wavelet, mode)) < rtol, where


@pytest.mark.parametrize("mode", wavelet_modes())
@pytest.mark.parametrize("shape", [(224, 224), (256, 256), (299, 299), (240, 320), (255, 257)])
def test_papers_setting(shape, mode):
    T, x = Wavelet(shape, mode=mode).double(), picture(shape, lead=(1, 3))
    assert relative_error(T.analyse(x), oracle(x, "db3", 5, mode)[0]) < 1e-13
    assert relative_error(T.synthesise(T.analyse(x)), x) < 1e-12
    assert relative_error(T.float().synthesise(T.analyse(x.float())), x) < 1e-5


@pytest.mark.parametrize("wavelet", pywt.wavelist(kind="discrete"))
def test_every_discrete_wavelet(wavelet):
    L = pywt.Wavelet(wavelet).dec_len
    shape = max(L, 16), max(L, 16)+5
    with warnings.catch_warnings():
        # ours: its filters reconstruct to 2e-3 only
        if wavelet == "dmey": warnings.simplefilter("ignore", UserWarning)
        T = Wavelet(shape, wavelet, 1).double()
    x = picture(shape)
    c, _ = oracle(x, wavelet, 1, "zero")
    assert relative_error(T.analyse(x), c) < 1e-13
    assert relative_error(T.synthesise(c), inverse_oracle(T, c, wavelet, "zero")) < 1e-13


@pytest.mark.parametrize("mode", wavelet_modes())
def test_the_most_levels_work_and_one_more_is_refused(mode):
    for wavelet, shape in itertools.product(("haar", "db3", "db8"), ((64, 64), (33, 50))):
        most = max_levels(shape, pywt.Wavelet(wavelet).dec_len, mode)
        x = picture(shape)
        assert relative_error(Wavelet(shape, wavelet, most, mode).double().analyse(x),
                              oracle(x, wavelet, most, mode)[0]) < 1e-12
        with pytest.raises(ValueError, match=f"from 1 to {most} are possible"): Wavelet(shape, wavelet, most+1, mode)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(2, 70), st.integers(2, 70), st.sampled_from(["haar", "db2", "db3", "coif1", "rbio3.1"]),
       st.integers(1, 6), st.sampled_from(wavelet_modes()))
def test_any_size(h, w, wavelet, levels, mode):
    most = max_levels((h, w), pywt.Wavelet(wavelet).dec_len, mode)
    if levels > most:
        with pytest.raises(ValueError, match="too small|are possible"): Wavelet((h, w), wavelet, levels, mode)
        return
    x = picture((h, w))
    T = Wavelet((h, w), wavelet, levels, mode).double()
    assert relative_error(T.analyse(x), oracle(x, wavelet, levels, mode)[0]) < 1e-12
    # boundary levels of the tabulated filters add up
    check_laws(T, x, rtol=1e-11 if wavelet.startswith(("coif", "rbio")) else 1e-12)


def test_adjoint_is_the_transposed_matrix():
    "Number by number, for a small picture with odd sides in every mode."
    for mode, wavelet in itertools.product(wavelet_modes(), ("db2", "bior2.2")):
        T = Wavelet((9, 12), wavelet, 1, mode).double()
        S = T.synthesise(torch.eye(T.n_coefficients, dtype=torch.float64)).flatten(-2)       # (N, HW)
        A = T.adjoint(torch.eye(9*12, dtype=torch.float64).reshape(-1, 9, 12))               # (HW, N)
        assert relative_error(A, S.T) < 1e-15
