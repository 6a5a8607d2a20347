"""Links compiled kernels without LLVM, which takes longer to load than most kernels take to link.

Supports what kernels on x86-64 consist of: position-independent code and constants, and calls of functions of the C
library. LLVM links all other objects (`jit.LlvmLinkedCode`). Sources: System V ABI, AMD64 supplement, chapter 4
(relocation types); ELF-64 object file format 1.5.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_IDENTITY = b"\x7fELF\x02\x01\x01"
_RELOCATABLE, _X86_64 = 1, 62
_PROGBITS, _SYMTAB, _RELA, _NOBITS, _UNWIND = 1, 2, 4, 8, 0x70000001
_WRITE, _ALLOC = 1, 2
_PC32, _PLT32 = 2, 4
_JUMP = b"\xff\x25\x00\x00\x00\x00"
"""jmp *0(%rip): jumps to the address that is stored behind the instruction."""
_STUB_BYTES = 16
_ALIGNMENT = 64
"""The least alignment of a section. Tables of vectors of several registers ask for more: as much as a vector has."""
_MAX_BYTES = 1 << 28


class LinkError(Exception):
    """The object code holds something that this linker does not support."""


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int


class LinkedCode:
    """Functions in executable memory. `addresses` are valid as long as the object lives."""

    def __init__(self, objects: Sequence[tuple[str, bytes]]) -> None:
        """Links pairs of a function's name and the object that defines it. Raises LinkError."""
        if sys.platform != "linux":
            raise LinkError(f"made for ELF on Linux, not for {sys.platform}")
        linker = _Linker()
        offsets = {name: linker.add(name, code) for name, code in objects}
        content = linker.finish()
        self._memory = mmap.mmap(-1, max(len(content), 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._memory[: len(content)] = content
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mprotect(ctypes.c_void_p(base), ctypes.c_size_t(len(self._memory)), mmap.PROT_READ | mmap.PROT_EXEC):
            raise LinkError(f"no executable memory: errno {ctypes.get_errno()}")
        self.addresses: dict[str, int] = {name: base + offset for name, offset in offsets.items()}


class _Linker:
    """Joins the sections of objects and resolves their references; those to the C library last."""

    def __init__(self) -> None:
        self._content = bytearray()
        self._calls: list[tuple[int, int, str]] = []

    def add(self, function: str, code: bytes) -> int:
        """Appends an object and returns the offset of its function `function`."""
        try:
            return self._add(function, code)
        except (struct.error, IndexError, ValueError) as error:
            raise LinkError(f"{function}: no whole object: {error}") from None

    def _add(self, function: str, code: bytes) -> int:
        sections = list(_sections(code))
        starts: dict[int, int] = {}
        for number, section in enumerate(sections):
            if section.flags & _ALLOC and section.kind != _UNWIND and section.size:
                starts[number] = self._append(section, code)
        (table,) = (section for section in sections if section.kind == _SYMTAB)
        symbols = [_SYMBOL.unpack_from(code, at) for at in range(table.offset, table.offset + table.size, _SYMBOL.size)]
        names = sections[table.link].offset
        for section in sections:
            if section.kind == _RELA and section.info in starts:
                self._resolve(section, code, starts, symbols, names)
        for name, _, _, home, value, _ in symbols:
            if home in starts and _text(code, names + name) == function:
                return starts[home] + int(value)
        raise LinkError(f"the object has no function {function}")

    def _append(self, section: _Section, code: bytes) -> int:
        if section.flags & _WRITE or section.kind not in (_PROGBITS, _NOBITS) or section.alignment > mmap.PAGESIZE:
            raise LinkError(
                f"a section of kind {section.kind} with flags {section.flags}, aligned to {section.alignment} bytes"
            )
        if section.size > _MAX_BYTES or (section.kind == _PROGBITS and section.offset + section.size > len(code)):
            raise LinkError("a section that reaches past the object's end")
        self._content.extend(bytes(-len(self._content) % max(section.alignment, _ALIGNMENT)))
        start = len(self._content)
        in_file = section.kind == _PROGBITS
        self._content += code[section.offset : section.offset + section.size] if in_file else bytes(section.size)
        return start

    def _resolve(
        self,
        relocations: _Section,
        code: bytes,
        starts: Mapping[int, int],
        symbols: Sequence[tuple[int, int, int, int, int, int]],
        names: int,
    ) -> None:
        first, end = relocations.offset, relocations.offset + relocations.size
        for at in range(first, end, _RELOCATION.size):
            offset, info, addend = _RELOCATION.unpack_from(code, at)
            kind, (name, _, _, home, value, _) = info & 0xFFFFFFFF, symbols[info >> 32]
            location = starts[relocations.info] + offset
            if kind not in (_PC32, _PLT32):
                raise LinkError(f"relocation type {kind}")
            if home in starts:
                self._write_displacement(location, starts[home] + value + addend)
            elif home == 0:
                self._calls.append((location, addend, _text(code, names + name)))
            else:
                raise LinkError(f"a reference to section {home}")

    def _write_displacement(self, location: int, target: int) -> None:
        struct.pack_into("<i", self._content, location, target - location)

    def finish(self) -> bytes:
        """Appends a jump for each function of the C library and returns the code. Raises LinkError."""
        jumps: dict[str, int] = {}
        for location, addend, name in self._calls:
            if name not in jumps:
                self._content.extend(bytes(-len(self._content) % _STUB_BYTES))
                jumps[name] = len(self._content)
                self._content += (_JUMP + struct.pack("<Q", _address(name))).ljust(_STUB_BYTES, b"\0")
            self._write_displacement(location, jumps[name] + addend)
        return bytes(self._content)


def _sections(code: bytes) -> Iterator[_Section]:
    identity, kind, machine, _, _, _, table, _, _, _, _, size, count, _ = _HEADER.unpack_from(code)
    if not identity.startswith(_IDENTITY) or (kind, machine, size) != (_RELOCATABLE, _X86_64, _SECTION.size):
        raise LinkError("no relocatable ELF object for x86-64")
    for number in range(count):
        name, kind, flags, _, offset, length, link, info, alignment, _ = _SECTION.unpack_from(
            code, table + number * size
        )
        yield _Section(name, kind, flags, offset, length, link, info, alignment)


def _text(code: bytes, at: int) -> str:
    return code[at : code.index(b"\0", at)].decode()


def _address(name: str) -> int:
    """Returns the address of a function of the C library. Raises LinkError if there is none."""
    try:
        address = ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value
    except AttributeError:
        address = None
    if address is None:
        raise LinkError(f"the C library has no function {name!r}")
    return address
