"""What whoever may write among shared results could try: models that run something, under every forged signature.

Run as a program it is the reader's process: it prints, as JSON, what each attempt came to and what an audit hook saw.
"""

import io
import json
import os
import sys
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

# What a skops file calls with the text "touch MARK" while it is read, by loader, module and name.
PAYLOADS = [
    ("FunctionNode", "posix", "system"),
    ("TypeNode", "evil", "X"),
    ("TypeNode", "sklearn.feature_selection._base", "attrgetter"),
    ("TypeNode", "sklearn.gaussian_process._gpr", "itemgetter"),
    ("TypeNode", "sklearn.ensemble._bagging", "partial"),
    ("OperatorFuncNode", "operator", "methodcaller"),
]


# Tried of every payload; the other forgeries of one, for what a model would run plays no part in them.
ANY_PAYLOAD = ("not signed", "of the model that was there", "by whoever reads it")


def evil(loader: str, module: str, name: str) -> bytes:
    import skops.io

    packed, harmless = io.BytesIO(), io.BytesIO(skops.io.dumps({"touch mark": 1}))
    schema = json.loads(zipfile.ZipFile(harmless).read("schema.json"))
    named = {"__loader__": loader, "__module__": module, "__class__": name}
    attrs = schema["key_types"] | {"__loader__": "TupleNode", "__class__": "tuple", "content": []}
    schema["key_types"]["content"] = [named | ({"attrs": attrs} if loader == "OperatorFuncNode" else {})]
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("schema.json", json.dumps(schema))
    return packed.getvalue()


def forgeries(fine: Any, other: Any, content: bytes) -> dict[str, Callable[[], Any]]:
    from evenfold.tasks.outcomes import FinalModel, KeptFile
    from evenfold.tasks.runtime.signing import sign

    place, outside = Path(fine.file.path), Path("outside/evil.skops").absolute()

    def laid(signature: str, content: bytes = content, path: Path = place, key: str = fine.key) -> FinalModel:
        place.unlink(missing_ok=True)
        (place if path == place else outside).write_bytes(content)
        name = fine.file.name if path == place else str(path)
        file = KeptFile.model_construct(name=name, sha256=sha256(content).hexdigest())
        return FinalModel(key=key, file=file, n_train=9, signature=signature)

    def by_another() -> FinalModel:
        os.environ["EVENFOLD_SIGNING_KEY"] = "k" * 32
        signature = sign("model", laid("").claim)
        del os.environ["EVENFOLD_SIGNING_KEY"]
        return laid(signature)

    def replaced(how: Callable[[], object]) -> FinalModel:
        laid(fine.signature)
        place.unlink()
        how()
        return fine

    cut = place.read_bytes()[:100]
    return {
        "not signed": lambda: laid(""),
        "made up": lambda: laid("0" * 64),
        "no letters of a signature": lambda: laid("\u202e\n"),
        "of the model that was there": lambda: laid(fine.signature),
        "a part of it": lambda: laid(fine.signature[:32]),
        "of another model": lambda: laid(other.signature),
        "by another key": by_another,
        "as a version": lambda: laid(sign("version", laid("").claim)),
        "another file in its place": lambda: replaced(lambda: place.write_bytes(content)),
        "cut short": lambda: replaced(lambda: place.write_bytes(cut)),
        "a link in its place": lambda: replaced(lambda: place.symlink_to(outside)),
        "a pipe in its place": lambda: replaced(lambda: os.mkfifo(place)),
        "a file elsewhere": lambda: laid(fine.signature, path=outside),
        "a device": lambda: fine.model_copy(update={"file": fine.file.model_copy(update={"name": "/dev/zero"})}),
        "a key that climbs": lambda: laid(fine.signature, path=outside, key="../../outside/evil"),
        "by whoever reads it": lambda: laid(sign("model", laid("").claim)),
    }


KEY = f"model/{'a' * 64}"


def fine() -> Any:
    return kept("a" * 64)


def other() -> Any:
    return kept("b" * 64)


def kept(key: str) -> Any:
    import skops.io
    from evenfold.manifests.store.header import sha256
    from evenfold.tasks.outcomes import FinalModel, KeptFile
    from evenfold.tasks.runtime.home import Home
    from evenfold.tasks.runtime.signing import sign
    from sklearn.linear_model import Ridge

    path = Home.here().shared / "models" / f"{key}.skops"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_bytes(skops.io.dumps(Ridge()))
    made = FinalModel(key=key, file=KeptFile(name=f"models/{key}.skops", sha256=sha256(path)), n_train=9)
    return made.model_copy(update={"signature": sign("model", made.claim)})


def attempts() -> list[tuple[str, str, list[str]]]:
    from evenfold.tasks.record.models.versions import load_final
    from evenfold.tasks.runtime.home import Home
    from evenfold.tasks.store import keep, ready

    seen: list[str] = []
    watched = ("os.system", "subprocess.", "os.exec", "os.posix_spawn", "socket.")

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        outside = event == "open" and any(part in str(arguments[0]) for part in ("outside", "/dev/zero"))
        if event.startswith(watched) or outside or (event == "import" and str(arguments[0]) == "evil"):
            seen.append(f"{event} {arguments[0] if arguments else ''}")

    sys.addaudithook(hook)

    def laid_under_key(final: Any) -> Any:
        own = f"model/{final.key}" if final.key == "b" * 64 else KEY
        keep(own, final)
        (Home.here().results / own).replace(Home.here().results / KEY)
        return ready(KEY)

    doors = {"results": laid_under_key, "loaded": load_final}
    told = []
    for payload in PAYLOADS:
        made = {**forgeries(fine(), other(), evil(*payload)), "another under its key": other}
        for name in made if payload == PAYLOADS[0] else ANY_PAYLOAD:
            fine()
            forged = made[name]
            for door, enter in doors.items():
                final = forged()
                seen.clear()
                try:
                    answer = "nothing" if enter(final) is None else "accepted"
                except Exception as error:
                    answer = f"{type(error).__name__}: {error}"
                told.append((f"{payload[2]}, {name}, {door}", answer, list(seen)))
    return told


if __name__ == "__main__":
    sys.path.insert(0, os.getcwd())
    Path("outside").mkdir()
    sys.stdout.write(json.dumps(attempts()))
