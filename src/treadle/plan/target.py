"""The machine that kernels are generated for."""

from treadle.dtypes import DType
from treadle.errors import MachineFileError
from treadle.plan.machine import GENERIC, MachineModel, machine_model
from treadle.records import dataclass

LINE = 64
"""Bytes of a cache line, in which lowerings and kernels count what they ask for ahead."""


@dataclass(frozen=True, slots=True)
class Target:
    """A CPU as the generators see it. `codegen.target.detect` makes the one of this machine.

    `isa` is the family (`avx512`, `avx2`, `generic`), `cpu` and `features` what LLVM is told,
    `vector_bytes` and `registers` the size and number of vector registers, `l1` / `l2` / `l3` cache
    sizes in bytes as seen by one core. `model` names the machine model, by default the generic one
    of `isa`, and `digest` identifies its content: names in the cache folder depend on both.
    """

    isa: str
    triple: str
    cpu: str
    features: str
    vector_bytes: int
    registers: int
    l1: int
    l2: int
    l3: int
    model: str = ""
    digest: str = ""

    @property
    def machine(self) -> MachineModel:
        """What the cost model assumes of the CPU.

        Raises MachineFileError if its file is damaged, or holds for another instruction set.
        """
        found = machine_model(self.model or GENERIC[self.isa], self.digest)
        if found.isa != self.isa:
            raise MachineFileError(
                f"machine {self.model!r}: wanted figures for {self.isa}, got some for {found.isa}; "
                f"set TREADLE_MACHINE to another model or unset it"
            )
        return found

    @property
    def last_cache(self) -> int:
        """Bytes of the larger of L2 and the part of L3 that is ours: what exceeds it is in memory."""
        return max(self.l2, int(self.l3 * self.machine.l3_share))

    @property
    def has_bf16_dot(self) -> bool:
        """Whether the CPU has bf16 dot products (AVX512_BF16)."""
        return self.isa == "avx512" and "+avx512bf16" in self.features.split(",")

    @property
    def has_half_casts(self) -> bool:
        """Whether the CPU has instructions that convert f16 to f32 and back (F16C)."""
        return "+f16c" in self.features.split(",")

    @property
    def has_byte_pairs(self) -> bool:
        """Whether it has vpmaddubsw: products of unsigned and signed bytes, added in pairs of 16 bits that saturate."""
        return self.isa in ("avx2", "avx512")

    @property
    def has_vnni(self) -> bool:
        """Whether the CPU has VNNI dot products (AVX512_VNNI, AVX_VNNI)."""
        needed = {"avx512": "+avx512vnni", "avx2": "+avxvnni"}.get(self.isa)
        return needed is not None and needed in self.features.split(",")

    @property
    def has_byte_permutes(self) -> bool:
        """Whether one instruction takes 64 bytes, in any order, out of two registers (AVX512_VBMI)."""
        return self.isa == "avx512" and "+avx512vbmi" in self.features.split(",")

    def has_lane_masks(self, dtype: DType) -> bool:
        """Whether one instruction loads or stores some lanes of a vector of `dtype`; else LLVM emits a branch each."""
        return self.isa == "avx512" or (self.isa == "avx2" and dtype.size >= 4)

    def lanes(self, dtype: DType) -> int:
        """How many elements of `dtype` fill one vector register."""
        return self.vector_bytes // dtype.size
