"""Cache files that another user can write are never read, and reported once."""

import os
import stat
import warnings

import pytest

from structir.errors import DiagnosticWarning
from structir.system import cache, private_files
from structir.system.cache import CacheEntry, CacheStore, digest, pack_entry

KEY = digest("some text")
ENTRY = CacheEntry({"kind": "object"}, b"machine code" * 20)
pytestmark = pytest.mark.skipif(not private_files.HAS_OWNERS, reason="files have no owners here")


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "_warned", set())
    root = tmp_path / "above" / "cache"
    CacheStore(root, 10**6).write(KEY, ENTRY)
    assert CacheStore(root, 10**6).read(KEY) == ENTRY
    return root


def entry_in(root):
    return CacheStore(root, 10**6).path(KEY)


def replaced_by(make):
    def plant(root):
        path = entry_in(root)
        data = path.read_bytes()
        path.unlink()
        make(path, data)

    return plant


def with_mode(path_of, mode):
    return lambda root: path_of(root).chmod(mode)


def behind_link(path_of):
    def plant(root):
        path = path_of(root)
        moved = root.parent / "moved"
        path.rename(moved)
        path.symlink_to(moved)

    return plant


def through_link_of_all(root):
    """A link above the cache which is in a directory that others can write."""
    shared = root.parent.parent / "shared"
    root.parent.rename(root.parent.parent / "real")
    shared.mkdir()
    (shared / "link").symlink_to(root.parent.parent / "real")
    root.parent.symlink_to(shared / "link")
    shared.chmod(0o777)


PLANTED = {
    "a file that all can write": with_mode(entry_in, 0o666),
    "a file that a group can write": with_mode(entry_in, 0o620),
    "a folder of entries that all can write": with_mode(lambda r: entry_in(r).parent, 0o777),
    "a folder of entries that a group can write": with_mode(lambda r: entry_in(r).parent, 0o770),
    "a cache that all can write": with_mode(lambda r: r, 0o777),
    "a cache that all can write, and only owners rename": with_mode(lambda r: r, 0o1777),
    "a folder above that all can write": with_mode(lambda r: r.parent, 0o777),
    "a folder above that a group can write": with_mode(lambda r: r.parent, 0o775),
    "a link to an entry": behind_link(entry_in),
    "a link to a folder of entries": behind_link(lambda r: entry_in(r).parent),
    "a link that others can exchange": through_link_of_all,
    "a pipe": replaced_by(lambda path, _: os.mkfifo(path)),
    "a folder in place of an entry": replaced_by(lambda path, _: path.mkdir()),
}


@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED)
def test_files_writable_by_others_are_not_read(plant, root):
    plant(root)
    with pytest.warns(DiagnosticWarning, match="cache ignored") as reported:
        assert [CacheStore(root, 10**6).read(KEY) for _ in range(3)] == [None] * 3
    assert len(reported) == 1


def test_files_of_another_user_are_not_read(root, monkeypatch):
    another = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: another)
    with pytest.warns(DiagnosticWarning, match=f"not to {another}"):
        assert CacheStore(root, 10**6).read(KEY) is None


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away"
)
@pytest.mark.parametrize("path_of", [entry_in, lambda r: entry_in(r).parent, lambda r: r])
def test_root_does_not_read_files_of_another_user(path_of, root):
    os.chown(path_of(root), 12345, 12345)
    with pytest.warns(DiagnosticWarning, match="belongs to user 12345"):
        assert CacheStore(root, 10**6).read(KEY) is None


def test_links_and_shared_folders_that_only_owners_change_are_fine(root):
    root.parent.parent.joinpath("link").symlink_to(root.parent, target_is_directory=True)
    root.parent.parent.chmod(0o1777)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert CacheStore(root.parent.parent / "link" / "cache", 10**6).read(KEY) == ENTRY


def test_a_file_that_others_can_write_is_replaced(root):
    entry_in(root).chmod(0o666)
    with pytest.warns(DiagnosticWarning):
        CacheStore(root, 10**6).read(KEY)
    CacheStore(root, 10**6).write(KEY, ENTRY)
    assert CacheStore(root, 10**6).read(KEY) == ENTRY


def test_a_cache_is_made_for_one_user(tmp_path):
    before = os.umask(0)
    try:
        CacheStore(tmp_path / "a" / "b", 10**6).write(KEY, ENTRY)
    finally:
        os.umask(before)
    modes = [stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "a").rglob("*") if p.is_dir()]
    assert modes == [0o700] * 2
    assert stat.S_IMODE(entry_in(tmp_path / "a" / "b").stat().st_mode) == 0o600


def test_a_file_of_gigabytes_is_not_read(root):
    os.truncate(entry_in(root), 6 << 30)
    assert CacheStore(root, 10**6).read(KEY) is None


def test_an_entry_too_large_to_read_is_not_written(root, monkeypatch):
    monkeypatch.setattr(cache, "MAX_ENTRY_BYTES", 1000)
    CacheStore(root, 10**6).write(digest("large"), CacheEntry({}, bytes(1000)))
    assert not CacheStore(root, 10**6).path(digest("large")).exists()


@pytest.mark.parametrize("head", [b"[]", b"3", b"[" * 100_000, b"{", b"1" * 5000, b'{"key": 3}'])
def test_a_head_that_is_no_table_counts_as_absent(head, root):
    body = len(head).to_bytes(8, "little") + head
    whole = pack_entry(KEY, ENTRY)
    checksum = cache.hashlib.sha256(body).digest()
    entry_in(root).write_bytes(whole[: len(cache.MAGIC)] + checksum + body)
    assert CacheStore(root, 10**6).read(KEY) is None


@pytest.mark.parametrize(
    ("place", "most"), [("/" + "x" * 5000, ""), ("y" * 300, ""), ("", "9" * 5000), ("", "-1")]
)
def test_no_setting_stops_a_compilation(place, most, tmp_path, monkeypatch):
    monkeypatch.setenv(cache.LOCATION, place or str(tmp_path / "cache"))
    monkeypatch.setenv(cache.MAX_BYTES, most)
    monkeypatch.chdir(tmp_path)
    store = cache.store()
    store.write(KEY, ENTRY)
    assert store.read(KEY) in (None, ENTRY)
    assert store.sweep() == 0 and len(list(store.files())) <= 1


def test_a_user_without_a_home_has_no_cache(monkeypatch):
    def missing():
        raise RuntimeError("could not determine home directory")

    for name in (cache.LOCATION, "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(cache.Path, "home", missing)
    assert cache.store() is None
