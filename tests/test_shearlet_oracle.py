"""The shearlet system and transform against numbers that others computed: the golden figures in tests/data, and the
package pyshearlab_mind, run as a black box.

Where the oracle itself is off, the test says by how much and why:
- Odd sizes. Its band-pass filters sit one pixel beside the middle, so its filters are ours times a phase: cone 1 is
  moved up by a row, cone 2 left by a column, and its coefficients the other way. Moduli, weights and RMS are the same.
- Small sizes. It shears on a fine grid of (n-1)s+1 columns instead of ns. Where a sheared filter is longer than the
  picture is wide, what leaves on one side comes back s-1 fine columns off. A slow twin with that period reproduces the
  oracle's numbers to 1e-10, and the same twin with the period ns reproduces ours.
Even-length fallback filters (and shear level 0) make it crash: there is nothing to compare."""
import contextlib, functools, io, pathlib

import numpy as np, pytest, torch
from test_shearlet import quiet_shearlet

from shearletx_nb.shearlet import Shearlet
from shearletx_nb.shearlet_filters import bandpass, cascade, filter_taps, full_spectrum, shearlet_filters

DATA = pathlib.Path(__file__).parent/"data"
F64, F32 = 1e-10, 1e-5


def error(a, b): return np.abs(a-b).max(axis=None)/np.abs(b).max(axis=None)

def centred(half, W): return np.fft.fftshift(full_spectrum(half, W), axes=(-2, -1))

def picture(rows, columns):
    "The test image of the golden figures."
    y, x = np.arange(rows)[:, None]/rows, np.arange(columns)/columns
    return .2 + .3*x + .15*np.sin(9*np.pi*(x+2*y))*(y > .5) + .35*((x-.45)**2 + (y-.55)**2 < .09)


@pytest.mark.parametrize("name", ["shearlab_256x256_s4", "shearlab_192x192_s3"])
def test_golden(name):
    g = np.load(DATA/f"{name}.npz")
    shape, step = tuple(g["shape"].tolist()), int(g["sample_step"])
    T = Shearlet(shape, int(g["n_scales"]), full=bool(g["full"]), dtype=torch.float64)
    S = T.system
    assert S.index.tolist() == g["index"].tolist() and S.shear_levels == tuple(g["shear_levels"].tolist())
    assert error(S.rms, g["rms"]) < F64
    assert error(centred(S.frame_weights, shape[1])[::step//2, ::step//2], g["frame_weights"]) < F64
    assert error(centred(S.filters, shape[1])[:, ::step, ::step], g["filters_sampled"]) < F64
    x = picture(*shape)
    assert error(x[::step, ::step], g["image"]) < 1e-15
    c = T.analyse(torch.tensor(x)).numpy()
    assert error(c[:, ::step, ::step], g["coeffs_sampled"]) < F64
    for ours, key in ((np.abs(c).sum(axis=(1, 2)), "coeff_l1"), (c.mean(axis=(1, 2)), "coeff_mean"),
                      (c.std(axis=(1, 2)), "coeff_std")):
        assert error(ours, g[key]) < F64
    single = T.float().analyse(torch.tensor(x).float()).numpy()
    assert error(single[:, ::step, ::step], g["coeffs_sampled"]) < F32


@functools.lru_cache(maxsize=2)
def oracle(n, n_scales, levels=None, full=False):
    "The oracle's system for n x n; its spectra as (K, n, n), zero frequency in the middle."
    sl = pytest.importorskip("pyshearlab_mind", reason="the oracle, a test dependency")
    with contextlib.redirect_stdout(io.StringIO()) as said:
        system = sl.SLgetShearletSystem2D(0, n, n, n_scales, None if levels is None else np.array(levels), int(full))
    return sl, system, np.moveaxis(system["shearlets"], -1, 0), said.getvalue()

def pixel_off(index, n):
    "The phase of the oracle's displacement at odd sizes, (K, n, n); at even sizes there is none."
    if n % 2 == 0: return np.ones((len(index), 1, 1))
    w = 2*np.pi*np.fft.fftshift(np.fft.fftfreq(n))
    up, left = np.broadcast_to(np.exp(1j*w)[:, None], (n, n)), np.broadcast_to(np.exp(1j*w), (n, n))
    return np.stack([(np.ones((n, n)), up, left)[cone] for cone in index[:, 0]])


CASES = [# the paper's filters
         (256, 4), (256, 4, None, True), (256, 2), (192, 3), (250, 4), (201, 3), (111, 2), (100, 2), (128, 1),
         # other shear levels
         (256, 3, (2, 1, 1)), (200, 2, (1, 2)), (130, 2, (1, 2), True),
         # the oracle's fallback filters
         (150, 3), (151, 3), (128, 3), (72, 2), (75, 1)]

@pytest.mark.parametrize("case", CASES, ids=str)
def test_system_and_transform(case):
    n, n_scales, levels, full = (*case, *(None, False)[len(case)-2:])
    sl, theirs, psi, said = oracle(n, n_scales, levels, full)
    T = quiet_shearlet((n, n), n_scales, levels, full, dtype=torch.float64)
    S = T.system
    # fallbacks at the same sizes
    assert ("configuration" in said) == (S.directional_filter != "dmaxflat4") and S.scaling_filter == 9
    assert S.index.tolist() == theirs["shearletIdxs"].tolist()
    off = pixel_off(S.index, n)
    assert error(centred(S.filters, n)*off, psi) < F64
    assert error(centred(S.frame_weights, n), theirs["dualFrameWeights"]) < F64
    assert error(S.rms, theirs["RMS"]) < F64
    x = picture(n, n)
    moved = lambda c: np.stack([np.roll(band, 1, axis=cone-1) if n % 2 and cone else band
                                for band, cone in zip(c, S.index[:, 0])])
    c, c_theirs = T.analyse(torch.tensor(x)), np.moveaxis(np.real(sl.SLsheardec2D(x, theirs)), -1, 0)
    assert error(moved(c.numpy()), c_theirs) < F64
    assert error(T.synthesise(c).numpy(), np.real(sl.SLshearrec2D(np.moveaxis(c_theirs, 0, -1), theirs))) < F64
    adjoint = np.moveaxis(np.real(sl.SLshearrecadjoint2D(x, theirs)), -1, 0)
    assert error(moved(T.adjoint(torch.tensor(x)).numpy()), adjoint) < F64
    single = T.float().analyse(torch.tensor(x).float()).numpy()
    assert error(moved(single), c_theirs) < F32


def wedge_in_space(level, k, n, d, h, period):
    "A wedge's spectrum made in space, on a fine grid with that many columns; zero frequency in the middle."
    s, low, glue = 2**level, cascade(h, level+1), cascade(h, level)
    tall = np.zeros(((len(d)-1)*2*s+1, len(d)))
    tall[::2*s] = d
    tall = np.stack([np.convolve(column, low) for column in tall.T], axis=1)
    fine, smooth = np.zeros((len(tall), period)), np.zeros(period)
    for i in range(len(d)): fine[:, s*(i-len(d)//2) % period] += tall[:, i]
    for i, tap in enumerate(glue): smooth[(i-len(glue)//2) % period] += tap
    blur = lambda a: np.fft.ifft(np.fft.fft(a, axis=1)*np.fft.fft(smooth, axis=0), axis=1).real
    fine = blur(np.stack([np.roll(row, -k*(y-len(tall)//2)) for y, row in enumerate(blur(fine))]))
    out, columns = np.zeros((n, n)), np.arange(-(n//2), n-n//2)
    for y, row in enumerate(fine): out[(y-len(tall)//2) % n, columns % n] += s*row[s*columns % period]
    return np.fft.fftshift(np.fft.fft2(out, axes=(0, 1)), axes=(0, 1))

def twin_filters(S, period):
    "All spectra but the low-pass, by the slow twin."
    n, d, h = S.shape[0], filter_taps(S.directional_filter, 2), filter_taps(S.scaling_filter, 1)
    g = bandpass(h, 2*np.pi*np.fft.fftshift(np.fft.fftfreq(n)), S.n_scales)
    wedge = functools.lru_cache(None)(lambda level, k: wedge_in_space(level, k, n, d, h, period(n, 2**level)))
    out = []
    for cone, scale, k in S.index[:-1].tolist():
        psi = wedge(S.shear_levels[scale-1], k if cone == 1 else -k)*g[scale-1]
        out.append(psi if cone == 1 else psi.T)
    return np.stack(out)

WRAPPED = [(57, 2), (58, 2), (64, 1), (89, 2), (90, 2), (121, 3), (122, 3), (185, 3)]

@pytest.mark.parametrize("n, n_scales", WRAPPED)
def test_small_sizes_where_the_oracle_wraps(n, n_scales):
    _, theirs, psi, said = oracle(n, n_scales)
    S = quiet_shearlet((n, n), n_scales).system
    assert ("configuration" in said) == (S.directional_filter != "dmaxflat4") and S.scaling_filter == 9
    ours, off = centred(S.filters, n), pixel_off(S.index, n)
    # ours: the fine grid has exactly s columns per column
    assert error(twin_filters(S, lambda n, s: n*s), ours[:-1]) < 1e-12
    # the oracle's grid, and nothing else, makes the difference
    assert error(twin_filters(S, lambda n, s: (n-1)*s+1)*off[:-1], psi[:-1]) < F64
    assert error(ours[-1], psi[-1]) < F64
    assert error(S.rms, theirs["RMS"]) < F64
    # as small as the filters' tails: 2e-7 at 57, 1e-10 at 64
    assert error(ours*off, psi) < 5e-7 and error(centred(S.frame_weights, n), theirs["dualFrameWeights"]) < 5e-7


def test_sizes_that_the_oracle_cannot_do():
    "224 with 4 scales: the paper's filters fit, whatever the oracle's check thinks; the same spectra at another size."
    S = shearlet_filters((224, 224))
    assert len(S) == 49 and S.directional_filter == "dmaxflat4" and S.scaling_filter == 9
    common = np.s_[:, ::7, ::7], np.s_[:, ::8, ::8]   # multiples of 2 pi/32 lie on both grids
    a, b = full_spectrum(S.filters, 224)[common[0]], full_spectrum(shearlet_filters((256, 256)).filters, 256)[common[1]]
    assert error(a, b) < 1e-13
