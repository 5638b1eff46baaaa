"""The one part that is compiled; everything else is in pyproject.toml."""

from setuptools import Extension, setup

HERE = "src/dubito/compiled"
SOURCES = (
    *("module", "greedy", "beam", "halves", "points", "products", "refresh", "nearest", "among", "small", "extremes"),
    *("crew", "magnitude", "closer", "multiply", "between"),
)
HEADERS = ("steps", "crew", "points", "products", "tile", "refresh", "extremes", "magnitude", "among")

setup(
    ext_modules=[
        Extension(
            "dubito.compiled._steps",
            sources=[f"{HERE}/{name}.c" for name in SOURCES],
            depends=[f"{HERE}/{name}.h" for name in HEADERS],
            define_macros=[("Py_LIMITED_API", "0x030B0000")],
            # Additions and products as they are written, so that compiled steps have NumPy's own numbers.
            extra_compile_args=["-O3", "-std=c11", "-ffp-contract=off"],
            py_limited_api=True,
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
