"""The source of what runs: the right lines, and never two threads in the parser."""

import ast
import inspect
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from core.attention import SelfAttention, attention
from core.blocks import FeedForward
from helpers import spec_for
from playground.export import single_file, sources
from playground.export.sources import source_of
from playground.runs.spec import Spec


def test_the_source_is_that_of_the_file():
    found = source_of(attention)
    assert found.path == "core/attention.py"
    lines = (sources.ROOT / found.path).read_text().splitlines(keepends=True)
    assert lines[found.line - 1].startswith("def attention(")
    assert found.text in "".join(lines)


def test_many_threads_never_parse_at_the_same_time(monkeypatch):
    """Python 3.11 raises SystemError now and then where they do."""
    parse, busy, together = ast.parse, threading.Semaphore(1), []

    def watched(*arguments, **options):
        if not busy.acquire(blocking=False):
            together.append(arguments)
            return parse(*arguments, **options)
        try:
            time.sleep(0.001)  # others would come in between
            return parse(*arguments, **options)
        finally:
            busy.release()

    monkeypatch.setattr(ast, "parse", watched)
    items = [attention, SelfAttention, FeedForward, Spec, single_file.script]

    def ask(i: int) -> str:
        if i % 10 == 0:
            return single_file.script(spec_for(seed=i))
        source_of.cache_clear()
        return source_of(items[i % len(items)]).text

    with ThreadPoolExecutor(8) as threads:
        texts = list(threads.map(ask, range(80)))
    assert all(texts) and not together
    assert source_of(Spec).text == inspect.getsource(Spec)
