"""`--hardware`: every row is complete, and every mistake is one sentence."""

import pytest

from autoadapter.errors import UserError
from autoadapter.hardware import Gpu, gpu_of, gpus, parse_hardware, this_machine, usable_memory_bytes

NAMES = ", ".join(["cpu", *(gpu.name for gpu in gpus())])


@pytest.mark.parametrize("gpu", gpus(), ids=lambda gpu: gpu.name)
def test_each_row_is_plausible_and_parses(gpu: Gpu) -> None:
    parsed = parse_hardware(f"{gpu.name.upper()}:2")
    assert (parsed.name, parsed.count, parsed.kind, parsed.text) == (gpu.name, 2, "cuda", f"{gpu.name}:2")
    assert parsed.memory_bytes == int(gpu.memory_gib * 1024**3)
    assert tuple(map(int, gpu.compute_capability.split("."))) >= (7, 0)
    assert gpu.source
    assert gpu.fp8_tflops is None or gpu.fp8_tflops > gpu.bf16_tflops
    has_fp8 = tuple(map(int, gpu.compute_capability.split("."))) >= (8, 9)
    assert (gpu.fp8_tflops is not None) == has_fp8
    assert (gpu.fp4_tflops is not None) == (gpu.capability >= (10, 0))
    assert (gpu.int8_tflops is not None) == (gpu.capability >= (7, 5))
    assert 30 <= gpu.sm_count <= 256
    assert (gpu.interconnect.kind == "none") == (gpu.interconnect.island == 1)


@pytest.mark.parametrize("gpu", gpus(), ids=lambda gpu: gpu.name)
def test_rates_fit_together(gpu: Gpu) -> None:
    """A typo in a figure shows: PCIe and NVLink have known speeds, halving the bits about doubles the rate."""
    link = gpu.interconnect
    assert link.gb_s in {"pcie": (16, 32, 64), "nvlink": (150, 300, 450, 900), "none": (0,)}[link.kind]
    assert gpu.fp8_tflops is None or gpu.fp8_tflops / gpu.bf16_tflops == pytest.approx(2, rel=0.03)
    assert gpu.fp4_tflops is None or 1.9 < gpu.fp4_tflops / (gpu.fp8_tflops or 1) < 4.1
    assert 20 < gpu.bf16_tflops * 1e3 / gpu.bandwidth_gb_s < 450


def test_a_device_without_the_unit_computes_in_sixteen_bits() -> None:
    a100 = next(row for row in gpus() if row.name == "a100")
    assert a100.flops_per_second("fp8") == a100.flops_per_second("bf16") == 312e12
    assert gpu_of(parse_hardware("a100:4")) == a100
    assert gpu_of(parse_hardware("cpu")) is None


def test_names_are_unique() -> None:
    assert len({gpu.name for gpu in gpus()}) == len(gpus())


def test_cpu_is_this_machine() -> None:
    parsed = parse_hardware("cpu")
    assert (parsed.kind, parsed.count, parsed.text, parsed.compute_capability) == ("cpu", 1, "cpu", None)
    assert parsed.memory_bytes == usable_memory_bytes() == this_machine().memory_bytes > 0


@pytest.mark.parametrize(
    ("text", "sentence", "hint"),
    [
        (
            "h2000",
            "Unknown hardware 'h2000'. Did you mean h200?",
            f"autoadapter COMMAND … --hardware h200   (known: {NAMES}; a count follows a colon: h200:8)",
        ),
        ("zx81", "Unknown hardware 'zx81'.", f"Known: {NAMES}; a count follows a colon: h200:8"),
        ("h200:0", "0 devices in --hardware 'h200:0' make no sense.", "Example: --hardware h200:8"),
        ("h200:9999", "9999 devices in --hardware 'h200:9999' make no sense.", "Example: --hardware h200:8"),
        ("h200:x", "In --hardware 'h200:x' the count is no number.", "Example: --hardware h200:8"),
        ("cpu:2", "--hardware 'cpu:2': a CPU machine has no count.", "--hardware cpu"),
    ],
)
def test_mistakes(text: str, sentence: str, hint: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_hardware(text)
    assert str(caught.value) == sentence
    assert caught.value.hint == hint
    assert caught.value.exit_code == 2
