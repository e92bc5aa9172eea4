"The first mask of 23_first_mask, once more from its definitions: value by value, in NumPy."
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from shearletx_nb.classifiers import SmoothClassifier
from shearletx_nb.core import digest
from shearletx_nb.first_mask import first_values, load_first_mask, mask_features, slopes_on_path
from shearletx_nb.images import sample_images
from shearletx_nb.mask_explainers import PixelMask, ShearletX, WaveletX
from shearletx_nb.objective import SWIFT, Objective
from shearletx_nb.optimise import NeighbourhoodGrid, grid_spacing
from shearletx_nb.shearlet import Shearlet

root, size = Path(__file__).parents[1], 96
quick = replace(SWIFT, steps=4, samples=4)


@pytest.fixture(scope="module")
def seen():
    "An objective on a photograph, its grid and its features, in float64."
    x, model = sample_images(size, 1).images.double(), SmoothClassifier()
    T = Shearlet((size, size)).double()
    objective = Objective(T, model, x, model(x).argmax(dim=-1), quick)
    grid = NeighbourhoodGrid(T, x)
    with torch.no_grad(): return objective, grid, mask_features(objective, grid)


def maps_of(values:np.ndarray, T:Shearlet)->list[np.ndarray]:
    "Values cut into one map per band, by the spacing of the grid alone."
    maps, begin = [], 0
    for band in T.bands:
        n = math.ceil(size/grid_spacing(T, band))
        maps.append(values[begin:begin+n*n].reshape(n, n)); begin += n*n
    assert begin == len(values)
    return maps


def mean_around(f:np.ndarray, y:int, x:int, side:int)->float:
    r = side//2
    return f[max(0, y-r):y+r+1, max(0, x-r):x+r+1].mean()


def seen_at(f:np.ndarray, n:int)->np.ndarray:
    "A map with n × n places: means of cells, or linear in between, with the border's value beyond the border."
    k = len(f)
    if n <= k:
        assert k % n == 0
        return f.reshape(n, k//n, n, k//n).mean(axis=(1, 3))
    at = np.clip((np.arange(n)+.5)*k/n-.5, 0, k-1)
    low = np.minimum(at.astype(int), k-2) if k > 1 else np.zeros(n, int)
    W = np.zeros((n, k)); W[np.arange(n), low] = 1-(at-low)
    if k > 1: W[np.arange(n), low+1] += at-low
    return W @ f @ W.T


def test_features_value_by_value(seen):
    "All 23 features of random values of every scale, from slopes and coefficients."
    objective, grid, features = seen
    T, bands = objective.T, objective.T.bands
    slopes = slopes_on_path(objective, grid).numpy()
    slopes = slopes/np.abs(slopes).mean()
    own = [maps_of(s, T) for s in slopes]
    total = [sum(maps) for maps in zip(*own)]
    coefficients = T.analyse(objective.x)[0].abs().sum(dim=0)
    much = maps_of(grid.gather(coefficients[None], torch.empty(1, slopes.shape[1]).double())[0].numpy(), T)
    much = [np.log(m/m.mean()+1e-3) for m in much]
    finest = max(len(t) for t in total)
    whole = sum(seen_at(t, finest)*t.size for t in total)/finest**2
    scales = {s: np.mean([t for t, b in zip(total, bands) if b.scale == s], axis=0) for s in range(5)}
    found, draw = maps_of(np.arange(slopes.shape[1]), T), np.random.default_rng(0)
    for b in (0, 1, 5, 9, 17, 20, 33, 34, 48):
        band, n = bands[b], len(total[b])
        near = [t for t, o in zip(total, bands) if band.shear is not None and o.scale == band.scale
                and o.cone == band.cone and o.shear in (band.shear-1, band.shear+1)]
        steepest = max([abs(o.shear) for o in bands if o.scale == band.scale and o.shear is not None] or [0])
        for y, x in draw.integers(n, size=(6, 2)):
            speaks = [maps[b][y, x] for maps in own] + [
                total[b][y, x], np.mean([t[y, x] for t in near]) if near else total[b][y, x],
                mean_around(total[b], y, x, 3), mean_around(total[b], y, x, 7),
                seen_at(whole, n)[y, x], mean_around(seen_at(whole, n), y, x, 5),
                *(seen_at(scales[s], n)[y, x] if s in scales else 0. for s in (band.scale-1, band.scale+1))]
            expected = [*np.arcsinh(speaks), much[b][y, x], *(mean_around(much[b], y, x, k) for k in (3, 7)),
                        *np.eye(5)[band.scale], abs(band.shear)/steepest if steepest else 0.,
                        abs(2*x/(n-1)-1), abs(2*y/(n-1)-1)]
            ours = features[found[b][y, x]].numpy()
            np.testing.assert_allclose(ours, expected, rtol=1e-6, atol=1e-6)      # places are float32


def test_the_network_and_the_start(seen):
    "Two hidden layers of x·sigmoid(x), twice the expected value, in NumPy from the file's numbers."
    objective, _, features = seen
    p = {name: value.double().numpy() for name, value in load_first_mask().state_dict().items()}
    assert sum(value.size for value in p.values()) < 10_000
    h = (features.numpy()-p["mean"])/p["std"]
    for layer in (0, 2):
        h = h @ p[f"layers.{layer}.weight"].T + p[f"layers.{layer}.bias"]
        h = h/(1+np.exp(-h))
    z = h @ p["layers.4.weight"].T + p["layers.4.bias"]
    np.testing.assert_allclose(first_values(objective)[0].numpy(), np.minimum(2/(1+np.exp(-z[:, 0])), 1), rtol=1e-9)


def test_the_network_is_the_one_that_tasks_were_made_with():
    "Finished tasks of a study go by the name start='learned': another network needs another name."
    assert digest(root/"shearletx_nb/first_mask.safetensors") == (
        "fd5c8266e304c4b9579ea63335993e001f610fb9dcf3555cc9a37371c6894d50")


def test_explained_from_there():
    "The same bits again, whatever else is in the batch; model and random state as they were; not for other methods."
    model, x = SmoothClassifier(dtype=torch.float32), sample_images(size, 2).images
    explain, state = ShearletX(model, protocol=quick), torch.get_rng_state()
    both, alone = explain(x, progress=False), explain(x[1:], progress=False)
    assert both.mask[1:].equal(alone.mask) and both.mask.mean() < .5 and torch.get_rng_state().equal(state)
    assert not ShearletX(model, protocol=replace(quick, start="ones"))(x[1:], progress=False).mask.equal(alone.mask)
    assert alone.settings["protocol"]["start"] == "learned"
    for other in (WaveletX(model, protocol=quick), PixelMask(model, protocol=quick),
                  ShearletX(model, protocol=quick, n_scales=3)):
        with pytest.raises(ValueError, match="start='ones' is for all"): other(x[:1], progress=False)
