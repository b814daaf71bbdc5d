"""Writes a checkpoint of the model in `odd_model/`: code of its own, random weights, a tokenizer of its own."""

import json
import shutil
import sys
from pathlib import Path

CODE = Path(__file__).with_name("odd_model")
AUTO_MAP = {
    "AutoConfig": "configuration_murmur.MurmurConfig",
    "AutoModelForCausalLM": "modeling_murmur.MurmurForCausalLM",
}
TEXT = ["the starlings turn over the marsh and settle", "a murmur runs through the reeds at dusk", "0123456789 .,!?"]


def write_checkpoint(folder: Path) -> Path:
    """Weights whose logits have spread, so that a wrong model shows."""
    import torch

    sys.path.insert(0, str(CODE.parent))
    from odd_model.configuration_murmur import MurmurConfig
    from odd_model.modeling_murmur import MurmurForCausalLM

    torch.manual_seed(0)
    model = MurmurForCausalLM(MurmurConfig(bos_token_id=0, eos_token_id=1, pad_token_id=1))
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5)
    model.save_pretrained(folder)
    for file in CODE.glob("*.py"):
        shutil.copyfile(file, folder / file.name)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config |= {"auto_map": AUTO_MAP, "architectures": ["MurmurForCausalLM"]}
    (folder / "config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
    write_tokenizer(folder)
    return folder


def write_tokenizer(folder: Path) -> None:
    """A byte-level BPE of 384 tokens, trained on a few lines."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=384, special_tokens=["<begin>", "<end>"], initial_alphabet=alphabet)
    tokenizer.train_from_iterator(TEXT, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<begin>", eos_token="<end>", pad_token="<end>"
    )
    fast.save_pretrained(folder)
