"Reads settings.ini, the one place that names versions and dependencies."
from configparser import ConfigParser
from pathlib import Path

from setuptools import find_packages, setup

here = Path(__file__).parent
config = ConfigParser(delimiters=["="])
config.read(here/"settings.ini", encoding="utf-8")
cfg = config["DEFAULT"]

setup(
    name=cfg["lib_name"],
    version=cfg["version"],
    description=cfg["description"],
    long_description=(here/"README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    author=cfg["author"],
    license="Apache-2.0",
    keywords=cfg["keywords"],
    packages=find_packages(include=["shearletx_nb", "shearletx_nb.*"]),
    package_data={"shearletx_nb": ["*.safetensors"]},
    python_requires=f">={cfg['min_python']},<3.13",
    install_requires=cfg["requirements"].split(),
    extras_require={extra: cfg[f"{extra}_requirements"].split() for extra in ("dev", "site", "explore")},
    entry_points={"console_scripts": ["shearletx=shearletx_nb.cli:main"],
                  "nbdev": [f"{cfg['lib_path']}={cfg['lib_path']}._modidx:d"]},
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Intended Audience :: Science/Research",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        *(f"Programming Language :: Python :: {version}" for version in ("3.10", "3.11", "3.12")),
    ],
)
