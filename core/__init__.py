"""A transformer from scratch, small enough to read in one sitting.

The model, in the order to read it: attention, masks, positions, blocks, model, trace, init.
Then how it learns: tasks, optimize, report, train, measure, generate. What can be chosen stands in
config, and how a choice is checked and written in knobs; tokens, device, checkpoint and __main__
(the command line) when you need them.
"""
