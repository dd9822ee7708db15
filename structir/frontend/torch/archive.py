"""Reader of `.pt2` archives: the graph as JSON, tensors as bytes; nothing is unpickled."""

from __future__ import annotations

import io
import json
import mmap
import struct
import zipfile
import zlib
from typing import IO, Any

import numpy as np

from structir.errors import Diagnostic, DiagnosticError
from structir.frontend.torch.fields import COMPLEX_PARTS, DTYPES, field, integers
from structir.ir.dtype import numpy_dtype
from structir.printer.files.mapped_memory import chunks, release_pages

Array = np.ndarray[Any, Any]
MIN_MAPPED_BYTES = 1 << 16  # bytes; smaller files are copied
LOCAL_HEADER_BYTES = 30  # of a file in a zip archive, before its name
MAX_EXPANSION = 64  # total size of deflated files, in sizes of the archive
CHUNK_BYTES = 1 << 20
ARCHIVE_ERRORS = (
    zlib.error,
    struct.error,
    zipfile.BadZipFile,
    NotImplementedError,
    OSError,
    RuntimeError,
    EOFError,
    ValueError,
)
SAVE_AGAIN = "with torch >= 2.9: `torch.export.save(torch.export.load(path), path)`"
STORE = "write the archive without compression: `zip -0`"
LEGACY_GRAPH_FILE = "serialized_exported_program.json"  # the graph file of older torch releases


def wrong(message: str, hint: str | None = None, code: str = "E0808") -> DiagnosticError:
    """Returns the error of an invalid file."""
    return DiagnosticError(Diagnostic(message, hint=hint, code=code))


class Archive:
    """An open archive. Torch stores files uncompressed: their total size is at most that of the
    archive. Deflated files, as other tools write them, may be `MAX_EXPANSION` times as large in
    total. With `mapped`, an archive that is a file on disk is memory-mapped."""

    def __init__(self, file: IO[bytes], name: str, mapped: bool = True) -> None:
        self.name = name
        try:
            self.zip = zipfile.ZipFile(file)
            self.unread_bytes = file.seek(0, 2)
            self.deflated_bytes = MAX_EXPANSION * self.unread_bytes  # that may still be read
            self.map = _map(file) if mapped else None
        except ARCHIVE_ERRORS as error:
            raise wrong(f"{name}: not a valid .pt2 archive (truncated zip file?)") from error
        self.root, self.model = self._model()
        self.files: dict[str, memoryview] = {}

    def _model(self) -> tuple[str, str]:
        """Returns the root folder in the archive, and the name of its model."""
        names = self.zip.namelist()
        if LEGACY_GRAPH_FILE in names:
            raise wrong(
                f"{self.name}: saved by an unsupported old release of torch",
                SAVE_AGAIN,
            )
        results = [n for n in names if "models/" in n and n.endswith(".json")]
        if len(results) != 1:
            raise wrong(f"{self.name}: expected 1 exported program, found {len(results)}")
        root, _, model = results[0].rpartition("models/")
        return root, model.removesuffix(".json")

    def bytes_of(self, path: str) -> memoryview:
        """Returns the bytes of a file of the archive, memoized."""
        value = self.files.get(path)
        if value is None:
            value = self.files[path] = self._bytes(self.root + path)
        return value

    def _bytes(self, path: str) -> memoryview:
        try:
            info = self.zip.getinfo(path)
        except KeyError:
            raise wrong(f"{self.name} has no file {path!r}") from None
        self._check_size(path, info)
        is_mapped = self.map is not None and info.compress_type == zipfile.ZIP_STORED
        try:
            view = _mapped_file(self.map, info) if is_mapped else None  # type: ignore[arg-type]
            return self._read(info) if view is None else view
        except ARCHIVE_ERRORS as error:
            raise wrong(f"{path!r} in {self.name}: corrupt data: {error}") from error

    def _check_size(self, path: str, info: zipfile.ZipInfo) -> None:
        """Rejects a file that is compressed in another way, or too large for the archive."""
        if info.compress_type == zipfile.ZIP_DEFLATED:
            self.deflated_bytes -= info.file_size
            if self.deflated_bytes < 0:
                limit = f"{MAX_EXPANSION} times the size of the archive"
                message = f"{path!r} in {self.name}: expected at most {limit}, found more"
                raise wrong(f"{message} compressed data", STORE)
            return
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            expected = "expected a stored or deflated file, found one compressed otherwise"
            raise wrong(f"{path!r} in {self.name}: {expected}", STORE)
        self.unread_bytes -= info.file_size
        if self.unread_bytes < 0:
            raise wrong(f"the files in {self.name} are larger than the archive itself")

    def _read(self, info: zipfile.ZipInfo) -> memoryview:
        """Returns the contents of a file. A chunk never expands beyond its size, and the file never
        beyond its declared size, whatever its data contain."""
        contents = bytearray()
        with self.zip.open(info) as file:
            while chunk := file.read(CHUNK_BYTES):
                contents += chunk
        if len(contents) != info.file_size:
            raise EOFError(f"expected {info.file_size} bytes, found {len(contents)}")
        return memoryview(contents).toreadonly()

    def json_of(self, path: str) -> Any:
        """Returns a file of the archive, parsed as JSON."""
        try:
            return json.loads(bytes(self.bytes_of(path)))
        except (ValueError, RecursionError) as error:
            raise wrong(f"{path!r} in {self.name}: not valid JSON") from error

    def program(self) -> Any:
        """Returns the JSON of the exported program."""
        return self.json_of(f"models/{self.model}.json")

    def payloads(self, kind: str) -> dict[str, Any]:
        """Returns the descriptions of the `weights` or `constants` of the archive, by name in the
        model."""
        path = f"data/{kind}/{self.model}_{kind}_config.json"
        if self.root + path not in self.zip.namelist():
            legacy = f"data/{kind}/{self.model}.pt"
            if self.root + legacy in self.zip.namelist():
                raise wrong(
                    f"the {kind} in {self.name} are pickled; pickles are never loaded",
                    SAVE_AGAIN,
                )
            return {}
        value: dict[str, Any] = field(self.json_of(path), "config", dict)
        return {name: (kind, payload) for name, payload in value.items()}

    def tensor(self, name: str, payload: tuple[str, Any]) -> Array:
        """Returns the elements of one weight or constant."""
        kind, description = payload
        if field(description, "use_pickle", bool):
            raise wrong(f"{name!r} in {self.name} is pickled; pickles are never loaded")
        meta = field(description, "tensor_meta", dict)
        dtype = numpy_dtype_of(field(meta, "dtype", int))
        if dtype is None:
            number = field(meta, "dtype", int)
            raise wrong(f"{name!r} in {self.name}: unsupported dtype (torch's type {number})")
        path = f"data/{kind}/{field(description, 'path_name', str)}"
        data = np.frombuffer(self.bytes_of(path), dtype)
        first = integers([field(meta, "storage_offset", dict)])[0]
        return _as_strided(
            data[first:], integers(meta.get("sizes")), integers(meta.get("strides")), name
        )


def numpy_dtype_of(code: int) -> Any:
    """Returns the NumPy dtype of torch's code of an element type; None if it is unsupported."""
    part, dtype = COMPLEX_PARTS.get(code), DTYPES.get(code)
    if part is not None:
        return np.result_type(numpy_dtype(part), np.complex64)
    return None if dtype is None else numpy_dtype(dtype)


def _map(file: IO[bytes]) -> mmap.mmap | None:
    """Returns the memory-mapped contents of a file on disk; None for any other file."""
    raw = getattr(file, "raw", file)  # a compressed file has a descriptor, too
    try:
        on_disk = isinstance(raw, io.FileIO)
        return mmap.mmap(raw.fileno(), 0, access=mmap.ACCESS_READ) if on_disk else None
    except (OSError, ValueError):  # a file system without mapping
        return None


def _mapped_file(contents: mmap.mmap, info: zipfile.ZipInfo) -> memoryview | None:
    """Returns a large uncompressed file of a mapped archive; None if it is better copied.

    Raises BadZipFile if its checksum is wrong.
    """
    if info.file_size < MIN_MAPPED_BYTES:
        return None
    name_length, extra_length = struct.unpack_from("<HH", contents, info.header_offset + 26)
    start = info.header_offset + LOCAL_HEADER_BYTES + name_length + extra_length
    view = memoryview(contents)[start : start + info.file_size]
    checksum = 0
    for chunk in chunks(np.frombuffer(view, np.uint8)):
        checksum = zlib.crc32(chunk, checksum)
    if len(view) != info.file_size or checksum != info.CRC:
        raise zipfile.BadZipFile(f"bad checksum of {info.filename!r}")
    return view


def _as_strided(data: Array, sizes: list[int], strides: list[int], name: str) -> Array:
    """Returns a strided view of elements, which must not exceed the data; a copy if it has gaps or
    another order."""
    if len(sizes) != len(strides) or min([0, *sizes, *strides]) < 0:
        raise wrong(f"{name!r}: invalid sizes or strides")
    if 0 in sizes:
        return np.zeros(sizes, data.dtype)
    last_offset = sum((n - 1) * step for n, step in zip(sizes, strides, strict=True))
    count = 1
    for n in sizes:
        count *= n
    if last_offset >= data.size or count > max(data.size, 1):
        raise wrong(f"{name!r}: sizes and strides exceed the stored data")
    byte_strides = [step * data.itemsize for step in strides]
    view = np.lib.stride_tricks.as_strided(data, sizes, byte_strides, writeable=False)
    if view.flags.c_contiguous:
        return data[:count].reshape(sizes)
    copy = np.array(view)
    release_pages(data)
    return copy
