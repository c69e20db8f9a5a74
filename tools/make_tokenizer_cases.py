#!/usr/bin/env python3
"""Makes test/data/tokenizer_extra/*.json: small tokenizers and what the `tokenizers` library does with them.

Run by hand when a configuration is added; the result is committed. Needs: pip install tokenizers (0.23.3).
Usage: tools/make_tokenizer_cases.py test/data/tokenizer_extra
"""
import json
import pathlib
import random
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

CORPUS = [
    "The quick brown fox jumps over the lazy dog. The dog sleeps; the fox doesn't.",
    "int main(int argc, char** argv) { return argc > 1 ? 0 : 1; }  // a comment",
    "def f(x):\n    return [y * 2 for y in x if y % 3 == 0]\n\n\nprint(f(range(100)))",
    "Numbers: 1 22 333 4444 55555, 3.14159 and 2024-01-31 at 12:30.",
    "Größe, naïve café, Übung, señor, ça va; Привет, мир! 日本語のテキスト。한국어 문장.",
    "مرحبا بالعالم שלום עולם हिन्दी ภาษาไทย",
] * 3
TEXTS = [
    "", " ", "  ", "\n", "Hello world", " Hello  world ", "the dog doesn't sleep", "THE DOG'S", "they'LL we've I'm",
    "tabs\tand\r\nlines\n\n  x", "a1b22c333", "12345 67.89 1,000 ½ ² Ⅷ ٣", "naïve cafe\u0301 A\u030a \u212b \ufb01",
    "日本語のテキスト", "한국어 \u1112\u1161\u11ab", "emoji 👩‍👩‍👧‍👦 🇫🇷🙂", "हिन्दी", "مرحبا", "\u0000nul",
    "\u180e\u200b\u2028x\u00a0y\u3000z\u0085w", "▁▁already▁meta ▁x", "x\ufffdy", "a" * 70, "the " * 20, "(a+b)*c;",
    "----", "a--b-c-", "-a", "--", "<s>the</s>", "a<tool>b <tool> c", "  <left>  x", "x  <right>   y", "<wordy>",
    "x<word>", "x <word> y", "é<word>", "<word>é", "_<word>", "<word>\u0301", "<word><word>", "<left> <right> <left>",
    "<right>  <left>", "<norm>", "a <norm> b", "cafe\u0301<tool>", "q\u0307\u0323", "e\u0301\u0301\u0316e",
]


def bpe(normalizer, pre, size=420, alphabet=None, **options):
    tokenizer = Tokenizer(models.BPE(**options))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    if pre is not None:
        tokenizer.pre_tokenizer = pre
    special = ["<unk>", "<s>", "</s>"]
    if options.get("byte_fallback"):
        special += [f"<0x{byte:02X}>" for byte in range(256)]
        size += 256
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=special, initial_alphabet=alphabet or [],
                                  show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    # The trainer's special tokens become added tokens; the byte tokens of SentencePiece models are none.
    data = json.loads(tokenizer.to_str())
    data["added_tokens"] = [t for t in data["added_tokens"] if not t["content"].startswith("<0x")]
    return Tokenizer.from_str(json.dumps(data))


def add_tokens(tokenizer):
    tokenizer.add_tokens([AddedToken("<tool>", normalized=False), AddedToken("<left>", lstrip=True, normalized=False),
                          AddedToken("<right>", rstrip=True, normalized=False),
                          AddedToken("<word>", single_word=True, normalized=False),
                          AddedToken("<norm>", normalized=True), AddedToken("<to", normalized=False)])
    return tokenizer


def llama(prepend_by_normalizer):
    if prepend_by_normalizer:
        normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        pre = None
    else:
        normalizer, pre = None, pre_tokenizers.Metaspace("▁", prepend_scheme="first", split=False)
    tokenizer = bpe(normalizer, pre, byte_fallback=True, fuse_unk=True, unk_token="<unk>")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A <s> $B", special_tokens=[("<s>", 1), ("</s>", 2)])
    return add_tokens(tokenizer)


def gpt2(add_prefix_space, use_regex, ignore_merges=False):
    pre = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space, use_regex=use_regex)
    tokenizer = bpe(None, pre, alphabet=pre_tokenizers.ByteLevel.alphabet(), ignore_merges=ignore_merges)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    return add_tokens(tokenizer)


def split_level(*splits, normalizer=None):
    pre = pre_tokenizers.Sequence([*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer = bpe(normalizer, pre, alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.decoder = decoders.ByteLevel()
    return add_tokens(tokenizer)


def metaspace(scheme, split):
    tokenizer = bpe(None, pre_tokenizers.Metaspace("▁", prepend_scheme=scheme, split=split), unk_token="<unk>")
    tokenizer.decoder = decoders.Metaspace("▁", prepend_scheme=scheme, split=split)
    return add_tokens(tokenizer)


def plain(**options):
    tokenizer = bpe(normalizers.NFC(), pre_tokenizers.Digits(individual_digits=options.pop("individual", False)),
                    **options)
    tokenizer.decoder = decoders.Fuse()
    return add_tokens(tokenizer)


def with_merges_as_text(tokenizer):
    data = json.loads(tokenizer.to_str())
    data["model"]["merges"] = ["#version: 0.2"] + [" ".join(pair) for pair in data["model"]["merges"]]
    return Tokenizer.from_str(json.dumps(data)), data


DEEPSEEK = [
    pre_tokenizers.Split(Regex(r"\p{N}{1,3}"), "isolated"),
    pre_tokenizers.Split(Regex(r"[一-龥぀-ゟ゠-ヿ]+"), "isolated"),
    pre_tokenizers.Split(Regex(r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
                               r"""| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""), "isolated"),
]
O200K = pre_tokenizers.Split(Regex(
    r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"""
    r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"""
    r"""\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"""), "isolated")
BEHAVIORS = ["isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous"]


def configurations():
    yield "llama_normalizer", llama(True)
    yield "llama_metaspace", llama(False)
    yield "gpt2", gpt2(False, True)
    yield "gpt2_prefix_space", gpt2(True, True)
    yield "gpt2_no_regex", gpt2(True, False)
    yield "gpt2_ignore_merges", gpt2(False, True, ignore_merges=True)
    yield "deepseek", split_level(*DEEPSEEK)
    yield "o200k_nfc", split_level(O200K, normalizer=normalizers.NFC())
    for behavior in BEHAVIORS:
        yield f"split_string_{behavior}", split_level(pre_tokenizers.Split("-", behavior))
        yield f"split_invert_{behavior}", split_level(pre_tokenizers.Split(Regex(r"\w+"), behavior, invert=True))
    yield "split_empty_match", split_level(pre_tokenizers.Split(Regex(r"\d*"), "isolated"))
    yield "line_anchors", split_level(pre_tokenizers.Split(Regex(r"^\s+|\s+$"), "isolated"))
    yield "digits_then_bytes", split_level(pre_tokenizers.Digits(individual_digits=True))
    for scheme in ["always", "first", "never"]:
        yield f"metaspace_{scheme}", metaspace(scheme, True)
    yield "metaspace_no_split", metaspace("always", False)
    yield "unknown_dropped", plain()
    yield "unknown_each", plain(unk_token="<unk>", individual=True)
    yield "unknown_fused", plain(unk_token="<unk>", fuse_unk=True)
    replaced = plain(unk_token="<unk>")
    replaced.normalizer = normalizers.Sequence([normalizers.Replace(Regex(r"\s+"), " "), normalizers.Replace("o", "0")])
    replaced.decoder = decoders.Sequence([decoders.Replace("0", "o"), decoders.Strip("e", 0, 1), decoders.Fuse(),
                                          decoders.Strip(" ", 2, 0)])
    yield "replace_and_strip", replaced
    bytes_first = gpt2(False, False)
    bytes_first.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.ByteLevel(add_prefix_space=False),
                                                         pre_tokenizers.Digits(individual_digits=True)])
    yield "byte_level_not_last", bytes_first


def cases_of(tokenizer, name):
    generator = random.Random(name)
    alphabet = [c for text in TEXTS + CORPUS for c in text]
    texts = TEXTS + ["".join(generator.choices(alphabet, k=generator.randint(1, 40))) for _ in range(30)]
    cases = []
    for text in texts:
        ids = tokenizer.encode(text).ids
        cases.append({"text": text, "ids": ids, "ids_plain": tokenizer.encode(text, add_special_tokens=False).ids,
                      "decoded": tokenizer.decode(ids, skip_special_tokens=False),
                      "decoded_skip_special": tokenizer.decode(ids)})
    return cases


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, tokenizer in configurations():
        data = json.loads(tokenizer.to_str())
        if name == "gpt2":
            tokenizer, data = with_merges_as_text(tokenizer)
        content = {"tokenizer": data, "cases": cases_of(tokenizer, name)}
        (folder / f"{name}.json").write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
