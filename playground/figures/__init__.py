"""Figures: (arrays, tokens, labels) -> Plotly's JSON form, HTML or SVG. No Streamlit, no torch."""

from playground.figures.attention import STAGES, attention_map, attention_maps
from playground.figures.comparison import (
    Band,
    attention_side_by_side,
    comparison_chart,
    results_bars,
)
from playground.figures.health import entropy_chart, gradient_chart, spread_chart
from playground.figures.loss import Curve, loss_chart
from playground.figures.panels import empty_figure
from playground.figures.predictions import prediction_cards
from playground.figures.style import Figure, alt_text
from playground.figures.thumbnails import Layer, thumbnails

__all__ = [
    "STAGES",
    "Band",
    "Curve",
    "Figure",
    "Layer",
    "alt_text",
    "attention_map",
    "attention_maps",
    "attention_side_by_side",
    "comparison_chart",
    "empty_figure",
    "entropy_chart",
    "gradient_chart",
    "loss_chart",
    "prediction_cards",
    "results_bars",
    "spread_chart",
    "thumbnails",
]
