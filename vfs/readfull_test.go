package vfs_test

import (
	"io"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/vfs"
)

// step is the result of one ReadAt of "0123456789".
type step struct {
	n   int
	err error
}

// stepReader is an io.ReaderAt that returns the given results, and repeats the last one.
type stepReader struct{ steps []step }

func (r *stepReader) ReadAt(p []byte, off int64) (int, error) {
	s := r.steps[0]
	if len(r.steps) > 1 {
		r.steps = r.steps[1:]
	}
	if s.n > 0 && s.n <= len(p) {
		copy(p[:s.n], "0123456789"[off:])
	}
	return s.n, s.err
}

func TestReadFull(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps []step
		want  string
		err   error
		words string
	}{
		{"in one", []step{{6, nil}}, "234567", nil, ""},
		{"in one, at the end of the file", []step{{6, io.EOF}}, "234567", nil, ""},
		{"byte by byte", []step{{1, nil}}, "234567", nil, ""},
		{"with pauses", []step{{2, nil}, {0, nil}, {3, nil}, {0, nil}, {1, nil}}, "234567", nil, ""},
		{"an end before the last byte", []step{{5, nil}, {0, io.EOF}}, "23456", io.ErrUnexpectedEOF, ""},
		{"an end with the bytes before it", []step{{5, io.EOF}}, "23456", io.ErrUnexpectedEOF, ""},
		{"an error in the middle", []step{{2, nil}, {1, syscall.EIO}}, "234", syscall.EIO, ""},
		{"nothing forever", []step{{3, nil}, {0, nil}}, "234", io.ErrNoProgress, ""},
		{"more bytes than requested", []step{{7, nil}}, "", nil, "returned 7 bytes"},
		{"a negative number of bytes", []step{{-1, nil}}, "", nil, "returned -1 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := make([]byte, 6)
			n, err := vfs.ReadFull(&stepReader{c.steps}, p, 2)
			require.Equal(t, c.want, string(p[:n]))
			if c.words != "" {
				require.ErrorContains(t, err, c.words)
			} else {
				require.Equal(t, c.err, err)
			}
		})
	}
	n, err := vfs.ReadFull(&stepReader{[]step{{0, io.EOF}}}, nil, 0)
	require.Zero(t, n)
	require.NoError(t, err, "an empty read")
}
