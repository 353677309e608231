"""The ideas behind a transformer: what each of their pages measures, torch in and numbers out.

What a page draws is in `figures/`, the page itself in `app_pages/`, under the same name.
"""
