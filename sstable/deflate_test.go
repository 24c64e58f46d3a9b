package sstable

import (
	"bytes"
	"compress/flate"
	"compress/zlib"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/base/codec"
	"github.com/sievedb/sievedb/internal/test/itertest"
	"github.com/sievedb/sievedb/internal/test/result"
)

// Mojang's kinds, which are read, never written.
const (
	zlibKind    = Compression(codec.Zlib)
	deflateKind = Compression(codec.Deflate)
)

// zlibStream and deflateStream compress b as other stores do.
func zlibStream(t testing.TB, b []byte) []byte {
	var out bytes.Buffer
	w := zlib.NewWriter(&out)
	result.Of(w.Write(b))(t)
	require.NoError(t, w.Close())
	return out.Bytes()
}

func deflateStream(t testing.TB, b []byte) []byte {
	var out bytes.Buffer
	w := result.Of(flate.NewWriter(&out, flate.DefaultCompression))(t)
	result.Of(w.Write(b))(t)
	require.NoError(t, w.Close())
	return out.Bytes()
}

// deflateVectors are the stored forms of buildBlock(1, plainEntries(12, 20)) in
// testdata/deflate_vectors.txt, by kind and name.
func deflateVectors(t testing.TB) map[Compression]map[string][]byte {
	text := result.Of(os.ReadFile("testdata/deflate_vectors.txt"))(t)
	vectors := map[Compression]map[string][]byte{zlibKind: {}, deflateKind: {}}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if fields[0] == "#" {
			continue
		}
		require.Len(t, fields, 3)
		raw := result.Of(hex.DecodeString(fields[2]))(t)
		vectors[Compression(fields[0][0]-'0')][fields[1]] = raw
	}
	require.Len(t, vectors[zlibKind], 8)
	require.Len(t, vectors[deflateKind], 8)
	return vectors
}

func TestMinecraftBlocksAreRead(t *testing.T) {
	es := plainEntries(12, 20)
	want := buildBlock(1, es)
	for kind, vectors := range deflateVectors(t) {
		for name, raw := range vectors {
			t.Run(fmt.Sprintf("kind %d/%s", kind, name), func(t *testing.T) {
				got := result.Of(decompress(kind, raw, nil, dataPart))(t)
				require.Equal(t, want, got)
				require.Less(t, cap(got), len(want)+len(want)/4+64, "a cache is charged only for the block's size")

				room := make([]byte, 5, 2*len(want))
				got = result.Of(decompress(kind, raw, room, dataPart))(t)
				require.Equal(t, want, got)
				require.Same(t, &room[0], &got[0], "a buffer with room is used")

				r, _ := openTable(t, rawTable(t, kind, raw), ReaderOptions{Cache: newCache()})
				for i := range 25 {
					checkGet(t, r, base.Bytewise, es, fmt.Appendf(nil, "key%08d", i), base.MaxSeq)
				}
				itertest.Run(t, base.Bytewise, es, 1, iters(t, r, IterOptions{ReadAhead: 1 << 10, NoFillCache: true}))
			})
		}
	}
}

func TestEveryBitFlipInAMinecraftBlockIsDetected(t *testing.T) {
	// zlib has its own checksum inside the block. Raw deflate may decode to anything,
	// but must not panic or exceed its bound.
	want := buildBlock(1, plainEntries(12, 20))
	for kind, vectors := range deflateVectors(t) {
		raw := vectors["level-6"]
		for i := range raw {
			for bit := range 8 {
				damaged := bytes.Clone(raw)
				damaged[i] ^= 1 << bit
				got, err := decompress(kind, damaged, nil, dataPart)
				switch {
				case err != nil:
					require.ErrorIs(t, err, base.ErrCorruption)
				case kind == deflateKind:
					require.LessOrEqual(t, len(got), codec.DeflateRatio*len(raw)+64)
				default: // a bit of the header that only records the level
					require.Equal(t, want, got, "byte %d bit %d", i, bit)
				}
			}
			_, err := decompress(kind, raw[:i], nil, dataPart)
			require.ErrorIs(t, err, base.ErrCorruption, "cut to %d bytes", i)
		}
		_, err := decompress(kind, append(bytes.Clone(raw), 0), nil, dataPart)
		require.ErrorContains(t, err, "follow the end of the")
	}
}

func TestKindTwoDependsOnTheFirstBytes(t *testing.T) {
	block := buildBlock(16, plainEntries(40, 50))
	z, kind, err := appendCompressed(nil, block, Zstd)
	require.NoError(t, err)
	require.Equal(t, Zstd, kind)
	for _, raw := range [][]byte{z, zlibStream(t, block)} {
		got := result.Of(decompress(2, raw, nil, dataPart))(t)
		require.True(t, bytes.Equal(block, got))
	}
}

func TestTheBestCompressionOfDeflateIsWithinTheRatio(t *testing.T) {
	block := make([]byte, 1<<20)
	for kind, raw := range map[Compression][]byte{zlibKind: zlibStream(t, block), deflateKind: deflateStream(t, block)} {
		require.Less(t, len(raw), len(block)/1000)
		got := result.Of(decompress(kind, raw, nil, dataPart))(t)
		require.Len(t, got, len(block))
	}
}

func TestDeflateDecodersAreReused(t *testing.T) {
	// A decoder can be reused after damage, and several goroutines never share one.
	want := buildBlock(1, plainEntries(12, 20))
	vectors := deflateVectors(t)
	var done sync.WaitGroup
	errs := make(chan error, 8)
	for g := range cap(errs) {
		done.Go(func() {
			for i := range 200 {
				kind := []Compression{zlibKind, deflateKind}[(g+i)%2]
				raw := vectors[kind][[]string{"level-1", "sync-flush", "window-512"}[i%3]]
				if i%4 == 0 {
					if _, err := decompress(kind, raw[:len(raw)/2], nil, dataPart); err == nil {
						errs <- io.ErrNoProgress
						return
					}
					continue
				}
				got, err := decompress(kind, raw, nil, dataPart)
				if err == nil && !bytes.Equal(want, got) {
					err = io.ErrShortWrite
				}
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	done.Wait()
	close(errs)
	require.NoError(t, <-errs)
}

func TestReadOnlyCompressionsAreNotWritten(t *testing.T) {
	for _, kind := range []Compression{3, deflateKind, 77} {
		w := NewWriter(io.Discard, WriterOptions{Compression: kind})
		require.NoError(t, w.Add(ikey("k", 1, base.KindSet), nil))
		_, err := w.Finish()
		require.ErrorContains(t, err, "cannot be written; want 0 (none), 1 (Snappy) or 2 (Zstandard)")
	}
}
