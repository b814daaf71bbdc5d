"""Every tensor of a checkpoint has its place in the model, and every parameter gets one: by name and shape."""

import json
import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from vllm.config import set_current_vllm_config
from vllm.distributed import destroy_model_parallel, init_distributed_environment, initialize_model_parallel
from vllm.engine.arg_utils import EngineArgs
from vllm.model_executor.model_loader.utils import initialize_model
from vllm.plugins import load_general_plugins
from vllm.utils.torch_utils import set_default_torch_dtype

MODEL = os.environ.get("MODEL")
DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}

pytestmark = pytest.mark.skipif(MODEL is None, reason="MODEL names no checkpoint")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[torch.nn.Module]:
    """The model without weights."""
    load_general_plugins()
    config = EngineArgs(model=str(MODEL), skip_tokenizer_init=True, enforce_eager=True).create_engine_config()
    with set_current_vllm_config(config):
        store = tmp_path_factory.mktemp("store") / "ranks"
        init_distributed_environment(1, 0, f"file://{store}", 0, backend="gloo")
        initialize_model_parallel(1, 1)
        with set_default_torch_dtype(config.model_config.dtype), torch.device("meta"):
            yield initialize_model(vllm_config=config)
        destroy_model_parallel()


def tensors() -> Iterator[tuple[str, torch.Tensor]]:
    """Name and shape of each tensor of the checkpoint."""
    for path in sorted(Path(str(MODEL)).glob("*.safetensors")):
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
        for name, entry in header.items():
            if name != "__metadata__":
                dtype = DTYPES.get(entry["dtype"], torch.float32)
                yield name, torch.empty(entry["shape"], dtype=dtype, device="meta")


def test_every_tensor_is_loaded(model: torch.nn.Module) -> None:
    assert model.load_weights(tensors())


def test_a_missing_tensor_is_noticed(model: torch.nn.Module) -> None:
    _, *others = tensors()
    with pytest.raises(ValueError, match="lacks"):
        model.load_weights(others)


def test_an_unknown_tensor_is_noticed(model: torch.nn.Module) -> None:
    odd = [("odd.bias", torch.empty(1, device="meta")), ("odd.weight", torch.empty(1, device="meta"))]
    for tensor in odd:
        with pytest.raises(ValueError, match="odd"):
            model.load_weights([*tensors(), tensor])
