"""The categories that a finding may name: one table, a row each.

A category is a measurable statement, not an impression. Its row is all there is to know of one: definition, the
evidence that a finding must carry, precedence (when two causes save the same amount, the lower number is the main
finding), the cause that is taken away to measure it, its words for people, the wider category that an answer may
name as well, remedy and the effort of that, what to record to see more, and where to look for it. A new one touches its row, its rule in
the engine, and its tests.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Category:
    """One row of the table of categories.

    cause: what is taken away to measure it (`analysis.savings`), and its words. parent: the wider category that
    an answer may name as well. remedy: what to do. effort: of that, from 1 (a line) to 4 (another design). record:
    what to record to see where it comes from. place: what of it is shown on a timeline, the longest of its kind.
    bound: what its finding says could be saved is the most that could. headline, first: what is wrong, and what to do
    first, in the verdict's one sentence.
    """

    name: str
    definition: str
    evidence: tuple[str, ...] = ()
    precedence: int = 0
    cause: str = ""
    words: str = ""
    parent: str = ""
    remedy: str = ""
    effort: int = 0
    record: str = ""
    place: str = ""
    bound: bool = False
    headline: str = ""
    first: str = ""

    @property
    def in_gaps(self) -> bool:
        """Whether it explains a device that does nothing: its longest gap shows it as well."""
        return bool(self.cause) or self.name == "unexplained"


_SAVING = ("recoverable_ns", "window_ns")
_TIMELINE = (
    Category(
        "allocation_bound",
        "calls that allocate or free device or pinned memory block the host while the device "
        "waits; without their cost the window ends earlier",
        _SAVING,
        1,
        "allocation",
        "allocation",
        remedy="allocate once outside the loop, keep memory in a caching allocator (no empty_cache), or "
        "use a stream-ordered allocator",
        effort=1,
        record="--cuda-memory-usage=true, or profile_memory=True",
        headline="Allocating and freeing memory costs {share} of the time",
        first="begin with what allocates inside the loop",
        place="Longest allocation or release",
    ),
    Category(
        "sync_bound",
        "the host waits for the device without need, and the device then waits for the host; "
        "without those waits the window ends earlier",
        _SAVING,
        2,
        "waits",
        "the host's waits",
        remedy="let the host run ahead: keep results on the device and read them later, all at once",
        effort=1,
        record="--python-backtrace=cuda, or with_stack=True: the line that waits",
        headline="Waiting for results costs {share} of the time",
        first="begin by reading results later, all at once",
        place="Longest wait of the host",
    ),
    Category(
        "transfer_bound",
        "copies between host and device run while no kernel does (exposed copies), or block the host; "
        "without their time the window ends earlier",
        _SAVING,
        3,
        "copies",
        "exposed copies",
        remedy="hide copies in a separate stream, make them faster (pinned memory), or move less",
        effort=2,
        headline="Copies that do not overlap with kernels cost {share} of the time",
        first="begin with pinned memory",
        place="Longest copy",
    ),
    Category(
        "launch_bound",
        "the device waits for the host to issue work; if launch calls and the framework's time "
        "between them cost nothing the window ends earlier",
        _SAVING,
        4,
        "launch_cost",
        "the cost of launching",
        remedy="issue less: fuse operations, use larger batches, compile, or replay a CUDA graph",
        effort=3,
        headline="Issuing work costs {share} of the time",
        first="begin with fewer, larger launches: compile, or a CUDA graph",
    ),
    Category(
        "host_bound",
        "the device waits for host code that issues no work; without that code the window ends "
        "earlier",
        _SAVING,
        5,
        "host_code",
        "other host code",
        remedy="move host work off the critical path: prefetch it on another thread or process",
        effort=2,
        record="--trace=cuda,nvtx,osrt with NVTX ranges around the program's parts",
        headline="The program's own host code costs {share} of the time",
        first="begin by moving host code off the critical path",
    ),
    Category(
        "input_bound",
        "the device waits for input: for a data loader, for workers that prepare batches, for files; without "
        "that wait the window ends earlier",
        _SAVING,
        5,
        "input",
        "waiting for input",
        parent="host_bound",
        remedy="prepare input ahead: more loader workers, prefetching, pinned buffers, or less work per sample",
        effort=1,
        record="--trace=cuda,nvtx,osrt: what the loader waits for",
        headline="The GPU waits for input {share} of the time",
        first="begin with more loader workers",
        place="Longest wait for input",
    ),
    Category(
        "serialized_streams",
        "work on different streams runs one after the other, although no dependency requires it",
        _SAVING,
        6,
        remedy="take the work off the legacy default stream, or create the streams as non-blocking",
        effort=2,
        headline="Streams that run one after the other cost {share} of the time",
        first="begin by leaving the legacy default stream",
    ),
    Category(
        "communication_bound",
        "collectives run while no other kernel does (exposed communication), on all ranks alike",
        _SAVING,
        7,
        words="exposed communication",
        remedy="start collectives earlier and in smaller pieces, so that they overlap with compute, or "
        "communicate less: only every few micro-batches, or in fewer bytes",
        effort=3,
        headline="Communication without overlap costs {share} of the time",
        first="begin with earlier, smaller or fewer collectives",
        place="Longest collective",
    ),
    Category(
        "rank_imbalance",
        "ranks wait in collectives for one that arrives late, again and again",
        _SAVING,
        8,
        words="a late rank",
        remedy="look at what the late rank does before each collective, and share it evenly",
        effort=2,
        headline="Waiting for a late rank costs {share} of the time",
        first="begin with what the late rank does before each collective",
        place="Longest collective",
    ),
    Category(
        "pipeline_bubble",
        "ranks take turns: two of them almost never compute at the same time",
        _SAVING,
        8,
        words="taking turns",
        remedy="cut each batch into micro-batches, so that all stages work at the same time",
        effort=3,
        headline="Ranks that take turns cost {share} of the time",
        first="begin with micro-batches",
        place="Longest collective",
    ),
    Category(
        "recompilation",
        "code is compiled again inside the window",
        _SAVING,
        9,
        "compilation",
        "compiling again",
        remedy="make what changes from call to call dynamic, or keep it the same",
        effort=2,
        headline="Compiling again costs {share} of the time",
        first="begin with what changes from call to call",
        place="Longest compilation",
    ),
    Category(
        "memory_growth",
        "device memory in use grows from step to step",
        ("growth_bytes",),
        10,
        remedy="release what each step keeps: detach it, or keep a number instead of a tensor",
        effort=1,
        record="profile_memory=True, and a snapshot of torch.cuda.memory",
        headline="Memory in use grows by {growth} per step",
        first="begin with what each step keeps",
    ),
    Category(
        "throttled",
        "the device's clock is held below the clock it reaches when nothing limits it",
        ("clock_ratio",),
        11,
        remedy="ask for less power (precision, fewer bytes), or compare runs at a clock that it can hold",
        effort=3,
        headline="The clock is held at {clock} of what the device reaches",
        first="begin with what draws the power",
    ),
    Category(
        "unexplained",
        "the device is idle and nothing recorded says why",
        _SAVING,
        98,
        words="what nothing recorded explains",
        remedy="record more: --trace=cuda,nvtx,osrt --cuda-event-trace=true, and NVTX ranges around the "
        "program's parts",
        effort=1,
        headline="Nothing recorded explains {share} of the time",
        first="record more before you change anything",
    ),
    Category(
        "healthy",
        "taking any one cause away saves less than the named floor. For the engine, idle time, exposed copies and "
        "exposed communication together must also stay below it",
        _SAVING,
        99,
        remedy="none",
        headline="Kernels keep the GPU busy {busy} of the time",
        first="look into them next",
    ),
)

# What one capture cannot show: it takes another one to compare with.
_COMPARISON = (
    Category(
        "slower_kernels",
        "kernels take longer than in the capture that this one is compared with, by more than "
        "recordings of the same program differ",
        _SAVING,
        12,
    ),
)

# A kernel: the first four name the unit that limits it, the others what could be fixed.
_LIMITS = "{kernel} is limited by {unit} ({use} of its peak)"
_UP_TO = ", up to {share} of its time could be saved"
_COSTS = "{kernel} loses {share} of its time to "
_KERNEL = (
    Category(
        "memory_bound",
        "DRAM throughput is the limiter",
        remedy="move fewer bytes, or keep more of them in flight",
        effort=3,
        headline=_LIMITS,
        first="begin with the bytes that it moves",
    ),
    Category(
        "compute_bound",
        "an arithmetic pipe is the limiter",
        remedy="do less arithmetic, or use a faster unit or a smaller type",
        effort=4,
        headline=_LIMITS,
        first="begin with the pipe that is full",
    ),
    Category(
        "cache_bound",
        "L1 or L2 throughput is the limiter while DRAM is not",
        remedy="keep more in registers: fewer and wider accesses, a larger tile per thread",
        effort=3,
        bound=True,
        headline=_LIMITS + _UP_TO,
        first="begin with what each thread could keep in registers",
    ),
    Category(
        "latency_bound",
        "no unit is near its ceiling and warps wait, also at barriers",
        remedy="have more independent work in flight in each thread",
        effort=3,
        bound=True,
        headline="{kernel} uses no unit for more than {use} and waits" + _UP_TO,
        first="begin with what its warps wait for",
    ),
    Category(
        "above_roof",
        "most of the device's time is above the roofline, which does not say why; counters do",
        remedy="look inside with Nsight Compute: neither roof explains the time",
        effort=1,
        headline="{kernel} spends most of its time above the roofline" + _UP_TO,
        first="begin with its counters",
    ),
    Category(
        "uncoalesced_access",
        "loads or stores move more sectors than the bytes they use need",
        remedy="let neighbouring threads use neighbouring addresses",
        effort=2,
        headline=_COSTS + "scattered accesses",
        first="begin with which thread reads which address",
    ),
    Category(
        "bank_conflicts",
        "shared-memory accesses are replayed for bank conflicts",
        remedy="pad or swizzle the shared array so that the lanes of a warp hit different banks",
        effort=1,
        headline=_COSTS + "bank conflicts",
        first="begin by padding the shared array",
    ),
    Category(
        "low_occupancy",
        "resident warps are limited by registers, shared memory or block size",
        remedy="use less of what limits the resident blocks, use larger blocks if they are tiny, or keep "
        "more loads in flight",
        effort=2,
        headline=_COSTS + "too few resident warps",
        first="begin with what limits the blocks on an SM",
    ),
    Category(
        "small_grid",
        "the grid has fewer blocks than the device can hold at once",
        remedy="cut the work into more blocks",
        effort=2,
        headline=_COSTS + "SMs without a block",
        first="begin with more blocks",
    ),
    Category(
        "tail_effect",
        "the last, partly filled wave costs a large share of the duration",
        remedy="use more, smaller blocks, or as many as fit at once, each with an equal share",
        effort=1,
        headline=_COSTS + "a last wave that is hardly filled",
        first="begin with the size of a block",
    ),
    Category(
        "divergence",
        "warps run with few active threads",
        remedy="give a warp's lanes the same path and length: sort or compact the work, or use a warp per row",
        effort=3,
        headline=_COSTS + "idle lanes",
        first="begin with how the work is divided among lanes",
    ),
    Category(
        "atomic_contention",
        "atomics to few addresses serialise",
        remedy="add up in registers first, or in separate copies for warps or lanes, and then once per block",
        effort=2,
        headline=_COSTS + "atomics to the same addresses",
        first="begin by adding up in registers",
    ),
    Category(
        "register_spills",
        "registers spill to local memory and its traffic is visible",
        remedy="allow more registers per thread, or keep fewer values alive",
        effort=1,
        headline=_COSTS + "registers that spill to memory",
        first="begin with the limit on registers",
    ),
    Category(
        "tensor_cores_unused",
        "matrix work runs outside the tensor cores",
        remedy="use the tensor cores, through a library if one has the operation",
        effort=2,
        headline=_COSTS + "matrix work outside the tensor cores",
        first="begin with a library's product",
    ),
    Category(
        "narrow_access",
        "neighbouring threads request few bytes each: too few are in flight to use the memory's bandwidth",
        parent="latency_bound",
        remedy="load and store 16 bytes per thread (float4, uint4), or several values at a time",
        effort=1,
        headline=_COSTS + "narrow accesses",
        first="begin with loads of 16 bytes per thread",
    ),
    Category(
        "double_precision",
        "double-precision instructions among floats, which are converted to double and back",
        parent="compute_bound",
        remedy='write constants with an "f" (0.5f) and call the float functions, if the result needs no doubles',
        effort=1,
        headline=_COSTS + "doubles among floats",
        first='begin with literals without an "f"',
    ),
)

# Kernels' categories come behind all others, in the order above.
CATEGORIES: dict[str, Category] = {c.name: c for c in _TIMELINE + _COMPARISON} | {
    c.name: replace(c, precedence=100 + i) for i, c in enumerate(_KERNEL)
}

# The category of a finding that names a cause, and how people say the cause.
CATEGORY_OF_CAUSE = {c.cause: c.name for c in _TIMELINE if c.cause}
CAUSE_IN_WORDS = {c.cause: c.words for c in _TIMELINE if c.cause}
