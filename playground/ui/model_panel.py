"""The tab "This model": the chosen model as a drawing, each switch at its place in it."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import streamlit as st
import torch

from core.config import ModelConfig
from core.init import embedding_factor
from core.masks import MASKS, Rule, allowed_keys, everything
from playground.experiments.ready_made import READY_MADE, table_rows
from playground.figures.model_drawing import Box, Model, Stack, Sublayer, Switch, model_svg
from playground.runs.spec import MODEL_KNOBS, Spec, value_text
from playground.ui.components import table
from playground.ui.components.drawing import drawing
from playground.ui.link import MODEL

MASK_SHOWN = 8  # positions in the small map of a mask

# What each scheme does, at the place where it does it: of those added to the tokens, and of those
# that act in self-attention.
ADDED = {
    "sinusoidal": "sines and cosines, {max_len} × {d_model}",
    "learned": "{table}, {max_len} × {d_model}",
    "none": "nothing is added",
}
OF_ALL = (
    "The button “Ready-made” below the knobs turns to one of them. They are small and have no "
    "dropout; the table has the switches in which they differ. Its last column is what turning one "
    "switch alone changed: the validation loss of a small GPT-2-like model, which learns Python's "
    "documentation, after 300 steps, in three seeds, and less is better. What "
    "rotary positions, RMSNorm and SwiGLU are worth here is asked by “From GPT to Llama”."
)
OWN_OR_SHARED = {False: "a learnt table", True: "the decoder's table"}
IN_ATTENTION = {
    "rotary": "q and k are rotated by their position",
    "alibi": "each score drops with the distance",
}


def draw(spec: Spec) -> None:
    """The drawing, and the configuration as the code has it."""
    changed = Spec.of(type(spec.task)()).diff(spec)
    model = describe(spec.model, {name: usual for name, (usual, _) in changed.items()})
    pictures = [model_svg(model, wide) for wide in (False, True)[: len(model.stacks)]]
    drawing(pictures, key="model_drawing", name=f"model-{spec.task.name}")
    with st.expander("Ready-made: the paper, GPT, BERT, ViT and Llama, switch by switch"):
        about = "\n".join(f"- **{ready.title}**: {ready.about}" for ready in READY_MADE.values())
        st.markdown(f"{about}\n\n{OF_ALL}")
        st.html(table(table_rows(spec)))
    parts = spec.to_dict()
    with st.expander("The configuration as JSON"):
        st.json(parts["task"] | parts["model"] | parts["training"])


def describe(config: ModelConfig, usual: Mapping[str, Any] = MappingProxyType({})) -> Model:
    """What there is to draw of a model.

    Args:
        usual: the default of each switch that is not at its default.
    """
    return _Parts(config, usual).model()


class _Parts:
    """The parts of one model."""

    def __init__(self, config: ModelConfig, usual: Mapping[str, Any]) -> None:
        self.config, self.usual = config, usual
        self.counts, self.many = config.parameters_by_part(), config.how_many()
        self.pictures = config.architecture == "vit"
        self.crossing = config.architecture == "encoder-decoder"

    def learns(self, part: str) -> int:
        """How many numbers one such part learns."""
        return self.counts[part] // self.many[part]

    def switch(self, name: str) -> Switch:
        value = self.config.mask_rule if name == "mask" else getattr(self.config, name)
        return Switch(
            MODEL[name].title.partition(":")[0],
            value_text(name, value),
            MODEL_KNOBS[name].metadata["hot"],
            value_text(name, self.usual[name]) if name in self.usual else None,
        )

    def switches(self, *names: str) -> tuple[Switch, ...]:
        return tuple(self.switch(name) for name in names)

    # --- the whole ------------------------------------------------------------------------

    def model(self) -> Model:
        config = self.config
        title = f"Transformer of {config.n_parameters:,} parameters"
        if self.crossing:
            reads = self.stack(
                "Encoder",
                f"Source: batch × source ≤ {config.max_len}",
                (self.self_attention(everything, "source"),),
                self.final_norm(),
                f"memory: batch × source × {config.d_model}",
                shared=True,
            )
            mine = self.self_attention(self.may_see(), "length", "mask", *self.window())
            writes = self.stack(
                "Decoder",
                f"Target so far: batch × length ≤ {config.max_len}",
                (mine, self.cross_attention()),
                (*self.final_norm(), self.unembedding()),
                self.logits(),
            )
            stacks = reads, writes
        elif not config.attends:
            title = f"{config.architecture.upper()} of {config.n_parameters:,} parameters"
            reads = f"Tokens: batch × length ≤ {config.max_len}"
            above = (self.unembedding(),)
            stacks = (self.stack("Recurrent net", reads, (), above, self.logits()),)
        else:
            only = self.self_attention(self.may_see(), "length", "mask", *self.window())
            above = (*self.final_norm(), self.unembedding())
            title, reads, gives = (
                config.architecture.capitalize(),
                f"Tokens: batch × length ≤ {config.max_len}",
                self.logits(),
            )
            if self.pictures:
                reads = f"Patches: batch × {config.max_len - 1} × {config.d_patch} levels of grey"
                title = "Vision transformer"
            stacks = (self.stack(title, reads, (only,), above, gives),)
        return Model(title, self.switches("architecture", "d_model", "init"), stacks)

    def stack(
        self,
        title: str,
        reads: str,
        attentions: tuple[Sublayer, ...],
        above: tuple[Box, ...],
        gives: str,
        shared: bool = False,
    ) -> Stack:
        """A stack; one that shares the embedding of the other learns none of its own."""
        config = self.config
        return Stack(
            title,
            reads,
            self.embedding(shared),
            self.position(shared),
            (*attentions, self.feed_forward()) if config.attends else (self.recurrent(),),
            self.switch("n_layers"),
            config.n_layers,
            above,
            gives,
        )

    def logits(self) -> str:
        return f"logits: batch × length × {self.config.vocab_size}"

    # --- at the two ends ------------------------------------------------------------------

    def embedding(self, shared: bool) -> Box:
        config, factor = self.config, embedding_factor(self.config)
        size = f"{config.vocab_size} × {config.d_model}"
        times = "" if factor == 1 else f", times √d_model = {factor:.3g}"
        counted = 0 if shared else self.counts["embedding"]
        if self.pictures:
            facts = (f"a matrix, {config.d_patch} → {config.d_model}", "before them a class token")
            return Box("Patch embedding", "embedding", facts, parameters=counted)
        return Box(
            "Token embedding",
            "embedding",
            (f"{OWN_OR_SHARED[shared]}, {size}{times}",),
            parameters=counted,
        )

    def position(self, shared: bool) -> Box | None:
        """The box of a scheme that is added to the tokens."""
        config = self.config
        if config.position not in ADDED or not config.attends:
            return None
        sizes = {"d_model": config.d_model, "max_len": config.max_len}
        fact = ADDED[config.position].format(table=OWN_OR_SHARED[shared], **sizes)
        return Box(
            "Position",
            "position",
            (fact,),
            heading=self.switch("position"),
            parameters=0 if shared else self.counts["positions"],
            absent=config.position == "none",
        )

    def unembedding(self) -> Box:
        config = self.config
        read_at = ("the answer is read at the class token",) * self.pictures
        tied = config.tie_embeddings and not self.pictures
        table = "the embedding's table" if tied else "a matrix of its own"
        return Box(
            "Output layer",
            "unembedding",
            (f"{config.d_model} → {config.vocab_size}: {table}", *read_at),
            () if self.pictures else self.switches("tie_embeddings"),
            parameters=self.counts["unembedding"],
        )

    # --- in a block -----------------------------------------------------------------------

    def self_attention(self, may_see: Rule, length: str, *switches: str) -> Sublayer:
        """The box of a stack that looks at itself; a mask of its choice is one of the switches."""
        facts = []
        inner = list(switches)
        if self.config.position in IN_ATTENTION:
            facts.append(IN_ATTENTION[self.config.position])
            inner.append("position")
        return self.attention("Self-attention", may_see, length, length, facts, inner)

    def cross_attention(self) -> Sublayer:
        facts = ["k and v come from the memory"]
        found = self.attention("Cross-attention", everything, "length", "source", facts, [])
        return replace(found, reads_memory=True)

    def attention(
        self,
        title: str,
        may_see: Rule,
        queries: str,
        keys: str,
        facts: list[str],
        switches: list[str],
    ) -> Sublayer:
        config = self.config
        divisor = "" if config.scale == "none" else f"/{value_text('scale', config.scale)}"
        sees = allowed_keys(may_see, MASK_SHOWN, MASK_SHOWN, torch.device("cpu")).tolist()
        hides = config.pad_mask and not self.pictures  # no patch is padding
        masked = " + mask" if hides or not all(map(all, sees)) else ""
        distance = " − distance" * (config.position == "alibi" and title != "Cross-attention")
        q, k = f"{queries} × {config.d_head}", f"{keys} × {config.d_head}"
        vectors = (
            f"q, k, v: {q} (d_k = {config.d_model} / {config.n_heads})"
            if queries == keys
            else f"q: {q}; k, v: {k}"
        )
        box = Box(
            title,
            "attention",
            (
                f"softmax(q·k{divisor}{distance}{masked})·v",
                vectors,
                f"weights: {queries} × {keys}",
                *facts,
            ),
            self.switches("n_heads", "scale", *switches, *["pad_mask"] * (not self.pictures)),
            parameters=self.learns("attention"),
            sees=tuple(map(tuple, sees)),
        )
        return self.connected(box)

    def recurrent(self) -> Sublayer:
        """The box of a layer that reads one token after the other."""
        config = self.config
        states = {"gru": "one state", "lstm": "two states"}[config.architecture]
        box = Box(
            config.architecture.upper(),
            "feed-forward",
            (
                "one token after the other: state, token → state",
                f"{states} of {config.d_model} numbers, whatever the length",
            ),
            parameters=self.learns_recurrent(),
        )
        return Sublayer(box, adds=False)

    def learns_recurrent(self) -> int:
        return self.counts["recurrent"] // self.many["blocks"]

    def feed_forward(self) -> Sublayer:
        config = self.config
        if not config.ffn:
            off = self.switch("ffn")
            box = Box("Feed-forward", "feed-forward", heading=off, absent=True)
            return Sublayer(box, adds=False)
        gate = ["(activation(x·gate) ⊙ x·inner)·out"] if config.gated else []
        box = Box(
            "Feed-forward",
            "feed-forward",
            (f"{config.d_model} → {config.d_hidden} → {config.d_model}, at each position", *gate),
            self.switches("d_ff", "activation", "gated"),
            self.switch("ffn"),
            self.learns("feed-forward"),
        )
        return self.connected(box)

    def connected(self, box: Box) -> Sublayer:
        """A box with its norm and its way around."""
        norm = None if self.config.norm == "none" else self.norm()
        joint = ("residual", "norm") if norm is None else ("residual",)
        first = self.config.norm == "pre"
        return Sublayer(box, self.config.residual, norm, first, self.switches(*joint))

    def norm(self, *facts: str) -> Box:
        return Box(
            value_text("norm_type", self.config.norm_type),
            "norm",
            facts,
            self.switches("norm_type"),
            self.switch("norm"),
            self.learns("norms"),
        )

    def final_norm(self) -> tuple[Box, ...]:
        """Pre-norm leaves the stream as large as it grew: one norm at its end."""
        return (self.norm("once more, after the blocks"),) if self.config.norm == "pre" else ()

    def may_see(self) -> Rule:
        return MASKS[self.config.mask_rule](self.config.window)

    def window(self) -> tuple[str, ...]:
        return ("window",) if self.config.mask_rule == "window" else ()
