"""Driver, torch and ptxas: judged on what those programs print."""

import shutil
import subprocess

import pytest

from autoadapter.doctor import State
from autoadapter.doctor.cuda import cuda_of_torch, judge_driver, judge_ptxas

PTXAS_12_4 = """--gpu-name <gpu name>                               (-arch)
        Allowed values for this option:  'sm_50','sm_75','sm_80','sm_86','sm_89','sm_90','sm_90a'.
"""


@pytest.mark.parametrize(
    ("version", "cuda"),
    [("2.11.0+cu129", (12, 9)), ("2.13.0+cu130", (13, 0)), ("2.13.0+cpu", None), ("2.13.0", None)],
)
def test_cuda_of_a_torch_build(version: str, cuda: tuple[int, int] | None) -> None:
    assert cuda_of_torch(version) == cuda


def test_a_driver_of_an_older_major_is_a_problem() -> None:
    remark = judge_driver((12, 4), (13, 0), "2.13.0+cu130")
    assert remark.state is State.PROBLEM
    assert remark.message == "torch 2.13.0+cu130 needs CUDA 13.0, the driver stops at 12.4."


def test_a_driver_of_the_same_major_is_enough() -> None:
    assert judge_driver((12, 4), (12, 9), "2.11.0+cu129").state is State.OK


def test_ptxas_that_does_not_know_the_gpu() -> None:
    remark = judge_ptxas("/opt/ptxas", PTXAS_12_4, "11.0")
    assert remark.state is State.PROBLEM
    assert "Value 'sm_110a' is not defined" in remark.message
    assert remark.fix and "TRITON_PTXAS_PATH" in remark.fix


@pytest.mark.parametrize("capability", ["8.0", "8.9", "9.0"])
def test_ptxas_that_knows_it(capability: str) -> None:
    assert judge_ptxas("/opt/ptxas", PTXAS_12_4, capability).state is State.OK


def test_hopper_needs_the_architecture_specific_target() -> None:
    without = PTXAS_12_4.replace(",'sm_90a'", "")
    assert judge_ptxas("/opt/ptxas", without, "9.0").state is State.PROBLEM


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="no CUDA toolkit here")
def test_real_ptxas_output_is_understood() -> None:
    program = str(shutil.which("ptxas"))
    text = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    assert judge_ptxas(program, text, "9.0").state is State.OK
    assert judge_ptxas(program, text, "99.0").state is State.PROBLEM
