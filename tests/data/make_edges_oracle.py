"""Ask PyCoShREM 0.0.2 (GPL-3, NumPy < 2) for the edges of six pictures, and keep its answers in edges_oracle.npz.

Run once, in an environment of its own; nothing else in the project imports that package:

    python3.8 -m venv oracle
    oracle/bin/pip install PyCoShREM==0.0.2 "numpy<1.24" scipy matplotlib pillow scikit-image
    oracle/bin/python make_edges_oracle.py FOLDER [--time]      # FOLDER holds foolbox's imagenet_*.jpg

The committed file was made with Python 3.8.18, NumPy 1.23.5, SciPy 1.10.1, Pillow 10.4.0, scikit-image 0.21.0
(`versions` in the file). For every picture NAME: picture_NAME uint8 (H,W), the input; measure_NAME float16 (H,W), the
package's edge measure with its default system and min_contrast=3; edges_NAME, np.packbits of measure > 0.1 (before
rounding to float16); angle_NAME float16, every second row and column of its orientations in degrees (-1: none).
The pictures have even sizes: of odd ones the package finds spurious edges everywhere (a step in a 65 x 65 picture gives
a comb of 26 columns).
--time prints how long sixteen photographs of 256 x 256 take.
"""
import glob, os, platform, sys, time
import numpy as np, PIL, scipy, skimage
from PIL import Image
from coshrem.shearletsystem import EdgeSystem


def share(d): return np.clip(.5-d, 0, 1)       # of a pixel inside, d the signed distance in pixels


def scenes(n):
    y, x = np.mgrid[:n, :n]+.5-n/2
    across = x*np.cos(.3)+y*np.sin(.3)
    period = .2*n
    return dict(disc=share(np.hypot(x-.013*n, y-.02*n)-.3*n), half_plane=share(across),
                stripes=share((np.abs(across/period % 1-.5)-.25)*period))


def photograph(path, n): return np.asarray(Image.open(path).convert("L").resize((n, n), Image.BICUBIC))


def main(folder):
    files = sorted(glob.glob(os.path.join(folder, "imagenet_*.jpg")))
    pictures = {name: np.round(255*(.2+.6*s)).astype(np.uint8) for name, s in scenes(128).items()}
    for i, n in ((0, 128), (7, 128), (12, 256)): pictures[f"photo{i}"] = photograph(files[i], n)
    versions = [f"Python {platform.python_version()}", "PyCoShREM 0.0.2"]
    versions += [f"{m.__name__} {m.__version__}" for m in (np, scipy, PIL, skimage)]
    kept = dict(names=np.array(list(pictures)), versions=np.array(versions))
    for name, picture in pictures.items():
        measure, angle = EdgeSystem(*picture.shape).detect(picture.astype(float), min_contrast=3)
        print(name, picture.shape, "NaN:", np.isnan(measure).sum(), "edges:", (measure > .1).sum())
        kept.update({f"picture_{name}": picture, f"measure_{name}": np.nan_to_num(measure).astype(np.float16),
                     f"edges_{name}": np.packbits(measure > .1),
                     f"angle_{name}": np.asarray(angle, dtype=np.float16)[::2, ::2]})
    np.savez_compressed(os.path.join(os.path.dirname(os.path.abspath(__file__)), "edges_oracle.npz"), **kept)
    if "--time" in sys.argv:
        start = time.time(); system = EdgeSystem(256, 256); built = time.time()
        for path in files[:16]: system.detect(photograph(path, 256).astype(float), min_contrast=3)
        print(f"filters {built-start:.2f} s, sixteen pictures {time.time()-built:.2f} s")


if __name__ == "__main__": main(sys.argv[1])
