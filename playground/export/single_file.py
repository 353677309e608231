"""The run as one Python file: the program in `single_file_template.py`, cut down to this run.

The template has every switch as an `if` on a constant. The run's values replace the
constants, an `if` that they decide gives way to the branch that is taken, and what nobody reads
then goes. A knob that was turned while the run went on decides nothing: its `if` stays, and the
training loop sets the constant at the same step.
"""

import ast
import inspect
import json
import platform
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from itertools import accumulate, product
from pathlib import Path
from typing import Any

import torch

from core.train import Change
from playground.export.sources import PARSING
from playground.runs.spec import Spec, changes_by_step, counted, value_text

TEMPLATE = Path(__file__).with_name("single_file_template.py")
TURNS = "    # Here knobs are turned.\n"  # this line of the template becomes the hot changes
DEFAULTS = {"VARY": False, "SOURCE": ""}  # of a task that lacks these knobs
WIDTH = 98  # of the text in the docstring

Edit = tuple[int, int, str]  # from this byte to that one, another text


def script(
    spec: Spec,
    changes: Sequence[Change] = (),
    steps: int | None = None,
    *,
    threads: int | None = None,
    device: str = "cpu",
) -> str:
    """The run as one Python file that needs nothing but PyTorch.

    On the CPU of the same machine it computes the same losses, digit for digit, and prints them.
    The visitor's own text is part of it.

    Args:
        spec: the run as it was started, before any of the changes (`Run.started`).
        changes: the hot changes made since; those after the last step are left out.
        steps: how many steps it makes; None is as many as the run was started for.
        threads: the intra-op threads that the run had; None is as many as this process uses.
        device: where it computes.

    Raises:
        ValueError: a change of a knob that is not hot, or to an illegal value; a run that no
            single file holds (`why_no_file`).
    """
    if why := why_no_file(spec):
        raise ValueError(why)
    steps = spec.training.steps if steps is None else steps
    threads = torch.get_num_threads() if threads is None else threads
    changes = [change for change in changes if change.step < steps]
    spec.replayed(changes)  # what no run can do never becomes code
    turned = {step: _constants(knobs) for step, knobs in changes_by_step(changes).items()}
    for constants in turned.values():
        if "MASK" in constants:  # the file has the mask that is in force
            constants["MASK"] = replace(spec.model, mask=constants["MASK"]).mask_rule
    names = {name for constants in turned.values() for name in constants}
    constants = DEFAULTS | {"TEXT": getattr(spec.task, "text", ""), "PADDED": spec.task.padded}
    for config in (spec.task, spec.model, spec.training):
        constants |= _constants(config.to_dict())
    constants |= {"D_FF": spec.model.d_hidden, "MASK": spec.model.mask_rule, "STEPS": steps}
    if not spec.model.attends:
        constants |= {"POSITION": "none", "NORM": "none"}  # whatever the knobs say
    constants |= {"DEVICE": device, "THREADS": threads}
    values = {name: [value] for name, value in constants.items()} | {"TURNED": [names]}
    for name, value in (item for later in turned.values() for item in later.items()):
        values[name].append(value)

    _, _, template = TEMPLATE.read_text(encoding="utf-8").partition('"""\n')  # its docstring
    with PARSING:
        code = _needed(_with_sources_of_core(_decided(template, values)))
        turns = _turns(turned, _reads(ast.parse(code)))
    above, _, below = _tidy(code).partition(TURNS)
    return _about(spec, threads) + _with_constants(above, constants) + turns + below


def why_no_file(spec: Spec) -> str:
    """Why a run cannot be written as one file; empty: it can be."""
    if spec.model.architecture == "vit":
        return "A run on pictures is not one file: its pictures are a file of their own."
    return ""


def _constants(knobs: Mapping[str, Any]) -> dict[str, Any]:
    """Knobs by the names that they have in the file."""
    names = {"steps": "PLANNED_STEPS"}  # STEPS is how many there are in the end
    return {names.get(name, name.upper()): value for name, value in knobs.items()}


def _about(spec: Spec, threads: int) -> str:
    """The docstring of the file."""
    title = f"{spec.task.title}, learnt by a transformer: one run of the playground, in one file."
    knobs = "Every knob is at its default."
    if unusual := spec.unusual():
        lines = (f"    {name} = {value_text(name, value)}" for name, value in unusual)
        knobs = "\n".join(["These knobs are not at their defaults:", "", *lines])
    promise = textwrap.fill(
        "It prints the loss of each step, in nats per scored token, and in the end what the model "
        f"says by then. The playground ran it with Python {platform.python_version()}, PyTorch "
        f"{torch.__version__} and {counted(threads, 'thread')}: with these, the CPU of the same "
        "machine gives the same digits.",
        WIDTH,
    )
    return f'"""{title}\n\n{knobs}\n\n{promise}\n"""\n'


# --- values into the template ---------------------------------------------------------------


def _literal(value: Any) -> str:
    """A value as code; what a visitor typed stays a string, whatever is in it."""
    if not isinstance(value, str):
        return repr(value)
    if "\n" not in value or not re.sub(r"[\n\t]", "", value).isprintable():
        return json.dumps(value, ensure_ascii=False)
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"""\\\n{escaped}"""'


def _with_constants(code: str, constants: Mapping[str, Any]) -> str:
    """Every `NAME = literal` has the value of this run, and keeps its comment."""

    def assigned(match: re.Match) -> str:
        start, name, comment = match.groups(default="")
        return f"{start}{_literal(constants[name])}{comment}" if name in constants else match[0]

    literal = r'"[^"]*"|[\d.]+|None|True|False'
    return re.sub(rf"(?m)^(([A-Z][A-Z0-9_]*) = )(?:{literal})(  # .*)?$", assigned, code)


def _with_sources_of_core(code: str) -> str:
    """What is imported from `core` is written down instead, as it is there."""
    for node in ast.parse(code).body:
        if isinstance(node, ast.ImportFrom) and node.module.startswith("core."):
            source, wanted = inspect.getsource(import_module(node.module)), set(_bound(node))
            found = [n for n in ast.parse(source).body if wanted & set(_bound(n))]
            text = source.splitlines()[found[0].lineno - 1 : found[-1].end_lineno]
            code = code.replace(ast.get_source_segment(code, node), "\n".join(text))
    return code


def _turns(turned: Mapping[int, Mapping[str, Any]], read: Counter[str]) -> str:
    """The hot changes as lines of the loop; without those of constants that nobody reads."""
    lines = ["    # Knobs that were turned during the run."]
    for step, constants in turned.items():
        sets = [
            f"        {name} = {_literal(constants[name])}" for name in constants if name in read
        ]
        lines += [f"    if step == {step:d}:", *sets] if sets else []
    return "".join(f"{line}\n" for line in lines) if len(lines) > 1 else ""


# --- the branches that are taken ------------------------------------------------------------


def _decided(code: str, values: Mapping[str, Sequence[Any]]) -> str:
    """The code without the conditions that `values` decide.

    Args:
        values: constant -> what it is in the course of the run.
    """
    while edits := list(_Conditions(code.encode(), values).edits()):  # from the outside inwards
        code = _edited(code, edits)
    return code


def _edited(code: str, edits: Iterable[Edit]) -> str:
    source = code.encode()  # ast counts columns in bytes
    for start, end, text in sorted(edits, reverse=True):
        source = source[:start] + text.encode() + source[end:]
    return source.decode()


class _Conditions:
    """What the values decide in a source, and the edits that follow from it."""

    def __init__(self, source: bytes, values: Mapping[str, Sequence[Any]]) -> None:
        self.source, self.values = source, values
        self.lines = source.decode().splitlines(keepends=True)
        self.starts = [0, *accumulate(len(line.encode()) for line in self.lines)]

    def edits(self, node: ast.AST | None = None) -> Iterator[Edit]:
        """The outermost ones."""
        node = node or ast.parse(self.source)
        kinds = {ast.If: self._statement, ast.IfExp: self._choice, ast.BoolOp: self._logic}
        text = kinds.get(type(node), lambda node: None)(node)
        if text is None:
            for child in ast.iter_child_nodes(node):
                yield from self.edits(child)
        elif isinstance(node, ast.If):
            yield self.starts[node.lineno - 1], self.starts[node.end_lineno], text
        else:
            yield *self._span(node), text

    def _decision(self, test: ast.expr) -> bool | None:
        """What a condition comes to; None where that changes during the run, or cannot be known."""
        if isinstance(test, ast.BoolOp):
            parts, decisive = map(self._decision, test.values), isinstance(test.op, ast.Or)
            found = set(parts)
            return decisive if decisive in found else None if None in found else not decisive
        names = [node.id for node in ast.walk(test) if isinstance(node, ast.Name)]
        if not set(names) <= set(self.values):
            return None
        code = compile(ast.Expression(test), "condition", "eval")
        cases = product(*(self.values[name] for name in names))
        found = {bool(eval(code, dict(zip(names, case, strict=True)))) for case in cases}
        return found.pop() if len(found) == 1 else None

    def _choice(self, node: ast.IfExp) -> str | None:
        decided = self._decision(node.test)
        return None if decided is None else self._text(node.body if decided else node.orelse)

    def _logic(self, node: ast.BoolOp) -> str | None:
        """`KNOWN and other` becomes `other`."""
        open_parts = [part for part in node.values if self._decision(part) is None]
        if len(open_parts) in (0, len(node.values)):
            return None
        return (" or " if isinstance(node.op, ast.Or) else " and ").join(
            map(self._text, open_parts)
        )

    def _statement(self, node: ast.If) -> str | None:
        """`if … elif … else` without the branches that are never taken."""
        branches = self._branches(node)
        tests = [test for test, _ in branches]
        if not {"True", "False"} & set(tests):
            return None
        if "True" in tests:
            certain = tests.index("True")
            branches[certain:] = [("", branches[certain][1])]
        branches = [(test, body) for test, body in branches if test != "False"]
        if not branches:
            return ""
        (first, text), *others = branches
        if not first:
            return re.sub("(?m)^    ", "", text)
        indent = " " * node.col_offset
        text = f"{indent}if {first}:\n{text}"
        for test, body in others:
            text += f"{indent}elif {test}:\n{body}" if test else f"{indent}else:\n{body}"
        return text

    def _branches(self, node: ast.If) -> list[tuple[str, str]]:
        """Each condition and what is below it: "True" or "False" if decided, "" for else."""
        decided = self._decision(node.test)
        test = self._text(node.test) if decided is None else str(decided)
        found = [(test, self._block(node.test.end_lineno, node.body))]
        match node.orelse:
            case []:
                return found
            case [ast.If() as other] if self._text(other).startswith("elif"):
                return found + self._branches(other)
        header = node.orelse[0].lineno
        while self.lines[header - 1].strip() != "else:":
            header -= 1
        return [*found, ("", self._block(header, node.orelse))]

    def _block(self, header: int, body: list[ast.stmt]) -> str:
        return "".join(self.lines[header : body[-1].end_lineno])

    def _span(self, node: ast.expr) -> tuple[int, int]:
        start = self.starts[node.lineno - 1] + node.col_offset
        return start, self.starts[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.expr) -> str:
        start, end = self._span(node)
        return self.source[start:end].decode()


# --- what nobody reads ----------------------------------------------------------------------


def _bound(node: ast.stmt) -> list[str]:
    """The names that an import or a definition gives a meaning."""
    match node:
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return [alias.name.partition(".")[0] for alias in names]
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign(targets=[target]):
            return [part.id for part in ast.walk(target) if isinstance(part, ast.Name)]
    return []


def _reads(tree: ast.AST) -> Counter[str]:
    names = (node for node in ast.walk(tree) if isinstance(node, ast.Name))
    return Counter({name.id for name in names if isinstance(name.ctx, ast.Load)})


def _needed(code: str) -> str:
    """The code without imports and definitions that no other statement reads."""
    while True:
        body, lines = ast.parse(code).body, code.splitlines(keepends=True)
        reads = sum(map(_reads, body), Counter())
        for node in reversed(body):
            own = _reads(node)
            idle = {name for name in _bound(node) if reads[name] == own[name]}
            if idle and idle == set(_bound(node)):
                del lines[_first_line(node, lines) : node.end_lineno]
            elif idle and isinstance(node, ast.ImportFrom):
                node.names = [alias for alias in node.names if alias.name not in idle]
                lines[node.lineno - 1 : node.end_lineno] = [ast.unparse(node) + "\n"]
        if "".join(lines) == code:
            return code
        code = "".join(lines)


def _first_line(node: ast.stmt, lines: Sequence[str]) -> int:
    """Where a statement begins, with its decorators and the comment above it."""
    first = min(part.lineno for part in [node, *getattr(node, "decorator_list", [])]) - 1
    while lines[first - 1].startswith("# ") and not lines[first - 1].startswith("# ---"):
        first -= 1
    return first


def _tidy(code: str) -> str:
    """Blank lines as `ruff format` has them, and no heading without anything below."""
    code = re.sub(r"(?m)^(# --- .*\n)\s*(?=# --- )", "", code)
    code = re.sub(r"\n{3,}", "\n\n", code)
    code = re.sub(r"(?m)((?:def|class) .*:\n|else:\n)\n", r"\1", code)  # none below a header
    code = re.sub(r"\n\n(?=# --- |def |class |@)", "\n\n\n", code)  # two above a definition
    code = re.sub(r"(?m)(^ .*\n)\n(?=\w|#)", r"\1\n\n", code)  # and two below
    return re.sub(r"(?m)^(# --- .*\n)\n+", r"\1", code)
