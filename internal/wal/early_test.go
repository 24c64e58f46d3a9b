package wal

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// earlyFile notes what it is told to begin writing.
type earlyFile struct {
	size   int64
	ranges [][2]int64 // from, to
}

func (f *earlyFile) Write(p []byte) (int, error) { f.size += int64(len(p)); return len(p), nil }
func (f *earlyFile) Sync() error                 { return nil }
func (f *earlyFile) Close() error                { return nil }
func (f *earlyFile) StartWriting(off, n int64)   { f.ranges = append(f.ranges, [2]int64{off, off + n}) }

func TestALogThatNobodySyncsIsWrittenToTheDeviceAsItGrows(t *testing.T) {
	f := &earlyFile{}
	w := NewWriter(f)
	record := make([]byte, 1000)
	var end int64
	for range 5000 {
		require.NoError(t, w.WriteRecord(record))
		if n := len(f.ranges); n > 0 {
			end = f.ranges[n-1][1]
		}
		require.Less(t, f.size-end, int64(earlyBytes+blockSize), "bytes wait")
	}
	require.Greater(t, len(f.ranges), 5)
	from := int64(0)
	for _, r := range f.ranges {
		require.Equal(t, from, r[0], "each range begins where the one before ended")
		require.Zero(t, r[1]%blockSize, "the last block may be written to again")
		from = r[1]
	}
}

func TestWhatIsSyncedNeedsNoEarlyWriting(t *testing.T) {
	f := &earlyFile{}
	w := NewWriter(f)
	for range 1000 {
		require.NoError(t, w.WriteRecord(make([]byte, 5000)))
		require.NoError(t, w.Sync())
	}
	require.Empty(t, f.ranges)
	require.NoError(t, w.WriteRecord(make([]byte, 2*earlyBytes)))
	require.Len(t, f.ranges, 1)
	require.Less(t, f.size-f.ranges[0][1], int64(blockSize))
}
