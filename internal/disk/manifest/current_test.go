package manifest

import (
	"errors"
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/result"
	"github.com/sievedb/sievedb/vfs"
)

func TestCurrentVectorRoundTrips(t *testing.T) {
	want := hexVector(t, "testdata/current.hex")
	name := result.Of(parseCurrent(want))(t)
	require.Equal(t, "MANIFEST-000011", name)

	mem := vfs.NewMem()
	require.NoError(t, mem.MkdirAll("db"))
	require.NoError(t, writeCurrent(mem, "db", 11))
	require.Equal(t, string(want), string(readFile(t, mem, filepath.Join("db", "CURRENT"))))

	again := result.Of(readCurrent(mem, "db"))(t)
	require.Equal(t, name, again)
}

// The end of the file may be reported with its last bytes or by the next read. An end before that is
// an error, because Size returned more.
func TestReadCurrentNeedsEOFAfterItsLastByte(t *testing.T) {
	mem := vfs.NewMem()
	require.NoError(t, mem.MkdirAll("db"))
	require.NoError(t, writeCurrent(mem, "db", 11))
	length := len("MANIFEST-000011\n")
	for _, c := range []struct {
		fault wrap.Fault
		want  error
	}{
		{wrap.Fault{Err: io.EOF, Short: length}, nil},
		{wrap.Fault{Err: io.EOF, Short: length - 1}, io.ErrUnexpectedEOF},
		{wrap.Fault{Err: io.ErrClosedPipe, Short: length - 1}, io.ErrClosedPipe},
	} {
		name, err := readCurrent(wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
			if op.Kind != wrap.OpRead {
				return nil
			}
			return &c.fault
		}), "db")
		require.ErrorIs(t, err, c.want)
		require.Equal(t, c.want == nil, name == "MANIFEST-000011")
	}
}

// An error of Close may be the only report of a failed write.
func TestCurrentIsNotReplacedAfterAFailedStep(t *testing.T) {
	failed := errors.New("no")
	for _, kind := range []wrap.OpKind{wrap.OpCreate, wrap.OpWrite, wrap.OpSync, wrap.OpClose} {
		mem := vfs.NewMem()
		require.NoError(t, mem.MkdirAll("db"))
		require.NoError(t, writeCurrent(mem, "db", 11))
		err := writeCurrent(wrap.NewFaulty(mem, wrap.FailIf(failed, func(op wrap.Op) bool { return op.Kind == kind })), "db", 12)
		require.ErrorIs(t, err, failed, kind)
		require.False(t, IsUncertain(err))
		require.Equal(t, "MANIFEST-000011", result.Of(readCurrent(mem, "db"))(t))
		require.Equal(t, []string{"CURRENT"}, result.Of(mem.List("db"))(t))
	}
}

// Editors, archives and transfers in text mode change the line end.
func TestCurrentWithOtherLineEndsSaysSo(t *testing.T) {
	for content, want := range map[string]string{
		"MANIFEST-000011\r\n": "line ends with CRLF",
		"MANIFEST-000011":     "line ends without a newline",
		"MANIFEST-000011\r":   "line ends without a newline",
	} {
		_, err := parseCurrent([]byte(content))
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "write the file again")
	}
}
