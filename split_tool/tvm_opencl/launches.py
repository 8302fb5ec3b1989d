"""The function ``main`` and what its callees launch, as plain data (``opencl_runner.plan.Launches``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from opencl_runner.plan import Copy, Launch, Launches, Memory
from split_tool.tvm_opencl.errors import UnsupportedByCompilerError

_AXES = ("x", "y", "z")


def record(
    main: Any, host: dict[str, Any], inputs: Sequence[str], outputs: Sequence[str]
) -> tuple[Launches, dict[int, np.ndarray]]:
    """Everything a run of the block does, and its weights by number of memory.

    Args:
        main: TVM's function that calls the others.
        host: The others by name, reduced to launches of kernels.
        inputs: Names for the parameters of ``main``.
        outputs: Names for what it returns.

    Raises:
        UnsupportedByCompilerError: If something is not a launch, a copy or a view.
    """
    recorder = _Recorder(host)
    parameters = [recorder.new(_memory_of(variable.ty)) for variable in main.params]
    for variable, number in zip(main.params, parameters, strict=True):
        recorder.values[variable] = number
    for block in main.body.blocks:
        for binding in block.bindings:
            recorder.bind(binding.var, binding.value)
    result = recorder.numbers_of(main.body.body)
    given = [recorder.in_plain_memory(number, {*parameters, *result[:place]}) for place, number in enumerate(result)]
    launches = Launches(
        memory=tuple(recorder.memory),
        inputs=dict(zip(inputs, parameters, strict=True)),
        outputs=dict(zip(outputs, given, strict=True)),
        constants=tuple(recorder.constants),
        steps=tuple(recorder.steps),
    )
    return launches, recorder.constants


class _Recorder:
    """Walks over bindings and collects memory, constants and steps."""

    def __init__(self, host: dict[str, Any]) -> None:
        self._host = host
        self.memory: list[Memory] = []
        self.constants: dict[int, np.ndarray] = {}
        self.steps: list[Launch | Copy] = []
        self.values: dict[Any, Any] = {}  # by TVM's variable: a number of memory, or a list of them

    def new(self, piece: Memory) -> int:
        """The number of one more piece of memory."""
        self.memory.append(piece)
        return len(self.memory) - 1

    def numbers_of(self, value: Any) -> list[int]:
        """Numbers of what a variable, tuple or constant consists of."""
        found = self._find(value)
        return found if isinstance(found, list) else [found]

    def in_plain_memory(self, number: int, taken: set[int]) -> int:
        """The same value where an output may be: a plain buffer that is nothing else as well."""
        piece = self.memory[number]
        if piece.scope == "global" and number not in taken and number not in self.constants:
            return number
        target = self.new(Memory(shape=piece.shape, dtype=piece.dtype))
        self.steps.append(Copy(source=number, target=target))
        return target

    def bind(self, variable: Any, value: Any) -> None:
        """Take in one binding of ``main``."""
        operator = getattr(getattr(value, "op", None), "name", None)
        if operator == "relax.call_tir":
            self.values[variable] = self._call(variable, value)
        elif operator == "relax.reshape":
            self.values[variable] = self._view(self._find(value.args[0]))
        elif operator in ("relax.to_vdevice", "relax.hint_on_device"):
            (source,) = self.numbers_of(value.args[0])
            target = self.new(_memory_of(variable.ty))
            self.steps.append(Copy(source=source, target=target))
            self.values[variable] = target
        elif operator is None:
            self.values[variable] = self._find(value)
        else:
            raise UnsupportedByCompilerError(f"TVM leaves {operator} to its own runtime")

    def _find(self, value: Any, scope: str = "global") -> Any:
        kind = type(value).__name__
        if kind == "Tuple":
            return [self._find(item) for item in value.fields]
        if kind == "TupleGetItem":
            return self._find(value.tuple_value)[value.index]
        if kind == "GenericConst":
            array = value.value.numpy()
            number = self.new(Memory(shape=array.shape, dtype=str(array.dtype), scope=str(scope)))
            self.constants[number] = array
            return number
        if value in self.values:
            return self.values[value]
        raise UnsupportedByCompilerError(f"TVM leaves a {kind} to its own runtime")

    def _view(self, source: int) -> int:
        """A reshaped value lies where it lay."""
        if self.memory[source].scope != "global":
            raise UnsupportedByCompilerError("a texture cannot be reshaped in place")
        return source

    def _call(self, variable: Any, call: Any) -> Any:
        """One call of a function: its own memory, its launches; the numbers of what it gives."""
        function = self._host[call.args[0].name_hint]
        arguments = call.args[1].fields
        results = _tensors_of(variable.ty)
        if len(function.params) != len(arguments) + len(results):
            raise UnsupportedByCompilerError(f"{call.args[0].name_hint} takes more than tensors")
        numbers = []
        for parameter, argument in zip(function.params, arguments, strict=False):
            number = self._find(argument, parameter.ty.storage_scope)
            if self.memory[number].scope != parameter.ty.storage_scope:
                raise UnsupportedByCompilerError(f"{call.args[0].name_hint} wants {parameter.ty.storage_scope}")
            numbers.append(number)
        given = [self.new(_memory_of(result)) for result in results]
        local = dict(zip(function.params, [*numbers, *given], strict=True))
        for statement in getattr(function.body, "seq", [function.body]):
            self._do(statement, local)
        return given if type(variable.ty).__name__ == "TupleType" else given[0]

    def _do(self, statement: Any, local: dict[Any, int]) -> None:
        """One statement of a host function; ``local`` gives the numbers of its variables."""
        kind = type(statement).__name__
        if kind == "AllocBuffer":
            local[statement.buffer] = self.new(_scratch(statement.buffer.ty))
        elif kind == "DeclBuffer" and statement.data.op.name == "tirx.buffer_data":
            local[statement.buffer] = local[statement.data.args[0]]
        elif kind == "DeclBuffer" and statement.data.op.name == "tirx.nd_mem_alloc_with_scope":
            width, height, layers = (int(size) for size in statement.data.args[2].args)
            local[statement.buffer] = self.new(
                Memory(shape=(layers, height, width, 4), dtype="float32", scope="global.texture-nhwc")
            )
        elif kind == "Evaluate" and statement.value.op.name == "tirx.call_ffi_kernel":
            self.steps.append(_launch(statement.value, local))
        else:
            raise UnsupportedByCompilerError(f"TVM wants the host to run {' '.join(str(statement).split())[:120]}")


def _launch(call: Any, local: dict[Any, int]) -> Launch:
    axes = list(call.attrs.launch_params)
    name, *arguments = call.args[: len(call.args) - len(axes)]
    if any(not axis.startswith(("blockIdx.", "threadIdx.")) for axis in axes):
        raise UnsupportedByCompilerError(f"{name.value} is launched with {axes}")
    sizes = {axis: int(size) for axis, size in zip(axes, call.args[len(call.args) - len(axes) :], strict=True)}
    x, y, z = (sizes.get(f"blockIdx.{axis}", 1) for axis in _AXES)
    of_group = tuple(sizes.get(f"threadIdx.{axis}", 1) for axis in _AXES)
    return Launch(
        kernel=str(name.value),
        arguments=tuple(local[argument.args[0]] for argument in arguments),
        groups=(x, y, z),
        threads=(of_group[0], of_group[1], of_group[2]),
    )


def _tensors_of(kind: Any) -> list[Any]:
    return list(kind.fields) if type(kind).__name__ == "TupleType" else [kind]


def _memory_of(kind: Any) -> Memory:
    scope = str(kind.vdevice.memory_scope) if kind.vdevice is not None else "global"
    try:
        shape = tuple(int(size) for size in kind.shape)
    except TypeError as error:
        raise UnsupportedByCompilerError(f"a value of open shape: {kind}") from error
    return Memory(shape=shape, dtype=str(kind.dtype), scope=scope)


def _scratch(kind: Any) -> Memory:
    """Memory of a function's own; vectors count as one more axis."""
    name, _, lanes = str(kind.dtype).partition("x")
    shape = (*(int(size) for size in kind.shape), int(lanes or 1))
    return Memory(shape=shape, dtype=name, scope=str(kind.storage_scope))


def share_memory(launches: Launches, constants: dict[int, np.ndarray]) -> tuple[Launches, dict[int, np.ndarray]]:
    """The same with one piece of memory for intermediates of equal kind and size that are never alive together."""
    fixed = {*launches.inputs.values(), *launches.outputs.values(), *launches.constants}
    last = {number: place for place, step in enumerate(launches.steps) for number in _numbers(step)}
    memory: list[Memory] = []
    place_of: dict[int, int] = {}
    free: dict[object, list[int]] = {}
    for number in sorted(fixed):
        place_of[number] = len(memory)
        memory.append(launches.memory[number])
    for place, step in enumerate(launches.steps):
        own = [number for number in dict.fromkeys(_numbers(step)) if number not in fixed]
        for number in own:
            if number not in place_of:
                available = free.get(_kind(launches.memory[number]))
                if available:
                    place_of[number] = available.pop()
                else:
                    place_of[number] = len(memory)
                    memory.append(launches.memory[number])
        for number in own:
            if last[number] == place:
                free.setdefault(_kind(launches.memory[number]), []).append(place_of[number])
    shared = Launches(
        memory=tuple(memory),
        inputs={name: place_of[number] for name, number in launches.inputs.items()},
        outputs={name: place_of[number] for name, number in launches.outputs.items()},
        constants=tuple(place_of[number] for number in launches.constants),
        steps=tuple(_renumbered(step, place_of) for step in launches.steps),
    )
    return shared, {place_of[number]: array for number, array in constants.items()}


def _kind(piece: Memory) -> object:
    return piece if piece.scope != "global" else piece.num_bytes


def _numbers(step: Launch | Copy) -> tuple[int, ...]:
    return (step.source, step.target) if isinstance(step, Copy) else step.arguments


def _renumbered(step: Launch | Copy, place_of: dict[int, int]) -> Launch | Copy:
    if isinstance(step, Copy):
        return Copy(source=place_of[step.source], target=place_of[step.target])
    return Launch(
        kernel=step.kernel,
        arguments=tuple(place_of[number] for number in step.arguments),
        groups=step.groups,
        threads=step.threads,
    )
