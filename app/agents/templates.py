"""Templates over what a run knows: sandboxed, and bounded in everything they can spend.

Law of this room: a template is user text that runs on the hub, so no template may hold it. Values are
plain JSON; only listed methods and filters exist (``template_filters``); every loop turn, call, filter
and text is charged to a :class:`~app.agents.template_budget.Meter`, and sizes are checked before they
are made. Rendering never switches greenlets. A missing key renders empty.
"""

from __future__ import annotations

import functools
import typing as t
from collections.abc import Callable, Mapping

import jinja2
from jinja2 import nodes
from jinja2.runtime import Context, LoopContext, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from app import encoding
from app.agents import template_filters, template_operators
from app.agents.template_budget import DEFAULT, Budget, Meter, Refused, current
from app.errors import RunError
from app.workflows import template_syntax
from app.workflows.template_syntax import TemplateRefused, braced, check, is_template, references, words

__all__ = ["Budget", "check", "references", "render", "render_value"]

_LOOP_FIELDS = words(
    "index index0 revindex revindex0 first last length depth depth0 previtem nextitem cycle changed"
)
_RESULT = "_result"
_CACHED = 512
_FILE = "<template>"


def render(source: str, variables: Mapping[str, t.Any], budget: Budget = DEFAULT) -> str:
    """``source`` as text.

    :param variables: ``input``, ``blocks``, ``vars`` and what the place adds (``loop``, ``args``).
    :raises RunError: ``template_failed``; the message has the line and the reason, never a value.
    """
    if not is_template(source):
        return source
    meter = Meter(budget)
    return str(_guarded(lambda: _text(source, variables, meter), source, meter))


def evaluate(expression: t.Any, variables: Mapping[str, t.Any]) -> t.Any:
    """The value of an expression, with or without its braces; what is no text is its own value.

    :raises RunError: ``template_failed``.
    """
    return render_value(braced(expression) if isinstance(expression, str) else expression, variables)


def render_value(value: t.Any, variables: Mapping[str, t.Any], budget: Budget = DEFAULT) -> t.Any:
    """``value`` with every text in it rendered. A text that is exactly one ``{{ expression }}`` keeps its type.

    Keys are not templates. The budget is for the whole value.

    :raises RunError: ``template_failed``.
    """
    return _value(value, variables, Meter(budget))


def _value(value: t.Any, variables: Mapping[str, t.Any], meter: Meter) -> t.Any:
    if isinstance(value, str):
        if not is_template(value):
            return value
        return _guarded(lambda: _native(value, variables, meter), value, meter)
    if isinstance(value, Mapping):
        return {key: _value(item, variables, meter) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_value(item, variables, meter) for item in value]
    return value


def _guarded(work: Callable[[], t.Any], source: str, meter: Meter) -> t.Any:
    token = current.set(meter)
    try:
        return work()
    except RunError:
        raise
    except Exception as error:
        raise RunError("template_failed", _message(error, source), detail=str(error)[:2000]) from None
    finally:
        current.reset(token)


def _message(error: Exception, source: str) -> str:
    """What went wrong without any value of the run: only our own sentences and jinja's on names are shown."""
    if isinstance(error, TemplateRefused):
        return f"A template cannot be rendered: {error}"
    line = _line(error, source)
    where = f"A template failed at line {line}" if line else "A template failed"
    if isinstance(error, (Refused, jinja2.UndefinedError)):
        return f"{where}: {error}"
    if isinstance(error, ZeroDivisionError):
        return f"{where}: division by zero"
    return (
        f"{where}: a value has the wrong type or form there ({type(error).__name__}); try the default filter"
    )


def _line(error: Exception, source: str) -> int | None:
    trace = error.__traceback__
    line = None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == _FILE:
            line = trace.tb_lineno
        trace = trace.tb_next
    template = _compiled(source)[0] if line is not None else None
    return template.get_corresponding_lineno(line) if template is not None and line is not None else None


def _text(source: str, variables: Mapping[str, t.Any], meter: Meter) -> str:
    template, _ = _compiled(source)
    chunks = []
    length = 0
    for chunk in template.root_render_func(template.new_context(dict(variables))):
        length += len(chunk)
        meter.fits(length)
        chunks.append(chunk)
    return encoding.clean_text("".join(chunks))


def _native(source: str, variables: Mapping[str, t.Any], meter: Meter) -> t.Any:
    expression = _compiled(source)[1]
    if expression is None:
        return _text(source, variables, meter)
    context = expression.new_context(dict(variables))
    for _ in expression.root_render_func(context):
        pass
    value = context.vars[_RESULT]
    if isinstance(value, str):
        return encoding.clean_text(value)
    return template_operators.settled(value)


@functools.lru_cache(maxsize=_CACHED)
def _compiled(source: str) -> tuple[jinja2.Template, jinja2.Template | None]:
    """The compiled template, and the compiled expression when it is nothing but one.

    :raises TemplateRefused: see ``template_syntax.inspect``.
    """
    whole = _compile(_metered(template_syntax.parse(source, _ENVIRONMENT)))
    tree = template_syntax.parse(source.strip(), _ENVIRONMENT)
    only = tree.body[0] if len(tree.body) == 1 else None
    if not isinstance(only, nodes.Output) or len(only.nodes) != 1:
        return whole, None
    expression = only.nodes[0]
    if isinstance(expression, nodes.TemplateData):
        return whole, None
    target = nodes.Name(_RESULT, "store", lineno=1)
    tree.body = [nodes.Assign(target, expression, lineno=1)]
    return whole, _compile(_metered(tree))


def _compile(tree: nodes.Template) -> jinja2.Template:
    tree.set_environment(_ENVIRONMENT)
    try:
        code = _ENVIRONMENT.compile(tree, filename=_FILE)
    except (jinja2.TemplateError, SyntaxError, RecursionError) as error:
        raise TemplateRefused(
            f"the template does not compile ({type(error).__name__}); simplify it"
        ) from None
    # A plain dict: jinja's own ChainMap is walked at every rendering and costs more than the rest of it.
    return jinja2.Template.from_code(_ENVIRONMENT, code, dict(_ENVIRONMENT.globals), None)


def _metered(tree: nodes.Template) -> nodes.Template:
    """The tree with every place that can spend without passing the environment led through a filter of ours."""
    for loop in list(tree.find_all(nodes.For)):
        loop.iter = _through("_turns", loop.iter, nodes.Const(_cost_of_turn(loop)))
    for compare in list(tree.find_all(nodes.Compare)):
        compare.expr = _through("_weigh", compare.expr)
        for operand in compare.ops:
            operand.expr = _through("_weigh", operand.expr)
    for item in list(tree.find_all(nodes.Getitem)):
        if isinstance(item.arg, nodes.Slice):
            item.node = _through("_sliced", item.node)
    for pair in list(tree.find_all(nodes.Pair)):
        pair.key = _through("_key", pair.key)
    return t.cast(nodes.Template, _Concats().visit(tree))


class _Concats(jinja2.visitor.NodeTransformer):
    """Turns ``a ~ b`` into a filter over both: jinja's own neither counts nor knows our form of values."""

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        """See the class."""
        self.generic_visit(node)
        return _through("_concat", nodes.List(node.nodes, lineno=node.lineno))


def _through(name: str, node: nodes.Node, *args: nodes.Expr) -> nodes.Expr:
    expression = t.cast(nodes.Expr, node)
    if isinstance(node, nodes.Const) and not args:
        return expression
    return nodes.Filter(expression, name, list(args), [], None, None, lineno=node.lineno)


def _cost_of_turn(loop: nodes.For) -> int:
    """Units one turn costs before anything in it is charged: its nodes and its literal text."""
    parts = sum(1 for _ in loop.find_all(nodes.Node))
    text = sum(len(data.data) for data in loop.find_all(nodes.TemplateData))
    return 1 + parts // 8 + Meter.units(text)


class _Environment(ImmutableSandboxedEnvironment):
    """Attributes are keys of mappings or listed methods; nothing else of Python can be reached."""

    intercepted_binops = frozenset(template_operators.OPERATORS)

    def getattr(self, obj: t.Any, attribute: str) -> t.Any:
        """``obj.attribute``: the key first, then a method that is listed for the type."""
        if isinstance(obj, Mapping):
            if attribute in obj:
                return obj[attribute]
        elif isinstance(obj, Undefined):
            return obj
        elif isinstance(obj, Namespace) or (isinstance(obj, LoopContext) and attribute in _LOOP_FIELDS):
            return super().getattr(obj, attribute)
        elif isinstance(obj, tuple) and attribute in getattr(type(obj), "_fields", ()):
            return getattr(obj, attribute)  # a group of groupby: grouper, list
        method = template_filters.method(obj, attribute)
        return self.undefined(obj=obj, name=attribute) if method is None else method

    def getitem(self, obj: t.Any, argument: t.Any) -> t.Any:
        """``obj[argument]``: a key or an index, never an attribute."""
        if isinstance(obj, Undefined):
            return obj
        if isinstance(argument, str) and isinstance(obj, tuple):
            return self.getattr(obj, argument)
        try:
            if isinstance(obj, Mapping):
                return obj[template_filters.key(argument)]
            if isinstance(obj, (str, list, tuple)) and isinstance(argument, int):
                return obj[argument]
        except (KeyError, IndexError):
            pass
        return self.undefined(obj=obj, name=argument)

    def call(self, context: Context, obj: t.Any, /, *args: t.Any, **kwargs: t.Any) -> t.Any:
        """Call one of the few things that may be called. Arguments are charged first."""
        kwargs.pop("_loop_vars", None)  # the compiler's own, for functions that ask for the context
        kwargs.pop("_block_vars", None)
        meter = current.get()
        meter.spend(1)
        for value in (*args, *kwargs.values()):
            meter.weigh(value)
        if isinstance(obj, template_filters.Method) or obj in (template_filters.make_range, Namespace):
            return obj(*args, **kwargs)
        if isinstance(obj, Undefined):
            obj()  # raises with the name
        owner = getattr(obj, "__self__", None)
        if isinstance(owner, LoopContext) and obj.__name__ in ("cycle", "changed"):
            return obj(*args, **kwargs)
        raise Refused("only methods of texts, lists and objects, range and namespace can be called")

    def call_binop(self, context: Context, operator: str, left: t.Any, right: t.Any) -> t.Any:
        """An arithmetic operator, after the size of its result was found to be small enough."""
        return template_operators.apply(operator, left, right, current.get())


@jinja2.pass_context  # which also keeps jinja from folding constants, so nothing is computed while compiling
def _finalize(context: Context, value: t.Any) -> str:
    text = value if isinstance(value, str) else template_operators.text(value)
    current.get().output(len(text))
    return text


def _make_environment() -> _Environment:
    environment = _Environment(
        undefined=jinja2.ChainableUndefined,
        finalize=_finalize,
        keep_trailing_newline=True,
        optimized=False,
        autoescape=False,  # what comes out is a prompt or JSON, never a page
        cache_size=0,
    )
    environment.filters.clear()
    environment.filters.update(t.cast("dict[str, t.Any]", template_filters.filters()))
    kept = template_filters.tests(t.cast("dict[str, t.Any]", dict(environment.tests)))
    environment.tests.clear()
    environment.tests.update(t.cast("dict[str, t.Any]", kept))
    environment.globals = {"range": template_filters.make_range, "namespace": Namespace}
    return environment


_ENVIRONMENT = _make_environment()
