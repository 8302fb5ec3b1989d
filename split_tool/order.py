"""Topological orders of operators (pure): the file's own, or depth first from the outputs.

Every walk is iterative and visits each edge once: 5,000 operators in a row or 2^40 paths cost the same as any other
graph of that size.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from split_tool.errors import ModelRefusedError


def producers(writes: Sequence[Sequence[str]]) -> dict[str, int]:
    """Index of the operator that makes each value."""
    return {name: index for index, names in enumerate(writes) for name in names}


def live_operators(reads: Sequence[Sequence[str]], writes: Sequence[Sequence[str]], outputs: Sequence[str]) -> set[int]:
    """Operators whose results reach an output; the others never need to run."""
    made_by = producers(writes)
    stack = [made_by[name] for name in outputs if name in made_by]
    live = set(stack)
    while stack:
        for name in reads[stack.pop()]:
            if name in made_by and (index := made_by[name]) not in live:
                live.add(index)
                stack.append(index)
    return live


def file_order(reads: Sequence[Sequence[str]], writes: Sequence[Sequence[str]], live: set[int]) -> list[int]:
    """The live operators as the file lists them; where that is no topological order, the nearest one that is.

    Raises:
        ModelRefusedError: If there is a cycle; the message names the values on it.
    """
    made_by = producers(writes)
    missing = {
        index: len({made_by[name] for name in reads[index] if name in made_by and made_by[name] in live})
        for index in live
    }
    readers: dict[int, set[int]] = {index: set() for index in live}
    for index in live:
        for name in reads[index]:
            if name in made_by and made_by[name] in live:
                readers[made_by[name]].add(index)
    ready = [index for index, count in missing.items() if count == 0]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for reader in readers[index]:
            missing[reader] -= 1
            if missing[reader] == 0:
                heapq.heappush(ready, reader)
    if len(order) < len(live):
        names = _cycle(reads, made_by, live - set(order))
        shown = " -> ".join(repr(name) for name in names[:6]) + (" -> ..." if len(names) > 6 else "")
        raise ModelRefusedError(f"the graph has a cycle through {shown}: repair the model, no order can run it")
    return order


def depth_first_order(
    reads: Sequence[Sequence[str]], writes: Sequence[Sequence[str]], outputs: Sequence[str]
) -> list[int]:
    """The live operators, branch by branch: each comes right after the last of what it reads.

    The graph must have no cycle (``file_order`` says so first).
    """
    made_by = producers(writes)
    done: set[int] = set()
    order: list[int] = []
    for output in outputs:
        if output not in made_by:
            continue
        stack = [(made_by[output], False)]
        while stack:
            index, is_finished = stack.pop()
            if is_finished:
                order.append(index)
                continue
            if index in done:
                continue
            done.add(index)
            stack.append((index, True))
            stack.extend(
                (made_by[name], False)
                for name in reversed(reads[index])
                if name in made_by and made_by[name] not in done
            )
    return order


def _cycle(reads: Sequence[Sequence[str]], made_by: dict[str, int], stuck: set[int]) -> list[str]:
    """Names along one cycle; ``stuck`` are the operators that never became ready."""
    index = min(stuck)
    path: list[str] = []
    seen: dict[int, int] = {}
    while index not in seen:
        seen[index] = len(path)
        name = next(name for name in reads[index] if name in made_by and made_by[name] in stuck)
        path.append(name)
        index = made_by[name]
    names = path[seen[index] :]
    return [*reversed(names), names[-1]]
