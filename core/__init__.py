"""A transformer from scratch; the model (about 800 lines) can be read in one sitting.

Skim the fields of `ModelConfig` in config first: they are the switches. Then read the model:
attention, masks, positions, blocks, tokens, model, trace, init. Then how it learns: tasks,
optimize, report, train, generate, cache, measure. How a choice is checked and written stands in
knobs; device, checkpoint and __main__ (the command line) when you need them.

Shapes stand in the signatures (jaxtyping): `Float[Tensor, "batch length d_model"]` has these three
axes, and an axis of one name has one size in the whole call. `#batch` may also be 1, `*batch` is
any number of axes, `_` an axis of any size, and "" no axis at all: a single number.
"""
