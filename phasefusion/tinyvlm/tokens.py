"""The tokenizer, the chat format, and fast encoding of prompts."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from phasefusion.tinyvlm.questions import LETTERS, all_texts

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

__all__ = ["CHAT_TEMPLATE", "Encoder", "build_tokenizer", "special_ids"]

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
VISION_START, VISION_END = "<|vision_start|>", "<|vision_end|>"
IMAGE, VIDEO = "<|image_pad|>", "<|video_pad|>"
SPECIAL = (PAD, START, END, VISION_START, VISION_END, IMAGE, VIDEO)

CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if m['content'] is string %}{{ m['content'] }}{% else %}"
    "{% for c in m['content'] %}"
    "{% if c['type'] == 'video' %}<|vision_start|><|video_pad|><|vision_end|>"
    "{% elif c['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif c['type'] == 'text' %}{{ c['text'] }}{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
#: Words of other people's prompts that are worth one token each.
_COMMON = """
user assistant system You are a helpful assistant Question Options Option Answer Select
the best answer to the following multiple choice question based on the video and its
subtitles Respond with only the letter of the correct option and what is who where why
how many when which does did do was were will can could not no yes none all above below
both any other this that these those he she it they his her their there here man woman
person people child boy girl dog cat car ball hand hands table door room water food
before after while during then next first last begin end start stop turn walk run sit
stand open close put take pick hold look talk play throw catch eat drink one two three
four five six seven eight nine ten I we you my your our in on at by for from into out of
over under with without about between or but if so as than too very more most less least
same different true false cannot be determined unclear because video clip frame scene
"""


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Train the byte-level BPE tokenizer; every word of the questions is one token.

    Returns
    -------
    tokenizer : PreTrainedTokenizerFast
        With the chat template. Any other text falls back to smaller pieces, at worst to
        bytes.
    """
    from transformers import PreTrainedTokenizerFast

    words = {w for text in [*all_texts(), _COMMON] for w in text.split()}
    words |= {w.strip(".,:;?!()'") for w in words} | set(LETTERS) | set("0123456789")
    words |= {w.title() for w in words} | {w.lower() for w in words}
    corpus = sorted(words - {""})
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=20000,
        min_frequency=1,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(
        [*all_texts(), *corpus, *(f" {w}" for w in corpus)], trainer
    )
    make: Any = PreTrainedTokenizerFast
    fast: PreTrainedTokenizerFast = make(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=list(SPECIAL[1:]),
        model_max_length=4096,
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def special_ids(tokenizer: Any) -> dict[str, int]:
    """Ids of the special tokens under the names that `build_network` expects."""
    names = {
        "pad": PAD,
        "end": END,
        "image": IMAGE,
        "video": VIDEO,
        "vision_start": VISION_START,
        "vision_end": VISION_END,
    }
    return {k: int(tokenizer.convert_tokens_to_ids(v)) for k, v in names.items()}


class Encoder:
    """Encode chat prompts line by line, with a cache: no token crosses a newline."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.ids = special_ids(tokenizer)
        self.line = lru_cache(maxsize=20000)(self._line)
        self.head = [*self.line(START + "user\n"), self.ids["vision_start"]]
        self.tail = [*self.line(END + "\n"), *self.line(START + "assistant\n")]
        self.letters = [self.line(letter)[0] for letter in LETTERS]

    def _line(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def text(self, text: str) -> list[int]:
        """Ids of a text that may hold several lines."""
        return [i for part in text.splitlines(keepends=True) for i in self.line(part)]

    def prompt(self, text: str, n_video: int) -> list[int]:
        """Ids of a whole prompt with `n_video` video tokens before the text."""
        video = [self.ids["video"]] * n_video
        return [
            *self.head,
            *video,
            self.ids["vision_end"],
            *self.text(text),
            *self.tail,
        ]
