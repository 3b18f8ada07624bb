"""Trains the tokenizer and the UMT5 text encoder of the lab model on the captions of the procedural worlds.

    sightline lab text

The encoder is trained to predict masked tokens; it never sees images. Training takes a few minutes on a CPU.
"""

from __future__ import annotations

import json
import string
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.progress import track
from torch import Tensor
from transformers import PreTrainedTokenizerFast, UMT5EncoderModel

from sightline.files import atomic_folder, write_atomic
from sightline.lab.models import HELD_OUT_SEED, NUM_FRAMES, SIZE, TEXT_TOKENS, lab_text_encoder
from sightline.worlds import STYLES, sample_batch
from sightline.worlds.batches import map_in_processes

VOCABULARY = 768
LEARNING_RATE = 2e-3
MASKED = 0.25  # fraction of the tokens that are masked
_SPECIAL = ("<pad>", "</s>", "<unk>", "<extra_id_0>")  # as in UMT5; the last one stands for a masked token
_MASK, _PAD = 3, 0


def train_text(
    output: Path,
    *,
    captions: int = 6_000,
    max_steps: int = 1_000,
    batch_size: int = 64,
    seed: int = 0,
) -> dict[str, Any]:
    """Train, write tokenizer and text_encoder into `output`, and return measurements on held-out captions."""
    console = Console(stderr=True, highlight=False)
    torch.manual_seed(seed)
    each = max(captions // len(STYLES), 1)
    texts = sample_captions(range(each))
    held_out_texts = sample_captions(range(HELD_OUT_SEED, HELD_OUT_SEED + max(each // 10, 1)))
    tokenizer = train_tokenizer(texts)
    encoder = lab_text_encoder(len(tokenizer), seed).train()
    ids, held_out = tokenize(tokenizer, texts), tokenize(tokenizer, held_out_texts)
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=LEARNING_RATE, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=max_steps, pct_start=0.1)
    curve = []
    for step in track(range(max_steps), "training the text encoder", console=console):
        loss, _ = masked_loss(encoder, ids[torch.randint(len(ids), (batch_size,))])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 50 == 0:
            curve.append({"step": step, "loss": loss.item()})
    encoder.eval()
    with torch.no_grad():
        torch.manual_seed(seed)
        loss, accuracy = masked_loss(encoder, held_out)
    measured: dict[str, Any] = {
        "held_out_loss": loss.item(),
        "held_out_accuracy": accuracy.item(),
        "captions": len(texts),
        "vocabulary": len(tokenizer),
        "longest": int((ids != _PAD).sum(1).max()),
        "parameters": sum(p.numel() for p in encoder.parameters()),
        "curve": curve,
    }
    with atomic_folder(output, overwrite=True) as folder:
        tokenizer.save_pretrained(folder / "tokenizer")
        encoder.save_pretrained(folder / "text_encoder")
        write_atomic(folder / "measured.json", json.dumps(measured, indent=1))
    console.print(f"held out: {accuracy.item():.1%} of masked tokens predicted; wrote {output}")
    return measured


def sample_captions(seeds: range) -> list[str]:
    """The captions of the worlds of these seeds, in every style."""
    groups = [(style, seeds[start : start + 100]) for style in STYLES for start in range(0, len(seeds), 100)]
    return [
        caption for captions in map_in_processes(partial(_captions, NUM_FRAMES, SIZE), groups) for caption in captions
    ]


def _captions(num_frames: int, size: int, group: tuple[str, range]) -> list[str]:
    style, seeds = group
    return list(sample_batch(style, seeds, num_frames, size, size).captions)


def train_tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    """Train a byte-pair tokenizer, in lower case; most words become one token. Every ASCII character is in its vocabulary."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Metaspace(), pre_tokenizers.Punctuation()])
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(_SPECIAL),
        initial_alphabet=list("▁" + string.ascii_lowercase + string.digits + string.punctuation),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        model_max_length=TEXT_TOKENS,
    )


def tokenize(tokenizer: PreTrainedTokenizerFast, texts: list[str]) -> Tensor:  # -> [N, L]
    """Token ids, padded to the longest text."""
    ids: Tensor = tokenizer(texts, padding=True, truncation=True, return_tensors="pt").input_ids
    return ids


def masked_loss(encoder: UMT5EncoderModel, ids: Tensor) -> tuple[Tensor, Tensor]:  # [B, L] -> loss, accuracy
    """Cross-entropy of randomly masked tokens, and the fraction that is predicted correctly."""
    masked = (torch.rand(ids.shape) < MASKED) & (ids != _PAD)
    hidden = encoder(ids.masked_fill(masked, _MASK), attention_mask=(ids != _PAD).long()).last_hidden_state
    scores = hidden[masked] @ encoder.get_input_embeddings().weight.T / encoder.config.d_model**0.5
    targets = ids[masked]
    return F.cross_entropy(scores, targets), (scores.argmax(-1) == targets).float().mean()
