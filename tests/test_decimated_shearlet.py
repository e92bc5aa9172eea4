"""DecimatedShearlet: windows once more from their formulas, number by number, atoms as sums of waves, random sizes."""
import cmath, math

import numpy as np, pytest, torch
from hypothesis import given, settings, strategies as st

from shearletx_nb.classifiers import SmoothClassifier
from shearletx_nb.core import generator, relative_error
from shearletx_nb.decimated_shearlet import DecimatedShearlet, decimated_index, decimated_windows
from shearletx_nb.mask_explainers import ShearletX
from shearletx_nb.objective import FAST, FIRM, Objective
from shearletx_nb.perturbation import band_statistics


def nu(u): u = min(max(u, 0.), 1.); return 35*u**4 - 84*u**5 + 70*u**6 - 20*u**7
def keeps_low(f, a, b): return math.cos(math.pi/2*nu((abs(f)-a)/(b-a)))


def window_by_hand(f1:float, f2:float, address:tuple[int, int, int], levels:tuple[int, ...])->float:
    "The window of a band at one frequency."
    (cone, scale, shear), J = address, len(levels)
    def phi(f, j): return keeps_low(f, 3/8, 1/2) if j == J else keeps_low(f, 2**(j-J)/3, 2**(j-J)*2/3)
    if scale == 0: return phi(f1, 0)*phi(f2, 0)
    if scale > J:
        high1, high2 = math.sqrt(max(1-phi(f1, J)**2, 0)), math.sqrt(max(1-phi(f2, J)**2, 0))
        return high2 if cone == 1 else phi(f2, J)*high1
    ring = math.sqrt(max((phi(f1, scale)*phi(f2, scale))**2 - (phi(f1, scale-1)*phi(f2, scale-1))**2, 0))
    if ring == 0: return 0.
    def distance(t, k): return abs(math.remainder(t*2**levels[scale-1] - k, 4*2**levels[scale-1]))
    t = f1/f2 if abs(f1) <= abs(f2) else 2-f2/f1                   # the circle of directions has the length 4
    u = distance(t, shear) if cone == 1 else distance(t-2, shear)
    return ring*math.cos(math.pi/2*nu(u))


@pytest.mark.parametrize("shape, levels", [((32, 32), (1, 1)), ((21, 34), (2,)), ((48, 40), (0, 1, 1))], ids=str)
def test_windows_by_hand(shape, levels):
    "To 1e-7: by hand, differences of nearly equal squares are rooted."
    f1, f2 = map(np.fft.fftfreq, shape)
    for address, window in zip(decimated_index(levels), decimated_windows(shape, levels)):
        by_hand = np.array([[window_by_hand(a, b, address, levels) for b in f2] for a in f1])
        assert np.abs(window-by_hand).max() < 1e-7, address


@pytest.mark.parametrize("shape, levels", [((32, 32), (1, 1)), ((21, 34), (1,))], ids=str)
def test_atoms_are_moved_waves(shape, levels):
    "A coefficient's atom: the waves of its window around the place (pH/h, qW/w) of its grid, summed one by one."
    T, draw = DecimatedShearlet(shape, len(levels), levels, torch.float64), np.random.default_rng(0)
    y, x = np.meshgrid(*map(np.arange, shape), indexing="ij")
    for k, (band, window) in enumerate(zip(T.bands, decimated_windows(shape, levels))):
        p, q = (int(draw.integers(n)) for n in band.shape)
        c = torch.zeros(T.coefficient_shape, dtype=torch.float64)
        T.split(c)[k][p, q] = 1.
        waves = np.zeros(shape, complex)
        for i, j in zip(*np.nonzero(window)):
            a, b = (s-n if 2*s > n else s for s, n in zip((i, j), shape))
            waves += window[i, j]*np.exp(2j*np.pi*(a*y/shape[0] + b*x/shape[1]))*cmath.exp(
                -2j*np.pi*(a*p/band.shape[0] + b*q/band.shape[1]))
        by_hand = waves/math.sqrt(math.prod(shape)*band.size)
        assert np.abs(by_hand.imag).max() < 1e-12 and np.abs(T.synthesise(c).numpy()-by_hand.real).max() < 1e-12
        assert abs(np.linalg.norm(by_hand) - T.rms[k].item()) < 1e-12


@settings(deadline=None, max_examples=25)
@given(st.integers(6, 70), st.integers(6, 70), st.lists(st.integers(0, 2), min_size=1, max_size=3))
def test_any_size(H, W, levels):
    "Energy, reconstruction and the transpose at random sizes; what is too small is refused in one sentence."
    try: T = DecimatedShearlet((H, W), len(levels), levels, torch.float64)
    except ValueError as error: assert "too small" in str(error) and min(H, W) < 3*2**len(levels)*2**max(levels); return
    x, y = torch.randn(2, H, W, generator=generator(1), dtype=torch.float64)
    c = T.analyse(x)
    assert relative_error(T.synthesise(c), x) < 1e-12 and abs(c.norm()/x.norm()-1) < 1e-12
    d = torch.randn(T.coefficient_shape, generator=generator(2), dtype=torch.float64)
    assert abs((T.synthesise(d)*y).sum() - (d*T.adjoint(y)).sum()) < 1e-12*d.norm()*y.norm()
    assert sum(b.is_lowpass for b in T.bands) == 1


@pytest.mark.parametrize("protocol", [FAST, FIRM], ids=["FAST", "FIRM"])
def test_objective_has_its_gradient(protocol):
    "The closed-form gradient of the objective on these coefficients, against differences along a direction."
    T, model = DecimatedShearlet((32, 32), 2, dtype=torch.float64), SmoothClassifier()
    x = torch.rand(1, 3, 32, 32, generator=generator(3), dtype=torch.float64)
    f = Objective(T, model, x, model(x).argmax(dim=-1), protocol)
    m = .2 + .6*torch.rand(1, *T.coefficient_shape, generator=generator(4), dtype=torch.float64)
    v, g = torch.randn(m.shape, generator=generator(5), dtype=torch.float64), torch.empty_like(m)
    f(m, 1, gradient=g)
    slope = (f(m+1e-6*v, 1).objective - f(m-1e-6*v, 1).objective).item()/2e-6
    assert abs(slope - (g*v).sum().item()) < 1e-5*abs(slope)


def test_explained():
    "The means of all shearlet bands are zero, and an explainer takes the system as it is."
    x = torch.rand(1, 3, 48, 40, generator=generator(6), dtype=torch.float64)
    why = ShearletX(SmoothClassifier(), of="DecimatedShearlet", n_scales=2, steps=10, samples=2)(x, progress=False)
    mean, std = band_statistics(why.representation, why.coefficients)
    assert mean[:, 1:-2].abs().max() < 1e-12 and mean[0, 0] > .1 and (std > 0).all()
    assert why.mask.shape == (1, why.representation.n_coefficients) and why.image.shape == x.shape
    assert (why.history["objective"][-1] > why.history["objective"][0]).all()
