"""Builds the optional native modules: the kernels compiled for this machine's own processor, and a stand-in for NVML.

Without a compiler the install succeeds; the targets host and sim then say what to install.
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
                "kernels/include/timing.cuh",
                "kernels/include/timing_model.hpp",
                "kernels/patterns.cu",
                "kernels/records.cu",
                "kernels/sweeps.cu",
                "kernels/disturb.cu",
                "kernels/chase.cu",
                "kernels/gate.cu",
            ],
            extra_compile_args=["-std=c++17", "-O3", "-fno-math-errno", "-pthread", "-g0", "-fvisibility=hidden"],
            extra_link_args=["-pthread"],
            language="c++",
            optional=True,
        ),
        Extension(
            "mats.sources._mock_nvml",
            sources=["mats/sources/mock_nvml/mock_nvml.c", "mats/sources/mock_nvml/profile.c"],
            depends=["mats/sources/mock_nvml/profile.h"],
            extra_compile_args=["-std=c11", "-D_GNU_SOURCE", "-O2", "-pthread", "-g0", "-fvisibility=hidden"],
            extra_link_args=["-pthread"],
            optional=True,
        ),
    ]
)
