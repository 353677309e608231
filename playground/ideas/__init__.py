"""The ideas behind a transformer, a folder each.

`measure.py` takes torch in and gives numbers out, `figures.py` draws them, `page.py` tells of them.
"""
