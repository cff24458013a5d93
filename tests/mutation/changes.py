"""The changes that fit a place of the source, as syntax trees."""

import ast
from collections.abc import Callable, Iterator
from typing import Any

COMPARISONS = {
    ast.Lt: [ast.LtE, ast.Gt], ast.LtE: [ast.Lt, ast.GtE], ast.Gt: [ast.GtE, ast.Lt], ast.GtE: [ast.Gt, ast.LtE],
    ast.Eq: [ast.NotEq], ast.NotEq: [ast.Eq], ast.In: [ast.NotIn], ast.NotIn: [ast.In], ast.Is: [ast.IsNot],
    ast.IsNot: [ast.Is],
}  # fmt: skip
ARITHMETIC = {
    ast.Add: [ast.Sub], ast.Sub: [ast.Add], ast.Mult: [ast.Div, ast.Add], ast.Div: [ast.Mult],
    ast.FloorDiv: [ast.Div, ast.Mult], ast.Mod: [ast.FloorDiv], ast.Pow: [ast.Mult], ast.BitAnd: [ast.BitOr],
    ast.BitOr: [ast.BitAnd], ast.BitXor: [ast.BitAnd], ast.LShift: [ast.RShift], ast.RShift: [ast.LShift],
}  # fmt: skip
NAMES = {
    "any": "all", "all": "any", "min": "max", "max": "min", "floor": "ceil", "ceil": "floor", "argmin": "argmax",
    "argmax": "argmin", "minimum": "maximum", "maximum": "minimum",
}  # fmt: skip


def changes(node: ast.AST) -> list[Callable[[Any], ast.AST]]:
    """Return the changes that fit a node; each is given a copy of it and returns what takes its place."""
    kinds: list[Callable[[Any], ast.AST]] = []
    if isinstance(node, ast.Compare):
        kinds = [_with("ops", [kind(), *node.ops[1:]]) for kind in COMPARISONS[type(node.ops[0])]]
    elif isinstance(node, (ast.BinOp, ast.AugAssign)) and not _text(node):
        kinds = [_with("op", kind()) for kind in ARITHMETIC.get(type(node.op), [])]
    elif isinstance(node, ast.BoolOp):
        kinds = [_with("op", ast.Or() if isinstance(node.op, ast.And) else ast.And())]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        kinds = [lambda same: same.operand]
    elif isinstance(node, ast.Constant):
        kinds = [_with("value", value) for value in _others(node.value)]
    elif isinstance(node, (ast.If, ast.IfExp, ast.While)):
        kinds = [_with("test", ast.UnaryOp(ast.Not(), node.test))]
    elif isinstance(node, ast.Raise) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        kinds = [lambda _: ast.Pass()]
    elif isinstance(node, (ast.Continue, ast.Break)):
        kinds = [lambda same: ast.Break() if isinstance(same, ast.Continue) else ast.Continue()]
    elif isinstance(node, ast.Call):
        kinds = _renamed(node.func)
    return kinds


def _with(name: str, value: Any) -> Callable[[Any], ast.AST]:
    def change(node: Any) -> ast.AST:
        setattr(node, name, value)
        return node  # type: ignore[no-any-return]

    return change


def _others(value: object) -> list[object]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1]
    return [2 * value if value else 1.0] if isinstance(value, float) else []


def _renamed(function: ast.expr) -> list[Callable[[Any], ast.AST]]:
    if isinstance(function, ast.Name) and function.id in NAMES:
        return [_with("func", ast.Name(NAMES[function.id]))]
    if isinstance(function, ast.Attribute) and function.attr in NAMES:
        return [_with("func", ast.Attribute(function.value, NAMES[function.attr]))]
    return []


def _text(node: ast.BinOp | ast.AugAssign) -> bool:
    sides = [node.value] if isinstance(node, ast.AugAssign) else [node.left, node.right]
    return any(isinstance(side, ast.JoinedStr) or isinstance(getattr(side, "value", None), str) for side in sides)


def places(tree: ast.AST, inside: str = "") -> Iterator[tuple[ast.AST, str]]:
    """Yield the nodes that can be changed, each with the function that it stands in; no annotations, no messages."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "exc", "keys", "type_comment"):
            continue
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, ast.AST) and not _typing_only(node):
                named = isinstance(node, (ast.FunctionDef, ast.ClassDef))
                within = f"{inside}.{node.name}".strip(".") if named else inside  # type: ignore[attr-defined]
                if changes(node):
                    yield node, inside
                yield from places(node, within)


def _typing_only(node: ast.AST) -> bool:
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.unparse(node.test)
    targets = getattr(node, "targets", [])
    # An alias of types, such as Block = tuple[int, int] | None, is an annotation by another name.
    return (
        bool(targets)
        and isinstance(node, ast.Assign)
        and isinstance(node.value, (ast.Subscript, ast.BinOp))
        and (isinstance(targets[0], ast.Name) and targets[0].id[:1].isupper() and not targets[0].id.isupper())
    )


def line_of(node: ast.AST) -> str:
    text = ast.unparse(ast.fix_missing_locations(node)).splitlines()[0]
    return text if len(text) <= 90 else f"{text[:87]}..."
