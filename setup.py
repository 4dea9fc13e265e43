"""Builds the optional native module: the kernels compiled for this machine's own processor.

Without a C++ compiler the install succeeds; the targets host and sim then say what to install.
"""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "mats.devices._native",
            sources=[
                "kernels/native/module.cpp",
                "kernels/native/host_base.cpp",
                "kernels/native/host_avx2.cpp",
                "kernels/native/simulator.cpp",
            ],
            depends=[
                "kernels/native/flavour.inc",
                "kernels/include/shim.hpp",
                "kernels/include/fault_model.hpp",
                "kernels/include/faults.hpp",
                "kernels/include/mats.cuh",
                "kernels/include/pattern.cuh",
                "kernels/include/report.cuh",
                "kernels/patterns.cu",
                "kernels/records.cu",
                "kernels/sweeps.cu",
                "kernels/disturb.cu",
            ],
            extra_compile_args=["-std=c++17", "-O3", "-fno-math-errno", "-pthread", "-g0", "-fvisibility=hidden"],
            extra_link_args=["-pthread"],
            language="c++",
            optional=True,
        )
    ]
)
