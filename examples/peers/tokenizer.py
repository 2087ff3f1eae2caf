"""A word-level tokenizer in a folder that Hugging Face's AutoTokenizer opens, for tools that insist on one."""
import json, os, sys
from tokenizers import Tokenizer, models, pre_tokenizers

out = sys.argv[1]
os.makedirs(out, exist_ok=True)
words = ["<unk>", "<s>", "</s>", "time"] + [f"w{i}" for i in range(4000)]
tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer.save(f"{out}/tokenizer.json")
config = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>",
          "model_max_length": 32768}
json.dump(config, open(f"{out}/tokenizer_config.json", "w"))
