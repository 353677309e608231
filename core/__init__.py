"""A transformer from scratch, small enough to read in one sitting.

Read in this order: config, masks, positions, attention, blocks, model, init, trace, tasks, optimize, train,
measure, generate; device and checkpoint when you need them.
"""
