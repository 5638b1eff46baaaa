"""The one part that is compiled; everything else is in pyproject.toml."""

from pathlib import Path

from setuptools import Extension, setup

HERE = Path("src/dubito/native")

setup(
    ext_modules=[
        Extension(
            "dubito.native._steps",
            sources=sorted(path.as_posix() for path in HERE.glob("*.c")),
            depends=sorted(path.as_posix() for path in HERE.glob("*.h")),
            define_macros=[("Py_LIMITED_API", "0x030B0000")],
            # Additions and products as they are written, so that compiled steps have NumPy's own numbers.
            extra_compile_args=["-O3", "-std=c11", "-ffp-contract=off"],
            py_limited_api=True,
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
