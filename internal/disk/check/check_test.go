package check

import (
	"bytes"
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/internal/test/tabletest"
	"github.com/sievedb/sievedb/sstable"
	"github.com/sievedb/sievedb/vfs"
)

func optionsOf(s *tabletest.Store) Options {
	return Options{
		Cache: s.Cache, Comparer: base.Bytewise, Policies: []filter.Policy{filter.NewBloomPolicy(10)},
		Closed: func() bool { return false },
	}
}

func TestSoundTablesHaveNoFaults(t *testing.T) {
	s := tabletest.New(t, filter.NewBloomPolicy(10))
	s.Add(0, 9, "new", 2, 3, 5)
	f := s.Add(1, 4, "old", 1, 2, 3, 4, 5, 6)
	report := result.Of(Tables(t.Context(), s.Version(), optionsOf(s)))(t)
	require.Equal(t, 2, report.Tables)
	require.EqualValues(t, 9, report.Entries)
	require.Greater(t, report.Bytes, f.Size)
	require.Zero(t, report.Twins, "the same keys with other sequence numbers are not twins")
	require.Empty(t, report.Faults)
}

func TestDamagedTableIsReportedAndOthersAreChecked(t *testing.T) {
	s := tabletest.New(t, filter.NewBloomPolicy(10))
	bad := s.Add(0, 9, "value", 2, 3)
	s.Add(1, 4, "value", 1, 2, 3)
	s.Flip(bad, 5)
	report := result.Of(Tables(t.Context(), s.Version(), optionsOf(s)))(t)
	require.Len(t, report.Faults, 1)
	require.Contains(t, report.Faults[0], "level 0, "+bad.Name())
	require.EqualValues(t, 3, report.Entries)
}

func TestTwinsAreCountedAndReportedIfTheyDiffer(t *testing.T) {
	s := tabletest.New(t, filter.NewBloomPolicy(10))
	a := s.Add(0, 7, "one", 1, 2)
	s.Add(1, 7, "one", 1)
	b := s.Add(2, 7, "two", 2)
	report := result.Of(Tables(t.Context(), s.Version(), optionsOf(s)))(t)
	require.EqualValues(t, 2, report.Twins)
	require.Len(t, report.Faults, 1)
	require.Contains(t, report.Faults[0], a.Name())
	require.Contains(t, report.Faults[0], b.Name())
}

func TestCheckStopsWithItsContextOrTheStore(t *testing.T) {
	s := tabletest.New(t, filter.NewBloomPolicy(10))
	s.Flip(s.Add(1, 7, "value", 1, 2), 5)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	report, err := Tables(ctx, s.Version(), optionsOf(s))
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, report.Tables)
	o := optionsOf(s)
	o.Closed = func() bool { return true }
	report, err = Tables(t.Context(), s.Version(), o)
	require.ErrorIs(t, err, base.ErrClosed)
	require.Empty(t, report.Faults, "a closed store proves nothing")
}

// Damaged properties were no fault, although backups refuse such a table. Of the footer, the bytes after the two
// handles have no meaning.
func TestEveryFlippedByteOfATableIsAFault(t *testing.T) {
	size := int(tabletest.New(t, filter.NewBloomPolicy(10)).Add(0, 9, "value", 2, 3).Size)
	footer, meaningless := size-48, 0
	for i := range size {
		s := tabletest.New(t, filter.NewBloomPolicy(10))
		s.Flip(s.Add(0, 9, "value", 2, 3), i)
		report := result.Of(Tables(t.Context(), s.Version(), optionsOf(s)))(t)
		if len(report.Faults) == 0 && i > footer+4 && i < size-8 {
			meaningless++
			continue
		}
		require.Len(t, report.Faults, 1, "byte %d of %d", i, size)
	}
	require.Less(t, meaningless, 36)
}

// openTable returns a reader of a table with n keys of keyLen bytes, and values of valueLen zeros.
func openTable(t *testing.T, o sstable.WriterOptions, n, keyLen, valueLen int) *sstable.Reader {
	t.Helper()
	var file bytes.Buffer
	w := sstable.NewWriter(&file, o)
	user, value := make([]byte, keyLen), make([]byte, valueLen)
	for i := range n {
		binary.BigEndian.PutUint64(user[keyLen-8:], uint64(i))
		require.NoError(t, w.Add(base.AppendInternalKey(nil, user, 1, base.KindSet), value))
	}
	require.NoError(t, result.Err(w.Finish()))
	fs := vfs.NewMem()
	fixture.WriteFile(t, fs, "t", file.Bytes())
	f := result.Of(fs.Open("t"))(t)
	r, err := sstable.Open(f, sstable.ReaderOptions{
		Policies: []filter.Policy{filter.NewBloomPolicy(10)}, Cache: sstable.NewBlockCache(1 << 20), Name: "t",
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

// The bug: each key was looked up from the beginning of its block. With one restart point a table of 10 KB took hours:
// this one would take ten minutes.
func TestABlockWithOneRestartPointIsCheckedInLinearTime(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const n = 600_000
	r := openTable(t, sstable.WriterOptions{BlockSize: 32 << 20, BlockRestartInterval: n, Compression: sstable.Zstd}, n, 16, 0)
	entries := 0
	require.NoError(t, Reader(ctx, r, Options{Comparer: base.Bytewise}, func(_, _ []byte) error {
		entries++
		return nil
	}), "the check takes too long")
	require.Equal(t, n, entries)
}

// The bug: the context was looked at after every 4096 entries, however long they are.
func TestACheckHeedsItsContextByTheBytesItHasRead(t *testing.T) {
	for name, lens := range map[string][2]int{"keys": {300 << 10, 0}, "values": {16, 300 << 10}} {
		t.Run(name, func(t *testing.T) {
			r := openTable(t, sstable.WriterOptions{Compression: sstable.Zstd}, 100, lens[0], lens[1])
			ctx, cancel := context.WithCancel(t.Context())
			entries := 0
			err := Reader(ctx, r, Options{Comparer: base.Bytewise}, func(_, _ []byte) error {
				entries++
				cancel()
				return nil
			})
			require.ErrorIs(t, err, context.Canceled)
			require.LessOrEqual(t, entries, 4)
		})
	}
}
