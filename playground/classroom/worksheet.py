"""A lesson on paper: a work sheet as HTML that prints well, and as Markdown.

Texts are written in a small part of Markdown: paragraphs, lists of lines that begin with `- ` or
`1. `, **bold**, *italic* and `code`. Whatever else stands there is shown as it is.
"""

import html
import re
from collections.abc import Sequence

from playground.classroom.lessons import Lesson, Step

ITEM = re.compile(r"(?:[-*]|\d+\.)\s+")
MARKS = (
    (re.compile(r"\*\*(\S(?:.*?\S)?)\*\*"), r"<b>\1</b>"),
    (re.compile(r"(?<![\w*])\*(\S(?:[^*]*?\S)?)\*(?![\w*])"), r"<i>\1</i>"),
)
CODE = re.compile(r"`([^`]+)`")

# A4 or letter: the printer's own paper. Nothing is fetched.
STYLE = """
@page { margin: 18mm; }
body { font: 11pt/1.45 Georgia, "Times New Roman", serif; color: #111; background: #fff;
  max-width: 44rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin: 0 0 0.2rem; }
h2 { font-size: 1.1rem; margin: 0 0 0.3rem; }
section { border-top: 1px solid #999; padding-top: 0.7rem; margin-top: 1.1rem;
  break-inside: avoid; }
p, ul, ol { margin: 0.35rem 0; }
small, .where { color: #444; font-size: 0.85rem; }
.where { font-family: monospace; overflow-wrap: anywhere; }
.space { height: 2.1em; border-bottom: 1px solid #888; }
.answer { border-left: 3px solid #0060a8; padding-left: 0.7rem; }
.name { margin: 0.9rem 0 0; }
@media print { body { margin: 0; padding: 0; max-width: none; } }
"""


def to_html(text: str) -> str:
    """A text as HTML, without any tag of its own."""
    return "".join(_block(block) for block in re.split(r"\n\s*\n", text.strip()) if block.strip())


def _block(block: str) -> str:
    items: list[str] = []
    before: list[str] = []
    for line in block.splitlines():
        line = line.strip()
        if begins := ITEM.match(line):
            items.append(line[begins.end() :])
        elif items:
            items[-1] += f" {line}"
        else:
            before.append(line)
    lead = f"<p>{_inline(' '.join(before))}</p>" if before else ""
    if not items:
        return lead
    kind = "ol" if re.search(r"^\s*\d+\.\s", block, re.MULTILINE) else "ul"
    return f"{lead}<{kind}>{''.join(f'<li>{_inline(item)}</li>' for item in items)}</{kind}>"


def _inline(text: str) -> str:
    """Code is taken apart first: stars in it are stars."""
    parts = CODE.split(text)
    return "".join(
        f"<code>{html.escape(part)}</code>" if number % 2 else _marked(html.escape(part))
        for number, part in enumerate(parts)
    )


def _marked(text: str) -> str:
    for pattern, tags in MARKS:
        text = pattern.sub(tags, text)
    return text


def as_html(lesson: Lesson, links: Sequence[str], answers: Sequence[str] | None = None) -> str:
    """The work sheet as a page of its own.

    Args:
        links: what each step opens; empty where there is nothing to open.
        answers: to each step, on the sheet of the teacher; None: space to write.
    """
    kind = "Answers" if answers is not None else "Work sheet"
    title = html.escape(f"{lesson.title}: {kind.lower()}")
    steps = "".join(
        _step(number, step, link, None if answers is None else answers[number - 1])
        for number, (step, link) in enumerate(zip(lesson.steps, links, strict=True), 1)
    )
    name = "" if answers is not None else '<p class="name">Name: ______________________________</p>'
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{STYLE}</style></head><body><header><h1>{html.escape(lesson.title)}</h1>"
        f"<small>{kind} · {html.escape(about(lesson))}</small>"
        f"{to_html(lesson.about)}{name}</header>{steps}</body></html>"
    )


def _step(number: int, step: Step, link: str, answer: str | None) -> str:
    parts = [f"<h2>{number}. {html.escape(step.title)}</h2>", to_html(step.text)]
    if link:
        parts.append(f'<p class="where">{html.escape(link)}</p>')
    if step.question:
        parts.append(f"<div><b>Question.</b> {to_html(step.question)}</div>")
    if step.look_for:
        parts.append(f"<div><b>Look for.</b> {to_html(step.look_for)}</div>")
    if answer:
        parts.append(f'<div class="answer"><b>Answer.</b> {to_html(answer)}</div>')
    elif answer is None and step.question:
        parts.append('<div class="space"></div>' * step.lines)
    return f"<section>{''.join(parts)}</section>"


def as_markdown(lesson: Lesson, links: Sequence[str], answers: Sequence[str] | None = None) -> str:
    """The same as Markdown; the arguments are those of `as_html`."""
    parts = [f"# {lesson.title}", about(lesson)]
    parts += [lesson.about] if lesson.about else []
    for number, (step, link) in enumerate(zip(lesson.steps, links, strict=True), 1):
        parts += [f"## {number}. {step.title}", step.text]
        parts += [f"`{link}`"] if link else []
        parts += [f"**Question.** {step.question}"] if step.question else []
        parts += [f"**Look for.** {step.look_for}"] if step.look_for else []
        if answers is None and step.question and step.lines:
            parts.append("\n\n".join(["_" * 60] * step.lines))
        elif answers is not None and answers[number - 1]:
            parts.append(f"**Answer.** {answers[number - 1]}")
    return "\n\n".join(parts) + "\n"


def about(lesson: Lesson) -> str:
    """How long it takes, and for whom it is."""
    return f"{lesson.minutes} minutes, for {lesson.for_whom}"
