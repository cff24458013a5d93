"""The request of a flow: one frozen object, checked at the door and passed on, with Prefect or without."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, ClassVar, get_type_hints

from evenfold.estimates import ModelSpec
from evenfold.estimates.models.problem import predicts_classes
from evenfold.manifests import SplitSpec, explain, from_anywhere, read_manifest, specification
from evenfold.manifests.plan import check_columns, default_strategy
from evenfold.splitters.errors import EvenfoldError, SplitError, listed, verb
from evenfold.tasks import Home, data_reference, parameters, requests as groups
from evenfold.tasks.plans import require_splittable
from evenfold.tasks.work import check_model
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

_NAMES = vars(parameters) | {kind.__name__: kind for kind in (SplitSpec, ModelSpec)}


class Request(BaseModel):
    """The request of a flow: each of its parameters, and the specification and the recipe that they come to."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    if TYPE_CHECKING:  # the parameters of the flow

        def __getattr__(self, name: str) -> Any: ...

    declared: ClassVar[Callable[..., Any]]  # the function that declares the flow
    signature: ClassVar[inspect.Signature]  # of the flow, with all that is said of each parameter
    readable: ClassVar[inspect.Signature]  # with the types alone

    @classmethod
    @cache
    def to(cls, declared: Callable[..., Any]) -> type[Request]:
        """Return the class of the requests of the flow that a function declares."""
        signature = groups.signature_of(declared)
        parameters = signature.parameters.values()
        holder = type("_", (), {"__annotations__": {p.name: p.annotation for p in parameters}})
        # Types of other rooms are looked up here.
        whole, bare = (get_type_hints(holder, _NAMES, include_extras=extras) for extras in (True, False))
        fields: Any = {p.name: (whole[p.name], ... if p.default is p.empty else p.default) for p in parameters}
        request_type = create_model(declared.__name__, __base__=cls, **fields)
        request_type.declared = declared
        request_type.signature, request_type.readable = (
            signature.replace(parameters=[p.replace(annotation=kinds[p.name]) for p in parameters])
            for kinds in (whole, bare)
        )
        return request_type

    @classmethod
    def called(cls, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Request:
        """Return the request of a call; SplitError or ModelError for bad input, TypeError as Python's.

        Unknown names are refused with the rest. A frame becomes a file, for parameters travel as JSON.
        """
        bound = inspect.signature(cls.declared).bind_partial(*args, **kwargs).arguments
        arguments = bound.pop("fields", {}) | bound
        if "data" in arguments:
            arguments["data"] = data_reference(arguments["data"], Home.here())
        return cls.read(arguments)

    @classmethod
    def read(cls, fields: Mapping[str, object]) -> Request:
        """Return a request with every parameter as the flow takes it; raises SplitError or ModelError for bad ones."""
        try:
            return cls(**fields)
        except ValidationError as error:
            for problem in error.errors():
                cause = problem.get("ctx", {}).get("error")
                if isinstance(cause, EvenfoldError):
                    raise cause from None
            raise SplitError(explain(error, "the request", cls)) from None

    @property
    def parameters(self) -> dict[str, Any]:
        """Each parameter by its name."""
        return {name: getattr(self, name) for name in type(self).model_fields}

    def of(self, group: type) -> dict[str, Any]:
        """Return the parameters that are fields of a group."""
        return {name: value for name, value in self.parameters.items() if name in group.__annotations__}

    def given(self, group: type) -> list[str]:
        """Return which fields of a group are asked for: neither empty nor as they are by default."""
        own = type(self).model_fields
        return [name for name, value in self.of(group).items() if value != own[name].default and (value or value == 0)]

    @cached_property
    def specification(self) -> SplitSpec:
        """The specification, with the fields put over it; without a strategy, that of classes for a model of them."""
        spec = specification(self.data, self.spec, **self.of(groups.SpecFields))
        target_alone = spec.strategy is None and spec.columns.shared_out == [spec.columns.target]
        if target_alone and "model" in self.parameters and predicts_classes(self.recipe):
            return spec.model_copy(update={"strategy": default_strategy(spec, lambda _: False)})
        return spec

    @cached_property
    def recipe(self) -> ModelSpec:
        """The recipe, with the fields put over it that are given: all but None, also what is empty."""
        fields = self.of(groups.RecipeFields)
        params, importance = fields.pop("model_params"), self.parameters.get("importance", "auto")
        fields |= {"params": params, "importance": None if importance == "auto" else importance}
        return ModelSpec.of(self.model).with_fields(**fields)


def checked(request: Request) -> tuple[str, ModelSpec]:
    """Raise SplitError or ModelError for bad input; return what the split is called, and the recipe for its target."""
    require_used(request)
    data, fields = request.data, request.parameters
    manifest = read_manifest(request.manifest) if fields.get("manifest") else None
    spec = manifest.spec if manifest else request.specification
    if manifest is None:
        check_columns(data, spec)
    recipe, _ = check_model(data, spec, request.recipe).judged_by(fields.get("metric"))
    locks = manifest.in_use.locked.size if manifest else require_splittable(spec, from_anywhere(data)).locks
    if fields.get("on") == "holdout" and not locks:
        raise SplitError("nothing is locked, so there is no holdout to look at; split with one (--holdout 0.2).")
    return spec.name, recipe


def require_used(request: Request) -> None:
    """Raise SplitError for what is given where nothing is done with it, and for a look without a reason."""
    fields, fields_in = request.parameters, request.given
    manifest, many, looks = fields.get("manifest"), fields.get("by"), fields.get("on") == "holdout"
    reason, grows = fields.get("reason", "").strip(), fields.get("retrain")  # of a plan, which takes the fields of both
    alone = [name for name in fields_in(groups.EvaluateFields) if name not in groups.RetrainFields.__annotations__]
    of_folds = fields_in(groups.RecordFields)
    of_one = [*fields_in(groups.LookFields), *(name for name in of_folds if name != "run_label")]
    of_split = [*(["spec"] if request.spec else []), *fields_in(groups.SpecFields)]
    of_asking = [name for name in fields_in(groups.DecideFields) if name in ("ask_above", "answer_within")]
    asks = fields.get("on_unclear") == "ask" and fields.get("gates") is not False
    unused = {
        "a retraining (retrain=True)": alone if grows else [],
        "an evaluation (retrain=False)": fields_in(groups.DecideFields) if grows is False else [],
        "many segments (by)": of_one if many else [],
        "a split that is decided now": ["rows"] if fields.get("rows") == "known" and not manifest else [],
        "a split that is there (manifest)": of_split if manifest else [],
        "a look at the holdout (on='holdout')": of_folds if looks else [],
        "the folds (on='folds')": ["reason"] if reason and not looks else [],
        "a retraining that asks nobody (on_unclear='ask' does, with gates)": [] if asks else of_asking,
    }
    for what, names in unused.items():
        if names:
            are, them = verb(len(names), "is", "are"), verb(len(names), "it", "them")
            raise SplitError(f"{listed(names, most=99)} {are} of no use for {what}; leave {them} out.")
    if looks and not reason:
        raise SplitError("a look at the holdout needs a reason, which is recorded; pass reason (--reason).")
