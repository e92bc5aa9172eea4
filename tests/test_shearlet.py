"""Shearlet: laws at the sizes that matter, a plain twin with complex FFTs, and random sizes."""
import warnings

import numpy as np, pytest, torch
from hypothesis import given, settings, strategies as st

from shearletx_nb.core import generator, relative_error
from shearletx_nb.shearlet import Shearlet
from shearletx_nb.shearlet_filters import choose_filters, default_shear_levels, full_spectrum, shearlet_filters

SIZES = [(224, 224), (256, 256), (299, 299), (240, 320), (255, 257), (512, 512)]


def quiet_shearlet(*args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")             # about fallback filters, tested for themselves
        return Shearlet(*args, **options)

def inner(a, b): return (a.double()*b.double()).sum(dim=(-2, -1)).item()


@pytest.mark.parametrize("shape", SIZES, ids=str)
def test_reconstruction_and_adjoint(shape):
    "To 1e-12 in float64 and 1e-5 in float32; coefficients are made and used band by band, so that 512x512 stays small."
    T, noise = Shearlet(shape), generator(0)
    # the paper's filters at all of these sizes
    assert T.system.directional_filter == "dmaxflat4" and T.system.scaling_filter == 9
    x, y = torch.rand(2, *shape, generator=noise, dtype=torch.float64)
    assert relative_error(T.synthesise_bands(T.analyse_bands(x.float())), x.float()) < 1e-5
    T.double()
    assert relative_error(T.synthesise_bands(T.analyse_bands(x)), x) < 1e-12
    seen = []                                       # <c_k, (adjoint y)_k>, while the random bands c_k are consumed
    def bands():
        for a in T.adjoint_bands(y):
            c = torch.randn(shape, generator=noise, dtype=torch.float64)
            seen.append(inner(c, a))
            yield c
    Sc = T.synthesise_bands(bands())
    assert abs(inner(Sc, y) - sum(seen)) < 1e-12*(Sc.norm()*y.norm()).item()


class PlainTwin:
    "The transform as usually written: whole complex spectra, zero frequency in the middle, shifts around every FFT."
    def __init__(self, system, dtype=torch.complex128):
        psi = np.fft.fftshift(full_spectrum(system.filters, system.shape[1]), axes=(-2, -1))
        self.psi = torch.tensor(psi).to(dtype)
        self.weights = self.psi.abs().square().sum(dim=0)
    def fourier(self, x, f):
        return torch.fft.fftshift(f(torch.fft.ifftshift(x, dim=(-2, -1)), dim=(-2, -1)), dim=(-2, -1))
    def analyse(self, x):
        return self.fourier(self.fourier(x, torch.fft.fft2)[..., None, :, :]*self.psi.conj(), torch.fft.ifft2).real
    def synthesise(self, c):
        return self.fourier((self.fourier(c, torch.fft.fft2)*self.psi).sum(dim=-3)/self.weights, torch.fft.ifft2).real
    def adjoint(self, y):
        return self.fourier((self.fourier(y, torch.fft.fft2)/self.weights)[..., None, :, :]*self.psi.conj(),
                            torch.fft.ifft2).real

@pytest.mark.parametrize("shape", [(256, 256), (185, 240)], ids=str)
def test_plain_twin(shape):
    T = Shearlet(shape, dtype=torch.float64)
    twin, x = PlainTwin(T.system), torch.rand(2, *shape, generator=generator(1), dtype=torch.float64)
    c = torch.randn(2, *T.coefficient_shape, generator=generator(2), dtype=torch.float64)
    for name, argument in (("analyse", x), ("adjoint", x), ("synthesise", c)):
        assert relative_error(getattr(T, name)(argument), getattr(twin, name)(argument)) < 1e-12, name


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(1, 130), st.integers(1, 130), st.integers(1, 4), st.booleans())
def test_any_size(H, W, n_scales, full):
    "Either a ValueError that names a number of scales which then works, or a frame with exact reconstruction."
    try: choose_filters((H, W), default_shear_levels(n_scales))
    except ValueError as refusal:
        with pytest.raises(ValueError, match="too small"): Shearlet((H, W), n_scales, full=full)
        if "no number of scales" in str(refusal):
            assert min(H, W) < 23
            return
        n_scales = int(str(refusal).split("n_scales=")[1].split()[0])
        with pytest.raises(ValueError, match="too small"): Shearlet((H, W), n_scales+1, full=full)
    T = quiet_shearlet((H, W), n_scales, full=full, dtype=torch.float64)
    whole, half = full_spectrum(T.system.filters, W), T.system.filters
    # symmetric, so real in space
    assert np.allclose(whole, np.roll(np.flip(whole, axis=(1, 2)), 1, axis=(1, 2)), rtol=0, atol=1e-12)
    assert T.system.frame_bounds[0] > .01*T.system.frame_bounds[1] and half.shape[-1] == W//2+1
    x = torch.rand(H, W, generator=generator(3), dtype=torch.float64)
    assert relative_error(T.synthesise(T.analyse(x)), x) < 1e-12


def test_batch_independence_and_dtype():
    "The same bits whatever lies beside a picture, and whichever way it is cut into batches."
    T, x = Shearlet((185, 186)), torch.rand(3, 2, 185, 186, generator=generator(4))
    c = T.analyse(x)
    assert c.dtype == torch.float32 and T.synthesise(c).dtype == torch.float32
    # MKL may take another path for another batch: an ulp or so
    for i in range(3): assert relative_error(T.analyse(x[i, 1]), c[i, 1]) < 1e-6
    assert relative_error(T.synthesise(c[1:2]), T.synthesise(c)[1:2]) < 1e-6


def test_systems_are_cached_and_read_only():
    a = shearlet_filters((200, 190), 3)
    assert shearlet_filters([200, 190], 3, (1, 1, 2)) is a and shearlet_filters((200, 190), 3, full=True) is not a
    for array in (a.filters, a.index, a.rms, a.frame_weights):
        with pytest.raises(ValueError, match="read-only"): array[0] = 0
