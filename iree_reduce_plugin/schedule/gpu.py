"""The schedule for SIMT targets: one general form for every layout. Each stage of the rewrite is one method, in order.

    whole_tiles      pad the loops to whole tiles where they are not (a shape device: nothing is read from the padding)
    workgroup        rows -> workgroups
    steps            K -> steps of S * L * E columns; accumulators [rows, S, L*E], partials [rows, S], the result [rows]
    subgroup_basis   the partials -> subgroups
    lane_basis       the partials -> lanes; each holds `thread` elements
    step_loop        the loop over the steps, and what a thread reads of one
    merge            the partials of the subgroups -> the result, through workgroup memory
    crop             rows past the end are not stored
    combine          a thread's accumulators -> its subgroup's partial
    vectors          accumulators in registers
    threads          memory, thread ids, the barrier

Source of the form: IREE PR #19596 (partial reductions across subgroups), written as nested foralls.
"""

from __future__ import annotations

from iree.compiler import ir
from iree.compiler.dialects import linalg, tensor

from ..job import Job
from ..mlir import DYNAMIC, constant, element_type, scalar_attribute, tensor_type
from . import transform_ops as t
from .functions import function
from .gpu_combine import cropped_rows, write_combine
from .gpu_loads import write_loads
from .gpu_short_vectors import cut, held_cuts, merge_cuts
from .start import inline_start, write_start
from .workgroups import EPILOGUE, GENERIC, to_workgroups

INSERT = "tensor.parallel_insert_slice"
TIDY_SLICES = (
    "tensor.bubble_up_extract_slice",
    "tensor.merge_consecutive_insert_extract_slice",
    "linalg.swap_extract_slice_with_fill",
    "canonicalization",
)
START, STEP, LAST_STEP, LANE, SUBGROUP = "start", "step", "last_step", "lane", "subgroup"


class GpuSchedule:
    """Writes the lowering of one reduction; `functions` are the payload functions it inlines."""

    def __init__(self, job: Job):
        layout = job.layout
        if layout is None:
            raise ValueError("a schedule needs a tuning")
        self.problem, self.layout, self.target = job.problem, layout, job.target
        self.k = 1 if layout.rows else 0  # position of the reduced loop
        self.subgroups = layout.columns.subgroups
        self.padded = layout.row_tail or layout.column_tail
        self.epilogue = job.problem.has_epilogue
        self.flat = layout.columns.size == 1  # one column a step: nothing to split, fold or combine

    def write_functions(self, module: ir.Module) -> None:
        write_start(module, self.problem)
        if not self.flat:
            write_combine(module, self.problem, self.layout, self.target)
        if self.padded:
            write_loads(module, self.problem, self.layout, self.target)
        if self.epilogue and self.layout.row_tail:
            rows = [self.layout.workgroups * self.layout.row_tile]
            totals, results = tensor_type(rows, self.problem.accumulator), tensor_type(rows, self.problem.result)
            with function(module, "whole", [totals], totals) as body:
                body.give(body.arguments[0])
            with function(module, "blank", [], results) as body:
                body.give(tensor.EmptyOp(rows, element_type(self.problem.result)).result)
        elif self.epilogue:
            rows = [self.layout.rows.extent] if self.layout.rows else []
            with function(module, "totals", [], tensor_type(rows, self.problem.accumulator)) as body:
                empty = tensor.EmptyOp(rows, element_type(self.problem.accumulator)).result
                body.give(linalg.fill(constant(self.problem.start, self.problem.accumulator), outs=[empty]))

    def lower(self, reduction: t.Handle, function: t.Handle, module: t.Handle) -> None:
        """The whole lowering of the function that holds the reduction."""
        self.function, self.module = function, module
        self.source = t.producer(reduction, 0)
        if self.padded:
            reduction = self.whole_tiles(reduction)
        if self.epilogue and not self.layout.row_tail:
            self.own_totals(reduction)
        reduction, fill, workgroups = self.workgroup(reduction)
        self.steps(reduction)
        lane, chain = self.subgroup_basis()
        lane, chain = self.lane_basis(lane, chain)
        self.step_loop(lane, chain)
        if self.layout.merges:
            self.merge(fill)
        if self.layout.row_tail:
            self.crop(workgroups)
        if not self.flat:
            self.combine()
        t.apply_patterns(function, *TIDY_SLICES)
        if self.target.vector_elements:
            self.short_vectors()
        self.threads(self.vectors())

    def whole_tiles(self, reduction: t.Handle) -> t.Handle:
        dimensions, multiples = [], []
        if self.layout.row_tail:
            dimensions, multiples = [0], [self.layout.row_tile]
        if self.layout.column_tail:
            dimensions, multiples = [*dimensions, self.k], [*multiples, self.layout.columns.size]
        zero = scalar_attribute(0, self.problem.input)
        start = scalar_attribute(self.problem.start, self.problem.accumulator)
        padded = t.pad(reduction, dimensions, multiples, [zero, start])
        if self.epilogue and self.layout.row_tail:
            result = scalar_attribute(0, self.problem.result)
            whole = t.pad(self.find(EPILOGUE), [0], [self.layout.row_tile], [start, result])
            # Padding has cropped the reduction's result and padded it again: the uncropped one takes its place.
            with t.foreach(t.producer(whole, 0)) as pad:
                t.inline("whole", [t.result(padded)], t.result(pad), pad, self.module)
            with t.foreach(t.producer(whole, 1)) as pad:
                t.inline("blank", [], t.result(pad), pad, self.module)
        t.apply_patterns(self.function, "iree.fold_fill_into_pad", "canonicalization")
        return padded

    def own_totals(self, reduction: t.Handle) -> None:
        """Gives the reduction a tensor of its own: sharing one of equal type with the epilogue, totals would be built in the result."""
        with t.foreach(t.producer(reduction, 1)) as fill:
            t.inline("totals", [], t.result(fill), fill, self.module)

    def workgroup(self, reduction: t.Handle) -> tuple[t.Handle, t.Handle, t.Handle | None]:
        return to_workgroups(self.function, self.layout, reduction, epilogue=self.epilogue)

    def steps(self, reduction: t.Handle) -> None:
        """Two splits of K; the ops they make are labelled, and the last, partial step is set apart."""
        if self.flat:
            t.label(reduction, STEP)
            t.label(t.producer(reduction, 1), START)
            return
        _, lane = t.split_reduction(reduction, self.layout.columns.size, self.k, inner_parallel=True)
        if self.subgroups > 1:
            t.split_reduction(lane, self.subgroups, self.k, inner_parallel=False)
        t.apply_patterns(self.function, "iree.bubble_expand", "tensor.reassociative_reshape_folding", "canonicalization")
        stages = [STEP, LANE] + [SUBGROUP] * (self.subgroups > 1) + [EPILOGUE] * self.epilogue
        for op, stage in zip(t.split(t.find(self.function, GENERIC), len(stages)), stages, strict=True):  # in program order
            t.label(op, stage)
        start = t.producer(self.find(STEP), 1)
        t.label(start, START)
        inline_start(self.problem, start, self.module)
        if self.layout.column_tail and self.layout.full_steps:
            _, rest = t.split_after(self.find(STEP), self.k, self.layout.full_steps)
            t.label(rest, LAST_STEP)
            t.apply_patterns(self.function, "tensor.merge_consecutive_insert_extract_slice", "canonicalization")
        elif self.layout.column_tail:
            t.label(self.find(STEP), LAST_STEP)

    def find(self, stage: str) -> t.Handle:
        return t.find(self.function, GENERIC, stage)

    def subgroup_basis(self) -> tuple[t.Handle, list[t.Handle]]:
        """Gives the op that makes the partials, and what it is computed from: its start, the steps (last first), their start."""
        lane = self.find(STEP if self.flat else LANE)
        first = self.find(STEP if self.layout.full_steps else LAST_STEP)
        if self.flat:
            chain = [t.producer(lane, 1)]
        else:
            both = [self.find(LAST_STEP), first] if self.layout.column_tail and self.layout.full_steps else [first]
            chain = [t.producer(lane, 1), *both, t.producer(first, 1)]
        sizes = [self.layout.row_lanes * self.layout.thread_rows] * self.k + [1] * (self.subgroups > 1)
        return self._distribute("warp", lane, sizes, chain) if sizes else (lane, chain)

    def lane_basis(self, lane: t.Handle, chain: list[t.Handle]) -> tuple[t.Handle, list[t.Handle]]:
        sizes = [self.layout.thread_rows] * self.k + ([] if self.flat else [0] * (self.subgroups > 1) + [self.layout.columns.elements])
        return self._distribute("lane", lane, sizes, chain)

    def _distribute(self, unit: str, lane: t.Handle, sizes: list[int], chain: list[t.Handle]) -> tuple[t.Handle, list[t.Handle]]:
        digits = sum(size != 0 for size in sizes)
        mapping = [f"#gpu.{unit}<linear_dim_{digits - 1 - i}>" for i in range(digits)]  # the last loop is the fastest digit
        lane, loop = t.tile_to_forall(lane, sizes, mapping)
        chain, _ = t.fuse(chain, loop)
        return lane, chain

    def step_loop(self, lane: t.Handle, chain: list[t.Handle]) -> None:
        steps = [lane] if self.flat else chain[1:-1]  # last first
        if self.layout.column_tail:
            self._inline_load("load_last", steps[0])
        if self.layout.full_steps:
            step, _ = t.tile_to_for(steps[-1], [0] * self.k + [1])
            if self.padded:
                self._inline_load("load", step)

    def _inline_load(self, name: str, step: t.Handle) -> None:
        """Puts the load in the place of the slice that the step reads."""
        with t.foreach(t.producer(step, 0)) as piece:
            # Tiling has just made the slice of `@load`: its one offset that is not a constant is the loop's counter.
            counter = [t.operand(piece, 1)] if name == "load" else []
            t.inline(name, [t.result(self.source), *counter], t.result(piece), piece, self.module)

    def merge(self, fill: t.Handle) -> None:
        top = self.find(EPILOGUE) if self.epilogue else self.find(SUBGROUP)
        inner = ([self.find(SUBGROUP)] if self.epilogue and self.subgroups > 1 else []) + ([fill] if self.subgroups > 1 else [])
        if self.layout.rows:
            _, loop = t.tile_to_forall(top, [self.layout.merge_rows], ["#gpu.thread<linear_dim_0>"])
            t.fuse(inner, loop)

    def crop(self, workgroups: t.Handle) -> None:
        """Moves the crop of the padded result inwards, loop by loop, until it is a thread's own store that is cropped."""
        loop = t.crop_into(t.consumers(workgroups), workgroups)
        t.apply_patterns(self.function, "tensor.fold_tensor_empty")
        # Each loop's insert follows those of the loops inside it. With a merge stage, its loop over threads makes the result, and the
        # loops over subgroups and lanes make the partials beside it; without one, lanes within subgroups make the result.
        if self.layout.merges:
            self._crop_inner(t.split(t.find(self.function, INSERT), 4)[-1])
        else:
            loop = self._crop_inner(t.split(t.find(self.function, INSERT), 3)[-1])
            self._crop_inner(t.split(t.find(loop, INSERT), 2)[-1])
        t.apply_patterns(self.function, "tensor.fold_tensor_empty", "tensor.merge_consecutive_insert_extract_slice", "canonicalization")

    def _crop_inner(self, insert: t.Handle) -> t.Handle:
        """What the insert inserts is the cropped result of a loop: gives that loop, the crop now inside it."""
        crop = t.producer(insert, 0)
        return t.crop_into(crop, t.producer(crop, 0))

    def combine(self) -> None:
        with t.foreach(self.find(LANE)) as lane:
            inputs = [t.operand(lane, 0)]
            if self.layout.column_tail:
                inputs = [t.operand(t.producer(lane, 0), 1), *inputs]  # the accumulators before the last step
            left = cropped_rows(self.layout)
            if left is None:
                slot = t.operand(t.producer(lane, 1), 1)  # where the fill would write: a start value there would race with the partial
                t.inline("combine", [*inputs, slot], t.result(lane), lane, self.module)
            else:
                crop = t.consumers(lane)
                size = [t.operand(crop, 1)] if left == DYNAMIC else []
                t.inline("combine", [*inputs, *size], t.result(crop), crop, self.module)

    def short_vectors(self) -> None:
        if not self.flat:
            elements = self.k + (self.subgroups > 1)  # their dimension among the accumulators' [rows, S, E]; a step has one more, the step
            cut(t.find(self.function, "linalg.fill", START), held_cuts(self.layout, self.target, elements))
            for stage in [STEP] * bool(self.layout.full_steps) + [LAST_STEP] * self.layout.column_tail:
                cut(self.find(stage), held_cuts(self.layout, self.target, elements + 1))
        if self.subgroups > 1:
            cut(self.find(SUBGROUP), merge_cuts(self.layout, self.target))
        t.apply_patterns(self.function, *TIDY_SLICES)

    def vectors(self) -> t.Handle:
        function = t.vectorize(self.function)
        t.apply_patterns(function, "iree.fold_tensor_slice_into_transfer", "canonicalization")
        if self.layout.full_steps:
            t.hoist_subsets(t.find(function, "scf.for"))
            if self.layout.unroll > 1:
                t.unroll(t.find(function, "scf.for"), min(self.layout.unroll, self.layout.full_steps))
        t.apply_patterns(
            function,
            "iree.fold_tensor_slice_into_transfer",
            "vector.cast_away_vector_leading_one_dim",
            "vector.drop_unit_dims_with_shape_cast",
            "canonicalization",
        )
        t.cse(function)
        return function

    def threads(self, function: t.Handle) -> None:
        t.eliminate_empty_tensors(function)
        function = t.bufferize_gpu(function)
        if self.layout.rows:
            t.forall_to_workgroup(function)
        t.map_to_threads(function, self.layout.workgroup_size, self.layout.subgroup_size)
        t.apply_patterns(function, "canonicalization")
        t.cse(function)
        t.apply_patterns(function, "canonicalization")
        function = t.eliminate_barriers(function)
        t.apply_parallel_reduction_patterns(function)
        if self.padded:
            t.apply_patterns(function, "vector.materialize_masks")
        function = t.find(t.dead_symbols(self.module), "func.func")
        info = "#iree_codegen.translation_info<pipeline = #iree_codegen.no_pipeline workgroup_size = [{}, 1, 1] subgroup_size = {}>"
        t.annotate(function, "translation_info", ir.Attribute.parse(info.format(self.layout.workgroup_size, self.layout.subgroup_size)))
