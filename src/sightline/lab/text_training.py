"""The lab model's words: a tokenizer and a UMT5 encoder of its own, trained on the captions of the worlds.

    sightline lab text

The encoder learns to fill in words that were masked, as text encoders of its kind do; nothing of the pictures is known to
it. It takes a few minutes on a CPU.
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
from sightline.lab.models import HELD_OUT_SEED, TEXT_TOKENS, lab_text_encoder
from sightline.worlds import STYLES, sample_batch
from sightline.worlds.batches import map_in_processes

VOCABULARY = 768
MASKED = 0.25  # share of the tokens to be filled in
_SPECIAL = ("<pad>", "</s>", "<unk>", "<extra_id_0>")  # UMT5's, the last one stands for a masked token
_MASK, _PAD = 3, 0


def train_text(
    output: Path, *, captions: int = 6_000, steps: int = 1_000, batch: int = 64, rate: float = 2e-3, seed: int = 0
) -> dict[str, Any]:
    """Write tokenizer and text_encoder below `output`, and return what was measured on held-out captions."""
    console = Console(stderr=True, highlight=False)
    torch.manual_seed(seed)
    each = max(captions // len(STYLES), 1)
    texts, others = captions_of(range(each)), captions_of(range(HELD_OUT_SEED, HELD_OUT_SEED + max(each // 10, 1)))
    tokenizer = train_tokenizer(texts)
    encoder = lab_text_encoder(len(tokenizer), seed).train()
    ids, held_out = tokens_of(tokenizer, texts), tokens_of(tokenizer, others)
    optimiser = torch.optim.AdamW(encoder.parameters(), lr=rate, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=steps, pct_start=0.1)
    curve = []
    for step in track(range(steps), "training the text encoder", console=console):
        loss, _ = masked_loss(encoder, ids[torch.randint(len(ids), (batch,))])
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        if step % 50 == 0:
            curve.append({"step": step, "loss": loss.item()})
    encoder.eval()
    with torch.no_grad():
        torch.manual_seed(seed)
        loss, right = masked_loss(encoder, held_out)
    measured: dict[str, Any] = {
        "held_out_loss": loss.item(),
        "held_out_accuracy": right.item(),
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
    console.print(f"held out: {right.item():.1%} of masked tokens filled in rightly; wrote {output}")
    return measured


def captions_of(seeds: range) -> list[str]:
    groups = [(style, seeds[start : start + 100]) for style in STYLES for start in range(0, len(seeds), 100)]
    return [caption for some in map_in_processes(partial(_captions, 33, 128), groups) for caption in some]


def _captions(frames: int, size: int, group: tuple[str, range]) -> list[str]:
    style, seeds = group
    return list(sample_batch(style, seeds, frames, size, size).captions)


def train_tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    """Byte-pair pieces in lower case, most words being one. Every ASCII character is known: any prompt can be read."""
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


def tokens_of(tokenizer: PreTrainedTokenizerFast, texts: list[str]) -> Tensor:  # -> [N, L]
    ids: Tensor = tokenizer(texts, padding=True, truncation=True, return_tensors="pt").input_ids
    return ids


def masked_loss(
    encoder: UMT5EncoderModel, ids: Tensor
) -> tuple[Tensor, Tensor]:  # [B, L] -> loss, share filled in rightly
    masked = (torch.rand(ids.shape) < MASKED) & (ids != _PAD)
    hidden = encoder(ids.masked_fill(masked, _MASK), attention_mask=(ids != _PAD).long()).last_hidden_state
    scores = hidden[masked] @ encoder.get_input_embeddings().weight.T / encoder.config.d_model**0.5
    wanted = ids[masked]
    return F.cross_entropy(scores, wanted), (scores.argmax(-1) == wanted).float().mean()
