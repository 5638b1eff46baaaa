"""The one part that is compiled; everything else is in pyproject.toml."""

from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HERE = Path("src/dubito/native")


class BuildExtension(build_ext):
    """Adds the flags of the compiler that is used, which is known only now."""

    def build_extension(self, extension: Extension) -> None:
        # Additions and products as they are written, so that compiled steps have NumPy's own numbers.
        is_msvc = self.compiler.compiler_type == "msvc"
        flags = ["/O2", "/std:c11", "/fp:precise"] if is_msvc else ["-O3", "-std=c11", "-ffp-contract=off"]
        extension.extra_compile_args = flags
        super().build_extension(extension)


setup(
    ext_modules=[
        Extension(
            "dubito.native._steps",
            sources=sorted(path.as_posix() for path in HERE.glob("*.c")),
            depends=sorted(path.as_posix() for path in HERE.glob("*.h")),
            define_macros=[("Py_LIMITED_API", "0x030B0000")],
            py_limited_api=True,
            optional=True,
        )
    ],
    cmdclass={"build_ext": BuildExtension},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
