"Packages that are run as oracles and never imported by shearletx_nb."
import importlib, sys, types, warnings


def load_torchray()->types.ModuleType|None:
    "TorchRay's extremal_perturbation, or None where it is not installed; empty modules for what its benchmarks need."
    missing = {n: types.ModuleType(n) for n in ("pymongo", "pycocotools", "pycocotools.coco", "pycocotools.mask")
               if n not in sys.modules}
    sys.modules.update(missing)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module("torchray.attribution.extremal_perturbation")
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("torchray"): raise
    finally:
        for name in missing: sys.modules.pop(name)
