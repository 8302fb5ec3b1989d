"""What a node reads beyond its inputs: names captured by its subgraphs, functions it calls, and chance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto

FunctionKey = tuple[str, str, str]

RANDOM_OPERATORS = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}
)


def domain_of(domain: str) -> str:
    """The domain with the alias ``ai.onnx`` written as the empty default."""
    return "" if domain == "ai.onnx" else domain


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    """Bodies of the node (If, Loop, Scan and the like), not those nested deeper."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == AttributeProto.GRAPHS:
            yield from attribute.graphs


def nodes_within(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """The nodes and all nodes of their subgraphs, at any depth."""
    stack = list(nodes)
    while stack:
        node = stack.pop()
        yield node
        for body in subgraphs(node):
            stack.extend(body.node)


def captured_names(node: NodeProto) -> tuple[str, ...]:
    """Names that the node's subgraphs take from outside, at any depth, in order of first use.

    A name that a subgraph defines itself (input, initializer, node output) hides the outer one inside it.
    """
    names: dict[str, None] = {}
    for body in subgraphs(node):
        names.update(dict.fromkeys(_free_names(body)))
    return tuple(names)


def defined_names(graph: GraphProto) -> Iterator[str]:
    """Names that a graph defines itself: inputs, initializers and what its nodes make."""
    yield from (value.name for value in graph.input)
    yield from (tensor.name for tensor in graph.initializer)
    yield from (tensor.values.name for tensor in graph.sparse_initializer)
    yield from (name for node in graph.node for name in node.output if name)


def _free_names(graph: GraphProto) -> Iterator[str]:
    own = set(defined_names(graph))
    for node in graph.node:
        yield from (name for name in node.input if name and name not in own)
        yield from (name for name in captured_names(node) if name not in own)
    yield from (value.name for value in graph.output if value.name and value.name not in own)


def function_key(item: NodeProto | FunctionProto) -> FunctionKey:
    """Domain, name and overload: what identifies a model-local function."""
    name = item.op_type if isinstance(item, NodeProto) else item.name
    return domain_of(item.domain), name, item.overload


class Functions:
    """The functions of a model, by what calls them."""

    def __init__(self, functions: Iterable[FunctionProto]) -> None:
        """Index ``functions``; their order does not matter."""
        self._functions = {function_key(function): function for function in functions}

    def reached(self, nodes: Iterable[NodeProto]) -> list[FunctionProto]:
        """Functions that the nodes call, through subgraphs and through other functions, each once."""
        found: dict[FunctionKey, FunctionProto] = {}
        stack = list(nodes_within(nodes))
        while stack:
            key = function_key(stack.pop())
            if key in self._functions and key not in found:
                found[key] = self._functions[key]
                stack.extend(nodes_within(found[key].node))
        return [function for key, function in self._functions.items() if key in found]

    def is_random(self, node: NodeProto) -> bool:
        """True if the node, its subgraphs or the functions it calls draw random numbers."""
        called = [node, *(inner for function in self.reached([node]) for inner in function.node)]
        return any(draws_random(inner) for inner in nodes_within(called))


def draws_random(node: NodeProto) -> bool:
    """True if this node itself draws random numbers; a Dropout counts as soon as somebody can put it in training."""
    if domain_of(node.domain) not in ("", "com.microsoft"):
        return False
    if node.op_type in ("Dropout", "BiasDropout", "BitmaskDropout"):
        return any(node.input[2:])
    return node.op_type in RANDOM_OPERATORS
