"""
Tokenizers of Hugging Face's `tokenizers`, and what they make of texts. Writes tokenizers.json beside itself.
Usage: pip install tokenizers==0.23.2; python3 tokenizers.py
"""
import json
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path = [p for p in sys.path if os.path.abspath(p or ".") != here]  # This file has the package's name.
import tokenizers
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

BOOK = [
    "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness.\n",
    "We're sure they'll say it's 1859; we'd've said 18:59, or 3,1415926.\n\n\tThe the the then there these.",
    "Die Größe des Wörterbuchs, naïve façade, Ελλάδα, Москва, 東京都, 🙂🙃👩‍👩‍👧 aaaaaaa bananas ananas",
] * 3

TEXTS = BOOK[:3] + [
    "",
    " ",
    "   two  spaces\u0085and\ufeffodd\u00a0ones \u2003 \n\n  x",
    "<|endoftext|>It<|endoftext|> was<pad>  the <mask>  best<mask>\n",
    "don't DON'T 'tis we'lll x's 12ab34 ٣٤ ½ a\u0301 é \u212b ﬁ",
    "tab\tnew\nline\r\nend  ",
    "\ufeffmark, \x00 zero, \x7f and \U0010ffff",
    "aaaaaaaaaaaaaaaaaaaaaaaa" * 5,
]


def trained(add_prefix_space, special, normalizer=None, min_frequency=2, size=400):
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    made.decoder = decoders.ByteLevel()
    if normalizer:
        made.normalizer = normalizer
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=min_frequency,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(BOOK, trainer)
    return made


plain = trained(False, ["<|endoftext|>"])
added = trained(True, ["<s>", "<pad>"], normalizers.NFC(), size=330)
added.add_special_tokens([AddedToken("<mask>", lstrip=True, rstrip=False, normalized=False)])
added.add_tokens([AddedToken("the best", normalized=True), AddedToken("wisdom", rstrip=True, normalized=True)])

sets = []
for name, made in [("plain", plain), ("added", added)]:
    file = json.loads(made.to_str())
    if name == "added":  # As files of older versions have them.
        file["model"]["merges"] = [" ".join(merge) for merge in file["model"]["merges"]]
        made = Tokenizer.from_str(json.dumps(file))
    cases = []
    for text in TEXTS:
        ids = made.encode(text).ids
        cases.append({"text": text, "ids": ids, "decoded": made.decode(ids), "whole": made.decode(ids, skip_special_tokens=False)})
    ids = made.encode("Größe 🙂").ids
    cut = [{"ids": ids[i:], "decoded": made.decode(ids[i:])} for i in range(1, len(ids))]
    sets.append({"name": name, "file": file, "cases": cases, "cut": cut})

with open(os.path.join(here, "tokenizers.json"), "w") as out:
    json.dump({"version": tokenizers.__version__, "book": BOOK, "sets": sets}, out, separators=(",", ":"))
    out.write("\n")
