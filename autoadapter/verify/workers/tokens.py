"""What transformers' own tokenizer says: ids, texts, rendered conversations, special tokens.

Run as `python tokens.py REQUEST.json RESULT.json` in an interpreter that has transformers.

Request: `model` (folder), `trust_remote_code` (whether code in that folder may run), `texts` (list of str), `chats`
(list of conversations). Result: `with_special` and `plain`
(ids per text), `decoded` (text per text, from the plain ids), `chats` (list of `{text, ids}`; null where the template
refuses), `bos`, `stop` (ids that generation_config and the tokenizer call end), `specials` (texts of special tokens).
"""

import json
import sys
from pathlib import Path

import transformers


def stop_ids(folder: str, tokenizer: object) -> list[int]:
    """The union of what generation_config.json and the tokenizer call end of sequence."""
    found = {tokenizer.eos_token_id} - {None}
    try:
        named = transformers.GenerationConfig.from_pretrained(folder).eos_token_id
    except OSError:  # the checkpoint has no generation_config.json
        named = None
    found |= set(named) if isinstance(named, list) else {named} - {None}
    return sorted(found)


def render(tokenizer: object, messages: list) -> dict | None:
    """A conversation as text and ids; None when the template does not take it."""
    try:
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    except Exception as error:
        print(f"chat template refused: {type(error).__name__}: {error}")
        return None
    return {"text": text, "ids": tokenizer(text, add_special_tokens=False)["input_ids"]}


def main(request_file: str, result_file: str) -> None:
    """Read the request, write the result."""
    request = json.loads(Path(request_file).read_text(encoding="utf-8"))
    folder = request["model"]
    trust = request["trust_remote_code"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=trust)
    specials = list(dict.fromkeys(tokenizer.all_special_tokens + list(tokenizer.get_added_vocab())))
    texts = request["texts"] + [f"before{special}after" for special in specials]
    plain = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    result = {
        "texts": texts,
        "specials": specials,
        "with_special": [tokenizer(text, add_special_tokens=True)["input_ids"] for text in texts],
        "plain": plain,
        "decoded": [tokenizer.decode(ids, clean_up_tokenization_spaces=False) for ids in plain],
        "chats": [render(tokenizer, chat) for chat in request["chats"]] if tokenizer.chat_template else [],
        "bos": tokenizer.bos_token_id,
        "stop": stop_ids(folder, tokenizer),
    }
    Path(result_file).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
