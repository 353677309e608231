"""The code: the very files that run, in the order to read them."""

import inspect
from importlib import import_module

import streamlit as st

from playground.ui.page_head import head

ORDER = (
    ("attention", "The formula, and several heads of it"),
    ("masks", "Which positions may look at which"),
    ("positions", "The order of the tokens"),
    ("blocks", "Residual, norm, feed-forward"),
    ("tokens", "Padding, and what is not scored"),
    ("embedding", "What is read becomes vectors"),
    ("model", "The whole transformer"),
    ("recurrent", "GRU and LSTM, to hold it against"),
    ("trace", "How to look inside"),
    ("init", "The numbers it starts from"),
    ("tasks.vocabulary", "Between text and ids"),
    ("tasks.base", "What a task is"),
    ("tasks.question", "A prompt and its answer"),
    ("tasks.sequences", "Copy, reverse, sort"),
    ("optimize", "From a gradient to a step"),
    ("report", "What a training step reports"),
    ("train", "One step at a time"),
    ("generate", "One token after another"),
    ("cache", "What has been read is kept"),
    ("measure", "What the pictures show"),
    ("config", "What can be chosen"),
    ("forms", "What follows from an architecture"),
    ("size", "How large a model is, counted"),
    ("knobs", "How a choice is checked and written"),
    ("tasks.recall", "Associative recall"),
    ("tasks.distance", "A value at a distance"),
    ("tasks.add", "Addition, digit by digit"),
    ("tasks.translation", "Texts in, texts out"),
    ("tasks.dates", "Dates in ten written forms"),
    ("tasks.number_words", "Numbers in words"),
    ("tasks.text", "Text, character by character"),
    ("tasks.sources", "Where a text comes from"),
    ("tasks.language", "A small language and its rules"),
    ("tasks.grammar", "Its sentences, and how probable they are"),
    ("tasks.gaps", "Filling gaps, reading both ways"),
    ("tasks.forward_backward", "What a text with gaps still says of them, exactly"),
    ("tasks.images", "Pictures, cut into patches"),
    ("tasks.pictures", "Where a picture comes from"),
    ("tasks.held_out", "What training never sees"),
    ("checkpoint", "Save and resume"),
    ("checkpoint_file", "What is checked before a file is believed"),
    ("device", "CPU or GPU"),
    ("__main__", "Training without the app"),
)

head().header("The code", anchor=False)
st.markdown(
    "This is the model that runs on the Playground page: plain PyTorch, nothing hidden. "
    "Skim the fields of `ModelConfig` in `config` first, then read it in this order."
)
names = [name for name, _ in ORDER]
name = st.segmented_control(
    "File",
    names,
    default=names[0],
    required=True,
    format_func=lambda file: file.replace("__", r"\_\_"),  # not bold: it is Markdown
    key="file",
    label_visibility="collapsed",
    persist_state="session",
)
module = import_module(f"core.{name}")
source = inspect.getsource(module)
st.subheader(dict(ORDER)[name])
path = f"core/{name}".replace(".", "/") + ".py"
st.caption(f"{path}, {len(source.splitlines())} lines")
st.code(source, language="python", line_numbers=True)
