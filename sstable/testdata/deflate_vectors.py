# Makes deflate_vectors.txt: a data block as the compressions of other stores
# have it. Run with
#
#	python3 deflate_vectors.py > deflate_vectors.txt
import struct
import zlib


def block():
    """The data block of twelve entries at a restart interval of 1."""
    entries, restarts = b"", []
    for i in range(12):
        key = b"key%08d" % (2 * i) + struct.pack("<Q", (i + 1) << 8 | 1)
        value = (b"%03d." % i * 6)[:20]
        restarts.append(len(entries))
        entries += bytes([0, len(key), len(value)]) + key + value
    return entries + b"".join(struct.pack("<I", r) for r in restarts + [len(restarts)])


def compress(data, level, wbits, strategy=zlib.Z_DEFAULT_STRATEGY, flush_at=None):
    c = zlib.compressobj(level, zlib.DEFLATED, wbits, 8, strategy)
    out = b""
    if flush_at is not None:
        out = c.compress(data[:flush_at]) + c.flush(zlib.Z_SYNC_FLUSH)
        data = data[flush_at:]
    return out + c.compress(data) + c.flush()


print("# Made by deflate_vectors.py with zlib", zlib.ZLIB_VERSION + ":")
print("# compression kind, name, the stored bytes.")
for kind, sign in (2, 1), (4, -1):
    for name, args in (
        ("level-0", (0, 15)),
        ("level-1", (1, 15)),
        ("level-6", (6, 15)),
        ("level-9", (9, 15)),
        ("window-512", (6, 9)),
        ("huffman-only", (6, 15, zlib.Z_HUFFMAN_ONLY)),
        ("fixed-codes", (6, 15, zlib.Z_FIXED)),
        ("sync-flush", (6, 15, zlib.Z_DEFAULT_STRATEGY, 100)),
    ):
        level, wbits, *rest = args
        print(kind, name, compress(block(), level, sign * wbits, *rest).hex())
