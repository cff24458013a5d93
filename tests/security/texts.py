"""What may stand in a tag, a file or a header that somebody else wrote: one table of texts and of changed fields."""

import json
from collections.abc import Iterator
from typing import Any

PATHS = (
    "os:system", "os.system", "evil:X", "evil.X", "sklearn.linear_m\u043edel:Ridge", "\uff53klearn.svm:SVC",
    "sklearn.svm:SVC\0",
)  # fmt: skip
DEEP = 100_000


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


TEXTS: list[str] = [
    *("", " ", "\n", "null", "true", "0", "-1", "1e999", "NaN", "-Infinity"),
    *("[]", "{}", '""', "[[]]", "[{}]", "{", "]"),
    *("[" * DEEP, "[" * DEEP + "]" * DEEP, '{"a":' * DEEP, '{"a":' * 900 + "1" + "}" * 900, "[" * 900 + "]" * 900),
    *("[" * 60 + "]" * 60, "1" + "0" * 5_000, '{"params": {"a": 1' + "0" * 5_000 + "}}", "x" * 300_000),
    *("\0", "\x1b[31mred\x1b[0m", "\u202eRTL", "\u200b", "é" * 5_000, '"\\ud800"', '{"\\ud800": 1}', "\ufeff{}"),
    *(f'"{path}"' for path in PATHS),
    *(json.dumps({"estimator": path}) for path in PATHS),
    *(json.dumps({"__class__": path, "data": {}}) for path in PATHS),
    *(json.dumps({"py/object": path}) for path in PATHS),
    *(json.dumps([path]) for path in PATHS),
    '{"__reduce__": ["os.system", ["touch os_system.ran"]]}',
    '{"$ref": "file:///etc/passwd"}',
    "gASVHQAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjAJpZJSFlFKULg==",
    "cos\nsystem\n(S'touch os_system.ran'\ntR.",
    "__import__('os').system('touch os_system.ran')",
    "{{ cycler.__init__.__globals__.os.system('id') }}",
    "${jndi:ldap://127.0.0.1/x}",
    "'; DROP TABLE tags; --",
    "../../../etc/passwd",
]

# Texts that are YAML: a short text may stand for a billion values, or for values that cannot be made.
DOCUMENTS: list[str] = [
    *(text for text in TEXTS if "[" * 100 not in text), "[" * DEEP,  # of which one takes half a second
    "params: !!int x", "params: !!float x", "params: !!bool x", "params: !!timestamp x", "params: !!binary x",
    'params: !!int ""', "params: 2026-13-45", "params: !!set {a, b}", "params: !!omap [a: 1]", "params: !!pairs [a: 1]",
    "a: &a [*a]\nparams: *a", "params: &a {b: *a}", "? [1]\n: 2", "? {a: 1}\n: 2", "1: 2", "null: 2",
    "%YAML 9.9\n--- {}",
    "a: 1\n---\nb: 2", "params: *nobody", "<<: [1]", "<<: &a {<<: *a}", "\t", "- - - - -", "&a &b c", "!", "!!", "!<>",
    *(f"strategy: {path}" for path in PATHS[:4]),
    *(f"estimator: {path}" for path in PATHS[:4]),
    *(f"params: {{splitter: '{path}'}}\nstrategy: FromSklearn" for path in PATHS[:4]),
    *(f"params: !!python/{kind}:{path} []" for kind in ("name", "object/apply", "object/new") for path in PATHS[:2]),
    "\n".join(["a0: &a0 [x]", *(f"a{i}: &a{i} [{f'*a{i - 1}, ' * 9}]" for i in range(1, 12)), "params: *a11"]),
    "\n".join(["a0: &a0 {}", *(f"a{i}: &a{i} {{b: *a{i - 1}, c: *a{i - 1}}}" for i in range(1, 40)), "params: *a39"]),
]  # fmt: skip

VALUES: list[Any] = [
    *(None, True, -1, 0, 10**400, 1e308, float("nan"), float("inf")),
    *("", "x", "os:system", "../../x", "\0", "x" * 100_000),
    *([], [None], ["x"], [1, "x"], {}, {"x": 1}, {"": {}}, nested(40), nested(900), {"a": nested(900)}),
]
DECISION = {
    "winner": "champion", "promote": True, "why": "so", "metric": "r2", "difference": 0.1, "low": 0.0, "high": 0.2,
    "p": 0.5, "level": 0.9, "spent": 0.05, "margin": 0.0, "information": 4.0, "bound": 1.6, "words": "", "rule": "",
}  # fmt: skip
SCORE = {"metric": "r2", "method": "pooled", "value": 0.5, "sd": 0.1, "low": 0.4, "high": 0.6}
MODEL = {
    "estimator": "sklearn.linear_model:Ridge", "params": {}, "task": "regression", "features": ["a"], "exclude": [],
    "text": "onehot", "metrics": ["r2"], "balance": None, "threshold": None,
    "target_transform": None, "weights": None,
}  # fmt: skip
SPEC = {
    "name": "x",
    "columns": {"key": ["id"]}, "types": {}, "strategy": "KFold", "params": {}, "seed": 0, "holdout": None,
    "key_encoding": None, "gates": {}, "ignore": {},
    "label_horizon": None, "on_immature": "wait", "missing_target": "stop", "on_new_rows": "fill",
    "missing_group": "refuse",
}  # fmt: skip

COLUMNS = {
    "key": ["id"], "target": "y", "group": "g", "entities": [], "stratify": [], "balance_on": [], "coordinates": None,
    "time": None, "label_end": None, "fold": None,
}  # fmt: skip


def changed(fields: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for name in fields:
        yield {each: value for each, value in fields.items() if each != name}
        for value in VALUES:
            yield fields | {name: value}
    yield fields | {"__class__": "os.system"}


HEADER = (
    "schema", "name", "version", "kind", "spec", "types", "fingerprint", "plan_id", "split_id", "parent_split_id",
    "algorithm", "n_rows", "n_splits", "counts", "parts", "state", "generations", "versions",
)  # fmt: skip


def forged_headers() -> list[tuple[str, Any]]:
    """Return (field, value) by which a header, its copy and its digests are forged together; a NaN is no JSON."""
    spec = [("spec", SPEC | {name: value}) for name in SPEC for value in VALUES[2::6]]
    return [*((name, value) for name in HEADER for value in VALUES[::2]), *spec]


def documents_of(fields: dict[str, Any]) -> list[str]:
    return [json.dumps(each) for each in changed(fields)]
