"""Many modules made into one file that is read from top to bottom.

From a few lines that start something, every top-level definition of `core` that they need is
looked up in the sources as they are now, and what those need in turn; the rest stays out, and so
do the entries of a registry (`SCALES`, `POSITIONS` …) that are never asked for. Shapes become
comments. Where two modules use one name for different things, the earlier one's gets its module's
name in front.

The sources are edited, never printed anew from a syntax tree: comments and layout stay.
"""

import ast
import builtins
import inspect
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from functools import cached_property
from importlib import import_module
from itertools import accumulate
from typing import NamedTuple

PACKAGE = "core"
MAIN = "__main__"
WIDTH = 100  # of a heading

Definition = ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def bundle(main: str, values: Mapping[str, set[str]]) -> str:
    """One file that does what `main` does, without the package that `main` imports from.

    Args:
        main: the source of a module. Its docstring and its bare expressions come first in the
            file, the rest of it last.
        values: knob -> the values that it takes, as `repr` writes them. A registry that is
            indexed by a knob, or lists its choices, keeps the entries of these names only.

    Raises:
        ValueError: the sources hold something that cannot be put into one file.
    """
    return _Bundle(_Module(MAIN, main), values).text()


class _Origin(NamedTuple):
    """Where a name comes from: a module, and what it is called there ("": the module itself)."""

    module: str
    name: str

    @property
    def ours(self) -> bool:
        return self.module == MAIN or self.module.split(".")[0] == PACKAGE


class _Edit(NamedTuple):
    """A stretch of a module's source, in bytes, and what the file has in its place."""

    start: int
    end: int
    text: str


class _Annotation(NamedTuple):
    """An annotation that nobody needs at run time, and the edit that takes it away."""

    holder: ast.AST
    field: str
    node: ast.expr
    removal: _Edit


class _Module:
    """The source of a module, what its top-level names stand for, and how it is edited."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.source = text.encode()  # ast counts columns in bytes
        self.lines = self.source.splitlines(keepends=True)
        self.starts = [0, *accumulate(map(len, self.lines))]
        self.tree = ast.parse(text)
        self.edits: list[_Edit] = []
        self._names: dict[int, list[ast.Name]] = {}
        self._put_shapes_where_their_names_stand()

    @cached_property
    def imports(self) -> dict[str, _Origin]:
        found = {}
        for node in self.tree.body:
            if isinstance(node, ast.Import):
                found |= {i.asname or i.name: _Origin(i.name, "") for i in node.names}
            elif isinstance(node, ast.ImportFrom):
                found |= {i.asname or i.name: _Origin(node.module, i.name) for i in node.names}
        return found

    @cached_property
    def definitions(self) -> dict[str, ast.stmt]:
        nodes = [node for node in self.tree.body if isinstance(node, Definition)]
        return {name: node for node in nodes for name in _bindings([node])}

    @property
    def starters(self) -> list[ast.stmt]:
        """What runs when the module does: neither a definition, nor an import, nor a docstring."""
        body = self.tree.body[1 if ast.get_docstring(self.tree) else 0 :]
        return [n for n in body if not isinstance(n, Definition | ast.Import | ast.ImportFrom)]

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Where a node begins and ends in the source."""
        start = self.starts[node.lineno - 1] + node.col_offset
        return start, self.starts[node.end_lineno - 1] + node.end_col_offset

    def whole(self, node: ast.stmt) -> tuple[int, int]:
        """Where a statement begins and ends, with its decorators and the comment above it."""
        first = min(part.lineno for part in [node, *getattr(node, "decorator_list", [])]) - 1
        while first and self.lines[first - 1].startswith(b"#"):
            first -= 1
        return self.starts[first], self.starts[node.end_lineno]

    def blank_lines_before(self, node: ast.stmt) -> int:
        before = self.source[: self.whole(node)[0]]
        return min(2, len(before) - len(before.rstrip(b"\n")) - 1)

    def edit(self, start: int, end: int, text: str = "") -> None:
        self.edits.append(_Edit(start, end, text))

    def edited(self, node: ast.stmt) -> str:
        """A statement as the file has it. An edit inside another one is lost with it."""
        place, end = self.whole(node)
        pieces = []
        for edit in sorted(self.edits, key=lambda edit: (edit.start, -edit.end)):
            if place <= edit.start and edit.end <= end:
                pieces += [self.source[place : edit.start], edit.text.encode()]
                place = edit.end
        return b"".join([*pieces, self.source[place:end]]).decode().rstrip()

    def is_shape(self, node: ast.AST | None) -> bool:
        """Whether a node is a shape like `Float[Tensor, "batch length"]`."""
        if not (isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)):
            return False
        return self.imports.get(node.value.id, _Origin("", "")).module == "jaxtyping"

    def _put_shapes_where_their_names_stand(self) -> None:
        """`x: Stream` becomes what `Stream` is."""
        values = {name: getattr(node, "value", None) for name, node in self.definitions.items()}
        named = {name: value for name, value in values.items() if self.is_shape(value)}

        class Replace(ast.NodeTransformer):
            def visit_Name(self, node: ast.Name) -> ast.AST:
                known = isinstance(node.ctx, ast.Load) and node.id in named
                return ast.copy_location(deepcopy(named[node.id]), node) if known else node

        if named:
            Replace().visit(self.tree)

    def names(self, node: ast.AST) -> list[ast.Name]:
        """The names in a piece of code that mean something of this module, or of Python."""
        if id(node) not in self._names:
            self._names[id(node)] = list(_module_names(node))
        return self._names[id(node)]

    def drop(self, annotation: _Annotation) -> None:
        setattr(annotation.holder, annotation.field, None)
        self.edits.append(annotation.removal)
        self._names.clear()

    def annotations(self, node: ast.AST) -> Iterator[_Annotation]:
        """Those of arguments, results and variables; the fields of a class need theirs."""
        classes = (part for part in ast.walk(node) if isinstance(part, ast.ClassDef))
        fields = {id(field) for part in classes for field in part.body}
        for part in ast.walk(node):
            if isinstance(part, ast.FunctionDef) and part.returns:
                start, end = self.span(part.returns)
                arrow = self.source.rindex(b"->", 0, start)
                removal = _Edit(len(self.source[:arrow].rstrip()), end, "")
                yield _Annotation(part, "returns", part.returns, removal)
            elif isinstance(part, ast.arg) and part.annotation:
                start = self.span(part)[0] + len(part.arg.encode())
                removal = _Edit(start, self.span(part.annotation)[1], "")
                yield _Annotation(part, "annotation", part.annotation, removal)
            elif isinstance(part, ast.AnnAssign) and part.value and id(part) not in fields:
                removal = _Edit(self.span(part.target)[1], self.span(part.annotation)[1], "")
                yield _Annotation(part, "annotation", part.annotation, removal)


class _Bundle:
    """The statements that the main module needs, from all modules."""

    def __init__(self, main: _Module, values: Mapping[str, set[str]]) -> None:
        self.main = main
        self.modules: dict[str, _Module] = {}  # each after those that it imports
        self._load(main)
        self._cut_registries(values)
        self.reached: set[_Origin] = set()
        for node in main.starters:
            self._reach(main, node)
        self._drop_idle_annotations()
        self._shapes_to_comments()
        self.external = self._find_external()
        self._rename()

    def _load(self, module: _Module) -> None:
        for origin in module.imports.values():
            if origin.ours and origin.module not in self.modules:
                self._load(_Module(origin.module, inspect.getsource(import_module(origin.module))))
        self.modules[module.name] = module

    def origin(self, module: _Module, name: str) -> _Origin | None:
        """What a name of a module stands for, wherever it was defined; None for a builtin."""
        if name in module.definitions:
            return _Origin(module.name, name)
        found = module.imports.get(name)
        if found is None or not found.ours:
            return found
        origin = self.origin(self.modules[found.module], found.name)
        if origin is None:
            raise ValueError(f"{module.name} imports {found.name!r}, no part of {found.module}")
        return origin

    def origins(self, module: _Module, node: ast.AST) -> list[tuple[ast.Name, _Origin]]:
        """The names in a piece of code that some module defines, ours or not."""
        pairs = ((name, self.origin(module, name.id)) for name in module.names(node))
        return [(name, origin) for name, origin in pairs if origin]

    def statement(self, origin: _Origin) -> ast.stmt:
        return self.modules[origin.module].definitions[origin.name]

    def statements_of(self, module: _Module) -> list[ast.stmt]:
        """Those that go into the file."""
        kept = {id(self.statement(o)) for o in self.reached if o.module == module.name}
        kept |= {id(node) for node in self.main.starters}
        return [node for node in module.tree.body if id(node) in kept]

    def statements(self) -> Iterator[tuple[_Module, ast.stmt]]:
        for module in self.modules.values():
            yield from ((module, node) for node in self.statements_of(module))

    # --- what stays out -------------------------------------------------------------------

    def _cut_registries(self, values: Mapping[str, set[str]]) -> None:
        wanted = defaultdict(set)
        for module in self.modules.values():
            for name, knob in _registries(module.tree):
                if knob in values and (origin := self.origin(module, name)) and origin.ours:
                    wanted[origin] |= values[knob]
        for origin, keys in wanted.items():
            _cut(self.modules[origin.module], getattr(self.statement(origin), "value", None), keys)

    def _reach(self, module: _Module, node: ast.AST) -> None:
        """Note all that a statement needs to run."""
        idle = {id(part) for a in module.annotations(node) for part in ast.walk(a.node)}
        for name, origin in self.origins(module, node):
            if origin.ours and id(name) not in idle and origin not in self.reached:
                self.reached.add(origin)
                self._reach(self.modules[origin.module], self.statement(origin))

    def _drop_idle_annotations(self) -> None:
        """Those that speak of what is not there; a name for a type that is there may come along."""
        for module, node in list(self.statements()):
            for annotation in list(module.annotations(node)):
                origins = {origin for _, origin in self.origins(module, annotation.node)}
                missing = {origin for origin in origins if origin.ours} - self.reached
                if all(self._is_cheap(origin) for origin in missing):
                    self.reached |= missing
                else:
                    module.drop(annotation)

    def _is_cheap(self, origin: _Origin) -> bool:
        """Whether a definition is an assignment that needs nothing which is not there."""
        module, node = self.modules[origin.module], self.statement(origin)
        needed = {other for _, other in self.origins(module, node) if other.ours} - {origin}
        return isinstance(node, ast.Assign) and needed <= self.reached

    def _shapes_to_comments(self) -> None:
        """`x: Float[Tensor, "batch length"],` becomes `x: Tensor,  # [batch length]`."""
        for module, node in self.statements():
            found = defaultdict(list)  # by line
            for part in ast.walk(node):
                if module.is_shape(part):
                    found[part.end_lineno].append(part)
                    module.edit(*module.span(part), ast.unparse(part.slice.elts[0]))
                elif isinstance(part, ast.BinOp) and all(
                    map(module.is_shape, (part.left, part.right))
                ):
                    module.edit(*module.span(part), ast.unparse(part.left.slice.elts[0]))
            for line, shapes in found.items():
                shapes = [s.slice.elts[1].value.strip() for s in sorted(shapes, key=module.span)]
                comment = "  # " + ", ".join(f"[{shape}]" for shape in dict.fromkeys(shapes))
                end = module.starts[line] - 1
                if b"  #" not in module.lines[line - 1]:
                    module.edit(end, end, comment)

    # --- one name for one thing -----------------------------------------------------------

    def _find_external(self) -> dict[str, _Origin]:
        """What is imported from elsewhere, by the name that it has in the file."""
        found: dict[str, _Origin] = {}
        for module, node in self.statements():
            for name, origin in self.origins(module, node):
                if not origin.ours and found.setdefault(name.id, origin) != origin:
                    raise ValueError(f"{name.id} is both {found[name.id]} and {origin}")
        return {name: origin for name, origin in found.items() if origin.module != "jaxtyping"}

    def _names(self) -> dict[_Origin, str]:
        """The name of each definition in the file: its own, unless that means something else."""
        taken, names = {*dir(builtins), *self.external}, {}
        for module in reversed(self.modules):
            for origin in sorted(origin for origin in self.reached if origin.module == module):
                names[origin] = _prefixed(origin) if origin.name in taken else origin.name
                if names[origin] in taken:
                    raise ValueError(f"{origin}: {names[origin]} is taken too")
                taken.add(names[origin])
        return names

    def _rename(self) -> None:
        names = self._names()
        for module, node in self.statements():
            for name, origin in self.origins(module, node):
                if origin.ours and names[origin] != name.id:
                    module.edit(*module.span(name), names[origin])
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                start = module.source.index(b" " + node.name.encode(), module.span(node)[0]) + 1
                name = names[_Origin(module.name, node.name)]
                module.edit(start, start + len(node.name.encode()), name)

    # --- the text -------------------------------------------------------------------------

    def text(self) -> str:
        parts = [f'"""{ast.get_docstring(self.main.tree, clean=False)}"""', self._imports()]
        first = [node for node in self.main.starters if isinstance(node, ast.Expr)]
        parts += [self.main.edited(node) for node in first]
        sections = []
        for module in self.modules.values():
            if nodes := [node for node in self.statements_of(module) if node not in first]:
                heading = [] if module is self.main else [_heading(module), ""]
                sections.append("\n".join(heading) + _one_below_the_other(module, nodes))
        return "\n\n".join(parts) + "\n\n\n" + "\n\n\n".join(sections) + "\n"

    def _imports(self) -> str:
        """The standard library first, then the rest."""
        groups = defaultdict(set)
        from_module = defaultdict(set)
        for name, (module, what) in self.external.items():
            if what:
                from_module[module].add(what if what == name else f"{what} as {name}")
            else:
                alias = "" if module == name else f" as {name}"
                groups[_is_foreign(module)].add(f"import {module}{alias}")
        lines = {foreign: sorted(plain) for foreign, plain in groups.items()}
        for module in sorted(from_module):
            names = sorted(from_module[module], key=lambda n: (not n.isupper(), n.islower(), n))
            line = f"from {module} import {', '.join(names)}"
            lines.setdefault(_is_foreign(module), []).append(line)
        return "\n\n".join("\n".join(lines[foreign]) for foreign in sorted(lines))


def _is_foreign(module: str) -> bool:
    return module.split(".")[0] not in sys.stdlib_module_names


def _heading(module: _Module) -> str:
    """A module's docstring as a comment, without what it says about the package."""
    title = module.name.removeprefix(f"{PACKAGE}.").replace(".", "/")
    paragraphs = (ast.get_docstring(module.tree) or "").split("\n\n")
    words = "\n\n".join(text for text in paragraphs if f"{PACKAGE}." not in text)
    lines = [f"# {line}".rstrip() for line in words.splitlines()]
    return "\n".join([f"# --- {title} ".ljust(WIDTH - 1, "-"), "#", *lines])


def _one_below_the_other(module: _Module, nodes: list[ast.stmt]) -> str:
    """Statements with the blank lines that they have in the source."""
    text = ""
    for node in nodes:
        blank = module.blank_lines_before(node) if text else 0
        text += "\n" * (blank + 1) + module.edited(node)
    return text if module.name != MAIN else text.lstrip("\n")


def _prefixed(origin: _Origin) -> str:
    """`core.config`'s SCALES is CONFIG_SCALES."""
    module, bare = origin.module.rpartition(".")[2], origin.name.lstrip("_")
    underscores = origin.name[: -len(bare)]
    if bare.isupper():
        return f"{underscores}{module.upper()}_{bare}"
    return underscores + (module.title() + bare if bare[0].isupper() else f"{module}_{bare}")


def _registries(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Names that are indexed by a knob, or list its choices, and that knob.

    `SCALES[config.scale]`, and `scale: str = knob("none", choices=SCALES)` in a class.
    """
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Attribute(attr=knob)):
                yield name, knob
            case ast.AnnAssign(target=ast.Name(id=knob), value=ast.Call(keywords=keywords)):
                listed = (k.value for k in keywords if k.arg == "choices")
                names = (n for value in listed for n in ast.walk(value) if isinstance(n, ast.Name))
                yield from ((name.id, knob) for name in names)


def _cut(module: _Module, node: ast.AST | None, wanted: set[str]) -> None:
    """Leave out the entries of a dict or tuple whose constant key is not wanted."""
    if isinstance(node, ast.Dict):
        keys, ends = node.keys, node.values
    elif isinstance(node, ast.Tuple):
        keys = ends = node.elts
    else:
        return
    kept = [not isinstance(key, ast.Constant) or repr(key.value) in wanted for key in keys]
    if all(kept) or not any(kept):
        return
    opening, closing = module.span(node)[0] + 1, module.span(node)[1] - 1
    ends_at = [module.span(end)[1] for end in ends]
    # An entry begins behind the comma of the one before: the comment above it is a part of it.
    commas = [module.source.index(b",", end) + 1 for end in ends_at[:-1]]
    begins_at = [opening, *commas, closing]
    first = kept.index(True)
    if first:
        rest = module.source[begins_at[first] :]
        module.edit(opening, begins_at[first] + len(rest) - len(rest.lstrip(b" ")))
    for i in range(first + 1, len(kept)):
        if not kept[i]:
            module.edit(ends_at[i - 1], ends_at[i])
    if (
        isinstance(node, ast.Tuple)
        and sum(kept) == 1
        and b"," not in module.source[ends_at[-1] : closing]
    ):
        module.edit(closing, closing, ",")
    for name in ("keys", "values", "elts"):
        if hasattr(node, name):
            entries = zip(getattr(node, name), kept, strict=True)
            setattr(node, name, [entry for entry, keep in entries if keep])


def _bindings(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that a piece of code binds in its own scope, not in those within."""
    found, todo = set(), list(nodes)
    while todo:
        node = todo.pop()
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
                continue
            case ast.Lambda():
                continue
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                continue
            case ast.Name(id=name, ctx=ast.Store()) | ast.ExceptHandler(name=str(name)):
                found.add(name)
            case ast.alias(name=name, asname=asname):
                found.add(asname or name.split(".")[0])
        todo += ast.iter_child_nodes(node)
    return found


def _module_names(
    node: ast.AST, outer: frozenset[str] = frozenset(), own: frozenset[str] = frozenset()
) -> Iterator[ast.Name]:
    """The names in a piece of code that no scope inside it binds: those of the module.

    Args:
        outer: what the functions around it bind.
        own: what the class around it binds; the functions in a class do not see that.
    """
    inside: list[ast.AST] = []
    match node:
        case ast.Name():
            if node.id not in outer | own:
                yield node
            return
        case ast.FunctionDef():
            inside = node.body
        case ast.Lambda():
            inside = [node.body]
        case ast.ClassDef():
            inside = node.body
    at_hand = [child for child in ast.iter_child_nodes(node) if child not in inside]
    if isinstance(node, COMPREHENSIONS):
        own |= _bindings(generator.target for generator in node.generators)
    for child in at_hand:
        yield from _module_names(child, outer, own)
    if isinstance(node, ast.ClassDef):
        outer, own = outer, frozenset(_bindings(inside))
    elif inside:
        arguments = (part.arg for part in ast.walk(node.args) if isinstance(part, ast.arg))
        outer, own = outer | {*arguments, *_bindings(inside)}, frozenset()
    for child in inside:
        yield from _module_names(child, outer, own)
