"""Cuts of a graph and the values alive there (pure: names and indexes only, no model, no runtime).

The operators that must run are put in one topological order; these are the **steps**, and a cut lies between two of
them. Two kinds of operator are no steps but are **copied** into every block that reads them:

- constant ones (weights computed from initializers): they would otherwise cross the cut at every request;
- dequantisers: what crosses is then the small quantised tensor, and each block keeps its pairs whole.

Operators whose results reach no output are dropped. Building is linear in the size of the graph, and so is each
question about one position or one block.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from split_tool.order import depth_first_order, file_order, live_operators, producers


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One node of the graph as the cuts see it.

    Attributes:
        reads: Names of the values it reads, with those that its subgraphs capture; never the empty name.
        writes: Names of the values it makes; never the empty name.
        is_random: It gives another result at every run, so it must run exactly once.
        role: ``quantise`` and ``dequantise`` belong to the operator before and after them.
    """

    reads: tuple[str, ...]
    writes: tuple[str, ...]
    is_random: bool = False
    role: str = "compute"


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockParts:
    """What one block consists of.

    Attributes:
        operators: Indexes of its operators in run order, copies included.
        inputs: Values it reads that other blocks or the request give, in order of first use.
        outputs: Values it gives: crossing ones and model outputs.
        constants: Initializers it needs.
    """

    operators: tuple[int, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: tuple[str, ...]


class CutGraph:
    """The steps of a model in run order, and what is alive between them.

    Attributes:
        steps: Indexes of the operators in run order, without copied and dead ones.
    """

    def __init__(
        self,
        operators: Sequence[Operator],
        *,
        inputs: Iterable[str],
        constants: Iterable[str],
        outputs: Sequence[str],
    ) -> None:
        """Order the operators.

        Args:
            operators: All nodes of the graph, in any order.
            inputs: What a request gives.
            constants: Initializers, sparse ones too.
            outputs: What the model gives; an input, a constant, or the same name twice are allowed.

        Raises:
            ModelRefusedError: If there is a cycle.
        """
        self._operators = operators
        self._inputs = frozenset(inputs)
        self._initializers = frozenset(constants)
        self._outputs = tuple(dict.fromkeys(outputs))
        reads, writes = [op.reads for op in operators], [op.writes for op in operators]
        self._made_by = producers(writes)
        live = live_operators(reads, writes, self._outputs)
        listed = file_order(reads, writes, live)
        self._leaves: dict[str, tuple[str, ...]] = {}
        self._copied = self._find_copied(listed)
        self._take_order(listed)
        if (carried := self._total_crossings()) > 0:
            self._take_order(depth_first_order(reads, writes, self._outputs))
            if self._total_crossings() > 0.8 * carried:
                self._take_order(listed)

    @property
    def num_steps(self) -> int:
        """Number of steps; cuts lie at positions 1 to ``num_steps - 1``."""
        return len(self.steps)

    def live(self, position: int) -> tuple[str, ...]:
        """Values made before ``position`` and read after it, in the order they are made.

        Model inputs are not among them: a later block takes those from the request.
        """
        return tuple(
            name
            for index in self.steps[:position]
            for name in self._operators[index].writes
            if self._last_use.get(name, -1) >= position
        )

    def lifetimes(self) -> dict[str, tuple[int, int]]:
        """For each value that can cross a cut, the first and the last position that it crosses."""
        return {
            name: (position + 1, self._last_use[name])
            for position, index in enumerate(self.steps)
            for name in self._operators[index].writes
            if self._last_use.get(name, -1) > position
        }

    def parting_positions(self) -> frozenset[int]:
        """Positions that would part a quantiser from the operator whose result it takes: no cut belongs there."""
        change = [0] * (self.num_steps + 2)
        for position, index in enumerate(self.steps):
            operator = self._operators[index]
            if operator.role != "quantise":
                continue
            for name in self._leaves_of(operator.reads[0]):
                if name in self._step_of:
                    change[self._step_of[name] + 1] += 1
                    change[position + 1] -= 1
        parted, depth = set(), 0
        for position in range(self.num_steps + 1):
            depth += change[position]
            if depth > 0:
                parted.add(position)
        return frozenset(parted)

    def block(self, start: int, stop: int) -> BlockParts:
        """The block of steps ``start`` to ``stop - 1``; the last block also gives the constant outputs."""
        operators: list[int] = []
        inputs: dict[str, None] = {}
        constants: dict[str, None] = {}
        added: set[int] = set()
        own = {name for index in self.steps[start:stop] for name in self._operators[index].writes}
        for index in self.steps[start:stop]:
            self._add(index, own, added, operators, inputs, constants)
        outputs = [
            name
            for index in self.steps[start:stop]
            for name in self._operators[index].writes
            if self._last_use.get(name, -1) >= stop or name in self._outputs
        ]
        if stop == self.num_steps:
            for name in self._outputs:
                if name in self._initializers:
                    constants.setdefault(name)
                    outputs.append(name)
                elif self._made_by.get(name) in self._copied:
                    self._add(self._made_by[name], own, added, operators, inputs, constants)
                    outputs.append(name)
        if not outputs:
            outputs = list(self._outputs)
            inputs.update(dict.fromkeys(outputs))
        return BlockParts(
            operators=tuple(operators), inputs=tuple(inputs), outputs=tuple(outputs), constants=tuple(constants)
        )

    def _add(
        self,
        index: int,
        own: set[str],
        added: set[int],
        operators: list[int],
        inputs: dict[str, None],
        constants: dict[str, None],
    ) -> None:
        """Append an operator to a block, the copied ones that it needs before it."""
        stack = [(index, False)]
        while stack:
            index, is_ready = stack.pop()
            if index in added:
                continue
            if is_ready:
                added.add(index)
                operators.append(index)
                continue
            stack.append((index, True))
            for name in self._operators[index].reads:
                maker = self._made_by.get(name)
                if maker in self._copied:
                    stack.append((maker, False))
                elif name in self._initializers:
                    constants.setdefault(name)
                elif name not in own:
                    inputs.setdefault(name)

    def _find_copied(self, order: Sequence[int]) -> frozenset[int]:
        """Constant operators and dequantisers; fills ``_leaves``: what their results depend on beyond constants."""
        copied: set[int] = set()
        outputs = set(self._outputs)
        for index in order:
            operator = self._operators[index]
            leaves = tuple(dict.fromkeys(leaf for name in operator.reads for leaf in self._leaves_of(name)))
            is_constant = not leaves and not operator.is_random
            is_pair = operator.role == "dequantise" and not outputs.intersection(operator.writes)
            if is_constant or is_pair:
                copied.add(index)
                self._leaves.update(dict.fromkeys(operator.writes, leaves))
        return frozenset(copied)

    def _leaves_of(self, name: str) -> tuple[str, ...]:
        return () if name in self._initializers else self._leaves.get(name, (name,))

    def _take_order(self, order: Sequence[int]) -> None:
        self.steps = tuple(index for index in order if index not in self._copied)
        self._step_of = {name: at for at, index in enumerate(self.steps) for name in self._operators[index].writes}
        self._last_use: dict[str, int] = {}
        for at, index in enumerate(self.steps):
            for name in self._operators[index].reads:
                for leaf in self._leaves_of(name):
                    self._last_use[leaf] = at

    def _total_crossings(self) -> int:
        return sum(last - first + 1 for first, last in self.lifetimes().values())
