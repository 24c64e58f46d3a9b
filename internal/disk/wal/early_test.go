package wal

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// earlyFile records the ranges passed to StartWriting.
type earlyFile struct {
	size   int64
	ranges [][2]int64 // from, to
}

func (f *earlyFile) Write(p []byte) (int, error) { f.size += int64(len(p)); return len(p), nil }
func (f *earlyFile) Sync() error                 { return nil }
func (f *earlyFile) Close() error                { return nil }
func (f *earlyFile) StartWriting(off, n int64)   { f.ranges = append(f.ranges, [2]int64{off, off + n}) }

func TestUnsyncedLogsAreWrittenToTheDeviceAsTheyGrow(t *testing.T) {
	f := &earlyFile{}
	w := NewWriter(f)
	record := make([]byte, 1000)
	var end int64
	for range 5000 {
		require.NoError(t, w.WriteRecord(record))
		w.beginners.Wait()
		if n := len(f.ranges); n > 0 {
			end = f.ranges[n-1][1]
		}
		require.Less(t, f.size-end, int64(earlyBytes+blockSize), "too many bytes have no early write")
	}
	require.Greater(t, len(f.ranges), 5)
	from := int64(0)
	for _, r := range f.ranges {
		require.Equal(t, from, r[0], "each range begins where the one before ended")
		require.Zero(t, r[1]%blockSize, "the last block may be written to again")
		from = r[1]
	}
}

func TestSyncedLogsNeedNoEarlyWriting(t *testing.T) {
	f := &earlyFile{}
	w := NewWriter(f)
	for range 1000 {
		require.NoError(t, w.WriteRecord(make([]byte, 5000)))
		require.NoError(t, w.Sync())
	}
	require.Empty(t, f.ranges)
	require.NoError(t, w.WriteRecord(make([]byte, 2*earlyBytes)))
	w.beginners.Wait()
	require.Len(t, f.ranges, 1)
	require.Less(t, f.size-f.ranges[0][1], int64(blockSize))
}

// slowFile is an earlyFile whose StartWriting blocks until the test lets it finish.
type slowFile struct {
	earlyFile
	begun, finish chan struct{}
	closed        bool // before StartWriting returned
}

func (f *slowFile) StartWriting(off, n int64) {
	f.begun <- struct{}{}
	<-f.finish
	f.earlyFile.StartWriting(off, n)
}

func (f *slowFile) Close() error { f.closed = len(f.ranges) == 0; return nil }

func TestAppendsDoNotWaitForABusyDevice(t *testing.T) {
	f := &slowFile{begun: make(chan struct{}, 1), finish: make(chan struct{})}
	w := NewWriter(f)
	record := make([]byte, earlyBytes)
	for range 5 {
		require.NoError(t, w.WriteRecord(record))
	}
	<-f.begun
	require.NoError(t, w.Sync(), "a sync does not wait either")
	closed := make(chan error)
	go func() { closed <- w.Close() }()
	f.finish <- struct{}{}
	require.NoError(t, <-closed)
	require.False(t, f.closed, "only Close waits")
	require.Equal(t, [][2]int64{{0, earlyBytes}}, f.ranges, "the sync has written the later records")
}

// failingFile is a slowFile whose Write fails after room bytes.
type failingFile struct {
	slowFile
	room   int
	writes int
	closes int
}

var errNoRoom = errors.New("no room")

func (f *failingFile) Write(p []byte) (int, error) {
	f.writes++
	n := min(len(p), f.room)
	f.room -= n
	if n < len(p) {
		return n, errNoRoom
	}
	return n, nil
}

func (f *failingFile) Close() error { f.closes++; return f.slowFile.Close() }

// An append fails while StartWriting is running. The failure is final as usual, and the file is
// closed only after StartWriting has returned.
func TestAFailedAppendDuringEarlyWritingIsFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := slowFile{begun: make(chan struct{}, 1), finish: make(chan struct{})}
		f := &failingFile{slowFile: slow, room: 2*earlyBytes + 100}
		w := NewWriter(f)
		record := make([]byte, earlyBytes)
		require.NoError(t, w.WriteRecord(record))
		<-f.begun
		err := w.WriteRecord(make([]byte, 2*earlyBytes))
		require.ErrorIs(t, err, errNoRoom)
		require.EqualValues(t, 2*earlyBytes+100, w.Size(), "the part in the file counts")
		require.Equal(t, err, w.BufferRecord([]byte("small")))
		require.Equal(t, err, w.WriteRecord(record))
		require.Equal(t, err, w.Flush())
		require.Equal(t, err, w.Sync())
		require.Equal(t, 2, f.writes)
		closed := make(chan error, 1)
		go func() { closed <- w.Close() }()
		synctest.Wait()
		if f.closes > 0 {
			t.Error("the file was closed before StartWriting returned")
		}
		close(f.finish)
		require.Equal(t, err, <-closed)
		require.Equal(t, err, w.Close())
		require.Equal(t, 1, f.closes)
		require.Len(t, f.ranges, 1)
	})
}
